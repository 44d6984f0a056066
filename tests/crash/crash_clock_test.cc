#include <signal.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/crash/rig.h"
#include "tests/support/status_matchers.h"

// The story: the clocks of two owners run at different rates, one 2% fast and one 2% slow, while a
// donor sleeps past its lease. With a lease of 1 s the slow one still ends its lease before
// warmringd, which adds a hundredth and 100 ms, takes it for over.
//
// The clocks are libfaketime's: each process has CLOCK_BOOTTIME, CLOCK_MONOTONIC and its sleeps at
// the rate that its environment names.

namespace warmring::crash {
namespace {

constexpr absl::Duration kWithin = absl::Seconds(30);

std::string FakeTimeLibrary() {
  for (const auto& entry : std::filesystem::directory_iterator("/usr/lib")) {
    const std::filesystem::path path = entry.path() / "faketime" / "libfaketime.so.1";
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path.string();
  }
  return "";
}

TEST(CrashClockTest, RatesInsideTheMarginSplitNothing) {
  const std::string library = FakeTimeLibrary();
  ASSERT_FALSE(library.empty()) << "libfaketime is not installed: scripts/setup";
  const auto rate = [&library](const char* factor) {
    return support::Environment{{"LD_PRELOAD", library}, {"FAKETIME", factor}};
  };
  RigOptions options;
  options.application = false;
  options.title = "crash_clock_test";
  options.cluster.environments = {{"node-a", rate("+0 x1.02")}, {"node-b", rate("+0 x0.98")}};
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Rig> rig, Rig::Start(options));
  for (const char* sleeper : {"node-b", "node-a"}) {
    const MigrationId id = fmt::format("clock-{}", sleeper);
    support::Process& agent = rig->GetCluster().Find(sleeper).agent->Server().Latest();
    ASSERT_OK(rig->SubmitNext(id, {.hold = {},
                                   .soak = absl::Milliseconds(300),
                                   .fence_timeout = absl::Seconds(1),
                                   .keys_per_second = 200,
                                   .ack_or_lease = true}));
    ASSERT_OK(rig->GetCluster().WaitForMigration(
        id, "warming", kWithin,
        [](const v1::Migration& m) { return m.state() >= v1::MIGRATION_STATE_VERIFYING; }));
    ASSERT_OK(agent.Kill(SIGSTOP));
    ASSERT_OK(rig->GetCluster().WaitForMigration(
        id, "past its first wave", kWithin,
        [](const v1::Migration& m) { return m.waves_committed() > 0 || m.ended(); }));
    ASSERT_OK(agent.Kill(SIGCONT));
    ASSERT_OK_AND_ASSIGN(const v1::Migration ended, rig->AwaitCleanEnd(id));
    std::cout << id << ": " << Describe(ended) << (ended.unclean() ? " (unclean)" : "")
              << std::endl;
  }
  const absl::Status judged = rig->JudgeForTheLastTime();
  std::cout << rig->HistorySummary() << std::endl;
  EXPECT_OK(judged);
}

}  // namespace
}  // namespace warmring::crash
