#include "migrations/migration_machine.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "migrations/base_testing.h"
#include "migrations/machine_world_testing.h"

// Stories about one migration, from the plan to its end, in a world that keeps leases, takes
// writes, copies values, and checks after everything that happens: one owner at a time, no stale
// value read, a step only by the table, an epoch used only once.

namespace warmring {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

MigrationPlan Add(int number = 3) {
  MigrationPlan plan;
  plan.keyspace = "sessions";
  plan.changes = {AddNode{MakeNode(number)}};
  plan.strategy.soak = absl::Minutes(1);
  return plan;
}

MigrationPlan Remove(int number = 1) {
  MigrationPlan plan = Add();
  plan.changes = {RemoveNode{MakeNode(number).id}};
  return plan;
}

MigrationPlan Reweigh(uint32_t weight_milli = 3000) {
  MigrationPlan plan = Add();
  plan.changes = {SetWeight{"cache-01", weight_milli}};
  return plan;
}

NodeId OwnerOf(const Membership& membership, uint32_t bucket) {
  return membership.nodes()[membership.ranges()[bucket].owner].id;
}

// Two nodes trade buckets, which stay pinned where they come to.
MigrationPlan Trade() {
  const Membership::Ptr base = Base(PlacementKind::kDirectory);
  MoveBuckets to_first{{}, "cache-00", true};
  MoveBuckets to_second{{}, "cache-01", true};
  for (uint32_t bucket = 0; bucket < 30; ++bucket) {
    if (OwnerOf(*base, bucket) == "cache-00") to_second.buckets.push_back(bucket);
    if (OwnerOf(*base, bucket) == "cache-01") to_first.buckets.push_back(bucket);
  }
  MigrationPlan plan = Add();
  plan.changes = {to_first, to_second};
  return plan;
}

const NodeId kNew = "cache-03";
const NodeId kDonor = "cache-00";

// The steps of a clean migration of three waves.
const std::vector<std::string> kCleanSteps = {
    "P2 prepare",     "P3 start verify", "P5 fence wave",  "P6 commit wave", "P5 fence wave",
    "P6 commit wave", "P5 fence wave",   "P6 commit wave", "P7 start soak",  "P8 release"};

void ExpectNoFaults(const MachineWorld& world) { EXPECT_THAT(world.faults(), IsEmpty()); }

// What holds at any end: no trace of the migration but what it was for.
void ExpectCleanEnd(const MachineWorld& world) {
  ExpectNoFaults(world);
  const MigrationRecord& record = world.record();
  const bool done = record.stage == Stage::kSucceeded;
  EXPECT_TRUE(done || record.stage == Stage::kAborted || record.stage == Stage::kRolledBack)
      << StageName(record.stage);
  EXPECT_TRUE(world.head().moves().empty());
  EXPECT_TRUE(world.tasks().empty());
  for (const Node& node : record.preview.nodes_added) {
    EXPECT_EQ(world.head().FindNode(node.id).has_value(), done) << node.id;
  }
  for (const NodeId& node : record.preview.nodes_removed) {
    EXPECT_EQ(world.head().FindNode(node).has_value(), !done) << node;
  }
  for (const PlannedMove& move : record.preview.moves) {
    EXPECT_TRUE(world.head().OwnedBy(done ? move.to : move.from).Includes(move.ranges));
  }
  for (const Reweight& reweight : record.preview.reweights) {
    const Node& node = world.head().nodes()[world.head().FindNode(reweight.node).value()];
    EXPECT_EQ(node.weight_milli, done ? reweight.after_milli : reweight.before_milli);
    EXPECT_FALSE(node.address.empty()) << "the rest of it is as it was";
  }
  const std::vector<Pin>& pins = world.head().pins();
  for (const Pin& pin : record.preview.pins_put) {
    EXPECT_EQ(std::count(pins.begin(), pins.end(), pin), done ? 1 : 0) << pin.bucket;
  }
  EXPECT_EQ(record.failure.empty(), done) << record.failure;
  EXPECT_EQ(record.waves_committed == record.preview.waves || !done, true);
}

class EachPlacement : public testing::TestWithParam<PlacementKind> {};
INSTANTIATE_TEST_SUITE_P(Placement, EachPlacement,
                         testing::Values(PlacementKind::kRing, PlacementKind::kDirectory),
                         [](const auto& placement) {
                           return placement.param == PlacementKind::kRing ? "Ring" : "Directory";
                         });

TEST_P(EachPlacement, AddRunsThroughAllStages) {
  MachineWorld world(Base(GetParam()), Add());
  ASSERT_TRUE(world.RunToEnd());
  ExpectCleanEnd(world);
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  EXPECT_THAT(world.steps(), ElementsAreArray(kCleanSteps));
  EXPECT_EQ(world.head().version(), Version(41 + 3 + 2)) << "W + 2 versions";
  EXPECT_EQ(world.record().final_version, world.head().version());
  EXPECT_EQ(world.record().prepared_version, Version(42));
  EXPECT_THAT(world.reserved(), ElementsAre(Epoch(100), Epoch(101), Epoch(102)));
  EXPECT_EQ(world.record().verify_compared, 2000u);
  EXPECT_FALSE(world.record().unclean);
  EXPECT_EQ(world.record().attempt, 0u);
  EXPECT_LT(world.unowned(), absl::Milliseconds(50)) << "no renewal is waited for";
  EXPECT_THAT(world.record().evidence, Not(IsEmpty()));
  for (const FenceEvidence& evidence : world.record().evidence) {
    EXPECT_EQ(evidence.kind, EvidenceKind::kAck);
  }
}

TEST_P(EachPlacement, RemoveRunsThroughAllStages) {
  MachineWorld world(Base(GetParam()), Remove());
  ASSERT_TRUE(world.RunToEnd());
  ExpectCleanEnd(world);
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  EXPECT_THAT(world.steps(), ElementsAreArray(kCleanSteps));
  EXPECT_EQ(world.head().nodes().size(), 2u);
}

TEST_P(EachPlacement, AddAndRemoveInOnePlan) {
  MigrationPlan plan = Add(5);
  plan.changes.push_back(AddNode{MakeNode(4)});
  plan.changes.push_back(RemoveNode{"cache-00"});
  MachineWorld world(Base(GetParam()), plan);
  ASSERT_TRUE(world.RunToEnd());
  ExpectCleanEnd(world);
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
}

TEST(MachineTest, AWeightHoldsFromThePreparationAndGoesBackWithAnAbort) {
  const auto weight = [](const MachineWorld& world) {
    return world.head().nodes()[world.head().FindNode("cache-01").value()].weight_milli;
  };
  for (const Stage stage :
       {Stage::kWarming, Stage::kVerifying, Stage::kFencing, Stage::kCommitted, Stage::kSoaking}) {
    SCOPED_TRACE(StageName(stage));
    MachineWorld world(Base(PlacementKind::kDirectory), Reweigh());
    ASSERT_TRUE(world.RunToStage(stage));
    EXPECT_EQ(weight(world), 3000u);
    ASSERT_TRUE(
        world.Command(stage == Stage::kSoaking ? OperatorCommand::kUndo : OperatorCommand::kAbort)
            .ok());
    ASSERT_TRUE(world.RunToEnd());
    EXPECT_NE(world.record().stage, Stage::kSucceeded);
    EXPECT_EQ(weight(world), 1000u);
    ExpectCleanEnd(world);
  }
  MachineWorld world(Base(PlacementKind::kDirectory), Reweigh());
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(weight(world), 3000u);
  EXPECT_THAT(world.steps(), ElementsAreArray(kCleanSteps));
  EXPECT_NEAR(world.head().OwnedBy("cache-01").Share(), 0.6, 0.001);
  ExpectCleanEnd(world);
}

// Each of the two gives and takes at once.
TEST(MachineTest, NodesTradeBucketsAndThePinsComeLast) {
  MachineWorld world(Base(PlacementKind::kDirectory), Trade());
  ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
  EXPECT_THAT(world.head().pins(), IsEmpty());
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  EXPECT_EQ(world.head().pins(), world.record().preview.pins_put);
  EXPECT_GT(world.head().pins().size(), 15u);
  for (const Pin& pin : world.head().pins()) {
    EXPECT_EQ(OwnerOf(world.head(), pin.bucket), pin.node);
  }
  ExpectCleanEnd(world);
}

TEST(MachineTest, WhatMovesNothingIsDoneAtOnce) {
  MembershipData data = Base(PlacementKind::kDirectory)->data();
  data.pins = {{4, OwnerOf(*Base(PlacementKind::kDirectory), 4)}, {9, "cache-02"}};
  MigrationPlan plan = Add();
  plan.strategy.await_promotion = true;
  plan.changes = {Unpin{{4, 9}}};
  MachineWorld world(*Membership::Create(data), plan);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_THAT(world.steps(), ElementsAre("P2 settle"));
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  EXPECT_EQ(world.head().version(), Version(42));
  EXPECT_EQ(world.record().final_version, Version(42));
  EXPECT_THAT(world.head().pins(), IsEmpty());
  EXPECT_THAT(world.reserved(), IsEmpty());
  EXPECT_EQ(world.record().history.back().note, "nothing moves: version 42 has all of it");
  ExpectCleanEnd(world);
}

TEST(MachineTest, WhatMovesNothingCanBePausedAndAborted) {
  MembershipData data = Base(PlacementKind::kDirectory)->data();
  data.pins = {{4, "cache-00"}};
  MigrationPlan plan = Add();
  plan.changes = {Unpin{{4}}};
  MachineWorld world(*Membership::Create(data), plan);
  ASSERT_TRUE(world.Command(OperatorCommand::kPause).ok());
  // The first persist was decided at the start, and is not taken back.
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  EXPECT_FALSE(world.Command(OperatorCommand::kUndo).ok()) << "there is nothing to give back";
}

// The routing of clients follows the stage: pending while warming, previous during grace.
TEST(MachineTest, MovesInTheMembershipFollowTheWaves) {
  MachineWorld world(Base(PlacementKind::kDirectory), Add());
  ASSERT_TRUE(world.RunToStage(Stage::kWarming));
  ASSERT_EQ(world.head().moves().size(), 9u);
  for (const Move& move : world.head().moves()) EXPECT_EQ(move.phase, MovePhase::kWarming);
  ASSERT_TRUE(world.RunUntil([&] { return world.record().waves_committed == 2; }));
  for (const Move& move : world.head().moves()) {
    EXPECT_EQ(move.phase, move.wave < 2 ? MovePhase::kGrace : MovePhase::kWarming);
    EXPECT_TRUE(world.head().OwnedBy(move.wave < 2 ? move.to : move.from).Includes(move.ranges));
  }
  ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
  for (const Move& move : world.head().moves()) EXPECT_EQ(move.phase, MovePhase::kGrace);
}

TEST(MachineTest, TasksOfEachStage) {
  MachineWorld world(Base(PlacementKind::kDirectory), Add());
  ASSERT_TRUE(world.RunToStage(Stage::kWarming));
  const WarmTask warm = *world.TaskOf<WarmTask>(kNew);
  ASSERT_EQ(warm.sources.size(), 3u);
  EXPECT_EQ(warm.sources[0].transfer_address, "cache-00:7001");
  EXPECT_FALSE(world.TaskOf<VerifyTask>(kNew).has_value());
  ASSERT_TRUE(world.RunToStage(Stage::kVerifying));
  EXPECT_EQ(*world.TaskOf<WarmTask>(kNew), warm) << "the transfer goes on";
  EXPECT_EQ(world.TaskOf<VerifyTask>(kNew)->sample, 2000u);

  ASSERT_TRUE(world.RunToStage(Stage::kFencing));
  EXPECT_EQ(*world.TaskOf<WarmTask>(kNew), warm) << "still";
  EXPECT_FALSE(world.TaskOf<VerifyTask>(kNew).has_value());
  const FenceTask fence = *world.TaskOf<FenceTask>(kDonor);
  EXPECT_EQ(fence.floor, Epoch(99));
  EXPECT_TRUE(warm.sources[0].ranges.Includes(fence.ranges));
  EXPECT_LT(fence.ranges.Share(), warm.sources[0].ranges.Share() / 8) << "a small first wave";
  EXPECT_FALSE(world.TaskOf<PrepareTask>(kNew).has_value()) << "before every donor has closed";
  ASSERT_TRUE(world.RunUntil([&] { return world.TaskOf<PrepareTask>(kNew).has_value(); }));
  const PrepareTask prepare = *world.TaskOf<PrepareTask>(kNew);
  EXPECT_EQ(prepare.mode, PrepareTask::Mode::kChanges);
  EXPECT_EQ(prepare.epoch, Epoch(100));
  ASSERT_EQ(prepare.donors.size(), 3u);
  EXPECT_EQ(prepare.donors[0].source.ranges, fence.ranges);
  EXPECT_FALSE(prepare.donors[0].log_id.empty());

  ASSERT_TRUE(world.RunToStage(Stage::kCommitted));
  EXPECT_FALSE(world.TaskOf<FenceTask>(kDonor).has_value());
  const WarmTask rest = *world.TaskOf<WarmTask>(kNew);
  EXPECT_EQ(rest.sources[0].ranges, warm.sources[0].ranges.Minus(fence.ranges))
      << "what is owned is not transferred any more";
  ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
  EXPECT_TRUE(world.tasks().empty());
}

TEST(MachineTest, GrantsCarryTheFloorsOfAFencingWave) {
  Decision decision;
  decision.tasks["cache-00"] = {{"mig-1", 0, {}, FenceTask{HashRangeSet::Whole(), Epoch(9)}},
                                {"mig-1", 0, {}, WarmTask{}}};
  EXPECT_THAT(decision.FloorsOf("cache-00"), ElementsAre(Floor{HashRangeSet::Whole(), Epoch(9)}));
  EXPECT_THAT(decision.FloorsOf("cache-01"), IsEmpty());
}

TEST(MachineTest, HoldAndSoakTakeTheirTime) {
  MigrationPlan plan = Add();
  plan.strategy.hold = absl::Minutes(2);
  plan.strategy.soak = absl::Minutes(30);
  MachineWorld world(Base(PlacementKind::kRing), plan);
  ASSERT_TRUE(world.RunToStage(Stage::kCommitted));
  const Instant committed = world.now();
  ASSERT_TRUE(world.RunToStage(Stage::kFencing));
  EXPECT_GE(world.now() - committed, absl::Minutes(2));
  EXPECT_LT(world.now() - committed, absl::Minutes(2) + absl::Seconds(1));
  ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
  const Instant soaking = world.now();
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_GE(world.now() - soaking, absl::Minutes(30));
  EXPECT_LT(world.now() - soaking, absl::Minutes(30) + absl::Seconds(1));
  ExpectCleanEnd(world);
}

// A server that restarts often must not begin the soak again each time.
TEST(MachineTest, RestartsDoNotResetTheSoak) {
  MachineWorld world(Base(PlacementKind::kRing), Add());
  ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
  const Instant soaking = world.now();
  ASSERT_TRUE(world.RunUntil([&] {
    world.RestartServer();
    return world.machine().finished();
  }));
  EXPECT_LT(world.now() - soaking, absl::Minutes(1) + absl::Seconds(3));
  ExpectCleanEnd(world);
}

TEST(MachineTest, TheMembershipMovedOnBeforeItBegan) {
  MachineWorld world(Base(PlacementKind::kRing), Add());
  Update joined;
  joined.put_nodes = {MakeNode(3)};
  world.MoveHeadOn(joined);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kAborted);
  EXPECT_EQ(world.record().failure,
            "the membership moved on: 'cache-03' has become a node by now: plan again");
  EXPECT_EQ(world.head().version(), Version(42));
  ExpectNoFaults(world);
}

