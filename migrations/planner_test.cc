#include "migrations/planner.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/placement/allocator.h"
#include "core/placement/preference.h"

// What an operator sees before anything happens, and what is refused with which words.

namespace warmring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Node MakeNode(int number, uint32_t weight_milli = 1000) {
  Node node;
  node.id = fmt::format("cache-{:02}", number);
  node.address = fmt::format("10.0.0.{}:6379", number + 1);
  node.weight_milli = weight_milli;
  return node;
}

KeyspaceSpec Spec(PlacementKind placement) {
  KeyspaceSpec spec;
  spec.id = "sessions";
  spec.placement = placement;
  spec.directory_bits = 12;
  return spec;
}

Membership::Ptr Make(const KeyspaceSpec& spec, int nodes, std::vector<Move> moves = {}) {
  MembershipData data;
  data.version = Version(41);
  data.spec = spec;
  for (int i = 0; i < nodes; ++i) data.nodes.push_back(MakeNode(i));
  data.ranges = InitialRanges(spec, data.nodes, Epoch(3));
  data.followers = *PreferenceLists(spec, data.nodes, data.ranges);
  data.moves = std::move(moves);
  absl::StatusOr<Membership::Ptr> made = Membership::Create(std::move(data));
  EXPECT_TRUE(made.ok()) << made.status();
  return made.value();
}

MigrationPlan AddPlan(const Node& node) {
  MigrationPlan plan;
  plan.keyspace = "sessions";
  plan.changes = {AddNode{node}};
  return plan;
}

MigrationPlan RemovePlan(std::vector<NodeId> ids) {
  MigrationPlan plan;
  plan.keyspace = "sessions";
  for (NodeId& id : ids) plan.changes.push_back(RemoveNode{std::move(id)});
  return plan;
}

