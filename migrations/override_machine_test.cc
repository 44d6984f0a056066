#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "migrations/base_testing.h"
#include "migrations/machine_world_testing.h"
#include "migrations/migration_machine.h"

// Stories about overrides in the world of the machine's tests, where every other key begins with
// "tenant-": put, changed and removed, undone, aborted and crashed around, and followed by
// migrations of everything else. The world checks the promises after each event.

namespace warmring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const OverrideRule kTenant = {OverrideRule::Match::kPrefix, "tenant-"};
const OverrideRule kNested = {OverrideRule::Match::kPrefix, "tenant-1"};
const Plane kPlane = 1;

// The tenant is on cache-01.
Membership::Ptr Isolated() {
  MembershipData data = BaseData(PlacementKind::kRing);
  data.overrides = {{kPlane, kTenant, {{UINT64_MAX, 1}}, Epoch(7)}};
  data.next_plane = 2;
  return *Membership::Create(std::move(data));
}

// The tenant was on a node of its own once.
Membership::Ptr AsHashed() {
  MembershipData data = BaseData(PlacementKind::kRing);
  data.overrides = {{kPlane, kTenant, {}, Epoch(7)}};
  data.next_plane = 2;
  return *Membership::Create(std::move(data));
}

// A tenant within the tenant was on a node of its own once.
Membership::Ptr Nested() {
  MembershipData data = BaseData(PlacementKind::kRing);
  data.overrides = {{kPlane, kNested, {}, Epoch(7)}};
  data.next_plane = 2;
  return *Membership::Create(std::move(data));
}

MigrationPlan PlanOf(std::vector<Change> changes) {
  MigrationPlan plan;
  plan.keyspace = "sessions";
  plan.changes = std::move(changes);
  plan.strategy.soak = absl::Minutes(1);
  return plan;
}

MigrationPlan Set(std::vector<NodeId> nodes) {
  return PlanOf({SetOverride{kTenant, std::move(nodes)}});
}
MigrationPlan Unset() { return PlanOf({RemoveOverride{kTenant}}); }
MigrationPlan Add() { return PlanOf({AddNode{MakeNode(3)}}); }

NodeId OwnerOf(const Membership& membership, std::string_view key) {
  return membership.nodes()[RouteKey(membership, key).owner].id;
}

std::vector<NodeId> OwnersOfTenant(const Membership& membership) {
  std::vector<NodeId> owners;
  for (int i = 0; i < 200; ++i) owners.push_back(OwnerOf(membership, fmt::format("tenant-{}", i)));
  std::sort(owners.begin(), owners.end());
  owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
  return owners;
}

// Keys of no rule never move.
void ExpectOthersStayed(const Membership& before, const Membership& after) {
  for (int i = 0; i < 200; ++i) {
    const std::string key = fmt::format("key-{}", i);
    EXPECT_EQ(OwnerOf(before, key), OwnerOf(after, key)) << key;
    EXPECT_EQ(RouteKey(before, key).epoch, RouteKey(after, key).epoch) << key;
  }
}

TEST(OverrideMachineTest, ATenantGetsANodeOfItsOwn) {
  for (const PlacementKind placement : {PlacementKind::kRing, PlacementKind::kDirectory}) {
    MachineWorld world(Base(placement), Set({"cache-02"}));
    ASSERT_TRUE(world.RunToEnd());
    EXPECT_THAT(world.faults(), IsEmpty());
    EXPECT_EQ(world.record().stage, Stage::kSucceeded);
    EXPECT_THAT(OwnersOfTenant(world.head()), ElementsAre("cache-02"));
    EXPECT_EQ(RouteKey(world.head(), "tenant-1").epoch, Epoch(100));
    ExpectOthersStayed(*Base(placement), world.head());
    EXPECT_EQ(world.head().version(), Version(41 + 1 + 2)) << "one wave";
    EXPECT_LT(world.unowned(), absl::Milliseconds(50));
  }
}