// What others do elsewhere is no reason to begin anew.
TEST(MachineTest, TheMembershipMovedOnElsewhere) {
  MachineWorld world(Base(PlacementKind::kRing), Add());
  Update elsewhere;
  elsewhere.put_nodes = {MakeNode(7)};
  world.MoveHeadOn(elsewhere);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  ExpectCleanEnd(world);
}

TEST(MachineTest, WaitsForANodeToJoinAndGivesUp) {
  MachineWorld world(Base(PlacementKind::kRing), Add());
  world.SetConnected(kNew, false);
  ASSERT_TRUE(world.RunToStage(Stage::kWarming));
  world.RunUntil([] { return false; }, 20);
  EXPECT_EQ(world.machine().Progress().held,
            "waiting for a session of cache-03: is its agent running?");
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kAborted);
  EXPECT_EQ(world.record().failure,
            "not warm after 45m, the warm timeout: waiting for a session of cache-03: is its agent "
            "running?");
  EXPECT_EQ(world.head().version(), Version(43)) << "prepare, and its withdrawal";
  ExpectCleanEnd(world);
}

TEST(MachineTest, RestartsDoNotResetTheWarmTimeout) {
  MachineWorld world(Base(PlacementKind::kRing), Add());
  world.SetConnected(kNew, false);
  const Instant begun = world.now();
  ASSERT_TRUE(world.RunUntil(
      [&] {
        world.RestartServer();
        return world.machine().finished();
      },
      3000));
  EXPECT_LT(world.now() - begun, absl::Minutes(46));
  ExpectCleanEnd(world);
}

TEST(MachineTest, JoinsLate) {
  MachineWorld world(Base(PlacementKind::kRing), Add());
  world.SetConnected(kNew, false);
  ASSERT_TRUE(world.RunToStage(Stage::kWarming));
  world.RunUntil([] { return false; }, 50);
  world.SetConnected(kNew, true);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  EXPECT_EQ(world.machine().Progress().held, "");
  ExpectCleanEnd(world);
}

