// What a change of owner costs on real processes, and whether kills break a rule.
//
//   ownership_bench_e2e [--out FILE] [--quick] [--kill-seconds N]
//
// Needs warmringd, warmring-agent, warmring-redis.so and crash_random_test beside it.

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "absl/synchronization/mutex.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tests/bench/handover.h"

namespace warmring::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  std::string out;
  bool quick = false;
  int kill_seconds = 120;
};

bool Parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--quick") {
      arguments.quick = true;
      continue;
    }
    if (++i >= argc) return false;
    const std::string_view value = argv[i];
    if (word == "--out") {
      arguments.out = value;
    } else if (word == "--kill-seconds") {
      const char* const end = value.data() + value.size();
      const auto [last, error] = std::from_chars(value.data(), end, arguments.kill_seconds);
      if (error != std::errc() || last != end) return false;
    } else {
      return false;
    }
  }
  return true;
}

// A figure that could not be measured is null, with the reason beside it.
void Miss(Json& headline, std::initializer_list<const char*> keys, const absl::Status& why) {
  for (const char* key : keys) {
    headline[key] = nullptr;
    headline[std::string(key) + "_reason"] = std::string(why.message());
  }
}

Json ToJson(const Quantiles& quantiles) {
  return {{"p50", quantiles.p50}, {"p99", quantiles.p99}, {"samples", quantiles.samples}};
}

int Main(const Arguments& arguments) {
  Json report;
  Json& headline = report["headline"];
  const bool quick = arguments.quick;
  if (const auto fsync = MeasureFsync(quick ? 50 : 500); fsync.ok()) {
    headline["fsync_p50_ms"] = fsync->p50;
    headline["fsync_p99_ms"] = fsync->p99;
  } else {
    Miss(headline, {"fsync_p50_ms", "fsync_p99_ms"}, fsync.status());
  }
  if (const auto moving = MeasureMovingRange(quick ? 6 : 120); moving.ok()) {
    headline["moving_range_pause_p50_ms"] = moving->pause_ms.p50;
    headline["moving_range_pause_p99_ms"] = moving->pause_ms.p99;
    headline["unmoved_range_refusals"] = moving->unmoved_refusals;
    report["moving_range"] = {{"pause_ms", ToJson(moving->pause_ms)},
                              {"unmoved_writes", moving->unmoved_writes}};
  } else {
    Miss(headline,
         {"moving_range_pause_p50_ms", "moving_range_pause_p99_ms", "unmoved_range_refusals"},
         moving.status());
  }
  if (const auto failover = MeasureFailover(); failover.ok()) {
    headline["failover_after_lease_s"] = failover->after_lease_s;
    report["failover"] = {{"lease_s", failover->lease_s},
                          {"writable_after_s", failover->writable_after_s}};
  } else {
    Miss(headline, {"failover_after_lease_s"}, failover.status());
  }
  if (const auto restart = MeasureLeaderRestart(); restart.ok()) {
    headline["leader_restart_resume_s"] = restart->resume_s;
    report["leader_restart"] = {{"ready_s", restart->ready_s}, {"hold_s", 0.2}};
  } else {
    Miss(headline, {"leader_restart_resume_s"}, restart.status());
  }
  const auto share = quick ? MeasureRefusedShare(10, absl::Milliseconds(300), 4, 1000)
                           : MeasureRefusedShare(100, absl::Seconds(1), 20, 5000);
  if (share.ok()) {
    headline["refused_share"] = share->share;
    report["refused"] = {
        {"waves", share->waves},       {"seconds", share->seconds},
        {"clients", share->clients},   {"writes_per_second_wanted", share->wanted_per_second},
        {"requests", share->requests}, {"refused", share->refused}};
  } else {
    Miss(headline, {"refused_share"}, share.status());
  }
  const auto kills = RunKills(absl::Seconds(quick ? 1 : arguments.kill_seconds));
  if (kills.ok()) {
    headline["kill_runs"] = kills->runs;
    headline["kill_violations"] = kills->violations;
  } else {
    Miss(headline, {"kill_runs", "kill_violations"}, kills.status());
  }
  const std::string text = report.dump(2);
  fmt::print("{}\n", text);
  if (arguments.out.empty()) return 0;
  std::ofstream file(arguments.out, std::ios::trunc);
  file << text << '\n';
  file.flush();
  if (!file) fmt::print(stderr, "ownership_bench_e2e: {} cannot be written\n", arguments.out);
  return file ? 0 : 1;
}

}  // namespace
}  // namespace warmring::bench

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  warmring::bench::Arguments arguments;
  if (!warmring::bench::Parse(argc, argv, arguments)) {
    fmt::print(stderr, "usage: ownership_bench_e2e [--out FILE] [--quick] [--kill-seconds N]\n");
    return 2;
  }
  // Where the programs are that it starts.
  const std::string beside = std::filesystem::canonical("/proc/self/exe").parent_path();
  setenv("WARMRING_BIN_DIR", beside.c_str(), 0);
  return warmring::bench::Main(arguments);
}
