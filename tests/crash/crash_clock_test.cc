#include <signal.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/crash/late_writes.h"
#include "tests/crash/rig.h"
#include "tests/support/binary.h"
#include "tests/support/process.h"
#include "tests/support/redis_server.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait.h"

// The story: the clocks of two owners run at different rates, one 2 % fast and one 2 % slow, and
// warmringd's own may too. A donor's agent, or all of the donor, is suspended as its wave is
// fenced; the wave is committed when warmringd takes the donor's lease for over, and from that
// moment on the donor's Redis must take no write of what it had, by its own clock alone.
//
// Why 2 % is not too much for a bound of 1 %: warmringd adds a hundredth of the lease and 100 ms to
// what it believes. With a lease of 1 s that is 1110 ms of its own clock, which are at least 1088
// ms when it runs 2 % fast, and an owner that runs 2 % slow ends its lease after 1021 ms.
//
// The last test is the proof that such a split would be seen: the donor's clock is far beyond the
// bound, and its Redis does take writes by an epoch that is over.
//
// The rates are those of the processes' own readings of CLOCK_BOOTTIME (WARMRING_CLOCK_RATE), which
// leases are counted on; what sleeps and waits goes by the machine's clock.

namespace warmring::crash {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kWithin = absl::Seconds(30);
constexpr char kFast[] = "1.02";
constexpr char kSlow[] = "0.98";

support::Environment AtRate(const std::string& rate) { return {{"WARMRING_CLOCK_RATE", rate}}; }

struct Sleeper {
  NodeId node;
  bool redis = false;  // sleeps too
};

class CrashClockTest : public ::testing::Test {
 protected:
  absl::Status StartRig(const ClusterOptions& cluster) {
    ASSIGN_OR_RETURN(evidence_, support::TempDir::Create("clock-evidence"));
    RigOptions options;
    options.application = false;
    options.title = "crash_clock_test";
    options.cluster = cluster;
    if (keeps_no_evidence_) options.evidence_directory = evidence_->Path();
    ASSIGN_OR_RETURN(rig_, Rig::Start(options));
    return rig_->LetApplicationWrite();
  }

  Cluster& GetCluster() { return rig_->GetCluster(); }

  // The third node joins in one wave of both members, one of which sleeps until the wave is
  // committed. Returns what its Redis accepted then by the epochs of before.
  absl::StatusOr<std::vector<std::string>> AddPast(const Sleeper& sleeper, const MigrationId& id) {
    Cluster& cluster = GetCluster();
    RETURN_IF_ERROR(cluster.RestartServer("p5.after=stop"));
    support::Process& warmringd = cluster.Server().Server().Latest();
    ASSIGN_OR_RETURN(const Membership::Ptr before, cluster.MembershipAt());
    RETURN_IF_ERROR(rig_->SubmitNext(id, {.hold = {},
                                          .soak = absl::Milliseconds(300),
                                          .fence_timeout = absl::Seconds(3),
                                          .commit_steps = {1},
                                          .ack_or_lease = true})
                        .status());
    RETURN_IF_ERROR(warmringd.WaitUntilStopped(kWithin));
    CacheNode& donor = cluster.Find(sleeper.node);
    support::Process& agent = donor.agent->Server().Latest();
    support::Process& redis = donor.redis->Server().Latest();
    RETURN_IF_ERROR(agent.Kill(SIGSTOP));
    RETURN_IF_ERROR(agent.WaitUntilStopped(kWithin));
    if (sleeper.redis) RETURN_IF_ERROR(redis.Kill(SIGSTOP));
    RETURN_IF_ERROR(warmringd.Kill(SIGCONT));
    RETURN_IF_ERROR(cluster
                        .WaitForMigration(id, "committed", kWithin,
                                          [](const v1::Migration& m) {
                                            return m.waves_committed() > 0 || m.ended();
                                          })
                        .status());
    ASSIGN_OR_RETURN(const Membership::Ptr after, cluster.MembershipAt());
    LateWrites late;
    RETURN_IF_ERROR(late.Send(*before, *after, donor, id));
    if (sleeper.redis) RETURN_IF_ERROR(redis.Kill(SIGCONT));
    return late.ReceiveAccepted();
  }

  void WakeUp(const Sleeper& sleeper) {
    EXPECT_OK(GetCluster().Find(sleeper.node).agent->Server().Latest().Kill(SIGCONT));
  }

