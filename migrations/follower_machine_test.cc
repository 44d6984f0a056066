#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/placement/initial.h"
#include "core/placement/preference.h"
#include "migrations/base_testing.h"
#include "migrations/machine_world_testing.h"

// Migrations of keyspaces with copies: owners change under fences, and followers with them, so that
// every version has the copies that the rule of failure domains asks for; what is undone or aborted
// has the followers that it had. The world writes through, and looks at each version.

namespace warmring {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const NodeId kLeaving = "cache-01";

// Three zones, of which the last has one node only until another one joins.
Node NodeIn(int number) {
  Node node = MakeNode(number);
  node.zone = fmt::format("z{}", number % 3);
  return node;
}

struct Shape {
  PlacementKind placement = PlacementKind::kDirectory;
  uint32_t replication = 2;
  Allocator allocator = Allocator::kStandard;
};

Membership::Ptr CopiedBase(const Shape& shape) {
  MembershipData data;
  data.version = Version(41);
  data.spec.id = "sessions";
  data.spec.placement = shape.placement;
  data.spec.allocator = shape.allocator;
  data.spec.directory_bits = 10;
  data.spec.tokens_per_node = 12;
  data.spec.replication = shape.replication;
  data.spec.domains.level = DomainLevel::kZone;
  for (int i = 0; i < 5; ++i) data.nodes.push_back(NodeIn(i));
  InitialPlacement placement = *PlaceInitially(data.spec, data.nodes, Epoch(3));
  data.ranges = std::move(placement.ranges);
  data.followers = std::move(placement.followers);
  return *Membership::Create(std::move(data));
}

MigrationPlan PlanOf(std::vector<Change> changes) {
  MigrationPlan plan;
  plan.keyspace = "sessions";
  plan.changes = std::move(changes);
  plan.strategy.soak = absl::Minutes(1);
  return plan;
}

// The copies of a point, the owner first.
std::vector<NodeId> CopiesOf(const Membership& membership, HashPoint at) {
  const size_t range = membership.RangeIndexOf(at);
  std::vector<NodeId> ids = {membership.nodes()[membership.ranges()[range].owner].id};
  for (const NodeIndex follower : membership.FollowersAt(range)) {
    ids.push_back(follower == kNoNode ? "" : membership.nodes()[follower].id);
  }
  return ids;
}

// The same copies everywhere, whatever ends there are.
void ExpectSameCopies(const Membership& a, const Membership& b) {
  for (const Membership* membership : {&a, &b}) {
    for (const OwnedRange& range : membership->ranges()) {
      ASSERT_EQ(CopiesOf(a, range.end), CopiesOf(b, range.end)) << range.end;
    }
  }
}

// What the preview said is what is there.
void ExpectAsPlanned(const Membership& base, const Preview& preview, const Membership& after) {
  for (const OwnedRange& range : after.ranges()) {
    std::vector<NodeId> expected = CopiesOf(base, range.end);
    for (const PlannedMove& move : preview.moves) {
      if (move.ranges.Contains(range.end)) expected[0] = move.to;
    }
    for (const FollowerChange& change : preview.follower_changes) {
      if (!change.ranges.Contains(range.end)) continue;
      ASSERT_EQ(std::vector<NodeId>(expected.begin() + 1, expected.end()), change.before);
      std::copy(change.after.begin(), change.after.end(), expected.begin() + 1);
    }
    ASSERT_EQ(CopiesOf(after, range.end), expected) << range.end;
  }
}

void ExpectCleanEnd(const Membership& base, const MachineWorld& world) {
  EXPECT_THAT(world.faults(), IsEmpty());
  EXPECT_TRUE(world.machine().finished());
  EXPECT_THAT(world.head().moves(), IsEmpty());
  EXPECT_EQ(CountDomainViolations(world.head()), 0u);
  if (world.record().stage == Stage::kSucceeded) {
    ExpectAsPlanned(base, world.record().preview, world.head());
    for (const NodeId& node : world.record().preview.nodes_removed) {
      EXPECT_FALSE(world.head().FindNode(node).has_value());
    }
  } else {
    ExpectSameCopies(base, world.head());
    EXPECT_EQ(world.head().nodes(), base.nodes());
  }
}

struct Story {
  std::string name;
  Shape shape;
  MigrationPlan plan;
  bool is_dead = false;
};

// A bucket that a follower of it is to own, and one that a stranger is.
MigrationPlan Promotion(const Membership& base) {
  const std::vector<NodeId> copies = CopiesOf(base, base.ranges()[7].end);
  return PlanOf({MoveBuckets{{7}, copies.back(), true}});
}

std::vector<Story> Stories() {
  std::vector<Story> stories;
  for (const uint32_t replication : {2u, 3u}) {
    for (const Shape& shape :
         {Shape{PlacementKind::kDirectory, replication}, Shape{PlacementKind::kRing, replication},
          Shape{PlacementKind::kDirectory, replication, Allocator::kRendezvous}}) {
      const std::string where =
          fmt::format("{} with {} copies",
                      shape.placement == PlacementKind::kRing     ? "ring"
                      : shape.allocator == Allocator::kRendezvous ? "rendezvous"
                                                                  : "directory",
                      replication);
      stories.push_back({"add on a " + where, shape, PlanOf({AddNode{NodeIn(5)}})});
      stories.push_back({"remove on a " + where, shape, PlanOf({RemoveNode{kLeaving}})});
      stories.push_back(
          {"both on a " + where, shape, PlanOf({AddNode{NodeIn(5)}, RemoveNode{kLeaving}})});
      stories.push_back({"dead on a " + where, shape, PlanOf({RemoveNode{kLeaving, true}}), true});
      stories.push_back(
          {"replace on a " + where, shape, PlanOf({ReplaceNode{kLeaving, NodeIn(7), false}})});
      if (shape.placement == PlacementKind::kRing) continue;
      stories.push_back({"weight on a " + where, shape, PlanOf({SetWeight{kLeaving, 3000}})});
      stories.push_back({"promote on a " + where, shape, Promotion(*CopiedBase(shape))});
    }
  }
  return stories;
}

void Begin(const Story& story, MachineWorld& world) {
  if (story.is_dead) world.SetUp(kLeaving, false);
}

TEST(FollowerStoryTest, EndAsPlanned) {
  for (const Story& story : Stories()) {
    SCOPED_TRACE(story.name);
    const Membership::Ptr base = CopiedBase(story.shape);
    MachineWorld world(base, story.plan);
    Begin(story, world);
    ASSERT_TRUE(world.RunToEnd()) << world.machine().Progress().held;
    EXPECT_EQ(world.record().stage, Stage::kSucceeded);
    EXPECT_THAT(world.NotWritable(), IsEmpty());
    EXPECT_THAT(world.record().preview.follower_changes, Not(IsEmpty()));
    ExpectCleanEnd(*base, world);
  }
}

TEST(FollowerStoryTest, AnUndoGivesEveryRangeTheFollowersThatItHad) {
  for (const Story& story : Stories()) {
    if (story.is_dead) continue;
    for (const uint32_t waves : {1u, 2u, 3u}) {
      SCOPED_TRACE(fmt::format("{}, after wave {}", story.name, waves));
      const Membership::Ptr base = CopiedBase(story.shape);
      MachineWorld world(base, story.plan);
      const uint32_t last = std::min(waves, world.record().preview.waves);
      ASSERT_TRUE(world.RunUntil([&] {
        return world.record().waves_committed == last && world.record().stage != Stage::kFencing;
      }));
      const bool soaking = world.record().stage == Stage::kSoaking;
      ASSERT_TRUE(world.Command(soaking ? OperatorCommand::kUndo : OperatorCommand::kAbort).ok());
      ASSERT_TRUE(world.RunToEnd());
      EXPECT_EQ(world.record().stage, Stage::kRolledBack);
      ExpectCleanEnd(*base, world);
    }
  }
}

TEST(FollowerStoryTest, AnAbortInEachStageLeavesThemAsTheyWere) {
  for (const Story& story : Stories()) {
    for (const Stage stage :
         {Stage::kPlanned, Stage::kWarming, Stage::kVerifying, Stage::kFencing}) {
      SCOPED_TRACE(fmt::format("{} in {}", story.name, StageName(stage)));
      const Membership::Ptr base = CopiedBase(story.shape);
      MachineWorld world(base, story.plan);
      Begin(story, world);
      world.RunUntil([&] { return world.record().stage == stage || world.machine().finished(); });
      if (world.record().stage != stage) continue;  // a failover has no verification
      ASSERT_TRUE(world.Command(OperatorCommand::kAbort).ok());
      ASSERT_TRUE(world.RunToEnd());
      EXPECT_EQ(world.record().stage, Stage::kAborted);
      ExpectCleanEnd(*base, world);
    }
  }
}

TEST(FollowerStoryTest, TheServerIsLostAroundEachPersist) {
  for (const Story& story : Stories()) {
    if (story.shape.allocator == Allocator::kRendezvous) continue;
    for (const bool undo : {false, true}) {
      if (undo && story.is_dead) continue;
      const auto finish = [&](MachineWorld& world) {
        return world.RunUntil([&] {
          if (undo) world.Command(OperatorCommand::kUndo).IgnoreError();
          return world.machine().finished();
        });
      };
      const Membership::Ptr base = CopiedBase(story.shape);
      int persists = 0;
      {
        MachineWorld world(base, story.plan);
        Begin(story, world);
        ASSERT_TRUE(finish(world));
        persists = world.persists();
      }
      for (int at = 1; at <= persists; ++at) {
        for (const auto crash : {MachineWorld::Crash::kBefore, MachineWorld::Crash::kAfter}) {
          SCOPED_TRACE(fmt::format("{}{}: at persist {}, {}", story.name, undo ? " undone" : "", at,
                                   static_cast<int>(crash)));
          MachineWorld world(base, story.plan);
          Begin(story, world);
          world.set_crash([&](int number, const PersistCommand&) {
            return number == at ? crash : MachineWorld::Crash::kNone;
          });
          ASSERT_TRUE(finish(world)) << world.machine().Progress().held;
          EXPECT_EQ(world.record().stage, undo ? Stage::kRolledBack : Stage::kSucceeded);
          ExpectCleanEnd(*base, world);
        }
      }
    }
  }
}

TEST(FollowerStoryTest, EverySeedComesToACleanEnd) {
  const std::vector<Story> stories = Stories();
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    const Story& story = stories[seed % stories.size()];
    if (story.is_dead) continue;
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, story.name));
    const Membership::Ptr base = CopiedBase(story.shape);
    MachineWorld world(base, story.plan, seed);
    world.set_chances({.lose_report = 100,
                       .repeat_report = 100,
                       .restart_node = 4,
                       .cut_node = 10,
                       .lag_watch = 100,
                       .restart_server = 20,
                       .conflict = 100,
                       .command = 10});
    world.RunUntil([&] { return world.machine().finished(); }, 600);
    world.set_chances({});
    for (const Node& node : base->nodes()) world.SetConnected(node.id, true);
    for (const Node& node : world.record().preview.nodes_added) world.SetConnected(node.id, true);
    ASSERT_TRUE(world.RunUntil([&] {
      world.Command(OperatorCommand::kResume).IgnoreError();
      return world.machine().finished();
    })) << world.machine().Progress().held;
    ExpectCleanEnd(*base, world);
  }
}