// A node that is removed because it is dead cannot be copied from.
TEST(MachineTest, ADeadNodeCannotBeDrained) {
  MachineWorld world(Base(PlacementKind::kRing), Remove(1));
  world.SetUp("cache-01", false);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kAborted);
  EXPECT_THAT(world.record().failure, HasSubstr("waiting for a session of cache-01"));
  ExpectCleanEnd(world);
}

TEST(MachineTest, ProgressForPeople) {
  MachineWorld world(Base(PlacementKind::kDirectory), Add());
  ASSERT_TRUE(world.RunToStage(Stage::kVerifying));
  const MigrationProgress progress = world.machine().Progress();
  EXPECT_EQ(progress.keys_done, 100u);
  EXPECT_EQ(progress.keys_total, 100u);
  EXPECT_EQ(progress.bytes_done, 1000u);
  ASSERT_EQ(progress.transfers.size(), 3u);
  EXPECT_EQ(progress.transfers[0].from, "cache-00");
  EXPECT_EQ(progress.transfers[0].to, kNew);
  EXPECT_EQ(progress.transfers[0].keys, 33u);
  EXPECT_TRUE(progress.transfers[0].caught_up);
  EXPECT_EQ(progress.held, "");
}

// A recipient's promises die with its process: what a former incarnation copied does not count.
TEST_P(EachPlacement, ARecipientThatRestartsWarmsAgain) {
  for (const Stage stage : {Stage::kWarming, Stage::kVerifying, Stage::kCommitted}) {
    MachineWorld world(Base(GetParam()), Add());
    ASSERT_TRUE(world.RunToStage(stage));
    const Id128 nonce = world.record().nonce;
    if (stage == Stage::kWarming) world.Step();  // so that it has been seen
    world.RestartNode(kNew);
    ASSERT_TRUE(world.RunUntil([&] { return world.record().nonce != nonce; }));
    EXPECT_EQ(world.record().attempt, 1u);
    EXPECT_EQ(world.record().stage, stage == Stage::kCommitted ? stage : Stage::kWarming);
    ASSERT_TRUE(world.RunToEnd());
    EXPECT_EQ(world.record().stage, Stage::kSucceeded) << world.record().failure;
    ExpectCleanEnd(world);
  }
}

// However long the hold is over: nobody is fenced for a recipient that is cold.
TEST(MachineTest, TheNextWaveWaitsForTheRestToBeWarmAgain) {
  MachineWorld world(Base(PlacementKind::kRing), Add());
  ASSERT_TRUE(world.RunToStage(Stage::kCommitted));
  bool cold = true;
  world.set_report_filter([&](TaskReport& report) {
    auto* warm = std::get_if<WarmReport>(&report.body);
    if (warm != nullptr && cold) warm->caught_up = false;
    return true;
  });
  world.RestartNode(kNew);
  world.RunUntil([] { return false; }, 500);
  EXPECT_EQ(world.record().stage, Stage::kCommitted);
  EXPECT_EQ(world.record().waves_committed, 1u);
  EXPECT_EQ(world.machine().Progress().held,
            "waiting for the remaining waves to be warm (transfer attempt 2)");
  cold = false;
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  ExpectCleanEnd(world);
}

TEST_P(EachPlacement, ADonorThatRestartsIsCopiedAgain) {
  MachineWorld world(Base(GetParam()), Add());
  ASSERT_TRUE(world.RunToStage(Stage::kVerifying));
  world.RestartNode(kDonor);
  ASSERT_TRUE(world.RunToStage(Stage::kWarming));
  EXPECT_THAT(world.record().history.back().note, HasSubstr("cache-00 restarted"));
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  ExpectCleanEnd(world);
}

TEST(MachineTest, ATransferThatNeverWorksIsGivenUp) {
  MachineWorld world(Base(PlacementKind::kRing), Add());
  world.set_report_filter([](TaskReport& report) {
    if (report.node == kNew) report.body = TaskFailure{"change log overflow", true};
    return true;
  });
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kAborted);
  EXPECT_EQ(world.record().attempt, 9u);
  EXPECT_EQ(world.record().failure,
            "the transfer failed 10 times, last: cache-03: change log overflow");
  ExpectCleanEnd(world);
}

TEST(MachineTest, ATransferThatCannotWorkIsGivenUpAtOnce) {
  MachineWorld world(Base(PlacementKind::kRing), Add());
  world.set_report_filter([](TaskReport& report) {
    if (report.node == kNew) report.body = TaskFailure{"RDB version 11 refused", false};
    return true;
  });
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kAborted);
  EXPECT_EQ(world.record().attempt, 0u);
  EXPECT_EQ(world.record().failure, "the transfer failed: cache-03: RDB version 11 refused");
  ExpectCleanEnd(world);
}

// After a commit there is a way back only: the rest cannot come, so what came goes.
TEST(MachineTest, ATransferThatBreaksForGoodBetweenWavesIsUndone) {
  MachineWorld world(Base(PlacementKind::kRing), Add());
  ASSERT_TRUE(world.RunToStage(Stage::kCommitted));
  bool failed = false;
  world.set_report_filter([&](TaskReport& report) {
    if (!failed && report.node == kNew) {
      failed = true;
      report.body = TaskFailure{"out of memory", false};
    }
    return true;
  });
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kRolledBack);
  EXPECT_EQ(world.record().failure, "the transfer failed: cache-03: out of memory");
  ExpectCleanEnd(world);
}

TEST(MachineTest, MismatchesCloseTheGate) {
  MigrationPlan plan = Add();
  plan.strategy.verify_max_mismatch = 2;
  for (const uint64_t mismatches : {2u, 3u}) {
    MachineWorld world(Base(PlacementKind::kRing), plan);
    world.set_report_filter([&](TaskReport& report) {
      if (auto* verify = std::get_if<VerifyReport>(&report.body)) verify->mismatched = mismatches;
      return true;
    });
    ASSERT_TRUE(world.RunToEnd());
    if (mismatches == 2) {
      EXPECT_EQ(world.record().stage, Stage::kSucceeded);
      EXPECT_EQ(world.record().verify_mismatched, 2u);
    } else {
      EXPECT_EQ(world.record().stage, Stage::kAborted);
      EXPECT_EQ(world.record().failure,
                "verification failed: 3 mismatches of 2000 keys compared > 2 allowed");
    }
    ExpectCleanEnd(world);
  }
}

