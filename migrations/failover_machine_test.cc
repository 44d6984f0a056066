#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/reason.h"
#include "migrations/base_testing.h"
#include "migrations/machine_world_testing.h"

// Stories in which somebody does not answer: a dead node is taken over from, an operator takes one
// for dead, a wave is released and tried again, a migration makes way. The world checks after
// everything that happens that a key has one owner and that nothing acknowledged is forgotten.

namespace warmring {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const NodeId kDead = "cache-01";
const NodeId kNew = "cache-03";
const NodeId kDonor = "cache-00";

MigrationPlan Add() {
  MigrationPlan plan;
  plan.keyspace = "sessions";
  plan.changes = {AddNode{MakeNode(3)}};
  plan.strategy.soak = absl::Minutes(1);
  return plan;
}

MigrationPlan FailOver() {
  MigrationPlan plan = Add();
  plan.changes = {RemoveNode{kDead, true}};
  return plan;
}

MigrationPlan ReplaceDead() {
  MigrationPlan plan = Add();
  plan.changes = {ReplaceNode{kDead, MakeNode(3), true}};
  return plan;
}

MigrationPlan Replace() {
  MigrationPlan plan = Add();
  plan.changes = {ReplaceNode{kDead, MakeNode(3), false}};
  return plan;
}

void ExpectNoFaults(const MachineWorld& world) { EXPECT_THAT(world.faults(), IsEmpty()); }

std::vector<std::string> StepsOf(const MachineWorld& world) {
  std::vector<std::string> steps = world.steps();
  std::erase(steps, "touch");
  return steps;
}

// Nobody hears the acknowledgement of a node.
std::function<bool(TaskReport&)> Deaf(const NodeId& node, const bool& deaf) {
  return [node, &deaf](TaskReport& report) {
    return !deaf || report.node != node || !std::holds_alternative<FenceAck>(report.body);
  };
}

class FailoverTest : public testing::TestWithParam<PlacementKind> {};
INSTANTIATE_TEST_SUITE_P(Placements, FailoverTest,
                         testing::Values(PlacementKind::kDirectory, PlacementKind::kRing),
                         [](const auto& placement) {
                           return placement.param == PlacementKind::kRing ? "Ring" : "Directory";
                         });

TEST_P(FailoverTest, ADeadNodeIsTakenOverFromWhenItsLeaseIsOver) {
  for (const MigrationPlan& plan : {FailOver(), ReplaceDead()}) {
    MachineWorld world(Base(GetParam()), plan);
    const Instant died = world.now();
    world.SetUp(kDead, false);
    ASSERT_TRUE(world.RunUntil([&] { return world.record().stage == Stage::kFencing; }));
    EXPECT_EQ(world.record().preview.waves, 1u);
    ASSERT_TRUE(world.RunUntil([&] { return !world.record().evidence.empty(); }));
    EXPECT_EQ(world.record().evidence[0].kind, EvidenceKind::kLease);
    // A lease of ten seconds, believed in for one percent and 100 ms more.
    EXPECT_GE(world.now() - died, absl::Milliseconds(10'200));
    EXPECT_LT(world.now() - died, absl::Milliseconds(10'300));
    ASSERT_TRUE(world.RunToEnd());
    EXPECT_LT(world.now() - died, absl::Milliseconds(10'500)) << "there is nothing to soak for";
    EXPECT_EQ(world.record().stage, Stage::kSucceeded);
    EXPECT_TRUE(world.record().unclean);
    EXPECT_FALSE(world.head().FindNode(kDead).has_value());
    EXPECT_THAT(world.NotWritable(), IsEmpty());
    ExpectNoFaults(world);
  }
}

// It was cut off, and its clients still reach it. The world sees whether two accept.
TEST_P(FailoverTest, WhatIsTakenForDeadMayBeAlive) {
  MachineWorld world(Base(GetParam()), FailOver());
  world.SetConnected(kDead, false);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  ExpectNoFaults(world);
  world.SetConnected(kDead, true);
  ASSERT_TRUE(world.RunUntil([&] { return false; }, 50) == false);
  ExpectNoFaults(world);
}

// Even if it answers meanwhile: that it is closed is believed, its copy is not used.
TEST_P(FailoverTest, ADeadNodeThatAnswersIsNotWaitedFor) {
  MachineWorld world(Base(GetParam()), FailOver());
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  EXPECT_LT(world.unowned(), absl::Seconds(1));
  EXPECT_TRUE(world.record().unclean) << "what it had is lost";
  EXPECT_EQ(world.record().evidence[0].kind, EvidenceKind::kAck);
  ExpectNoFaults(world);
}

TEST_P(FailoverTest, NothingLeadsBackFromIt) {
  MachineWorld world(Base(GetParam()), FailOver());
  world.SetUp(kDead, false);
  ASSERT_TRUE(world.RunToStage(Stage::kCommitted));
  EXPECT_THAT(std::string(world.Command(OperatorCommand::kAbort).message()),
              HasSubstr("there is nobody to go back to"));
  EXPECT_THAT(std::string(world.Command(OperatorCommand::kUndo).message()),
              HasSubstr("there is nobody to go back to"));
  for (const Move& move : world.head().moves()) EXPECT_NE(move.phase, MovePhase::kGrace);
}

TEST_P(FailoverTest, ACrashAtEachPersistChangesNothing) {
  for (const MachineWorld::Crash crash :
       {MachineWorld::Crash::kBefore, MachineWorld::Crash::kAfter}) {
    for (int at = 1; at <= 8; ++at) {
      MachineWorld world(Base(GetParam()), ReplaceDead(), static_cast<uint64_t>(at));
      world.SetUp(kDead, false);
      world.set_crash([&](int persist, const PersistCommand&) {
        return persist == at ? crash : MachineWorld::Crash::kNone;
      });
      ASSERT_TRUE(world.RunToEnd());
      EXPECT_EQ(world.record().stage, Stage::kSucceeded) << at;
      EXPECT_THAT(world.NotWritable(), IsEmpty());
      ExpectNoFaults(world);
    }
  }
}

TEST_P(FailoverTest, RandomMisfortunes) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    MachineWorld world(Base(GetParam()), seed % 2 == 0 ? FailOver() : ReplaceDead(), seed);
    world.SetUp(kDead, false);
    MachineWorld::Chances chances;
    chances.lose_report = chances.repeat_report = 100;
    chances.cut_node = chances.restart_server = chances.conflict = 20;
    chances.lag_watch = 300;
    world.set_chances(chances);
    world.RunUntil([&] { return world.machine().finished(); }, 2000);
    world.set_chances({});
    for (const NodeId& node : {NodeId("cache-00"), NodeId("cache-02"), kNew}) {
      if (node != kNew || seed % 2 == 1) world.SetConnected(node, true);
    }
    ASSERT_TRUE(world.RunToEnd()) << seed << " " << world.machine().Progress().held;
    EXPECT_EQ(world.record().stage, Stage::kSucceeded) << seed << " " << world.record().failure;
    ExpectNoFaults(world);
  }
}

// Recipients that restart, again and again, and one that is slow: a failover has nowhere to go back
// to, and nothing is copied that could be lost.
TEST_P(FailoverTest, IsNotGivenUp) {
  MachineWorld world(Base(GetParam()), FailOver());
  world.SetUp(kDead, false);
  ASSERT_TRUE(world.RunToStage(Stage::kFencing));
  bool slow = true;
  world.set_report_filter([&](TaskReport& report) {
    return !slow || !std::holds_alternative<PreparedReport>(report.body);
  });
  const Instant fenced = world.now();
  ASSERT_TRUE(world.RunUntil([&] { return world.now() > fenced + absl::Minutes(10); }));
  EXPECT_EQ(world.record().stage, Stage::kFencing) << "its recipients do not begin again";
  for (int i = 0; i < 25; ++i) world.RestartNode(i % 2 == 0 ? "cache-00" : "cache-02");
  EXPECT_THAT(world.machine().Progress().held, HasSubstr("did not report to be complete"));
  slow = false;
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  ExpectNoFaults(world);
}

TEST_P(FailoverTest, AMembershipThatMovedOnIsNoReasonToGiveUp) {
  MachineWorld world(Base(GetParam()), ReplaceDead());
  Update joined;
  joined.put_nodes = {MakeNode(3)};
  world.MoveHeadOn(joined);
  ASSERT_TRUE(world.RunUntil([&] { return world.record().queued; }));
  EXPECT_EQ(world.record().stage, Stage::kPlanned);
}

// Every range of the one is the other's, warm and at once.
TEST_P(FailoverTest, AReplacementTakesExactlyWhatItsPredecessorHad) {
  const Membership::Ptr base = Base(GetParam());
  MachineWorld world(base, Replace());
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  EXPECT_FALSE(world.record().unclean);
  EXPECT_EQ(world.head().OwnedBy(kNew), base->OwnedBy(kDead));
  EXPECT_FALSE(world.head().FindNode(kDead).has_value());
  EXPECT_EQ(world.head().OwnedBy("cache-00"), base->OwnedBy("cache-00"));
  ExpectNoFaults(world);
}

// A tenant is on the node, or shares it with another.
class OverrideFailoverTest : public testing::TestWithParam<bool> {
 protected:
  static Membership::Ptr WithTenant(bool shared) {
    MembershipData data = BaseData(PlacementKind::kDirectory);
    data.overrides = {{1, {OverrideRule::Match::kPrefix, "tenant-"}, {{UINT64_MAX, 1}}, Epoch(7)},
                      {2, {OverrideRule::Match::kPrefix, "tenant-1"}, {}, Epoch(7)}};
    if (shared) data.overrides[0].ranges = {{UINT64_MAX / 2, 1}, {UINT64_MAX, 2}};
    data.next_plane = 3;
    return *Membership::Create(std::move(data));
  }
};
INSTANTIATE_TEST_SUITE_P(Tenants, OverrideFailoverTest, testing::Bool());

TEST_P(OverrideFailoverTest, KeysOfOverridesGoAlong) {
  for (const MigrationPlan& plan : {FailOver(), ReplaceDead(), Replace()}) {
    MachineWorld world(WithTenant(GetParam()), plan);
    ASSERT_THAT(world.faults(), IsEmpty());
    if (!world.record().preview.nodes_dead.empty()) world.SetUp(kDead, false);
    ASSERT_TRUE(world.RunToEnd()) << world.machine().Progress().held;
    EXPECT_EQ(world.record().stage, Stage::kSucceeded) << world.record().failure;
    EXPECT_FALSE(world.head().FindNode(kDead).has_value());
    const Override& tenant = world.head().overrides()[0];
    const bool replaced = std::holds_alternative<ReplaceNode>(plan.changes[0]);
    std::set<NodeId> owners;
    for (const OverrideRange& range : tenant.ranges) {
      owners.insert(world.head().nodes()[range.owner].id);
    }
    const std::set<NodeId> expected =
        replaced ? (GetParam() ? std::set<NodeId>{"cache-02", kNew} : std::set<NodeId>{kNew})
                 : std::set<NodeId>{"cache-02"};
    if (replaced || GetParam()) {
      EXPECT_EQ(owners, expected);
    } else {
      EXPECT_EQ(owners.size(), 1u) << "whoever has most room";
    }
    EXPECT_THAT(world.NotWritable(), IsEmpty());
    ExpectNoFaults(world);
  }
}

TEST_P(OverrideFailoverTest, AnAbortOrAnUndoGivesThemBack) {
  for (const Stage stage : {Stage::kWarming, Stage::kFencing, Stage::kCommitted, Stage::kSoaking}) {
    const Membership::Ptr base = WithTenant(GetParam());
    MachineWorld world(base, Replace());
    ASSERT_TRUE(world.RunToStage(stage));
    ASSERT_TRUE(
        world.Command(stage == Stage::kSoaking ? OperatorCommand::kUndo : OperatorCommand::kAbort)
            .ok());
    ASSERT_TRUE(world.RunToEnd());
    EXPECT_EQ(world.head().OwnedBy(kDead), base->OwnedBy(kDead));
    EXPECT_FALSE(world.head().FindNode(kNew).has_value());
    EXPECT_THAT(world.NotWritable(), IsEmpty());
    ExpectNoFaults(world);
  }
}

ForceFence Force(const NodeId& node, bool accept_data_loss) {
  return {node, "alice", "rack 7 burnt down", accept_data_loss};
}

TEST(ForceFenceTest, IsRefusedWhileTheLeaseMayHoldUnlessTheLossIsAccepted) {
  MachineWorld world(Base(PlacementKind::kDirectory), Add());
  const bool deaf = true;
  world.set_report_filter(Deaf(kDonor, deaf));
  EXPECT_THAT(std::string(world.Force(Force(kDonor, true)).message()),
              HasSubstr("nothing is being fenced now"));
  ASSERT_TRUE(world.RunToStage(Stage::kFencing));
  ASSERT_TRUE(world.RunUntil([&] { return world.machine().Progress().held.empty() == false; }));

  const absl::Status held = world.Force(Force(kDonor, false));
  EXPECT_EQ(ReasonNameOf(held), "LEASE_MAY_HOLD");
  EXPECT_THAT(std::string(held.message()), HasSubstr("accepts writes so long, which are lost"));
  EXPECT_THAT(std::string(world.Force(Force("cache-03", true)).message()),
              HasSubstr("gives nothing now: name one of cache-00, cache-01, cache-02"));
  EXPECT_THAT(std::string(world.Force(Force("cache-01", true)).message()),
              HasSubstr("'cache-01' is closed already"));
  ForceFence silent = Force(kDonor, true);
  silent.reason.clear();
  EXPECT_EQ(world.Force(silent).code(), absl::StatusCode::kInvalidArgument);
  silent.reason = std::string(1025, 'x');
  EXPECT_EQ(world.Force(silent).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(world.record().forced, IsEmpty());
}

// A donor that is alive is closed by its next renewal all the same.
TEST(ForceFenceTest, GoesOnWithoutTheDonorAndIsRememberedForEver) {
  MigrationPlan plan = Add();
  plan.strategy.commit_steps_ppm = {1'000'000};
  MachineWorld world(Base(PlacementKind::kDirectory), plan);
  const bool deaf = true;
  world.set_report_filter(Deaf(kDonor, deaf));
  ASSERT_TRUE(
      world.RunUntil([&] { return world.machine().Progress().held.starts_with("cache-00 did"); }));
  ASSERT_TRUE(world.Force(Force(kDonor, true)).ok());
  ASSERT_TRUE(world.RunToStage(Stage::kCommitted));
  ASSERT_EQ(world.record().forced.size(), 1u);
  const ForcedFence& forced = world.record().forced[0];
  EXPECT_EQ(forced.donor, kDonor);
  EXPECT_EQ(forced.author, "alice");
  EXPECT_EQ(forced.reason, "rack 7 burnt down");
  EXPECT_GT(forced.lease_left, absl::ZeroDuration());
  EXPECT_LE(forced.lease_left, absl::Milliseconds(10'200));
  EXPECT_TRUE(world.record().unclean);
  EXPECT_EQ(world.record().evidence[0].kind, EvidenceKind::kForce);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  EXPECT_EQ(world.record().forced.size(), 1u);
  const bool told = std::any_of(
      world.record().history.begin(), world.record().history.end(), [](const StageEntry& entry) {
        return entry.note.starts_with("FORCED by alice: cache-00 is taken as dead, ") &&
               entry.note.ends_with("reason: rack 7 burnt down");
      });
  EXPECT_TRUE(told);
  // This donor had been told, so that nothing was lost.
  ExpectNoFaults(world);
}

// What the flag is about: the donor was never told, accepts writes, and so does the recipient.
TEST(ForceFenceTest, DoesWhatItSaysItMayDo) {
  MigrationPlan plan = Add();
  plan.strategy.commit_steps_ppm = {1'000'000};
  MachineWorld world(Base(PlacementKind::kDirectory), plan);
  world.set_crash([&](int, const PersistCommand& command) {
    if (command.step == Step::kFenceWave && !command.touch) world.SetConnected(kDonor, false);
    return MachineWorld::Crash::kNone;
  });
  ASSERT_TRUE(world.RunUntil([&] { return world.record().stage == Stage::kFencing; }));
  ASSERT_TRUE(world.Force(Force(kDonor, true)).ok());
  ASSERT_TRUE(world.RunToStage(Stage::kCommitted));
  EXPECT_THAT(world.faults(), Contains(HasSubstr("both accept a write")))
      << "the world would see it if it happened elsewhere, too";
}

TEST(ForceFenceTest, NeedsNoAcceptanceOnceTheLeaseIsOver) {
  MigrationPlan plan = Add();
  plan.strategy.commit_steps_ppm = {1'000'000};
  plan.strategy.fence_timeout = absl::Minutes(5);
  MachineWorld world(Base(PlacementKind::kDirectory), plan);
  const bool deaf = true;
  world.set_report_filter(Deaf(kDonor, deaf));
  ASSERT_TRUE(world.RunToStage(Stage::kFencing));
  const Instant fenced = world.now();
  ASSERT_TRUE(world.RunUntil([&] { return world.now() > fenced + absl::Seconds(11); }));
  ASSERT_TRUE(world.Force(Force(kDonor, false)).ok());
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  EXPECT_EQ(world.record().forced[0].lease_left, absl::ZeroDuration());
  ExpectNoFaults(world);
}

// The way back from a recipient that died.
TEST(ForceFenceTest, AnUndoCanBeForcedToo) {
  MigrationPlan plan = Add();
  plan.strategy.fence_timeout = absl::Minutes(5);
  MachineWorld world(Base(PlacementKind::kDirectory), plan);
  ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
  const bool deaf = true;
  world.set_report_filter(Deaf(kNew, deaf));
  ASSERT_TRUE(world.Command(OperatorCommand::kUndo).ok());
  ASSERT_TRUE(world.RunToStage(Stage::kUndoFencing));
  ASSERT_TRUE(world.Force(Force(kNew, true)).ok());
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_EQ(world.record().stage, Stage::kRolledBack);
  EXPECT_TRUE(world.record().forced[0].is_undo);
  EXPECT_TRUE(world.record().unclean);
  ExpectNoFaults(world);
}

TEST(ForceFenceTest, OutlivesTheServer) {
  for (const MachineWorld::Crash crash :
       {MachineWorld::Crash::kBefore, MachineWorld::Crash::kAfter}) {
    MigrationPlan plan = Add();
    plan.strategy.commit_steps_ppm = {1'000'000};
    plan.strategy.wave_attempts = 3;
    MachineWorld world(Base(PlacementKind::kDirectory), plan);
    bool deaf = true;
    world.set_report_filter(Deaf(kDonor, deaf));
    ASSERT_TRUE(world.RunToStage(Stage::kFencing));
    int persists = 0;
    world.set_crash([&](int, const PersistCommand&) {
      return ++persists == 1 ? crash : MachineWorld::Crash::kNone;
    });
    ASSERT_TRUE(world.Force(Force(kDonor, true)).ok());
    ASSERT_TRUE(world.RunUntil([&] { return persists > 0; }));
    EXPECT_EQ(world.record().forced.size(), crash == MachineWorld::Crash::kAfter ? 1u : 0u);
    deaf = false;
    ASSERT_TRUE(world.RunToEnd());
    EXPECT_EQ(world.record().stage, Stage::kSucceeded);
    EXPECT_EQ(world.record().unclean, crash == MachineWorld::Crash::kAfter);
    ExpectNoFaults(world);
  }
}

class WaveRetryTest : public testing::Test {
 protected:
  // Wave `wave` fails `times` times since nobody hears its donor.
  void Run(MigrationPlan plan, uint32_t wave, int times) {
    world_.emplace(Base(PlacementKind::kDirectory), std::move(plan));
    world_->set_report_filter([this, wave, times](TaskReport& report) {
      const MigrationRecord& record = world_->record();
      const bool deaf = record.stage == Stage::kFencing && record.wave == wave &&
                        Failures() < static_cast<size_t>(times);
      return !deaf || report.node != kDonor || !std::holds_alternative<FenceAck>(report.body);
    });
  }
  size_t Failures() const {
    const std::vector<std::string> steps = StepsOf(*world_);
    return static_cast<size_t>(
        std::count_if(steps.begin(), steps.end(), [](const std::string& step) {
          return step.starts_with("PR retry") || step.starts_with("PA");
        }));
  }

  std::optional<MachineWorld> world_;
};

TEST_F(WaveRetryTest, AWaveThatFailsIsTriedAgain) {
  for (const uint32_t wave : {0u, 1u, 2u}) {
    MigrationPlan plan = Add();
    plan.strategy.wave_attempts = 3;
    Run(plan, wave, 2);
    ASSERT_TRUE(world_->RunToEnd());
    EXPECT_EQ(world_->record().stage, Stage::kSucceeded) << wave;
    EXPECT_EQ(Failures(), 2u);
    EXPECT_EQ(world_->record().wave_attempt, 0u);
    EXPECT_FALSE(world_->record().unclean);
    // Twice the lease to each attempt, and no longer.
    EXPECT_LT(world_->unowned(), absl::Seconds(21));
    ExpectNoFaults(*world_);
  }
}

TEST_F(WaveRetryTest, WhenAttemptsAreUsedUpAllOfItIsUndone) {
  MigrationPlan plan = Add();
  plan.strategy.wave_attempts = 2;
  Run(plan, 1, 2);
  ASSERT_TRUE(world_->RunToEnd());
  EXPECT_EQ(world_->record().stage, Stage::kRolledBack);
  ExpectNoFaults(*world_);
  Run(plan, 0, 2);
  ASSERT_TRUE(world_->RunToEnd());
  EXPECT_EQ(world_->record().stage, Stage::kAborted);
  ExpectNoFaults(*world_);
}

TEST_F(WaveRetryTest, OrItWaitsForSomebodyToDecide) {
  for (const bool resume : {true, false}) {
    for (const uint32_t wave : {0u, 1u}) {
      MigrationPlan plan = Add();
      plan.strategy.on_wave_failure = WaveFailure::kPause;
      Run(plan, wave, 1);
      ASSERT_TRUE(world_->RunUntil([&] { return world_->record().paused; }));
      EXPECT_EQ(world_->record().stage, wave == 0 ? Stage::kWarming : Stage::kCommitted);
      ASSERT_FALSE(world_->RunUntil([&] { return world_->machine().finished(); }, 200));
      EXPECT_THAT(world_->NotWritable(), IsEmpty());
      ASSERT_TRUE(
          world_->Command(resume ? OperatorCommand::kResume : OperatorCommand::kAbort).ok());
      ASSERT_TRUE(world_->RunToEnd());
      EXPECT_EQ(world_->record().stage, resume      ? Stage::kSucceeded
                                        : wave == 0 ? Stage::kAborted
                                                    : Stage::kRolledBack);
      ExpectNoFaults(*world_);
    }
  }
}

TEST_F(WaveRetryTest, ACrashAtEachPersistChangesNothing) {
  for (const MachineWorld::Crash crash :
       {MachineWorld::Crash::kBefore, MachineWorld::Crash::kAfter}) {
    for (int at = 1; at <= 20; ++at) {
      MigrationPlan plan = Add();
      plan.strategy.wave_attempts = 4;
      Run(plan, 1, 2);
      world_->set_crash([&](int persist, const PersistCommand&) {
        return persist == at ? crash : MachineWorld::Crash::kNone;
      });
      ASSERT_TRUE(world_->RunToEnd());
      EXPECT_EQ(world_->record().stage, Stage::kSucceeded) << at;
      ExpectNoFaults(*world_);
    }
  }
}

// An undo of a part that cannot be carried out: a present owner is dead. What leaves still owns
// something, what joins keeps what it has, and pins that were to come do not.
TEST(PreemptionTest, APartThatCannotBeUndoneStays) {
  MigrationPlan remove = Add();
  remove.changes = {RemoveNode{kDead}};
  for (const MigrationPlan& plan : {Add(), remove, Replace()}) {
    for (const Stage at : {Stage::kUndoFencing, Stage::kSoaking}) {
      MachineWorld world(Base(PlacementKind::kDirectory), plan);
      ASSERT_TRUE(world.RunUntil([&] {
        return world.record().stage == Stage::kCommitted && world.record().waves_committed == 1;
      }));
      const std::set<NodeId> owners = [&] {
        std::set<NodeId> nodes;
        for (const PlannedMove& move : world.record().preview.moves) nodes.insert(move.to);
        return nodes;
      }();
      const bool deaf = true;
      world.set_report_filter(Deaf(*owners.begin(), deaf));
      ASSERT_TRUE(world.Command(OperatorCommand::kAbort).ok());
      ASSERT_TRUE(world.RunToStage(at));
      world.SetUp(*owners.begin(), false);
      world.Deliver(Preempt{"mig-2"});
      ASSERT_TRUE(world.RunUntil([&] { return world.machine().finished(); }, 200));
      EXPECT_EQ(world.record().stage, Stage::kFailed);
      EXPECT_THAT(world.record().failure, HasSubstr("1 of 3 waves are committed and stay"));
      EXPECT_TRUE(world.head().moves().empty());
      for (const NodeId& node : world.record().preview.nodes_removed) {
        EXPECT_TRUE(world.head().FindNode(node).has_value());
      }
      ExpectNoFaults(world);
    }
  }
}

TEST(PreemptionTest, EachStageHasAShortWayOut) {
  const struct {
    Stage at;
    uint32_t committed;
    Stage end;
  } kCases[] = {
      {Stage::kWarming, 0, Stage::kAborted},   {Stage::kVerifying, 0, Stage::kAborted},
      {Stage::kFencing, 0, Stage::kAborted},   {Stage::kFencing, 1, Stage::kFailed},
      {Stage::kCommitted, 1, Stage::kFailed},  {Stage::kCommitted, 3, Stage::kSucceeded},
      {Stage::kSoaking, 3, Stage::kSucceeded}, {Stage::kUndoFencing, 3, Stage::kSucceeded},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(std::string(StageName(c.at)) + " " + std::to_string(c.committed));
    MachineWorld world(Base(PlacementKind::kDirectory), Add());
    const bool deaf = true;
    if (c.at == Stage::kUndoFencing) {
      ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
      world.set_report_filter(Deaf(kNew, deaf));
      ASSERT_TRUE(world.Command(OperatorCommand::kUndo).ok());
    }
    ASSERT_TRUE(world.RunUntil([&] {
      return world.record().stage == c.at && world.record().waves_committed == c.committed;
    }));
    // A donor dies, which is why somebody is in a hurry.
    world.SetUp(kDonor, false);
    const Instant asked = world.now();
    world.Deliver(Preempt{"mig-2"});
    ASSERT_TRUE(world.RunToEnd());
    EXPECT_LT(world.now() - asked, absl::Seconds(4)) << "it waits for nobody";
    EXPECT_EQ(world.record().stage, c.end);
    EXPECT_EQ(world.record().preempted_by, "mig-2");
    EXPECT_TRUE(world.head().moves().empty());
    ExpectNoFaults(world);
  }
}

}  // namespace
}  // namespace warmring
