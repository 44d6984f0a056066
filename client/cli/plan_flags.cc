#include "client/cli/plan_flags.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "client/cli/plan_file.h"
#include "core/base/status_macros.h"

namespace warmring::cli {

void PlanFlags::AddTo(CLI::App& app) {
  app.add_option("--steps", steps, "share committed after each wave (default 10%,50%,100%)")
      ->delimiter(',');
  app.add_option("--hold", hold, "pause between waves (default 30s)");
  app.add_option("--soak", soak, "time in which undo loses nothing (default 15m)");
  app.add_option("--warm-timeout", warm_timeout, "bound on joining and warming (default 45m)");
  app.add_option("--fence-timeout", fence_timeout, "bound on one fence (default twice the lease)");
  app.add_option("--move-rate", bytes_per_second, "bytes a second a donor (80MiB/s)");
  app.add_option("--key-rate", keys_per_second, "keys a second a donor (5000/s)");
  app.add_option("--verify-sample", verify_sample, "keys compared a transfer (default 2000)");
  app.add_option("--fence-policy", fence_policy, "ack_only (default) or ack_or_lease");
  app.add_option("--wave-attempts", wave_attempts, "so often a wave is tried (default 1)");
  app.add_option("--on-wave-failure", on_wave_failure, "undo (default) or pause");
  app.add_option("--on-conflict", on_conflict,
                 "when another migration is in the way: refuse (default) or queue");
  app.add_flag("--await-promotion", await_promotion, "stop after verifying until promoted");
  app.add_option("--base-version", base_version, "refuse when the membership has moved on");
  app.add_flag("--dry-run", dry_run, "show the preview, change nothing");
  app.add_flag("--detach", detach, "do not wait for the end");
}

absl::StatusOr<v1::MigrationPlan> PlanFlags::ToPlan() const {
  // One reader of durations, rates and ratios for flags and files: the flags become a small file.
  YAML::Node root(YAML::NodeType::Map);
  const auto set = [](YAML::Node node, const char* key, const std::string& value) {
    if (!value.empty()) node[key] = value;
  };
  YAML::Node strategy(YAML::NodeType::Map);
  for (const std::string& step : steps) strategy["commitSteps"].push_back(step);
  set(strategy, "hold", hold);
  set(strategy, "soak", soak);
  set(strategy, "warmTimeout", warm_timeout);
  set(strategy, "fenceTimeout", fence_timeout);
  set(strategy, "verifySample", verify_sample);
  set(strategy, "fencePolicy", fence_policy);
  set(strategy, "waveAttempts", wave_attempts);
  set(strategy, "onWaveFailure", on_wave_failure);
  set(strategy, "onConflict", on_conflict);
  if (await_promotion) strategy["awaitPromotion"] = "true";
  YAML::Node limits(YAML::NodeType::Map);
  set(limits, "bytesPerSecond", bytes_per_second);
  set(limits, "keysPerSecond", keys_per_second);
  root["baseVersion"] = fmt::format("{}", base_version);
  if (strategy.size() > 0) root["strategy"] = strategy;
  if (limits.size() > 0) root["limits"] = limits;
  YAML::Emitter emitter;
  emitter << root;
  v1::MigrationPlan plan;
  RETURN_IF_ERROR(ParseYaml("flags", emitter.c_str(), &plan));
  return plan;
}

}  // namespace warmring::cli