TEST(MachineTest, AwaitsPromotion) {
  MigrationPlan plan = Add();
  plan.strategy.await_promotion = true;
  MachineWorld world(Base(PlacementKind::kRing), plan);
  ASSERT_TRUE(world.RunToStage(Stage::kWarming));
  EXPECT_EQ(world.Command(OperatorCommand::kPromote).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(world.RunUntil([&] { return world.record().awaiting_promotion; }));
  EXPECT_EQ(world.record().verify_compared, 2000u);
  world.RunUntil([] { return false; }, 2000);
  EXPECT_EQ(world.record().stage, Stage::kVerifying) << "for as long as it takes";
  EXPECT_EQ(world.machine().Progress().held, "awaiting promotion");
  world.RestartServer();
  ASSERT_TRUE(world.Command(OperatorCommand::kPromote).ok());
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  EXPECT_FALSE(world.record().awaiting_promotion);
  ExpectCleanEnd(world);
}

// A promotion is given once. It outlives a crash right after it was acknowledged.
TEST(MachineTest, APromotionIsNotAskedForTwice) {
  MigrationPlan plan = Add();
  plan.strategy.await_promotion = true;
  MachineWorld world(Base(PlacementKind::kRing), plan);
  ASSERT_TRUE(world.RunUntil([&] { return world.record().awaiting_promotion; }));
  ASSERT_TRUE(world.Command(OperatorCommand::kPause).ok());
  ASSERT_TRUE(world.Command(OperatorCommand::kPromote).ok());
  ASSERT_TRUE(world.RunUntil([&] { return world.record().promoted && world.record().paused; }));
  world.RestartNode(kNew);
  world.RestartServer();
  ASSERT_TRUE(world.Command(OperatorCommand::kResume).ok());
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  ExpectCleanEnd(world);
}

TEST(MachineTest, PauseStopsBeforeTheNextStep) {
  for (const Stage stage :
       {Stage::kWarming, Stage::kVerifying, Stage::kCommitted, Stage::kSoaking}) {
    MachineWorld world(Base(PlacementKind::kRing), Add());
    ASSERT_TRUE(world.RunToStage(stage));
    ASSERT_TRUE(world.Command(OperatorCommand::kPause).ok());
    ASSERT_TRUE(world.RunUntil([&] { return world.record().paused; })) << StageName(stage);
    const Stage paused_in = world.record().stage;
    world.RunUntil([] { return false; }, 2000);
    EXPECT_EQ(world.record().stage, paused_in);
    EXPECT_EQ(world.machine().Progress().held, "paused by an operator");
    world.RestartServer();
    EXPECT_TRUE(world.record().paused);
    ASSERT_TRUE(world.Command(OperatorCommand::kResume).ok());
    ASSERT_TRUE(world.RunToEnd());
    EXPECT_EQ(world.record().stage, Stage::kSucceeded) << world.record().failure;
    ExpectCleanEnd(world);
  }
}

// The first step is decided at once. One that meets a conflict leaves time to pause before it.
TEST(MachineTest, PauseBeforeTheFirstStep) {
  MachineWorld world(Base(PlacementKind::kRing), Add());
  world.set_chances({.conflict = 1000});
  ASSERT_TRUE(world.Command(OperatorCommand::kPause).ok());
  world.Step();
  world.set_chances({});
  ASSERT_TRUE(world.RunUntil([&] { return world.record().paused; }));
  world.RunUntil([] { return false; }, 100);
  EXPECT_EQ(world.record().stage, Stage::kPlanned);
  EXPECT_EQ(world.head().version(), Version(41));
  ASSERT_TRUE(world.Command(OperatorCommand::kResume).ok());
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  ExpectCleanEnd(world);
}

// A fenced range has no owner that takes writes: nobody may pause there.
TEST(MachineTest, PauseInFencingTakesEffectAfterTheCommit) {
  MachineWorld world(Base(PlacementKind::kRing), Add());
  ASSERT_TRUE(world.RunToStage(Stage::kFencing));
  ASSERT_TRUE(world.Command(OperatorCommand::kPause).ok());
  world.RunUntil([] { return false; }, 500);
  EXPECT_EQ(world.record().stage, Stage::kCommitted);
  EXPECT_EQ(world.record().waves_committed, 1u);
  EXPECT_LT(world.unowned(), absl::Milliseconds(50));
  ASSERT_TRUE(world.Command(OperatorCommand::kResume).ok());
  ASSERT_TRUE(world.RunToEnd());
  ExpectCleanEnd(world);
}

TEST_P(EachPlacement, AbortInEachStage) {
  const struct {
    Stage stage;
    Stage end;
    uint64_t versions;
  } kCases[] = {{Stage::kWarming, Stage::kAborted, 2},
                {Stage::kVerifying, Stage::kAborted, 2},
                {Stage::kFencing, Stage::kAborted, 2},
                {Stage::kCommitted, Stage::kRolledBack, 3}};
  for (const auto& c : kCases) {
    MachineWorld world(Base(GetParam()), Add());
    ASSERT_TRUE(world.RunToStage(c.stage));
    ASSERT_TRUE(world.Command(OperatorCommand::kAbort).ok());
    ASSERT_TRUE(world.RunToEnd());
    EXPECT_EQ(world.record().stage, c.end);
    EXPECT_EQ(world.record().failure, "aborted by an operator");
    EXPECT_EQ(world.head().version(), Version(41 + c.versions));
    ExpectCleanEnd(world);
  }
}

// The donors go on under an epoch that nobody was fenced at.
TEST(MachineTest, AbortInFencingBurnsTheEpoch) {
  MachineWorld world(Base(PlacementKind::kDirectory), Add());
  ASSERT_TRUE(world.RunToStage(Stage::kFencing));
  ASSERT_TRUE(world.Command(OperatorCommand::kAbort).ok());
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_THAT(world.reserved(), ElementsAre(Epoch(100), Epoch(101)));
  std::set<Epoch> epochs;
  for (const OwnedRange& range : world.head().ranges()) epochs.insert(range.epoch);
  EXPECT_THAT(epochs, ElementsAre(Epoch(3), Epoch(101)));
  EXPECT_LT(world.unowned(), absl::Milliseconds(50));
  ExpectCleanEnd(world);
}

TEST_P(EachPlacement, UndoWhileSoakingLosesNothing) {
  MachineWorld world(Base(GetParam()), Add());
  ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
  world.RunUntil([] { return false; }, 5);
  const Id128 nonce = world.record().nonce;
  ASSERT_TRUE(world.Command(OperatorCommand::kUndo).ok());
  ASSERT_TRUE(world.RunToStage(Stage::kUndoFencing));
  EXPECT_NE(world.record().nonce, nonce) << "what the first transfer still sends is void";
  ASSERT_TRUE(world.RunUntil([&] { return world.TaskOf<PrepareTask>(kDonor).has_value(); }));
  const PrepareTask prepare = *world.TaskOf<PrepareTask>(kDonor);
  EXPECT_EQ(prepare.mode, PrepareTask::Mode::kDirty);
  ASSERT_EQ(prepare.donors.size(), 1u);
  EXPECT_EQ(prepare.donors[0].source.donor, kNew);
  EXPECT_EQ(prepare.epoch, Epoch(103));
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kRolledBack);
  EXPECT_EQ(world.record().failure, "undone by an operator");
  ExpectCleanEnd(world);
}

TEST_P(EachPlacement, UndoBetweenWaves) {
  MachineWorld world(Base(GetParam()), Remove());
  ASSERT_TRUE(world.RunUntil([&] { return world.record().waves_committed == 2; }));
  ASSERT_TRUE(world.Command(OperatorCommand::kUndo).ok());
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kRolledBack);
  ExpectCleanEnd(world);
}

// Without a whole dirty set nobody knows what the previous owner has stale: it drops its copy.
TEST(MachineTest, UndoWithoutADirtySetPurges) {
  MachineWorld world(Base(PlacementKind::kDirectory), Add());
  ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
  world.RestartNode(kNew);
  ASSERT_TRUE(world.Command(OperatorCommand::kUndo).ok());
  ASSERT_TRUE(world.RunUntil([&] { return world.TaskOf<PrepareTask>(kDonor).has_value(); }));
  EXPECT_EQ(world.TaskOf<PrepareTask>(kDonor)->mode, PrepareTask::Mode::kPurge);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kRolledBack);
  ExpectCleanEnd(world);
}

// The new owner has not seen the version that made it one, and has changed nothing yet: nothing is
// dropped for that.
TEST(MachineTest, AnUndoWaitsUntilItsOwnersKnowThatTheyAreOwners) {
  MachineWorld world(Base(PlacementKind::kDirectory), Add());
  ASSERT_TRUE(world.RunToStage(Stage::kFencing));
  world.StallWatch(kNew, world.head_ptr());
  ASSERT_TRUE(world.RunToStage(Stage::kCommitted));
  ASSERT_TRUE(world.Command(OperatorCommand::kUndo).ok());
  ASSERT_TRUE(world.RunUntil([&] {
    return world.machine().Progress().held.starts_with("the undo waits for cache-03 to apply");
  })) << world.machine().Progress().held;
  EXPECT_EQ(world.machine().Progress().held,
            "the undo waits for cache-03 to apply version 43: it has version 42");
  world.StallWatch(kNew, nullptr);
  ASSERT_TRUE(world.RunUntil([&] { return world.TaskOf<PrepareTask>(kDonor).has_value(); }));
  EXPECT_EQ(world.TaskOf<PrepareTask>(kDonor)->mode, PrepareTask::Mode::kDirty);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kRolledBack);
  ExpectCleanEnd(world);
}

TEST(MachineTest, AnUndoDoesNotWaitForEverForAWatchThatStandsStill) {
  MachineWorld world(Base(PlacementKind::kDirectory), Add());
  ASSERT_TRUE(world.RunToStage(Stage::kFencing));
  world.StallWatch(kNew, world.head_ptr());
  ASSERT_TRUE(world.RunToStage(Stage::kCommitted));
  ASSERT_TRUE(world.Command(OperatorCommand::kUndo).ok());
  const Instant asked = world.now();
  ASSERT_TRUE(world.RunToStage(Stage::kUndoFencing));
  EXPECT_GE(world.now() - asked, absl::Seconds(20)) << "the fence timeout";
  ASSERT_TRUE(world.RunUntil([&] { return world.TaskOf<PrepareTask>(kDonor).has_value(); }));
  EXPECT_EQ(world.TaskOf<PrepareTask>(kDonor)->mode, PrepareTask::Mode::kPurge);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kRolledBack);
}

std::vector<NodeId> DonorsOf(const std::optional<PrepareTask>& task) {
  std::vector<NodeId> donors;
  if (!task.has_value()) return donors;
  for (const PrepareTask::Donor& donor : task->donors) donors.push_back(donor.source.donor);
  return donors;
}