TEST(OverrideMachineTest, ATenantIsSpreadOverSomeNodes) {
  MachineWorld world(Base(PlacementKind::kRing), Set({"cache-02", "cache-00"}));
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_THAT(world.faults(), IsEmpty());
  EXPECT_THAT(OwnersOfTenant(world.head()), ElementsAre("cache-00", "cache-02"));
  const Membership& head = world.head();
  ASSERT_EQ(head.overrides().size(), 1u);
  EXPECT_THAT(head.overrides()[0].ranges,
              ElementsAre(OverrideRange{(uint64_t{1} << 63) - 1, 2}, OverrideRange{UINT64_MAX, 0}));
}

TEST(OverrideMachineTest, ATenantMovesToAnotherNode) {
  MachineWorld world(Isolated(), Set({"cache-00"}));
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_THAT(world.faults(), IsEmpty());
  EXPECT_THAT(OwnersOfTenant(world.head()), ElementsAre("cache-00"));
  EXPECT_EQ(world.record().preview.moves.size(), 1u) << "only from the node that had it";
  ExpectOthersStayed(*Isolated(), world.head());
}

// The rule is there, as hashed, until all members know; the migration's own end sees that they do.
TEST(OverrideMachineTest, ATenantGoesBackToEverybody) {
  MachineWorld world(Isolated(), Unset());
  ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
  ASSERT_EQ(world.head().overrides().size(), 1u);
  EXPECT_TRUE(world.head().overrides()[0].IsAsHashed());
  EXPECT_EQ(RouteKey(world.head(), "tenant-1").epoch, Epoch(100));
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_THAT(world.faults(), IsEmpty());
  EXPECT_THAT(world.head().overrides(), IsEmpty());
  EXPECT_EQ(world.head().data().next_plane, 2u) << "a plane is used once";
  for (int i = 0; i < 200; ++i) {
    const std::string key = fmt::format("tenant-{}", i);
    EXPECT_EQ(OwnerOf(world.head(), key), OwnerOf(*Base(PlacementKind::kRing), key));
  }
  ExpectOthersStayed(*Isolated(), world.head());
}

TEST(OverrideMachineTest, ARuleStaysAsHashedWhileAMemberDoesNotKnow) {
  MachineWorld world(Isolated(), Unset());
  ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
  world.SetUp("cache-02", false);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_THAT(world.faults(), IsEmpty());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  ASSERT_EQ(world.head().overrides().size(), 1u);
  EXPECT_TRUE(world.head().overrides()[0].IsAsHashed());
}

TEST(OverrideMachineTest, AnUndoneRuleIsAsHashedUnderANewEpoch) {
  MachineWorld world(Base(PlacementKind::kRing), Set({"cache-02"}));
  ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
  ASSERT_TRUE(world.Command(OperatorCommand::kUndo).ok());
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_THAT(world.faults(), IsEmpty());
  EXPECT_EQ(world.record().stage, Stage::kRolledBack);
  ASSERT_EQ(world.head().overrides().size(), 1u);
  EXPECT_TRUE(world.head().overrides()[0].IsAsHashed());
  EXPECT_EQ(RouteKey(world.head(), "tenant-1").epoch, Epoch(101)) << "not the old 3 again";
}

// An owner that was cut off while its keys were elsewhere must not serve what it remembers of them.
TEST(OverrideMachineTest, AnOwnerThatMissedTheMoveServesNothingOld) {
  MigrationPlan plan = Set({"cache-02"});
  plan.strategy.fence_policy = FencePolicy::kAckOrLease;
  MachineWorld world(Base(PlacementKind::kRing), plan);
  world.set_report_filter([](TaskReport& report) {
    return report.node != "cache-00" || !std::holds_alternative<FenceAck>(report.body);
  });
  ASSERT_TRUE(world.RunToStage(Stage::kFencing));
  world.SetConnected("cache-00", false);
  ASSERT_TRUE(world.RunToStage(Stage::kSoaking));
  ASSERT_TRUE(world.Command(OperatorCommand::kUndo).ok());
  world.RunUntil([&] { return world.machine().finished(); }, 500);
  world.set_report_filter(nullptr);
  world.SetConnected("cache-00", true);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_THAT(world.faults(), IsEmpty());
  EXPECT_EQ(world.record().stage, Stage::kRolledBack);
  EXPECT_GT(RouteKey(world.head(), "tenant-1").epoch, Epoch(100));
}