std::map<NodeId, NodeFact> Facts(int nodes) {
  std::map<NodeId, NodeFact> facts;
  for (int i = 0; i < nodes; ++i) facts[MakeNode(i).id] = {true, 1000, 50'000, 10};
  return facts;
}

HashRangeSet AllRanges(const Preview& preview) {
  HashRangeSet all;
  for (const PlannedMove& move : preview.moves) all = all.Union(move.ranges);
  return all;
}

// Share of what moves that the first `waves` waves commit.
double Committed(const Preview& preview, uint32_t waves) {
  double share = 0;
  for (const PlannedMove& move : preview.moves) {
    if (move.wave < waves) share += move.ranges.Share();
  }
  return share / preview.moved_share;
}

void ExpectSound(const Preview& preview, const Membership& base) {
  HashRangeSet seen;
  uint32_t wave = 0;
  for (size_t i = 0; i < preview.moves.size(); ++i) {
    const PlannedMove& move = preview.moves[i];
    EXPECT_TRUE(base.OwnedBy(move.from).Includes(move.ranges));
    EXPECT_FALSE(seen.Intersects(move.ranges));
    seen = seen.Union(move.ranges);
    EXPECT_LE(move.wave, wave + 1) << "waves have no gap";
    wave = move.wave;
    if (i > 0) {
      const PlannedMove& before = preview.moves[i - 1];
      EXPECT_LT(std::tie(before.wave, before.from, before.to),
                std::tie(move.wave, move.from, move.to));
    }
  }
  EXPECT_EQ(preview.waves, wave + 1);
}

TEST(PlannerTest, AddOnADirectory) {
  const Membership::Ptr base = Make(Spec(PlacementKind::kDirectory), 4);
  const absl::StatusOr<Preview> preview = Plan(*base, AddPlan(MakeNode(4)), Facts(5));
  ASSERT_TRUE(preview.ok()) << preview.status();
  ExpectSound(*preview, *base);
  EXPECT_EQ(preview->keyspace, "sessions");
  EXPECT_EQ(preview->base_version, Version(41));
  EXPECT_EQ(preview->waves, 3u);
  EXPECT_EQ(preview->moves.size(), 12u);
  EXPECT_THAT(preview->nodes_added, ElementsAre(MakeNode(4)));
  EXPECT_TRUE(preview->splits.empty());
  EXPECT_NEAR(preview->moved_share, 0.2, 1.0 / 4096);
  EXPECT_DOUBLE_EQ(preview->ideal_share, 0.2);
  EXPECT_DOUBLE_EQ(preview->modulo_share, 0.8);
  EXPECT_DOUBLE_EQ(preview->max_over_mean_before, 1.0);
  EXPECT_NEAR(preview->max_over_mean_after, 1.0, 0.002);
  EXPECT_LE(Committed(*preview, 1), 0.1);
  EXPECT_GT(Committed(*preview, 1), 0.095);
  EXPECT_LE(Committed(*preview, 2), 0.5);
  EXPECT_GT(Committed(*preview, 2), 0.495);
  ASSERT_EQ(preview->shares.size(), 5u);
  EXPECT_EQ(preview->shares[0].node, "cache-00");
  EXPECT_DOUBLE_EQ(preview->shares[0].before, 0.25);
  EXPECT_NEAR(preview->shares[0].after, 0.2, 1.0 / 4096);
  EXPECT_DOUBLE_EQ(preview->shares[0].ideal_after, 0.2);
  EXPECT_NEAR(static_cast<double>(preview->shares[0].keys_out), 200, 1);
  EXPECT_NEAR(static_cast<double>(preview->keys_moved), 800, 4);
  EXPECT_NEAR(static_cast<double>(preview->bytes_moved), 40'000, 100);
  EXPECT_TRUE(preview->warnings.empty());
}

TEST(PlannerTest, EveryMoveIsSpreadOverTheWaves) {
  const Membership::Ptr base = Make(Spec(PlacementKind::kDirectory), 4);
  const Preview preview = *Plan(*base, AddPlan(MakeNode(4)), Facts(5));
  for (int donor = 0; donor < 4; ++donor) {
    for (uint32_t wave = 0; wave < 3; ++wave) {
      EXPECT_EQ(std::count_if(preview.moves.begin(), preview.moves.end(),
                              [&](const PlannedMove& move) {
                                return move.wave == wave && move.from == MakeNode(donor).id;
                              }),
                1);
    }
  }
}

TEST(PlannerTest, AddOnARingInsertsBoundaries) {
  const Membership::Ptr base = Make(Spec(PlacementKind::kRing), 3);
  const absl::StatusOr<Preview> preview = Plan(*base, AddPlan(MakeNode(3)), Facts(4));
  ASSERT_TRUE(preview.ok()) << preview.status();
  ExpectSound(*preview, *base);
  EXPECT_EQ(preview->splits.size(), 160u);
  EXPECT_EQ(preview->waves, 3u);
  EXPECT_LE(Committed(*preview, 1), 0.1);
  EXPECT_GT(Committed(*preview, 1), 0.05);
  EXPECT_LE(Committed(*preview, 2), 0.5);
  EXPECT_GT(preview->moved_share, 0.15);
  EXPECT_LT(preview->moved_share, 0.35);
  EXPECT_DOUBLE_EQ(preview->ideal_share, 0.25);
}

TEST(PlannerTest, RemoveMovesWhatTheNodeOwns) {
  for (const PlacementKind placement : {PlacementKind::kDirectory, PlacementKind::kRing}) {
    const Membership::Ptr base = Make(Spec(placement), 5);
    const absl::StatusOr<Preview> preview = Plan(*base, RemovePlan({"cache-02"}), Facts(5));
    ASSERT_TRUE(preview.ok()) << preview.status();
    ExpectSound(*preview, *base);
    EXPECT_EQ(AllRanges(*preview), base->OwnedBy("cache-02"));
    EXPECT_THAT(preview->nodes_removed, ElementsAre("cache-02"));
    EXPECT_DOUBLE_EQ(preview->shares[2].after, 0);
    EXPECT_EQ(preview->shares[2].keys_out, 1000u);
    EXPECT_EQ(preview->keys_moved, 1000u);
    EXPECT_NEAR(preview->ideal_share, 0.2, 1e-12);
    EXPECT_DOUBLE_EQ(preview->modulo_share, 0.8);
  }
}

TEST(PlannerTest, SeveralChangesAtOnce) {
  const Membership::Ptr base = Make(Spec(PlacementKind::kDirectory), 4);
  MigrationPlan plan = AddPlan(MakeNode(7, 2000));
  plan.changes.push_back(RemoveNode{"cache-01"});
  plan.changes.push_back(AddNode{MakeNode(6)});
  const absl::StatusOr<Preview> preview = Plan(*base, plan, Facts(8));
  ASSERT_TRUE(preview.ok()) << preview.status();
  ExpectSound(*preview, *base);
  EXPECT_THAT(preview->nodes_added, ElementsAre(MakeNode(6), MakeNode(7, 2000)));
  for (const NodeShare& share : preview->shares) {
    EXPECT_NEAR(share.after, share.ideal_after, 2.0 / 4096) << share.node;
  }
  EXPECT_NEAR(preview->ideal_share, 0.5, 1e-12);
}

// Two ranges are enough for two waves: the first is never everything.
TEST(PlannerTest, TheFirstWaveIsNeverAll) {
  KeyspaceSpec spec = Spec(PlacementKind::kRing);
  spec.tokens_per_node = 1;
  const Membership::Ptr base = Make(spec, 2);
  MigrationPlan plan = AddPlan(MakeNode(2, 2000));
  plan.strategy.commit_steps_ppm = {990'000, 1'000'000};
  const absl::StatusOr<Preview> preview = Plan(*base, plan, Facts(3));
  ASSERT_TRUE(preview.ok()) << preview.status();
  EXPECT_EQ(preview->splits.size(), 2u);
  EXPECT_EQ(preview->waves, 2u);
}

TEST(PlannerTest, OneStepIsOneWave) {
  const Membership::Ptr base = Make(Spec(PlacementKind::kDirectory), 4);
  MigrationPlan plan = AddPlan(MakeNode(4));
  plan.strategy.commit_steps_ppm = {1'000'000};
  EXPECT_EQ(Plan(*base, plan, Facts(5))->waves, 1u);
}

TEST(PlannerTest, AWaveHasABoundedNumberOfRanges) {
  KeyspaceSpec spec = Spec(PlacementKind::kDirectory);
  spec.directory_bits = 16;
  const Membership::Ptr base = Make(spec, 1);
  MigrationPlan plan = AddPlan(MakeNode(1));
  plan.strategy.commit_steps_ppm = {1'000'000};
  const absl::StatusOr<Preview> preview = Plan(*base, plan, Facts(2));
  ASSERT_TRUE(preview.ok()) << preview.status();
  EXPECT_EQ(preview->waves, 4u) << "32,768 buckets, at most 8,192 at once";
  for (const PlannedMove& move : preview->moves) {
    EXPECT_LE(move.ranges.Ranges().size(), 8192u);
  }
}

TEST(PlannerTest, TheSameInputsGiveTheSamePreview) {
  const Membership::Ptr base = Make(Spec(PlacementKind::kRing), 6);
  MigrationPlan plan = AddPlan(MakeNode(8));
  plan.changes.push_back(AddNode{MakeNode(7)});
  plan.changes.push_back(RemoveNode{"cache-03"});
  const Preview preview = *Plan(*base, plan, Facts(9));
  std::reverse(plan.changes.begin(), plan.changes.end());
  EXPECT_EQ(*Plan(*base, plan, Facts(9)), preview);
}

TEST(PlannerTest, WarnsOfWhatItWillWaitFor) {
  const Membership::Ptr base = Make(Spec(PlacementKind::kDirectory), 2);
  std::map<NodeId, NodeFact> facts = Facts(1);
  facts["cache-00"].rdb_version = 0;
  const absl::StatusOr<Preview> preview = Plan(*base, AddPlan(MakeNode(5)), facts);
  ASSERT_TRUE(preview.ok()) << preview.status();
  EXPECT_THAT(
      preview->warnings,
      ElementsAre("cache-01 has no session now: start its agent, the migration waits up to 45m",
                  "cache-05 has no session yet: start its agent, the migration waits up to 45m",
                  HasSubstr("RDB version unknown: cache-00: ")));
}

void ExpectError(const absl::StatusOr<Preview>& preview, absl::StatusCode code,
                 const testing::Matcher<std::string>& message) {
  ASSERT_FALSE(preview.ok());
  EXPECT_EQ(preview.status().code(), code);
  EXPECT_THAT(std::string(preview.status().message()), message);
}

TEST(PlannerTest, RefusesMalformedPlans) {
  const Membership::Ptr base = Make(Spec(PlacementKind::kDirectory), 2);
  MigrationPlan plan = AddPlan(MakeNode(5));
  plan.changes.clear();
  ExpectError(Plan(*base, plan, {}), absl::StatusCode::kInvalidArgument,
              HasSubstr("changes: it is empty"));
  plan = AddPlan(MakeNode(5));
  plan.keyspace = "other";
  ExpectError(Plan(*base, plan, {}), absl::StatusCode::kInvalidArgument,
              HasSubstr("keyspace: 'other'"));
}

TEST(PlannerTest, RefusesUnknownAndKnownNodes) {
  const Membership::Ptr base = Make(Spec(PlacementKind::kDirectory), 2);
  ExpectError(Plan(*base, AddPlan(MakeNode(1)), {}), absl::StatusCode::kInvalidArgument,
              "changes[0].add.node.id: 'cache-01' is already a node of keyspace 'sessions': choose "
              "another id");
  ExpectError(Plan(*base, RemovePlan({"cache-00", "cache-09"}), {}),
              absl::StatusCode::kInvalidArgument,
              "changes[1].remove.node: 'cache-09' is not a node of keyspace 'sessions'");
  ExpectError(Plan(*base, RemovePlan({"cache-00", "cache-01"}), {}),
              absl::StatusCode::kInvalidArgument, HasSubstr("they remove the last node"));
}

TEST(PlannerTest, RefusesTwoNodesOnOneServer) {
  const Membership::Ptr base = Make(Spec(PlacementKind::kDirectory), 2);
  Node node = MakeNode(5);
  node.address = MakeNode(1).address;
  ExpectError(Plan(*base, AddPlan(node), {}), absl::StatusCode::kInvalidArgument,
              "changes[0].add.node.address: '10.0.0.2:6379' is the address of 'cache-01': one "
              "server cannot be two nodes");
  MigrationPlan plan = AddPlan(MakeNode(5));
  Node twin = MakeNode(6);
  twin.address = MakeNode(5).address;
  plan.changes.push_back(AddNode{twin});
  ExpectError(Plan(*base, plan, {}), absl::StatusCode::kInvalidArgument,
              HasSubstr("'cache-05' and 'cache-06' have the same address"));
}

TEST(PlannerTest, RefusesTwoNodesWithTheSameTokens) {
  Node node = MakeNode(5);
  node.hash_name = "cache-01";
  const Membership::Ptr ring = Make(Spec(PlacementKind::kRing), 2);
  ExpectError(Plan(*ring, AddPlan(node), {}), absl::StatusCode::kInvalidArgument,
              HasSubstr("'cache-01' and 'cache-05' would have the same tokens"));
  MigrationPlan heir = AddPlan(node);
  heir.changes.push_back(RemoveNode{"cache-01"});
  EXPECT_TRUE(Plan(*ring, heir, {}).ok());
  EXPECT_TRUE(Plan(*Make(Spec(PlacementKind::kDirectory), 2), AddPlan(node), {}).ok());
}

TEST(PlannerTest, RefusesAPlanThatMovesNothing) {
  MembershipData data = Make(Spec(PlacementKind::kDirectory), 2)->data();
  for (Node& node : data.nodes) node.weight_milli = 1'000'000;
  const Membership::Ptr base = *Membership::Create(data);
  ExpectError(Plan(*base, AddPlan(MakeNode(5, 10)), {}), absl::StatusCode::kInvalidArgument,
              HasSubstr("nothing would move"));
}

TEST(PlannerTest, RefusesReplicas) {
  KeyspaceSpec spec = Spec(PlacementKind::kDirectory);
  spec.replication = 3;
  ExpectError(Plan(*Make(spec, 4), AddPlan(MakeNode(5)), {}), absl::StatusCode::kFailedPrecondition,
              AllOf(HasSubstr("replication 3"), HasSubstr("use a keyspace with replication 1")));
}

TEST(PlannerTest, RefusesAStaleBase) {
  const Membership::Ptr base = Make(Spec(PlacementKind::kDirectory), 2);
  MigrationPlan plan = AddPlan(MakeNode(5));
  plan.base_version = Version(40);
  ExpectError(Plan(*base, plan, {}), absl::StatusCode::kAborted,
              "base_version: the plan is for version 40 and the membership is at 41: plan again");
  plan.base_version = Version(41);
  EXPECT_TRUE(Plan(*base, plan, {}).ok());
}

TEST(PlannerTest, RefusesASecondMigration) {
  const Membership::Ptr base = Make(Spec(PlacementKind::kDirectory), 2);
  Update update;
  update.put_moves = {{"mig-7f3a", 0, "cache-00", "cache-01", MovePhase::kWarming,
                       HashRangeSet({base->OwnedBy("cache-00").Ranges().front()})}};
  const Membership::Ptr moving = *Apply(*base, update);
  ExpectError(
      Plan(*moving, AddPlan(MakeNode(5)), {}), absl::StatusCode::kAborted,
      "migration 'mig-7f3a' is under way in keyspace 'sessions': wait for its end, abort it "
      "or undo it first");
}

TEST(PlannerTest, RefusesValuesThatTheRecipientCannotRead) {
  const Membership::Ptr base = Make(Spec(PlacementKind::kDirectory), 2);
  std::map<NodeId, NodeFact> facts = Facts(6);
  facts["cache-01"].rdb_version = 11;
  ExpectError(Plan(*base, AddPlan(MakeNode(5)), facts), absl::StatusCode::kFailedPrecondition,
              "'cache-01' writes RDB version 11 and 'cache-05' reads up to 10: it would refuse the "
              "copied values; upgrade the server of 'cache-05' first");
  facts["cache-05"].rdb_version = 12;
  EXPECT_TRUE(Plan(*base, AddPlan(MakeNode(5)), facts).ok());
}

TEST(PlannerTest, RefusesTooManyTokens) {
  KeyspaceSpec spec = Spec(PlacementKind::kRing);
  spec.tokens_per_node = 4096;
  MigrationPlan plan = AddPlan(MakeNode(5, 1'000'000));
  plan.changes.push_back(AddNode{MakeNode(6, 1'000'000)});
  plan.changes.push_back(AddNode{MakeNode(7, 1'000'000)});
  ExpectError(Plan(*Make(spec, 2), plan, {}), absl::StatusCode::kInvalidArgument,
              HasSubstr("over the limit of 8388608"));
}

}  // namespace
}  // namespace warmring