// One of two present owners has lost its memory: what the other one was given goes back all the
// same.
TEST(MachineTest, AnUndoDropsOnlyWhatALostOwnerHad) {
  MachineWorld world(Base(PlacementKind::kDirectory), Remove(1));
  ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
  world.RestartNode("cache-02");
  ASSERT_TRUE(world.Command(OperatorCommand::kUndo).ok());
  ASSERT_TRUE(world.RunUntil([&] { return world.TaskOf<PrepareTask>("cache-01").has_value(); }));
  const auto dirty = world.PrepareOf("cache-01", PrepareTask::Mode::kDirty);
  const auto purge = world.PrepareOf("cache-01", PrepareTask::Mode::kPurge);
  EXPECT_THAT(DonorsOf(dirty), ElementsAre("cache-00"));
  EXPECT_THAT(DonorsOf(purge), ElementsAre("cache-02"));
  const HashRangeSet kept = RangesOf(*dirty);
  EXPECT_FALSE(kept.Intersects(RangesOf(*purge)));
  ASSERT_TRUE(world.RunToStage(Stage::kRolledBack));
  EXPECT_GT(world.Stored("cache-01", kept), 0u);
  ExpectCleanEnd(world);
}

// A second owner loses its memory after the first one's ranges were dropped: that answer is not one
// for both.
TEST(MachineTest, AnAnswerCountsForTheDonorsThatItNames) {
  MachineWorld world(Base(PlacementKind::kDirectory), Remove(1));
  ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
  world.RestartNode("cache-02");
  bool second = false;
  std::vector<std::vector<NodeId>> answers;
  world.set_report_filter([&](TaskReport& report) {
    const auto* prepared = std::get_if<PreparedReport>(&report.body);
    if (prepared == nullptr) return true;
    if (prepared->mode == PrepareTask::Mode::kDirty) return false;
    answers.push_back(prepared->donors);
    // Nothing but the first answer arrives.
    return !std::exchange(second, true);
  });
  ASSERT_TRUE(world.Command(OperatorCommand::kUndo).ok());
  ASSERT_TRUE(world.RunUntil([&] { return second; }));
  world.RestartNode("cache-00");
  ASSERT_TRUE(world.RunUntil([&] { return answers.size() > 1; }));
  EXPECT_EQ(answers.front(), (std::vector<NodeId>{"cache-02"}));
  EXPECT_EQ(answers.back(), (std::vector<NodeId>{"cache-00", "cache-02"}));
  EXPECT_EQ(world.record().stage, Stage::kUndoFencing);
  world.RunUntil([] { return false; }, 20);
  EXPECT_EQ(world.record().stage, Stage::kUndoFencing) << "the first answer was not for cache-00";
  world.set_report_filter(nullptr);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kRolledBack);
  ExpectCleanEnd(world);
}

// The owner closed with a whole dirty set, and lost its memory before all of it was fetched: what
// it answered last counts no more, and the next attempt goes without the set.
TEST(MachineTest, AnUndoWhosePresentOwnerLosesItsMemoryComesAgainWithAPurge) {
  MachineWorld world(Base(PlacementKind::kDirectory), Add());
  ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
  world.set_report_filter([&](TaskReport& report) {
    if (report.node == kDonor && std::holds_alternative<PreparedReport>(report.body) &&
        world.TaskOf<PrepareTask>(kDonor)->mode == PrepareTask::Mode::kDirty) {
      world.RestartNode(kNew);
      report.body = TaskFailure{"cache-03: its set of keys is not complete", true};
    }
    return true;
  });
  ASSERT_TRUE(world.Command(OperatorCommand::kUndo).ok());
  ASSERT_TRUE(world.RunToStage(Stage::kUndoFencing));
  ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
  EXPECT_EQ(world.record().failure,
            "the undo failed: cache-00: cache-03: its set of keys is not complete; attempt 2 comes "
            "in 20s");
  ASSERT_TRUE(world.RunToStage(Stage::kUndoFencing));
  ASSERT_TRUE(world.RunUntil([&] { return world.TaskOf<PrepareTask>(kDonor).has_value(); }));
  EXPECT_EQ(world.TaskOf<PrepareTask>(kDonor)->mode, PrepareTask::Mode::kPurge);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kRolledBack);
  ExpectCleanEnd(world);
}

TEST(MachineTest, AnUndoThatFailsLeavesTheOwnersAndMayBeAskedAgain) {
  MachineWorld world(Base(PlacementKind::kDirectory), Add());
  ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
  bool deaf = true;
  world.set_report_filter(
      [&](TaskReport& report) { return !deaf || !std::holds_alternative<FenceAck>(report.body); });
  ASSERT_TRUE(world.Command(OperatorCommand::kUndo).ok());
  for (uint32_t attempt = 0; attempt < 3; ++attempt) {
    ASSERT_TRUE(world.RunToStage(Stage::kUndoFencing));
    EXPECT_EQ(world.record().attempt, attempt);
    ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
    EXPECT_EQ(world.record().undo_requested, attempt < 2);
  }
  EXPECT_EQ(world.record().failure,
            "the undo failed: cache-03 did not acknowledge the fence within 20s, the fence "
            "timeout; that was attempt 3, the last: undo it again, or it stays when it has soaked");
  ExpectNoFaults(world);
  deaf = false;
  ASSERT_TRUE(world.Command(OperatorCommand::kUndo).ok());
  ASSERT_TRUE(world.RunToStage(Stage::kUndoFencing));
  EXPECT_EQ(world.record().attempt, 0u);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kRolledBack);
  EXPECT_EQ(world.record().failure, "undone by an operator");
  ExpectCleanEnd(world);
}

TEST(MachineTest, AnUndoThatFailedDoesNotStopTheEnd) {
  MachineWorld world(Base(PlacementKind::kDirectory), Add());
  ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
  world.set_report_filter(
      [](TaskReport& report) { return !std::holds_alternative<FenceAck>(report.body); });
  ASSERT_TRUE(world.Command(OperatorCommand::kUndo).ok());
  ASSERT_TRUE(world.RunToStage(Stage::kUndoFencing));
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  ExpectCleanEnd(world);
}

// Half of it is neither here nor there: the undo is tried until it works.
TEST(MachineTest, AnUndoOfAPartIsTriedUntilItWorks) {
  MachineWorld world(Base(PlacementKind::kDirectory), Add());
  ASSERT_TRUE(world.RunToStage(Stage::kCommitted));
  bool deaf = true;
  world.set_report_filter(
      [&](TaskReport& report) { return !deaf || !std::holds_alternative<FenceAck>(report.body); });
  ASSERT_TRUE(world.Command(OperatorCommand::kUndo).ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(world.RunToStage(Stage::kUndoFencing));
    ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
    EXPECT_TRUE(world.record().undo_requested);
    for (const Move& move : world.head().moves()) EXPECT_EQ(move.phase, MovePhase::kGrace);
  }
  deaf = false;
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kRolledBack);
  ExpectCleanEnd(world);
}

TEST(MachineTest, ADonorThatDoesNotAcknowledgeEndsTheFirstWave) {
  MachineWorld world(Base(PlacementKind::kDirectory), Add());
  world.set_report_filter([](TaskReport& report) {
    return report.node != kDonor || !std::holds_alternative<FenceAck>(report.body);
  });
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kAborted);
  EXPECT_EQ(world.record().failure,
            "wave 1 of 3 failed: cache-00 did not acknowledge the fence within 20s, the fence "
            "timeout");
  EXPECT_THAT(world.steps().back(), "PA abort fencing");
  ExpectCleanEnd(world);
}

TEST(MachineTest, ARecipientThatIsNotCompleteEndsALaterWaveByGoingBack) {
  MachineWorld world(Base(PlacementKind::kDirectory), Add());
  world.set_report_filter([&](TaskReport& report) {
    const auto* prepared = std::get_if<PreparedReport>(&report.body);
    return prepared == nullptr || prepared->epoch != Epoch(101);
  });
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kRolledBack);
  EXPECT_EQ(world.record().failure,
            "wave 2 of 3 failed: cache-03 did not report to be complete within 20s, the fence "
            "timeout");
  EXPECT_THAT(world.steps(),
              ElementsAre("P2 prepare", "P3 start verify", "P5 fence wave", "P6 commit wave",
                          "P5 fence wave", "PA retreat", "PU5 fence undo", "PU6 commit undo"));
  ExpectCleanEnd(world);
}

TEST(MachineTest, AFailureWhileFencingIsNotWaitedFor) {
  MachineWorld world(Base(PlacementKind::kDirectory), Add());
  world.set_report_filter([&](TaskReport& report) {
    if (std::holds_alternative<PreparedReport>(report.body)) {
      report.body = TaskFailure{"transfer suspect", true};
    }
    return true;
  });
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().failure, "wave 1 of 3 failed: cache-03: transfer suspect");
  EXPECT_LT(world.unowned(), absl::Milliseconds(50));
  ExpectCleanEnd(world);
}

// What fails while the persist of the next stage is under way has failed there too.
TEST(MachineTest, AFailureWhileTheFenceIsPersisted) {
  MachineWorld world(Base(PlacementKind::kDirectory), Add());
  world.set_crash([&](int, const PersistCommand& command) {
    if (command.step == Step::kFenceWave && !command.touch) {
      world.Deliver(TaskReport{"mig-1", 0, world.record().nonce, kNew, world.IncarnationOf(kNew),
                               TaskFailure{"transfer suspect", true}});
    }
    return MachineWorld::Crash::kNone;
  });
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kAborted);
  EXPECT_EQ(world.record().failure, "wave 1 of 3 failed: cache-03: transfer suspect");
  EXPECT_LT(world.unowned(), absl::Milliseconds(50));
  ExpectCleanEnd(world);
}