  bool keeps_no_evidence_ = false;
  std::unique_ptr<support::TempDir> evidence_;
  std::unique_ptr<Rig> rig_;
};

class CrashServerClockTest : public CrashClockTest,
                             public ::testing::WithParamInterface<std::string> {};

TEST_P(CrashServerClockTest, RatesInsideTheMarginSplitNothing) {
  ClusterOptions cluster;
  cluster.server_environment = AtRate(GetParam());
  cluster.redis_environments = {{"node-a", AtRate(kFast)}, {"node-b", AtRate(kSlow)}};
  cluster.agent_environments = cluster.redis_environments;
  ASSERT_OK(StartRig(cluster));
  int number = 0;
  for (const Sleeper& sleeper : {Sleeper{"node-b", false}, Sleeper{"node-a", true}}) {
    const MigrationId id = fmt::format("clock-{}", ++number);
    const absl::StatusOr<std::vector<std::string>> accepted = AddPast(sleeper, id);
    ASSERT_OK(accepted) << rig_->Evidence(id);
    EXPECT_TRUE(accepted->empty()) << fmt::format("{}", fmt::join(*accepted, ", "));
    WakeUp(sleeper);
    const absl::StatusOr<v1::Migration> ended = rig_->AwaitCleanEnd(id);
    ASSERT_OK(ended) << rig_->Evidence(id);
    EXPECT_EQ(ended->state(), v1::MIGRATION_STATE_SUCCEEDED) << Describe(*ended);
    // It was the lease that was waited for, and no acknowledgement.
    EXPECT_TRUE(ended->unclean()) << rig_->Evidence(id);
    std::cout << fmt::format("{} asleep: {}\n", sleeper.node, Describe(*ended)) << std::flush;
    // It leaves again, so that it can join again.
    const MigrationId back = id + "-back";
    ASSERT_OK(rig_->SubmitNext(back, {.hold = {}, .soak = absl::Milliseconds(100)}));
    ASSERT_OK(rig_->AwaitCleanEnd(back)) << rig_->Evidence(back);
  }
  const absl::Status judged = rig_->JudgeForTheLastTime();
  std::cout << rig_->HistorySummary() << std::endl;
  EXPECT_OK(judged);
}

INSTANTIATE_TEST_SUITE_P(OfWarmringd, CrashServerClockTest,
                         ::testing::Values("1", std::string(kSlow), std::string(kFast)),
                         [](const ::testing::TestParamInfo<std::string>& rate) {
                           if (rate.param == kSlow) return "Slow";
                           return rate.param == kFast ? "Fast" : "True";
                         });

// Its lease of 1 s lasts 10 s.
TEST_F(CrashClockTest, ARateFarBeyondTheBoundIsFound) {
  keeps_no_evidence_ = true;
  ClusterOptions cluster;
  cluster.redis_environments = {{"node-b", AtRate("0.1")}};
  ASSERT_OK(StartRig(cluster));
  const absl::StatusOr<std::vector<std::string>> accepted = AddPast({"node-b", false}, "split");
  ASSERT_OK(accepted) << rig_->Evidence("split");
  EXPECT_FALSE(accepted->empty());
  // The recorded clients run into it too.
  absl::Status judged;
  EXPECT_OK(support::WaitFor("a rule to be broken", kWithin, [&] {
    judged = rig_->JudgeHistory();
    return !judged.ok();
  }));
  EXPECT_THAT(judged, StatusIs(absl::StatusCode::kDataLoss));
  std::cout << rig_->HistorySummary() << std::endl;
}

TEST_F(CrashClockTest, ARateThatIsNoneEndsTheProcess) {
  const support::Environment wrong = AtRate("-1");
  for (const char* name : {"warmringd", "warmring-agent"}) {
    ASSERT_OK_AND_ASSIGN(const auto dir, support::TempDir::Create("clock"));
    support::ProcessOptions options;
    ASSERT_OK_AND_ASSIGN(std::string binary, support::BinaryPath(name));
    options.argv = {std::move(binary), "--version"};
    options.env = wrong;
    options.log_path = dir->File("log");
    ASSERT_OK_AND_ASSIGN(const auto process, support::Process::Start(std::move(options)));
    ASSERT_OK_AND_ASSIGN(const support::ExitStatus ended, process->Wait(kWithin));
    EXPECT_EQ(ended.code, 2) << name << ": " << ended.Describe();
    EXPECT_THAT(process->LogText(), HasSubstr("WARMRING_CLOCK_RATE: '-1'")) << name;
  }
  support::RedisServerOptions redis;
  ASSERT_OK_AND_ASSIGN(std::string module, support::BinaryPath("warmring-redis.so"));
  redis.modules.push_back({std::move(module), {}});
  redis.env = wrong;
  const absl::Status started = support::RedisServer::Start(redis).status();
  EXPECT_THAT(std::string(started.message()), HasSubstr("WARMRING_CLOCK_RATE: '-1'"));
}

}  // namespace
}  // namespace warmring::crash