// That is what they are for: no key that the dead node had is gone.
TEST(FollowerStoryTest, AFollowerOfTheDeadTakesOverWithItsCopy) {
  for (const PlacementKind placement : {PlacementKind::kDirectory, PlacementKind::kRing}) {
    const Membership::Ptr base = CopiedBase({placement, 3});
    MachineWorld world(base, PlanOf({RemoveNode{kLeaving, true}}));
    world.SetUp(kLeaving, false);
    for (const PlannedMove& move : world.record().preview.moves) {
      for (const HashRange& range : move.ranges.Ranges()) {
        EXPECT_EQ(move.to, CopiesOf(*base, range.end)[1]) << "the first follower";
      }
    }
    EXPECT_THAT(world.record().preview.warnings,
                Contains(HasSubstr("is taken over by followers with the copies they have")));
    ASSERT_TRUE(world.RunToStage(Stage::kFencing));
    ASSERT_TRUE(world.RunUntil([&] { return !world.record().evidence.empty(); }));
    int prepares = 0;
    for (const auto& [node, tasks] : world.tasks()) {
      const auto prepare = world.TaskOf<PrepareTask>(node);
      if (!prepare.has_value()) continue;
      ++prepares;
      EXPECT_EQ(prepare->mode, PrepareTask::Mode::kPurge);
      HashRangeSet ranges;
      for (const PrepareTask::Donor& donor : prepare->donors) {
        ranges = ranges.Union(donor.source.ranges);
      }
      EXPECT_EQ(prepare->kept, ranges) << "nothing is dropped by who keeps followers' copies";
    }
    EXPECT_GT(prepares, 1);
    ASSERT_TRUE(world.RunToEnd());
    EXPECT_EQ(world.record().stage, Stage::kSucceeded);
    ExpectCleanEnd(*base, world);
  }
}

}  // namespace
}  // namespace warmring