TEST(MachineTest, AcknowledgementsThatDoNotCount) {
  const struct {
    const char* what;
    std::function<void(TaskReport&)> spoil;
  } kCases[] = {
      {"another floor",
       [](TaskReport& report) {
         if (auto* ack = std::get_if<FenceAck>(&report.body)) ack->floor = Epoch(98);
       }},
      {"another incarnation",
       [](TaskReport& report) {
         if (std::holds_alternative<FenceAck>(report.body)) report.incarnation.high = 77;
       }},
      {"another nonce",
       [](TaskReport& report) {
         if (std::holds_alternative<FenceAck>(report.body)) report.nonce.high = 77;
       }},
      {"another migration",
       [](TaskReport& report) {
         if (std::holds_alternative<FenceAck>(report.body)) report.migration = "mig-0";
       }},
      {"prepared for another epoch",
       [](TaskReport& report) {
         if (auto* prepared = std::get_if<PreparedReport>(&report.body)) --prepared->epoch.value;
       }},
      {"prepared in another mode",
       [](TaskReport& report) {
         if (auto* prepared = std::get_if<PreparedReport>(&report.body)) {
           prepared->mode = PrepareTask::Mode::kPurge;
         }
       }},
      {"prepared from another log",
       [](TaskReport& report) {
         if (auto* prepared = std::get_if<PreparedReport>(&report.body)) {
           prepared->log_ids[1] = "other";
         }
       }},
      {"short of a watermark",
       [](TaskReport& report) {
         if (auto* prepared = std::get_if<PreparedReport>(&report.body)) --prepared->applied[2];
       }},
      {"prepared from too few donors",
       [](TaskReport& report) {
         if (auto* prepared = std::get_if<PreparedReport>(&report.body)) {
           prepared->applied.pop_back();
         }
       }},
  };
  for (const auto& c : kCases) {
    MachineWorld world(Base(PlacementKind::kDirectory), Add());
    world.set_report_filter([&](TaskReport& report) {
      c.spoil(report);
      return true;
    });
    ASSERT_TRUE(world.RunToEnd()) << c.what;
    EXPECT_EQ(world.record().stage, Stage::kAborted) << c.what;
    EXPECT_EQ(world.steps().back(), "PA abort fencing") << c.what;
    ExpectCleanEnd(world);
  }
}

// A process that restarts takes its promises with it, also those that were given in time.
TEST(MachineTest, AnAcknowledgementDiesWithItsProcess) {
  MachineWorld world(Base(PlacementKind::kDirectory), Add());
  bool acknowledged = false;
  bool restarted = false;
  world.set_report_filter([&](TaskReport& report) {
    if (!std::holds_alternative<FenceAck>(report.body)) return true;
    if (report.node == kDonor && !restarted) acknowledged = true;
    // The others answer only once it has restarted, and it does not answer again.
    return report.node == kDonor ? !restarted : restarted;
  });
  ASSERT_TRUE(
      world.RunUntil([&] { return acknowledged && world.record().stage == Stage::kFencing; }));
  restarted = true;
  world.RestartNode(kDonor);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kAborted);
  EXPECT_THAT(world.record().failure, HasSubstr("cache-00 did not acknowledge the fence"));
  ExpectCleanEnd(world);
}

TEST(MachineTest, CompletenessDiesWithItsProcess) {
  MachineWorld world(Base(PlacementKind::kDirectory), Remove(1));
  bool prepared = false;
  bool restarted = false;
  world.set_report_filter([&](TaskReport& report) {
    if (!std::holds_alternative<PreparedReport>(report.body)) return true;
    if (report.node == "cache-00" && !restarted) prepared = true;
    return report.node == "cache-00" ? !restarted : restarted;
  });
  ASSERT_TRUE(world.RunUntil([&] { return prepared; }));
  EXPECT_EQ(world.record().stage, Stage::kFencing);
  restarted = true;
  world.RestartNode("cache-00");
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kAborted);
  EXPECT_THAT(world.record().failure, HasSubstr("cache-00 did not report to be complete"));
  ExpectCleanEnd(world);
}

// The unclean path: a donor that nobody reaches is passed over once it can hold no lease any more,
// and what it accepted unseen is not contradicted by an older copy.
TEST(MachineTest, APartitionedDonorIsPassedOverUnderThePolicyThatAllowsIt) {
  MigrationPlan plan = Add();
  plan.strategy.fence_policy = FencePolicy::kAckOrLease;
  plan.strategy.commit_steps_ppm = {1'000'000};
  MachineWorld world(Base(PlacementKind::kDirectory), plan);
  // The cut comes between the decision and the message: it is never told of the fence.
  ASSERT_TRUE(world.RunUntil([&] {
    return world.record().stage == Stage::kVerifying && world.machine().Progress().held.empty();
  }));
  world.set_crash([&](int, const PersistCommand& command) {
    if (command.step == Step::kFenceWave && !command.touch) world.SetConnected(kDonor, false);
    return MachineWorld::Crash::kNone;
  });
  ASSERT_TRUE(world.RunUntil([&] { return world.TaskOf<PrepareTask>(kNew).has_value(); }));
  EXPECT_THAT(DonorsOf(world.PrepareOf(kNew, PrepareTask::Mode::kPurge)), ElementsAre(kDonor));
  ASSERT_EQ(world.record().evidence.size(), 1u);
  EXPECT_EQ(world.record().evidence[0].kind, EvidenceKind::kLease);
  ASSERT_TRUE(world.RunToStage(Stage::kCommitted));
  EXPECT_TRUE(world.record().unclean);
  world.SetConnected(kDonor, true);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  EXPECT_GT(world.unowned(), absl::Seconds(8)) << "the price of it";
  EXPECT_LT(world.unowned(), absl::Seconds(25));
  ExpectCleanEnd(world);
}

