#include "tests/bench/simulation_part.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "tests/bench/missing_figure.h"
#include "tests/support/binary.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace warmring::bench {
namespace {

struct Simulation {
  unsigned long long seeds = 0;
  unsigned long long steps = 0;
  unsigned long long violated = 0;
  double seconds = 0;
  double a_minute = 0;
};

// The last lines that it prints.
absl::StatusOr<Simulation> Read(const std::string& log) {
  Simulation result;
  const size_t at = log.rfind("seeds 1..");
  if (at != std::string::npos &&
      std::sscanf(log.c_str() + at, "seeds 1..%llu: %llu steps in %lf s (%lf a minute), %llu",
                  &result.seeds, &result.steps, &result.seconds, &result.a_minute,
                  &result.violated) == 5) {
    return result;
  }
  return absl::InternalError("the simulator ended without its figures: " +
                             log.substr(log.size() - std::min<size_t>(log.size(), 300)));
}

absl::StatusOr<Simulation> Simulate(bool quick) {
  ASSIGN_OR_RETURN(const std::string binary, support::BinaryPath("sim"));
  ASSIGN_OR_RETURN(const auto dir, support::TempDir::Create("sim"));
  support::ProcessOptions options;
  options.argv = {binary, "--seeds", quick ? "1..2" : "1..300"};
  options.log_path = dir->File("log");
  ASSIGN_OR_RETURN(const auto process, support::Process::Start(std::move(options)));
  RETURN_IF_ERROR(process->Wait(absl::Minutes(30)).status());
  return Read(process->LogText());
}

}  // namespace

void AddSimulation(const PartOptions& options, OwnershipReport& report) {
  OwnershipReport& headline = report["headline"];
  const absl::StatusOr<Simulation> run = Simulate(options.quick);
  if (!run.ok()) {
    return Miss(headline, {"sim_steps", "sim_violations", "sim_steps_per_minute"}, run.status());
  }
  headline["sim_steps"] = run->steps;
  headline["sim_violations"] = run->violated;
  headline["sim_steps_per_minute"] = run->a_minute;
  report["simulation"] = {{"seeds", run->seeds}, {"seconds", run->seconds}};
}

}  // namespace warmring::bench