// Keys that are as hashed go along when what they hash to moves.
TEST(OverrideMachineTest, KeysAsHashedFollowTheCommonPlane) {
  MachineWorld world(AsHashed(), Add());
  ASSERT_TRUE(world.RunToStage(Stage::kWarming));
  for (const PlannedMove& move : world.record().preview.moves) {
    EXPECT_EQ(move.ranges.On(kPlane), move.ranges.On(kCommonPlane).CarriedTo(kPlane));
  }
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_THAT(world.faults(), IsEmpty());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  EXPECT_THAT(world.head().overrides(), IsEmpty()) << "everybody knows by now";
  EXPECT_THAT(OwnersOfTenant(world.head()),
              ElementsAre("cache-00", "cache-01", "cache-02", "cache-03"));
}

TEST(OverrideMachineTest, KeysWithNodesOfTheirOwnDoNot) {
  MachineWorld world(Isolated(), Add());
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_THAT(world.faults(), IsEmpty());
  EXPECT_THAT(OwnersOfTenant(world.head()), ElementsAre("cache-01"));
  EXPECT_EQ(RouteKey(world.head(), "tenant-1").epoch, Epoch(7));
  for (const PlannedMove& move : world.record().preview.moves) {
    EXPECT_THAT(move.ranges.Planes(), ElementsAre(kCommonPlane));
  }
}

TEST(OverrideMachineTest, ALongerPrefixWinsAndGoesBackToTheShorter) {
  MembershipData data = Isolated()->data();
  data.overrides.push_back({2, kNested, {{UINT64_MAX, 2}}, Epoch(8)});
  data.next_plane = 3;
  MachineWorld world(*Membership::Create(data), PlanOf({RemoveOverride{kNested}}));
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_THAT(world.faults(), IsEmpty());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  EXPECT_THAT(OwnersOfTenant(world.head()), ElementsAre("cache-01"));
  ASSERT_EQ(world.head().overrides().size(), 1u);
  ASSERT_EQ(world.record().preview.moves.size(), 1u);
  EXPECT_EQ(world.record().preview.moves[0].from, "cache-02");
  EXPECT_EQ(world.record().preview.moves[0].to, "cache-01");
}

// A donor whose map still has a rule that is over files the rule's keys elsewhere: a fence of what
// they hash to closes nothing of them before it has seen the end of the rule.
TEST(OverrideMachineTest, AFenceIsForWhoKnowsTheRulesOfToday) {
  MembershipData ended = BaseData(PlacementKind::kRing);
  ended.next_plane = 2;
  MembershipData before = AsHashed()->data();
  before.version = Version(40);
  before.overrides[0].epoch = Epoch();
  MachineWorld world(*Membership::Create(ended), Add());
  for (const char* node : {"cache-00", "cache-01", "cache-02"}) {
    world.StallWatch(node, *Membership::Create(before));
  }
  EXPECT_FALSE(world.RunUntil([&] { return world.record().stage == Stage::kFencing; }, 300));
  EXPECT_THAT(world.faults(), IsEmpty());
  EXPECT_THAT(world.machine().Progress().held, testing::HasSubstr("to apply version 42"));
  for (const char* node : {"cache-00", "cache-01", "cache-02"}) world.StallWatch(node, nullptr);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_THAT(world.faults(), IsEmpty());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
}

// Whatever was fenced is open again when an abort has ended, for rules inside the new one too.
TEST(OverrideMachineTest, AnAbortOpensWhatItFencedInsideAnotherRule) {
  MachineWorld world(Nested(), Set({"cache-02"}));
  ASSERT_TRUE(world.RunToStage(Stage::kFencing));
  ASSERT_TRUE(world.Command(OperatorCommand::kAbort).ok());
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_THAT(world.faults(), IsEmpty());
  EXPECT_EQ(world.record().stage, Stage::kAborted);
  EXPECT_THAT(world.NotWritable(), IsEmpty());
}

