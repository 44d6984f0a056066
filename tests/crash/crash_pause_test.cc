#include <signal.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gtest/gtest.h"
#include "tests/crash/late_writes.h"
#include "tests/crash/rig.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

// The story: a process sleeps longer than a lease while ranges change hands, and wakes up with old
// beliefs.
//
// warmringd stops itself at an edge of a wave; then those who are to sleep are suspended (SIGSTOP),
// and warmringd goes on, if it is not the sleeper itself. Once the story has gone on without them
// (the wave is committed on the expiry of a lease, or the lease is long over), they wake up. What
// clients had sent to a sleeping Redis under the old epoch is answered then, and must be refused.
// Each run must end in a clean house, and the history of all clients must break no rule.
//
// The last runs stall the store instead: a write to the disk that takes longer than a lease.
//
// To run some only: WARMRING_CRASH_ONLY=part of a run's name.

namespace warmring::crash {
namespace {

constexpr absl::Duration kHitWithin = absl::Seconds(30);
// More than a lease of 1 s and what warmringd adds to it.
constexpr absl::Duration kPastTheLease = absl::Milliseconds(1500);

struct Pause {
  std::string name;
  // Where warmringd stops, or sleeps.
  std::string failpoint;
  bool agent = false;  // of the donor
  bool redis = false;  // of the donor
};

std::vector<Pause> Pauses() {
  return {
      {"the donor's Redis, as a wave is fenced", "p5.after=stop", false, true},
      {"the donor's agent, as a wave is fenced", "p5.after=stop", true, false},
      {"the whole donor, as a wave is fenced", "p5.after=stop@2", true, true},
      {"the donor's Redis, as it is to be told of the commit", "p6.published=stop", false, true},
      {"warmringd, before it fences", "p5.before=stop"},
      {"warmringd, before it commits", "p6.before=stop"},
      {"warmringd, before it tells of the commit", "p6.after=stop"},
      {"the store, as a wave is committed", "p6.before=stop;store.write=sleep(2000)@9"},
      {"the store, all the time", "store.write=sleep(700)@3;store.written=sleep(1500)@6"},
  };
}

class CrashPauseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    RigOptions options;
    options.application = false;
    options.title = "crash_pause_test";
    ASSERT_OK_AND_ASSIGN(rig_, Rig::Start(options));
  }

  Cluster& GetCluster() { return rig_->GetCluster(); }
  support::Process& Warmringd() { return GetCluster().Server().Server().Latest(); }

  absl::Status Sleep(support::Process& process) {
    RETURN_IF_ERROR(process.Kill(SIGSTOP));
    return process.WaitUntilStopped(kHitWithin);
  }

  absl::Status AwaitPastTheLease() {
    const absl::Time end = absl::Now() + kPastTheLease;
    return support::WaitFor("the lease to be over", kHitWithin,
                            [end] { return absl::Now() > end; });
  }

  absl::StatusOr<std::string> RunPause(const MigrationId& id, const Pause& pause) {
    Cluster& cluster = GetCluster();
    RETURN_IF_ERROR(cluster.RestartServer(pause.failpoint));
    ASSIGN_OR_RETURN(const Membership::Ptr before, cluster.MembershipAt());
    ASSIGN_OR_RETURN(const v1::Migration submitted,
                     rig_->SubmitNext(id, {.hold = absl::Milliseconds(50),
                                           .soak = absl::Milliseconds(300),
                                           .fence_timeout = absl::Seconds(2),
                                           .ack_or_lease = true}));
    const bool stops = pause.failpoint.find("=stop") != std::string::npos;
    if (!stops) {
      ASSIGN_OR_RETURN(const v1::Migration ended, rig_->AwaitCleanEnd(id));
      return Describe(ended);
    }
    RETURN_IF_ERROR(Warmringd().WaitUntilStopped(kHitWithin));
    const uint32_t wave = pause.failpoint.find("@2") != std::string::npos ? 1 : 0;
    NodeId donor_id;
    for (const v1::PlannedMove& move : submitted.preview().moves()) {
      if (move.wave() == wave) donor_id = move.from();
    }
    CacheNode& donor = cluster.Find(donor_id);
    if (pause.agent) RETURN_IF_ERROR(Sleep(donor.agent->Server().Latest()));
    if (pause.redis) RETURN_IF_ERROR(Sleep(donor.redis->Server().Latest()));
    if (!pause.agent && !pause.redis) {
      RETURN_IF_ERROR(AwaitPastTheLease());
      RETURN_IF_ERROR(Warmringd().Kill(SIGCONT));
      ASSIGN_OR_RETURN(const v1::Migration ended, rig_->AwaitCleanEnd(id));
      return Describe(ended);
    }
    RETURN_IF_ERROR(Warmringd().Kill(SIGCONT));
    RETURN_IF_ERROR(cluster
                        .WaitForMigration(id, "with the wave committed", kHitWithin,
                                          [wave](const v1::Migration& m) {
                                            return m.waves_committed() > wave || m.ended();
                                          })
                        .status());
    RETURN_IF_ERROR(AwaitPastTheLease());
    LateWrites late;
    if (pause.redis) {
      ASSIGN_OR_RETURN(const Membership::Ptr after, cluster.MembershipAt());
      RETURN_IF_ERROR(late.Send(*before, *after, donor, id));
      RETURN_IF_ERROR(donor.redis->Server().Latest().Kill(SIGCONT));
      ASSIGN_OR_RETURN(const std::vector<std::string> accepted, late.ReceiveAccepted());
      if (!accepted.empty()) {
        return absl::DataLossError(fmt::format("a Redis that slept past its lease answered {}",
                                               fmt::join(accepted, ", ")));
      }
    }
    if (pause.agent) RETURN_IF_ERROR(donor.agent->Server().Latest().Kill(SIGCONT));
    ASSIGN_OR_RETURN(const v1::Migration ended, rig_->AwaitCleanEnd(id));
    return fmt::format(
        "{}{}{}", Describe(ended), ended.unclean() ? " (unclean)" : "",
        late.Size() == 0 ? "" : fmt::format(", {} late writes refused", late.Size()));
  }

  std::unique_ptr<Rig> rig_;
};

TEST_F(CrashPauseTest, WhoSleepsPastALeaseAcceptsNothingByIt) {
  const char* const only = std::getenv("WARMRING_CRASH_ONLY");
  int number = 0;
  for (const Pause& pause : Pauses()) {
    if (only != nullptr && pause.name.find(only) == std::string::npos) continue;
    const MigrationId id = fmt::format("pause-{}", ++number);
    const absl::Time begin = absl::Now();
    const absl::StatusOr<std::string> ended = RunPause(id, pause);
    std::cout << fmt::format("{}: {}: {} ({:.1f} s)\n", number, pause.name,
                             ended.ok() ? *ended : ended.status().ToString(),
                             absl::ToDoubleSeconds(absl::Now() - begin))
              << std::flush;
    ASSERT_OK(ended) << pause.name << "\n" << rig_->Evidence(id);
  }
  std::cout << rig_->TrafficSummary() << std::endl;
  const absl::Status judged = rig_->JudgeForTheLastTime();
  std::cout << rig_->HistorySummary() << std::endl;
  EXPECT_OK(judged);
}

}  // namespace
}  // namespace warmring::crash