// What the recipient has of the donors that did answer stays.
TEST(MachineTest, OnePartitionedDonorMakesItsOwnRangesColdAndNoOthers) {
  MigrationPlan plan = Add();
  plan.strategy.fence_policy = FencePolicy::kAckOrLease;
  plan.strategy.commit_steps_ppm = {500'000, 1'000'000};
  MachineWorld world(Base(PlacementKind::kDirectory), plan);
  world.set_crash([&](int, const PersistCommand& command) {
    if (command.step == Step::kFenceWave && !command.touch) world.SetConnected(kDonor, false);
    return MachineWorld::Crash::kNone;
  });
  ASSERT_TRUE(world.RunUntil([&] { return world.TaskOf<PrepareTask>(kNew).has_value(); }));
  const auto changes = world.PrepareOf(kNew, PrepareTask::Mode::kChanges);
  const auto purge = world.PrepareOf(kNew, PrepareTask::Mode::kPurge);
  EXPECT_THAT(DonorsOf(changes), ElementsAre("cache-01", "cache-02"));
  EXPECT_THAT(DonorsOf(purge), ElementsAre(kDonor));
  // What is dropped is not filled again by the transfer, which goes on for all the rest.
  const auto warm = world.TaskOf<WarmTask>(kNew);
  ASSERT_TRUE(warm.has_value());
  EXPECT_FALSE(RangesOf(warm->sources).Intersects(RangesOf(*purge)));
  EXPECT_TRUE(RangesOf(warm->sources).Includes(RangesOf(*changes)));
  EXPECT_TRUE(std::any_of(warm->sources.begin(), warm->sources.end(),
                          [](const TransferSource& source) { return source.donor == kDonor; }))
      << "its second wave is to be warm";
  ASSERT_TRUE(world.RunToStage(Stage::kCommitted));
  EXPECT_TRUE(world.record().unclean);
  EXPECT_GT(world.Stored(kNew, RangesOf(*changes)), 0u);
  world.SetConnected(kDonor, true);
  world.set_crash(nullptr);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  ExpectCleanEnd(world);
}

// The donor is back and acknowledges while its recipient still prepares without it: nothing of what
// that has done is to be done again, since its answer may be on its way.
TEST(MachineTest, ALateAcknowledgementChangesNoPreparation) {
  MigrationPlan plan = Add();
  plan.strategy.fence_policy = FencePolicy::kAckOrLease;
  MachineWorld world(Base(PlacementKind::kDirectory), plan);
  world.set_crash([&](int, const PersistCommand& command) {
    if (command.step == Step::kFenceWave && !command.touch) world.SetConnected(kDonor, false);
    return MachineWorld::Crash::kNone;
  });
  bool acknowledged = false;
  world.set_report_filter([&](TaskReport& report) {
    acknowledged = acknowledged || (report.node == kDonor && world.persists() > 0 &&
                                    std::holds_alternative<FenceAck>(report.body));
    return !std::holds_alternative<PreparedReport>(report.body);
  });
  ASSERT_TRUE(world.RunUntil([&] { return world.TaskOf<PrepareTask>(kNew).has_value(); }));
  const PrepareTask before = *world.PrepareOf(kNew, PrepareTask::Mode::kPurge);
  EXPECT_FALSE(acknowledged);
  world.set_crash(nullptr);
  world.SetConnected(kDonor, true);
  ASSERT_TRUE(world.RunUntil([&] { return acknowledged; }));
  world.RunUntil([] { return false; }, 3);
  ASSERT_EQ(world.record().stage, Stage::kFencing);
  const auto after = world.PrepareOf(kNew, PrepareTask::Mode::kPurge);
  ASSERT_TRUE(after.has_value());
  EXPECT_TRUE(IsSameWork(before, *after));
}

// A server that restarts must believe in every lease that it could have granted.
TEST(MachineTest, ARestartedServerWaitsForAWholeLease) {
  MigrationPlan plan = Add();
  plan.strategy.fence_policy = FencePolicy::kAckOrLease;
  plan.strategy.fence_timeout = absl::Seconds(1);
  MachineWorld world(Base(PlacementKind::kDirectory), plan);
  world.set_report_filter([](TaskReport& report) {
    return report.node != kDonor || !std::holds_alternative<FenceAck>(report.body);
  });
  ASSERT_TRUE(world.RunToStage(Stage::kFencing));
  world.RestartServer();
  ASSERT_TRUE(world.RunUntil([&] {
    return world.machine().Progress().held.starts_with(
        "cache-00 did not acknowledge the fence: "
        "waiting until ");
  })) << world.machine().Progress().held;
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  EXPECT_TRUE(world.record().unclean);
  EXPECT_GE(world.unowned(), absl::Seconds(10)) << "nobody wrote before the lease was over";
  ExpectCleanEnd(world);
}

// Once it is decided that recipients drop their copies, a late acknowledgement changes nothing: the
// copies are gone.
TEST(MachineTest, ALateAcknowledgementDoesNotMakeItClean) {
  MigrationPlan plan = Add();
  plan.strategy.fence_policy = FencePolicy::kAckOrLease;
  MachineWorld world(Base(PlacementKind::kDirectory), plan);
  bool deaf = true;
  world.set_report_filter([&](TaskReport& report) {
    if (std::holds_alternative<PreparedReport>(report.body) && deaf) return false;
    return report.node != kDonor || !std::holds_alternative<FenceAck>(report.body) || !deaf;
  });
  ASSERT_TRUE(world.RunUntil([&] { return !world.record().evidence.empty(); }));
  EXPECT_EQ(world.record().stage, Stage::kFencing);
  deaf = false;
  world.RestartServer();
  ASSERT_TRUE(world.RunUntil([&] { return world.TaskOf<PrepareTask>(kNew).has_value(); }));
  EXPECT_THAT(DonorsOf(world.PrepareOf(kNew, PrepareTask::Mode::kPurge)), ElementsAre(kDonor));
  ASSERT_TRUE(world.RunToStage(Stage::kCommitted));
  EXPECT_TRUE(world.record().unclean);
  world.RunToEnd();
  ExpectCleanEnd(world);
}

// The donor has long been back when its next wave comes: it must be closed again.
TEST(MachineTest, AnExpiredLeaseCountsForItsWaveOnly) {
  MigrationPlan plan = Add();
  plan.strategy.fence_policy = FencePolicy::kAckOrLease;
  MachineWorld world(Base(PlacementKind::kDirectory), plan);
  world.set_report_filter([](TaskReport& report) {
    const auto* ack = std::get_if<FenceAck>(&report.body);
    return ack == nullptr || report.node != kDonor || ack->floor != Epoch(99);
  });
  ASSERT_TRUE(world.RunToStage(Stage::kCommitted));
  EXPECT_TRUE(world.record().unclean);
  ASSERT_TRUE(world.RunToStage(Stage::kFencing));
  EXPECT_THAT(world.record().evidence, IsEmpty());
  ASSERT_TRUE(world.RunUntil([&] { return world.TaskOf<PrepareTask>(kNew).has_value(); }));
  EXPECT_EQ(world.TaskOf<PrepareTask>(kNew)->mode, PrepareTask::Mode::kChanges);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  for (const FenceEvidence& evidence : world.record().evidence) {
    EXPECT_EQ(evidence.kind, EvidenceKind::kAck);
  }
  EXPECT_TRUE(world.record().unclean) << "one wave was, and that is remembered";
  ExpectCleanEnd(world);
}

TEST(MachineTest, WhatOperatorsMayAskFor) {
  const struct {
    Stage stage;
    OperatorCommand command;
    const char* error;
  } kCases[] = {
      {Stage::kWarming, OperatorCommand::kUndo,
       "migration 'mig-1' is Warming: undo is not possible: nothing is committed yet; abort it "
       "instead"},
      {Stage::kWarming, OperatorCommand::kPromote,
       "migration 'mig-1' is Warming: promote is not possible: its plan does not ask for "
       "promotion"},
      {Stage::kVerifying, OperatorCommand::kResume,
       "migration 'mig-1' is Verifying: resume is not possible: it is not paused"},
      {Stage::kSoaking, OperatorCommand::kAbort,
       "migration 'mig-1' is Soaking: abort is not possible: all is committed; undo it instead"},
      {Stage::kSucceeded, OperatorCommand::kPause,
       "migration 'mig-1' is Succeeded: pause is not possible: it has ended; submit a new "
       "migration"},
      {Stage::kSucceeded, OperatorCommand::kUndo,
       "migration 'mig-1' is Succeeded: undo is not possible: it has ended; submit a new "
       "migration"},
  };
  for (const auto& c : kCases) {
    MachineWorld world(Base(PlacementKind::kRing), Add());
    ASSERT_TRUE(world.RunToStage(c.stage));
    const absl::Status status = world.Command(c.command);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(std::string(status.message()), c.error);
    world.Deliver(c.command);
    ASSERT_TRUE(world.RunToEnd());
    EXPECT_EQ(world.record().stage, Stage::kSucceeded) << "fed all the same, it is ignored";
  }
}

// A command that comes while a persist is outstanding is not lost.
TEST(MachineTest, CommandsWhilePersisting) {
  for (int persist = 1; persist <= 9; ++persist) {
    MachineWorld world(Base(PlacementKind::kRing), Add());
    world.set_crash([&](int number, const PersistCommand&) {
      if (number == persist) world.Command(OperatorCommand::kAbort).IgnoreError();
      return MachineWorld::Crash::kNone;
    });
    ASSERT_TRUE(world.RunToEnd());
    EXPECT_EQ(world.record().stage, persist <= 3 ? Stage::kAborted : Stage::kRolledBack) << persist;
    ExpectCleanEnd(world);
  }
}

TEST(MachineTest, SpuriousEventsAreHarmless) {
  MachineWorld world(Base(PlacementKind::kRing), Add());
  ASSERT_TRUE(world.RunUntil([&] {
    world.Deliver(TimerFired());
    world.Deliver(SessionsChanged());
    world.Deliver(Persisted{7777});
    return world.machine().finished();
  }));
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  EXPECT_THAT(world.steps(), ElementsAreArray(kCleanSteps));
  ExpectCleanEnd(world);
}

TEST(MachineTest, ConflictsAreTriedAgain) {
  MachineWorld world(Base(PlacementKind::kRing), Add(), 5);
  world.set_chances({.conflict = 600});
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  EXPECT_THAT(world.steps(), ElementsAreArray(kCleanSteps));
  ExpectCleanEnd(world);
}

TEST(MachineTest, TheHistoryTellsTheStory) {
  MachineWorld world(Base(PlacementKind::kDirectory), Add());
  ASSERT_TRUE(world.RunToEnd());
  std::vector<std::string> notes;
  for (const StageEntry& entry : world.record().history) {
    notes.push_back(fmt::format("{}: {}", StageName(entry.stage), entry.note));
  }
  EXPECT_THAT(notes,
              ElementsAre("Planned: submitted by operator",
                          "Warming: version 42 inserts 0 boundaries and 9 pending moves",
                          "Verifying: every recipient has caught up with its donors",
                          "Fencing: verified: 0 mismatches of 2000 keys compared <= 0 allowed",
                          "Committed: wave 1 of 3 is committed", "Fencing: held for 30s",
                          "Committed: wave 2 of 3 is committed", "Fencing: held for 30s",
                          "Committed: wave 3 of 3 is committed",
                          "Soaking: all 3 waves are committed", "Succeeded: soaked for 1m"));
  EXPECT_TRUE(
      std::is_sorted(world.record().history.begin(), world.record().history.end(),
                     [](const StageEntry& a, const StageEntry& b) { return a.time < b.time; }));
}

// The stories below are told again with the server lost around each persist, and at each event.

struct Story {
  const char* name;
  PlacementKind placement;
  MigrationPlan plan;
  std::function<void(MachineWorld&)> set_up;
  // What an operator does whenever it comes to that, also again after it was lost with the server.
  std::function<void(MachineWorld&)> operate;
  Stage end;
};

std::vector<Story> Stories() {
  const auto nothing = [](MachineWorld&) {};
  const auto ask = [](OperatorCommand command, std::function<bool(const MigrationRecord&)> when) {
    return [command, when = std::move(when)](MachineWorld& world) {
      if (when(world.record())) world.Command(command).IgnoreError();
    };
  };
  const auto deaf = [](MachineWorld& world) {
    world.set_report_filter([](TaskReport& report) {
      return report.node != kDonor || !std::holds_alternative<FenceAck>(report.body);
    });
  };
  const auto failing = [](MachineWorld& world) {
    world.set_report_filter([&world](TaskReport& report) {
      return world.record().wave != 1 || world.record().stage != Stage::kFencing ||
             !std::holds_alternative<PreparedReport>(report.body);
    });
  };
  MigrationPlan lease = Add();
  lease.strategy.fence_policy = FencePolicy::kAckOrLease;
  MigrationPlan promoted = Add();
  promoted.strategy.await_promotion = true;
  const PlacementKind ring = PlacementKind::kRing;
  return {
      {"add", ring, Add(), nothing, nothing, Stage::kSucceeded},
      {"remove", PlacementKind::kDirectory, Remove(), nothing, nothing, Stage::kSucceeded},
      {"undo while soaking", ring, Add(), nothing,
       ask(OperatorCommand::kUndo,
           [](const MigrationRecord& record) { return record.stage == Stage::kSoaking; }),
       Stage::kRolledBack},
      {"abort between waves", ring, Remove(), nothing,
       ask(OperatorCommand::kAbort,
           [](const MigrationRecord& record) {
             return record.stage == Stage::kCommitted && record.waves_committed == 2;
           }),
       Stage::kRolledBack},
      {"abort in fencing", ring, Add(), nothing,
       ask(OperatorCommand::kAbort,
           [](const MigrationRecord& record) { return record.stage == Stage::kFencing; }),
       Stage::kAborted},
      {"a wave that fails", ring, Add(), failing, nothing, Stage::kRolledBack},
      {"a donor passed over", ring, lease, deaf, nothing, Stage::kSucceeded},
      {"promotion", ring, promoted, nothing,
       ask(OperatorCommand::kPromote,
           [](const MigrationRecord& record) { return record.awaiting_promotion; }),
       Stage::kSucceeded},
      {"a weight", PlacementKind::kDirectory, Reweigh(100), nothing, nothing, Stage::kSucceeded},
      {"a weight undone", PlacementKind::kDirectory, Reweigh(), nothing,
       ask(OperatorCommand::kUndo,
           [](const MigrationRecord& record) { return record.stage == Stage::kSoaking; }),
       Stage::kRolledBack},
      {"a trade", PlacementKind::kDirectory, Trade(), nothing, nothing, Stage::kSucceeded},
      {"a trade aborted between waves", PlacementKind::kDirectory, Trade(), nothing,
       ask(OperatorCommand::kAbort,
           [](const MigrationRecord& record) { return record.stage == Stage::kCommitted; }),
       Stage::kRolledBack},
  };
}

bool RunStoryUntil(const Story& story, MachineWorld& world, const std::function<bool()>& done) {
  return world.RunUntil([&] {
    if (!done()) story.operate(world);
    return done();
  });
}

// Runs a story to its end.
void Finish(const Story& story, MachineWorld& world) {
  ASSERT_TRUE(RunStoryUntil(story, world, [&] { return world.machine().finished(); }))
      << StageName(world.record().stage) << ": " << world.machine().Progress().held;
  ExpectCleanEnd(world);
}

TEST(CrashSweepTest, StoriesEndAsTheyShould) {
  for (const Story& story : Stories()) {
    SCOPED_TRACE(story.name);
    MachineWorld world(Base(story.placement), story.plan);
    story.set_up(world);
    Finish(story, world);
    EXPECT_EQ(world.record().stage, story.end);
  }
}

// Before the transaction, and after it with nothing published or sent: at each persist of each
// story, and at each pair of two in a row.
TEST(CrashSweepTest, TheServerIsLostAroundEachPersist) {
  for (const Story& story : Stories()) {
    int persists = 0;
    {
      MachineWorld world(Base(story.placement), story.plan);
      story.set_up(world);
      Finish(story, world);
      persists = world.persists();
    }
    for (int at = 1; at <= persists; ++at) {
      for (const auto first : {MachineWorld::Crash::kBefore, MachineWorld::Crash::kAfter}) {
        for (const auto second : {MachineWorld::Crash::kNone, MachineWorld::Crash::kBefore,
                                  MachineWorld::Crash::kAfter}) {
          SCOPED_TRACE(fmt::format("{}: at persist {}, {} then {}", story.name, at,
                                   static_cast<int>(first), static_cast<int>(second)));
          MachineWorld world(Base(story.placement), story.plan);
          story.set_up(world);
          world.set_crash([&](int number, const PersistCommand&) {
            if (number == at) return first;
            return number == at + 1 ? second : MachineWorld::Crash::kNone;
          });
          Finish(story, world);
          EXPECT_EQ(world.record().stage, story.end);
        }
      }
    }
  }
}

TEST(CrashSweepTest, TheServerIsLostAtEachEvent) {
  for (const Story& story : Stories()) {
    int events = 0;
    {
      MachineWorld world(Base(story.placement), story.plan);
      story.set_up(world);
      Finish(story, world);
      events = world.events();
    }
    for (int at = 1; at <= events; at += 1 + events / 40) {
      SCOPED_TRACE(fmt::format("{}: at event {}", story.name, at));
      MachineWorld world(Base(story.placement), story.plan);
      story.set_up(world);
      RunStoryUntil(story, world,
                    [&] { return world.machine().finished() || world.events() >= at; });
      world.RestartServer();
      Finish(story, world);
    }
  }
}

TEST(CrashSweepTest, EachNodeIsLostAtEachEvent) {
  for (const Story& story : Stories()) {
    int events = 0;
    {
      MachineWorld world(Base(story.placement), story.plan);
      story.set_up(world);
      Finish(story, world);
      events = world.events();
    }
    for (const NodeId& node : {NodeId("cache-00"), NodeId("cache-01"), NodeId("cache-03")}) {
      if (node == kNew && story.plan.changes[0].index() != 0) continue;
      for (int at = 1; at <= events; at += 1 + events / 25) {
        SCOPED_TRACE(fmt::format("{}: {} at event {}", story.name, node, at));
        MachineWorld world(Base(story.placement), story.plan);
        story.set_up(world);
        RunStoryUntil(story, world,
                      [&] { return world.machine().finished() || world.events() >= at; });
        world.RestartNode(node);
        Finish(story, world);
      }
    }
  }
}

// Everything at once, then quiet: it must come to a clean end by itself.
TEST(ChaosTest, EverySeedComesToACleanEnd) {
  std::map<Stage, int> ends;
  for (uint64_t seed = 1; seed <= 250; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    MigrationPlan plan = seed % 3 == 0 ? Remove() : Add();
    plan.strategy.hold = absl::Seconds(5);
    if (seed % 5 == 0) plan.strategy.fence_policy = FencePolicy::kAckOrLease;
    if (seed % 7 == 0) plan.strategy.await_promotion = true;
    MachineWorld world(Base(PlacementKind::kRing), plan, seed);
    world.set_chances({.lose_report = 100,
                       .repeat_report = 100,
                       .restart_node = seed % 2 == 0 ? 8u : 1u,
                       .cut_node = 10,
                       .restart_server = 20,
                       .conflict = 100,
                       .command = 10});
    world.RunUntil([&] { return world.machine().finished(); }, 600);
    world.set_chances({});
    for (const auto& node : {"cache-00", "cache-01", "cache-02", "cache-03"}) {
      if (std::string(node) == kNew && seed % 3 == 0) continue;
      world.SetConnected(node, true);
    }
    ASSERT_TRUE(world.RunUntil([&] {
      world.Command(OperatorCommand::kResume).IgnoreError();
      world.Command(OperatorCommand::kPromote).IgnoreError();
      return world.machine().finished();
    })) << StageName(world.record().stage)
        << ": " << world.machine().Progress().held;
    ExpectCleanEnd(world);
    ++ends[world.record().stage];
  }
  EXPECT_GT(ends[Stage::kSucceeded], 10);
  EXPECT_GT(ends[Stage::kAborted], 10);
  EXPECT_GT(ends[Stage::kRolledBack], 10);
}

}  // namespace
}  // namespace warmring