TEST(OverrideMachineTest, ARuleAsHashedIsRemovedWithoutAMove) {
  MachineWorld world(AsHashed(), Unset());
  EXPECT_THAT(world.record().preview.moves, IsEmpty());
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_THAT(world.faults(), IsEmpty());
  EXPECT_EQ(world.record().stage, Stage::kSucceeded);
  EXPECT_THAT(world.head().overrides(), IsEmpty());
  EXPECT_EQ(world.head().version(), Version(42));
}

TEST(OverrideMachineTest, ARuleAsHashedIsNotRemovedBeforeEverybodyKnows) {
  MachineWorld world(AsHashed(), Unset());
  ASSERT_EQ(world.record().stage, Stage::kPlanned);
  world.SetUp("cache-01", false);
  world.set_chances({.conflict = 1000});
  world.Step();  // what was decided before it went down is not done
  world.set_chances({});
  EXPECT_FALSE(world.RunUntil([&] { return world.machine().finished(); }, 100));
  EXPECT_THAT(world.machine().Progress().held, testing::HasSubstr("every node"));
  world.SetUp("cache-01", true);
  ASSERT_TRUE(world.RunToEnd());
  EXPECT_THAT(world.faults(), IsEmpty());
  EXPECT_THAT(world.head().overrides(), IsEmpty());
}

struct Story {
  std::string name;
  Membership::Ptr base;
  MigrationPlan plan;
  bool undo = false;
};

std::vector<Story> Stories() {
  MigrationPlan both = Set({"cache-02"});
  both.changes.push_back(SetOverride{kNested, {"cache-00", "cache-01"}});
  return {
      {"a new rule", Base(PlacementKind::kRing), Set({"cache-02"})},
      {"a new rule undone", Base(PlacementKind::kRing), Set({"cache-02"}), true},
      {"spread", Base(PlacementKind::kDirectory), Set({"cache-02", "cache-00"})},
      {"two rules, one inside the other", Base(PlacementKind::kRing), both},
      {"two rules undone", Base(PlacementKind::kRing), both, true},
      {"other nodes", Isolated(), Set({"cache-00", "cache-02"})},
      {"other nodes undone", Isolated(), Set({"cache-00", "cache-02"}), true},
      {"removed", Isolated(), Unset()},
      {"removed undone", Isolated(), Unset(), true},
      {"again", AsHashed(), Set({"cache-01"})},
      {"a node is added while keys are as hashed", AsHashed(), Add()},
      {"a node is added beside a rule", Isolated(), Add()},
      {"a rule around one that is as hashed", Nested(), Set({"cache-02"})},
      {"a rule around one that is as hashed, undone", Nested(), Set({"cache-02"}), true},
  };
}

bool RunStory(const Story& story, MachineWorld& world, const std::function<bool()>& done) {
  return world.RunUntil([&] {
    if (story.undo && world.record().stage == Stage::kSoaking && !done()) {
      world.Command(OperatorCommand::kUndo).IgnoreError();
    }
    return done();
  });
}

void Finish(const Story& story, MachineWorld& world) {
  ASSERT_TRUE(RunStory(story, world, [&] { return world.machine().finished(); }))
      << StageName(world.record().stage) << ": " << world.machine().Progress().held;
  EXPECT_THAT(world.faults(), IsEmpty());
  EXPECT_TRUE(world.head().moves().empty());
  // Everybody hears of the end, and every key can be written somewhere.
  ASSERT_TRUE(world.RunUntil([&] { return world.NotWritable().empty(); }, 50))
      << world.NotWritable().size() << " keys cannot be written, " << world.NotWritable()[0];
  // What is left of rules: where they were before, or where they were to go.
  const bool done = world.record().stage == Stage::kSucceeded;
  for (const OverrideChange& change : world.record().preview.overrides) {
    const std::vector<PutOverride::Range>& expected = done ? change.after : change.before;
    const Override* const now = world.head().OverrideOn(change.plane);
    EXPECT_TRUE(now != nullptr || expected.empty()) << change.rule.ToString();
    if (now == nullptr) continue;
    ASSERT_EQ(now->ranges.size(), expected.size()) << change.rule.ToString();
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(now->ranges[i].end, expected[i].end);
      EXPECT_EQ(world.head().nodes()[now->ranges[i].owner].id, expected[i].owner);
    }
  }
}

