#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "warmring/v1/migration_service.pb.h"

namespace warmring::cli {

// The strategy and limits of a plan as flags of the verbs that submit one change; in a plan
// file they are fields. Unset flags leave the server's defaults.
struct PlanFlags {
  std::vector<std::string> steps;
  std::string hold;
  std::string soak;
  std::string warm_timeout;
  std::string fence_timeout;
  std::string bytes_per_second;
  std::string keys_per_second;
  std::string verify_sample;
  std::string fence_policy;
  std::string wave_attempts;
  std::string on_wave_failure;
  std::string on_conflict;
  bool await_promotion = false;
  uint64_t base_version = 0;
  bool dry_run = false;
  bool detach = false;

  void AddTo(CLI::App& app);
  // Reads the values by the rules of the plan file. Error: InvalidArgument naming the flag's field.
  absl::StatusOr<v1::MigrationPlan> ToPlan() const;
};

}  // namespace warmring::cli
