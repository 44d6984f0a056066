#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/crash/rig.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

// The story: the network between two processes is bad while ranges change hands, and no client sees
// two owners, or a write that is gone.
//
// Each pair of processes talks through a proxy of its own (agent and warmringd, agent and agent,
// client and warmringd, client and Redis). In each run a node joins or leaves, a network is made
// bad at a chosen stage, stays so until the story has gone on without it, and heals; what was held
// up arrives late then. Each run must end in a clean house, and the history of all clients must
// break no rule (history/checker.h).
//
// To run some only: WARMRING_CRASH_ONLY=part of a run's name.

namespace warmring::crash {
namespace {

using support::TcpProxy;
using Direction = support::TcpProxy::Direction;

constexpr absl::Duration kReachedWithin = absl::Seconds(30);
// More than a lease of 1 s and what warmringd adds to it.
constexpr absl::Duration kPastTheLease = absl::Milliseconds(2500);
// Over before the network heals.
constexpr absl::Duration kFenceTimeout = absl::Seconds(1);
constexpr uint64_t kKeysPerSecond = 200;

// The nodes of the first move of a migration.
struct Parties {
  CacheNode* donor = nullptr;
  CacheNode* recipient = nullptr;
};

struct Fault {
  std::string name;
  v1::MigrationState stage = v1::MIGRATION_STATE_WARMING;  // when it begins
  std::function<void(Cluster&, const Parties&)> begin;
  // How long it lasts; it ends earlier when the migration has ended.
  absl::Duration lasts = kPastTheLease;
  // Whether a wave may be committed on the expiry of a lease.
  bool ack_or_lease = true;
};

std::vector<Fault> Faults() {
  constexpr auto kWarming = v1::MIGRATION_STATE_WARMING;
  constexpr auto kFencing = v1::MIGRATION_STATE_FENCING;
  return {
      {"donor's agent and warmringd, both ways", kWarming,
       [](Cluster&, const Parties& p) { p.donor->to_server->HoldBoth(true); }},
      {"donor's agent to warmringd", kFencing,
       [](Cluster&, const Parties& p) { p.donor->to_server->Hold(Direction::kToServer, true); }},
      {"donor's agent to warmringd, by acknowledgement only", kFencing,
       [](Cluster&, const Parties& p) { p.donor->to_server->Hold(Direction::kToServer, true); },
       kPastTheLease, false},
      {"warmringd to donor's agent", kFencing,
       [](Cluster&, const Parties& p) { p.donor->to_server->Hold(Direction::kToClient, true); }},
      {"recipient's agent and warmringd, reset and refused", kFencing,
       [](Cluster&, const Parties& p) {
         p.recipient->to_server->Refuse(true);
         p.recipient->to_server->ResetAll();
       }},
      {"agents, both ways", kWarming,
       [](Cluster&, const Parties& p) { p.donor->to_agent->HoldBoth(true); }},
      {"agents, half closed and slow", kWarming,
       [](Cluster&, const Parties& p) {
         p.donor->to_agent->HalfCloseAll(Direction::kToClient);
         p.donor->to_agent->LimitRate(Direction::kToClient, 20'000);
       },
       absl::Milliseconds(800)},
      {"agents, cut after every 4 KB", kWarming,
       [](Cluster&, const Parties& p) {
         p.donor->to_agent->CutAfter(Direction::kToClient, 4'096);
         p.donor->to_agent->ResetAll();
       },
       absl::Milliseconds(800)},
      // What clients had sent to the old owner arrives after the new one has begun.
      {"clients to the donor's Redis", kFencing,
       [](Cluster&, const Parties& p) { p.donor->to_redis->Hold(Direction::kToServer, true); }},
      {"the donor's Redis to clients", kWarming,
       [](Cluster&, const Parties& p) { p.donor->to_redis->Hold(Direction::kToClient, true); }},
      // They learn of the new owner by refusals only.
      {"clients and warmringd, both ways", kWarming,
       [](Cluster& c, const Parties&) { c.ClientsToServer().HoldBoth(true); }},
      {"everything is slow", kWarming,
       [](Cluster& c, const Parties&) {
         for (CacheNode& node : c.Nodes()) {
           for (TcpProxy* proxy :
                {node.to_server.get(), node.to_agent.get(), node.to_redis.get()}) {
             proxy->Delay(Direction::kToServer, absl::Milliseconds(30));
             proxy->Delay(Direction::kToClient, absl::Milliseconds(15));
           }
         }
       },
       absl::Seconds(30)},
      {"the donor is alone: warmringd and agents, not clients", kFencing,
       [](Cluster&, const Parties& p) {
         p.donor->to_server->HoldBoth(true);
         p.donor->to_agent->HoldBoth(true);
         p.recipient->to_agent->HoldBoth(true);
       }},
  };
}

class CrashNetworkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    RigOptions options;
    options.cluster.proxies = true;
    options.application = false;
    options.title = "crash_network_test";
    ASSERT_OK_AND_ASSIGN(rig_, Rig::Start(options));
  }

  absl::Status WaitAWhile(const MigrationId& id, absl::Duration while_) {
    const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(while_);
    return support::WaitUntilOk("the fault to last", while_ + kReachedWithin, [&] {
      if (std::chrono::steady_clock::now() >= end) return absl::OkStatus();
      ASSIGN_OR_RETURN(const v1::Migration migration, rig_->GetCluster().Get(id));
      return migration.ended() ? absl::OkStatus() : absl::UnavailableError("it goes on");
    });
  }

  absl::StatusOr<v1::Migration> RunFault(const MigrationId& id, const Fault& fault) {
    Cluster& cluster = rig_->GetCluster();
    ASSIGN_OR_RETURN(const v1::Migration submitted,
                     rig_->SubmitNext(id, {.hold = absl::Milliseconds(100),
                                           .soak = absl::Milliseconds(300),
                                           .fence_timeout = kFenceTimeout,
                                           .keys_per_second = kKeysPerSecond,
                                           .ack_or_lease = fault.ack_or_lease}));
    const v1::PlannedMove& move = submitted.preview().moves(0);
    const Parties parties{&cluster.Find(move.from()), &cluster.Find(move.to())};
    RETURN_IF_ERROR(
        cluster
            .WaitForMigration(id, "at its stage", kReachedWithin,
                              [&](const v1::Migration& m) { return m.state() >= fault.stage; })
            .status());
    fault.begin(cluster, parties);
    RETURN_IF_ERROR(WaitAWhile(id, fault.lasts));
    cluster.HealAll();
    return rig_->AwaitCleanEnd(id);
  }

  std::unique_ptr<Rig> rig_;
};

TEST_F(CrashNetworkTest, NoNetworkSplitsTheOwnership) {
  const char* const only = std::getenv("WARMRING_CRASH_ONLY");
  int number = 0;
  for (const Fault& fault : Faults()) {
    if (only != nullptr && fault.name.find(only) == std::string::npos) continue;
    const MigrationId id = fmt::format("network-{}", ++number);
    const absl::Time begin = absl::Now();
    const absl::StatusOr<v1::Migration> ended = RunFault(id, fault);
    std::cout << fmt::format("{:2}: {}: {} ({:.1f} s)\n", number, fault.name,
                             ended.ok() ? Describe(*ended) + (ended->unclean() ? " (unclean)" : "")
                                        : ended.status().ToString(),
                             absl::ToDoubleSeconds(absl::Now() - begin))
              << std::flush;
    ASSERT_OK(ended) << fault.name << "\n" << rig_->Evidence(id);
  }
  std::cout << rig_->TrafficSummary() << std::endl;
  const absl::Status judged = rig_->JudgeForTheLastTime();
  std::cout << rig_->HistorySummary() << std::endl;
  EXPECT_OK(judged);
}

}  // namespace
}  // namespace warmring::crash