TEST(OverrideCrashTest, TheServerIsLostAroundEachPersist) {
  for (const Story& story : Stories()) {
    MachineWorld calm(story.base, story.plan);
    Finish(story, calm);
    EXPECT_EQ(calm.record().stage, story.undo ? Stage::kRolledBack : Stage::kSucceeded)
        << story.name;
    for (int at = 1; at <= calm.persists(); ++at) {
      for (const auto crash : {MachineWorld::Crash::kBefore, MachineWorld::Crash::kAfter}) {
        SCOPED_TRACE(fmt::format("{}: at persist {}, {}", story.name, at, static_cast<int>(crash)));
        MachineWorld world(story.base, story.plan);
        world.set_crash([&](int number, const PersistCommand&) {
          return number == at ? crash : MachineWorld::Crash::kNone;
        });
        Finish(story, world);
        EXPECT_EQ(world.record().stage, calm.record().stage);
      }
    }
  }
}

TEST(OverrideCrashTest, EachNodeIsLostAtEachEvent) {
  for (const Story& story : Stories()) {
    MachineWorld calm(story.base, story.plan);
    Finish(story, calm);
    for (const NodeId& node : {NodeId("cache-00"), NodeId("cache-01"), NodeId("cache-02")}) {
      for (int at = 1; at <= calm.events(); at += 1 + calm.events() / 25) {
        SCOPED_TRACE(fmt::format("{}: {} at event {}", story.name, node, at));
        MachineWorld world(story.base, story.plan);
        RunStory(story, world, [&] { return world.machine().finished() || world.events() >= at; });
        world.RestartNode(node);
        Finish(story, world);
      }
    }
  }
}

TEST(OverrideCrashTest, AnAbortAtEachEventLeavesWhatWasBefore) {
  for (const Story& story : Stories()) {
    MachineWorld calm(story.base, story.plan);
    Finish(story, calm);
    for (int at = 1; at <= calm.events(); at += 1 + calm.events() / 40) {
      SCOPED_TRACE(fmt::format("{}: at event {}", story.name, at));
      MachineWorld world(story.base, story.plan);
      RunStory(story, world, [&] { return world.machine().finished() || world.events() >= at; });
      world.Command(OperatorCommand::kAbort).IgnoreError();
      Finish(story, world);
    }
  }
}

TEST(OverrideChaosTest, EverySeedComesToACleanEnd) {
  const std::vector<Story> stories = Stories();
  std::map<Stage, int> ends;
  for (uint64_t seed = 1; seed <= 360; ++seed) {
    const Story& story = stories[seed % stories.size()];
    SCOPED_TRACE(fmt::format("{}, seed {}", story.name, seed));
    MigrationPlan plan = story.plan;
    plan.strategy.hold = absl::Seconds(5);
    if (seed % 5 == 0) plan.strategy.fence_policy = FencePolicy::kAckOrLease;
    MachineWorld world(story.base, plan, seed);
    world.set_chances({.lose_report = 100,
                       .repeat_report = 100,
                       .restart_node = seed % 2 == 0 ? 8u : 1u,
                       .cut_node = 10,
                       .lag_watch = 300,
                       .restart_server = 20,
                       .conflict = 100,
                       .command = 10});
    world.RunUntil([&] { return world.machine().finished(); }, 600);
    world.set_chances({});
    for (const Node& node : world.head().nodes()) world.SetConnected(node.id, true);
    for (const Node& node : world.record().preview.nodes_added) world.SetConnected(node.id, true);
    ASSERT_TRUE(world.RunUntil([&] {
      world.Command(OperatorCommand::kResume).IgnoreError();
      world.Command(OperatorCommand::kPromote).IgnoreError();
      return world.machine().finished();
    })) << StageName(world.record().stage)
        << ": " << world.machine().Progress().held;
    Finish(story, world);
    ++ends[world.record().stage];
  }
  EXPECT_GT(ends[Stage::kSucceeded], 10);
  EXPECT_GT(ends[Stage::kAborted], 10);
  EXPECT_GT(ends[Stage::kRolledBack], 10);
}

}  // namespace
}  // namespace warmring
