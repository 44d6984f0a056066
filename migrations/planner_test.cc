#include "migrations/planner.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/placement/allocator.h"
#include "core/placement/initial.h"
#include "core/placement/preference.h"

// What an operator sees before anything happens, and what is refused with which words.

namespace warmring {
namespace {

using testing::AllOf;
using testing::Contains;
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

MigrationPlan PlanOf(std::vector<Change> changes) {
  MigrationPlan plan;
  plan.keyspace = "sessions";
  plan.changes = std::move(changes);
  return plan;
}

Membership::Ptr WithPins(const Membership::Ptr& base, std::vector<Pin> pins) {
  MembershipData data = base->data();
  data.pins = std::move(pins);
  return *Membership::Create(std::move(data));
}

NodeId OwnerOf(const Membership& membership, uint32_t bucket) {
  return membership.nodes()[membership.ranges()[bucket].owner].id;
}

// Buckets that `node` owns, the first `count`.
std::vector<uint32_t> BucketsOf(const Membership& membership, const NodeId& node, size_t count) {
  std::vector<uint32_t> buckets;
  for (uint32_t i = 0; i < membership.ranges().size() && buckets.size() < count; ++i) {
    if (OwnerOf(membership, i) == node) buckets.push_back(i);
  }
  return buckets;
}

TEST(PlannerTest, AHeavierNodeTakesAndALighterGives) {
  const Membership::Ptr base = Make(Spec(PlacementKind::kDirectory), 4);
  const absl::StatusOr<Preview> preview =
      Plan(*base, PlanOf({SetWeight{"cache-02", 2000}, SetWeight{"cache-00", 500}}), Facts(4));
  ASSERT_TRUE(preview.ok()) << preview.status();
  ExpectSound(*preview, *base);
  EXPECT_THAT(preview->reweights,
              ElementsAre(Reweight{"cache-00", 1000, 500}, Reweight{"cache-02", 1000, 2000}));
  for (const NodeShare& share : preview->shares) {
    EXPECT_NEAR(share.after, share.ideal_after, 1.0 / 4096) << share.node;
  }
  EXPECT_NEAR(preview->shares[0].ideal_after, 0.5 / 4.5, 1e-12);
  EXPECT_NEAR(preview->moved_share, preview->ideal_share, 2.0 / 4096) << "no more than must";
  EXPECT_NEAR(preview->ideal_share, 2 / 4.5 - 0.25, 1e-12);
  EXPECT_DOUBLE_EQ(preview->max_over_mean_before, 1.0) << "by the weights that were";
  EXPECT_NEAR(preview->max_over_mean_after, 1.0, 0.003) << "by those that are";
  EXPECT_TRUE(preview->nodes_added.empty());
  EXPECT_FALSE(preview->load.has_value());
}

TEST(PlannerTest, AWeightThatMovesNothingIsStillAChange) {
  const Membership::Ptr base = Make(Spec(PlacementKind::kDirectory), 1);
  const absl::StatusOr<Preview> preview =
      Plan(*base, PlanOf({SetWeight{"cache-00", 2000}}), Facts(1));
  ASSERT_TRUE(preview.ok()) << preview.status();
  EXPECT_EQ(preview->waves, 0u);
  EXPECT_THAT(preview->moves, ElementsAre());
  EXPECT_EQ(preview->reweights.size(), 1u);
}

TEST(PlannerTest, NamedBucketsMoveAndNothingElse) {
  const Membership::Ptr base = Make(Spec(PlacementKind::kDirectory), 4);
  const std::vector<uint32_t> buckets = BucketsOf(*base, "cache-01", 10);
  const absl::StatusOr<Preview> preview =
      Plan(*base, PlanOf({MoveBuckets{buckets, "cache-03"}}), Facts(4));
  ASSERT_TRUE(preview.ok()) << preview.status();
  ExpectSound(*preview, *base);
  std::vector<HashRange> ranges;
  for (const uint32_t bucket : buckets) ranges.push_back(base->RangeAt(bucket));
  EXPECT_EQ(AllRanges(*preview), HashRangeSet(ranges));
  for (const PlannedMove& move : preview->moves) EXPECT_EQ(move.to, "cache-03");
  EXPECT_DOUBLE_EQ(preview->ideal_share, preview->moved_share) << "it is what was asked for";
  EXPECT_NEAR(preview->moved_share, 10.0 / 4096, 1e-12);
  EXPECT_TRUE(preview->pins_put.empty());
}

TEST(PlannerTest, PinsAndUnpinsOfAPlan) {
  const Membership::Ptr bare = Make(Spec(PlacementKind::kDirectory), 4);
  const std::vector<uint32_t> mine = BucketsOf(*bare, "cache-01", 5);
  const Membership::Ptr base =
      WithPins(bare, {{mine[0], "cache-01"}, {mine[1], "cache-01"}, {mine[2], "cache-01"}});
  absl::StatusOr<Preview> preview = Plan(
      *base,
      PlanOf({MoveBuckets{{mine[0], mine[3]}, "cache-03", true},     // pinned anew; pinned
              MoveBuckets{{mine[1]}, "cache-00"}, Unpin{{mine[1]}},  // free where it goes
              MoveBuckets{{mine[2], mine[4]}, "cache-01", true}}),   // as it is; pinned in place
      Facts(4));
  ASSERT_TRUE(preview.ok()) << preview.status();
  ExpectSound(*preview, *base);
  EXPECT_THAT(preview->pins_put, ElementsAre(Pin{mine[0], "cache-03"}, Pin{mine[3], "cache-03"},
                                             Pin{mine[4], "cache-01"}));
  EXPECT_THAT(preview->pins_removed, ElementsAre(mine[1]));
  EXPECT_NEAR(preview->moved_share, 3.0 / 4096, 1e-12);

  preview = Plan(*base, PlanOf({Unpin{{mine[2], mine[0]}}}), Facts(4));
  ASSERT_TRUE(preview.ok()) << preview.status();
  EXPECT_EQ(preview->waves, 0u);
  EXPECT_THAT(preview->pins_removed, ElementsAre(mine[0], mine[2]));
}

TEST(PlannerTest, PinsHoldAgainstEveryKindOfBalance) {
  const Membership::Ptr bare = Make(Spec(PlacementKind::kDirectory), 4);
  std::vector<Pin> pins;
  for (const uint32_t bucket : BucketsOf(*bare, "cache-02", 1000)) {
    pins.push_back({bucket, "cache-02"});
  }
  const Membership::Ptr base = WithPins(bare, pins);
  const HashRangeSet pinned = [&] {
    std::vector<HashRange> ranges;
    for (const Pin& pin : pins) ranges.push_back(base->RangeAt(pin.bucket));
    return HashRangeSet(ranges);
  }();
  std::vector<uint64_t> load(4096, 1);
  for (const Pin& pin : pins) load[pin.bucket] = 50;
  for (const Change& change :
       {Change(AddNode{MakeNode(4)}), Change(RemoveNode{"cache-01"}),
        Change(SetWeight{"cache-02", 100}), Change(Rebalance{Rebalance::By::kLoad, load})}) {
    const absl::StatusOr<Preview> preview = Plan(*base, PlanOf({change}), Facts(5));
    ASSERT_TRUE(preview.ok()) << preview.status();
    ExpectSound(*preview, *base);
    EXPECT_FALSE(AllRanges(*preview).Intersects(pinned)) << change.index();
  }
  const Preview reweighed = *Plan(*base, PlanOf({SetWeight{"cache-02", 100}}), Facts(4));
  EXPECT_THAT(reweighed.warnings, ElementsAre("1000 pinned buckets stay where they are"));
}

TEST(PlannerTest, RebalanceByShareMendsWhatMovesByHandLeft) {
  MembershipData data = Make(Spec(PlacementKind::kDirectory), 4)->data();
  for (uint32_t bucket = 0; bucket < 600; ++bucket) data.ranges[bucket].owner = 0;
  const Membership::Ptr base = *Membership::Create(data);
  const absl::StatusOr<Preview> preview = Plan(*base, PlanOf({Rebalance{}}), Facts(4));
  ASSERT_TRUE(preview.ok()) << preview.status();
  ExpectSound(*preview, *base);
  EXPECT_GT(preview->max_over_mean_before, 1.3);
  EXPECT_DOUBLE_EQ(preview->max_over_mean_after, 1.0);
  EXPECT_DOUBLE_EQ(preview->moved_share, preview->ideal_share);
  EXPECT_FALSE(preview->load.has_value());
}

TEST(PlannerTest, RebalanceByLoadShowsTheLoad) {
  const Membership::Ptr base = Make(Spec(PlacementKind::kDirectory), 4);
  std::vector<uint64_t> load(4096, 10);
  for (const uint32_t bucket : BucketsOf(*base, "cache-03", 100)) load[bucket] = 400;
  const absl::StatusOr<Preview> preview =
      Plan(*base, PlanOf({Rebalance{Rebalance::By::kLoad, load}}), Facts(4));
  ASSERT_TRUE(preview.ok()) << preview.status();
  ExpectSound(*preview, *base);
  ASSERT_TRUE(preview->load.has_value());
  const double total = 3996 * 10 + 100 * 400;
  const double hot = (924 * 10 + 100 * 400) / total;
  EXPECT_NEAR(preview->shares[3].load_before, hot, 1e-12);
  EXPECT_NEAR(preview->load->max_over_mean_before, hot * 4, 1e-9);
  EXPECT_LT(preview->load->max_over_mean_after, 1.011) << "the tolerance";
  EXPECT_NEAR(preview->load->ideal_share, hot - 0.25, 1e-9);
  EXPECT_NEAR(preview->load->moved_share, preview->load->ideal_share, 0.01);
  EXPECT_LT(preview->moved_share, 0.05) << "hot buckets move first";
  double sum = 0;
  for (const NodeShare& share : preview->shares) {
    EXPECT_NEAR(share.load_after, 0.25, 0.0026) << share.node;
    sum += share.load_after;
  }
  EXPECT_NEAR(sum, 1, 1e-9);
}

void ExpectError(const absl::StatusOr<Preview>& preview, absl::StatusCode code,
                 const testing::Matcher<std::string>& message) {
  ASSERT_FALSE(preview.ok());
  EXPECT_EQ(preview.status().code(), code);
  EXPECT_THAT(std::string(preview.status().message()), message);
}

TEST(PlannerTest, AReplacementMovesWhatTheNodeHasAndItsPins) {
  MembershipData data = Make(Spec(PlacementKind::kDirectory), 4)->data();
  data.pins = {{7, data.nodes[data.ranges[7].owner].id}};
  const NodeId old = data.pins[0].node;
  const Membership::Ptr base = *Membership::Create(data);
  MigrationPlan plan = AddPlan(MakeNode(9));
  plan.changes = {ReplaceNode{old, MakeNode(9)}};
  const absl::StatusOr<Preview> preview = Plan(*base, plan, Facts(10));
  ASSERT_TRUE(preview.ok()) << preview.status();
  ExpectSound(*preview, *base);
  EXPECT_EQ(AllRanges(*preview), base->OwnedBy(old));
  for (const PlannedMove& move : preview->moves) EXPECT_EQ(move.to, MakeNode(9).id);
  EXPECT_EQ(preview->pins_put, (std::vector<Pin>{{7, MakeNode(9).id}}));
  EXPECT_TRUE(preview->pins_removed.empty());
  EXPECT_TRUE(preview->nodes_dead.empty());
  EXPECT_EQ(preview->waves, 3u);
}

// A later plan finds its tokens where they are.
TEST(PlannerTest, OnARingAReplacementHasTheNameOfItsTokens) {
  const Membership::Ptr base = Make(Spec(PlacementKind::kRing), 3);
  MigrationPlan plan = AddPlan(MakeNode(9));
  plan.changes = {ReplaceNode{MakeNode(1).id, MakeNode(9)}};
  const absl::StatusOr<Preview> preview = Plan(*base, plan, Facts(10));
  ASSERT_TRUE(preview.ok()) << preview.status();
  EXPECT_EQ(preview->nodes_added[0].hash_name, MakeNode(1).id);
  EXPECT_TRUE(preview->splits.empty());
  Node named = MakeNode(9);
  named.hash_name = "another";
  plan.changes = {ReplaceNode{MakeNode(1).id, named}};
  EXPECT_THAT(std::string(Plan(*base, plan, Facts(10)).status().message()),
              testing::HasSubstr("changes[0].replace.by.hash_name: 'another' has other tokens"));
}

TEST(PlannerTest, AFailoverIsOneWaveAndTakesThePinsAway) {
  MembershipData data = Make(Spec(PlacementKind::kDirectory), 4)->data();
  data.pins = {{7, data.nodes[data.ranges[7].owner].id}};
  const NodeId dead = data.pins[0].node;
  const Membership::Ptr base = *Membership::Create(data);
  MigrationPlan plan = RemovePlan({dead});
  std::get<RemoveNode>(plan.changes[0]).is_dead = true;
  const absl::StatusOr<Preview> preview = Plan(*base, plan, {});
  ASSERT_TRUE(preview.ok()) << preview.status();
  EXPECT_EQ(preview->waves, 1u);
  EXPECT_EQ(AllRanges(*preview), base->OwnedBy(dead));
  EXPECT_EQ(preview->nodes_dead, std::vector<NodeId>{dead});
  EXPECT_EQ(preview->pins_removed, std::vector<uint32_t>{7});
  EXPECT_THAT(preview->warnings,
              testing::Contains(testing::HasSubstr("starts cold, and what " + dead)));
  EXPECT_THAT(preview->warnings,
              testing::Not(testing::Contains(testing::StartsWith(dead + " has no session"))));
  std::get<RemoveNode>(plan.changes[0]).is_dead = false;
  EXPECT_FALSE(Plan(*base, plan, {}).ok()) << "a pin does not go away with a node that is alive";
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

TEST(PlannerTest, RefusesChangesOfADirectoryThatDoNotFit) {
  const Membership::Ptr bare = Make(Spec(PlacementKind::kDirectory), 3);
  const std::vector<uint32_t> mine = BucketsOf(*bare, "cache-01", 9);
  std::vector<Pin> pins;
  for (size_t i = 0; i < 8; ++i) pins.push_back({mine[i], "cache-01"});
  const Membership::Ptr base = WithPins(bare, pins);
  const struct {
    std::vector<Change> changes;
    std::string error;
  } kCases[] = {
      {{SetWeight{"cache-09", 10}}, "changes[0].set_weight.node: 'cache-09' is not a node"},
      {{SetWeight{"cache-00", 1000}}, "set_weight.weight: 1 is the weight of 'cache-00' already"},
      {{MoveBuckets{{4095, 4096}, "cache-00"}},
       "changes[0].move_buckets.buckets[1]: keyspace 'sessions' has no bucket 4096: use 0 to 4095"},
      {{MoveBuckets{{mine[8]}, "cache-09"}},
       "changes[0].move_buckets.to: 'cache-09' is not a node"},
      {{RemoveNode{"cache-00"}, MoveBuckets{{mine[8]}, "cache-00"}},
       "changes[1].move_buckets.to: 'cache-00' is not a node of keyspace 'sessions' after this "
       "plan"},
      {{MoveBuckets{{mine[0]}, "cache-00"}},
       fmt::format(
           "changes[0].move_buckets: bucket {} is pinned to 'cache-01': pin it where it goes",
           mine[0])},
      {{MoveBuckets{{mine[8]}, "cache-01"}}, "nothing would move: the buckets are where"},
      {{MoveBuckets{{mine[0]}, "cache-01", true}}, "nothing would move: the buckets are where"},
      {{Unpin{{mine[8]}}}, fmt::format("unpin.buckets[0]: bucket {} is not pinned", mine[8])},
      {{Unpin{{4096}}}, "changes[0].unpin.buckets[0]: keyspace 'sessions' has no bucket 4096"},
      {{Rebalance{}}, "nothing would move: every node is as close to its target"},
      {{Rebalance{Rebalance::By::kLoad, {1, 2}}},
       "changes[0].rebalance.bucket_load: it has 2 numbers: give one for each of the 4096 buckets"},
      {{Rebalance{Rebalance::By::kLoad, std::vector<uint64_t>(4096, 0)}},
       "changes[0].rebalance.bucket_load: it is 0 everywhere"},
      {{RemoveNode{"cache-01"}},
       fmt::format("changes: 'cache-01' is removed, and buckets {}, {}, {}, {}, {} and 3 more are "
                   "pinned to it: unpin them, or move them with a pin to another node",
                   mine[0], mine[1], mine[2], mine[3], mine[4])},
      {{RemoveNode{"cache-01"},
        Unpin{{mine[0], mine[1], mine[2], mine[3], mine[4], mine[5], mine[6]}}},
       fmt::format("and bucket {} is pinned to it", mine[7])},
  };
  for (const auto& c : kCases) {
    ExpectError(Plan(*base, PlanOf(c.changes), {}), absl::StatusCode::kInvalidArgument,
                HasSubstr(c.error));
  }
  const absl::StatusOr<Preview> removed =
      Plan(*base,
           PlanOf({RemoveNode{"cache-01"},
                   Unpin{{mine[0], mine[1], mine[2], mine[3], mine[4], mine[5], mine[6]}},
                   MoveBuckets{{mine[7]}, "cache-02", true}}),
           {});
  EXPECT_TRUE(removed.ok()) << removed.status();
}

TEST(PlannerTest, RefusesMorePinsThanAVersionHolds) {
  KeyspaceSpec spec = Spec(PlacementKind::kDirectory);
  spec.directory_bits = 13;
  MoveBuckets move{{}, "cache-00", true};
  for (uint32_t bucket = 0; bucket < 4097; ++bucket) move.buckets.push_back(bucket);
  ExpectError(Plan(*Make(spec, 2), PlanOf({move}), {}), absl::StatusCode::kInvalidArgument,
              "changes: they pin 4097 buckets and unpin 0: change at most 4096 pins in one plan");
  move.pin = false;
  EXPECT_TRUE(Plan(*Make(spec, 2), PlanOf({move}), {}).ok());
}

TEST(PlannerTest, ARingHasNoBuckets) {
  const Membership::Ptr base = Make(Spec(PlacementKind::kRing), 3);
  for (const Change& change :
       {Change(SetWeight{"cache-00", 2000}), Change(MoveBuckets{{1}, "cache-00"}),
        Change(Unpin{{1}}), Change(Rebalance{})}) {
    ExpectError(Plan(*base, PlanOf({change}), {}), absl::StatusCode::kInvalidArgument,
                AllOf(HasSubstr("keyspace 'sessions' is a ring"),
                      HasSubstr("use a keyspace with placement directory")));
  }
}

TEST(PlannerTest, RendezvousHasNoHistory) {
  KeyspaceSpec spec = Spec(PlacementKind::kDirectory);
  spec.allocator = Allocator::kRendezvous;
  const Membership::Ptr base = Make(spec, 3);
  const uint32_t bucket = BucketsOf(*base, "cache-01", 1)[0];
  ExpectError(Plan(*base, PlanOf({MoveBuckets{{bucket}, "cache-00"}}), {}),
              absl::StatusCode::kInvalidArgument,
              "changes[0].move_buckets.pin: rendezvous would move the buckets back with the next "
              "plan: pin them");
  ExpectError(
      Plan(*base, PlanOf({Rebalance{Rebalance::By::kLoad, std::vector<uint64_t>(4096, 1)}}), {}),
      absl::StatusCode::kInvalidArgument, HasSubstr("rendezvous decides by names and weights"));
  const absl::StatusOr<Preview> moved =
      Plan(*base, PlanOf({MoveBuckets{{bucket}, "cache-00", true}}), {});
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_EQ(AllRanges(*moved), HashRangeSet({base->RangeAt(bucket)}));
  const absl::StatusOr<Preview> heavier = Plan(*base, PlanOf({SetWeight{"cache-01", 3000}}), {});
  ASSERT_TRUE(heavier.ok()) << heavier.status();
  for (const PlannedMove& move : heavier->moves) EXPECT_EQ(move.to, "cache-01");
  EXPECT_NEAR(heavier->shares[1].after, 0.6, 0.03);
}

TEST(PlannerTest, RefusesOverridesWhereThereAreFollowers) {
  KeyspaceSpec spec = Spec(PlacementKind::kDirectory);
  spec.replication = 3;
  const MigrationPlan plan =
      PlanOf({SetOverride{{OverrideRule::Match::kPrefix, "tenant-"}, {"cache-01"}}});
  ExpectError(Plan(*Make(spec, 4), plan, {}), absl::StatusCode::kFailedPrecondition,
              AllOf(HasSubstr("replication 3"), HasSubstr("use a keyspace with replication 1")));
}

// Nodes 0, 3, 6 in zone z0 and so on; copies in different zones.
Membership::Ptr Zoned(PlacementKind placement, uint32_t replication, int nodes) {
  MembershipData data;
  data.version = Version(41);
  data.spec = Spec(placement);
  data.spec.replication = replication;
  data.spec.domains.level = DomainLevel::kZone;
  for (int i = 0; i < nodes; ++i) {
    data.nodes.push_back(MakeNode(i));
    data.nodes.back().zone = fmt::format("z{}", i % 3);
  }
  InitialPlacement placed = *PlaceInitially(data.spec, data.nodes, Epoch(3));
  data.ranges = std::move(placed.ranges);
  data.followers = std::move(placed.followers);
  return *Membership::Create(std::move(data));
}

// The copies of a point when a plan is done, the owner first.
std::vector<NodeId> CopiesAt(const Membership& base, const Preview& preview, HashPoint at) {
  const size_t range = base.RangeIndexOf(at);
  std::vector<NodeId> ids = {base.nodes()[base.ranges()[range].owner].id};
  for (const NodeIndex node : base.FollowersAt(range)) ids.push_back(base.nodes()[node].id);
  for (const PlannedMove& move : preview.moves) {
    if (move.ranges.Contains(at)) ids[0] = move.to;
  }
  for (const FollowerChange& change : preview.follower_changes) {
    if (!change.ranges.Contains(at)) continue;
    std::copy(change.after.begin(), change.after.end(), ids.begin() + 1);
  }
  return ids;
}

TEST(PlannerTest, ANewNodeGetsItsPartOfEveryRank) {
  const Membership::Ptr base = Zoned(PlacementKind::kDirectory, 3, 8);
  Node node = MakeNode(8);
  node.zone = "z2";
  const absl::StatusOr<Preview> preview = Plan(*base, AddPlan(node), Facts(9));
  ASSERT_TRUE(preview.ok()) << preview.status();
  std::map<NodeId, int> owned;
  std::map<NodeId, int> followed;
  for (const OwnedRange& range : base->ranges()) {
    const std::vector<NodeId> copies = CopiesAt(*base, *preview, range.end);
    ++owned[copies[0]];
    ++followed[copies[1]];
    ++followed[copies[2]];
  }
  for (const auto& [id, count] : owned) EXPECT_NEAR(count, 4096 / 9, 30) << id;
  EXPECT_NEAR(followed[node.id], 4096 * 2 / 9, 60);
  for (const PlannedMove& move : preview->moves) EXPECT_EQ(move.to, node.id);
  EXPECT_THAT(preview->warnings,
              Contains(HasSubstr("gets followers to which the migration copies nothing")));
  // Followers change with the owner of their range, else at the end.
  for (const FollowerChange& change : preview->follower_changes) {
    for (const HashRange& range : change.ranges.Ranges()) {
      uint32_t wave = preview->waves;
      for (const PlannedMove& move : preview->moves) {
        if (move.ranges.Contains(range.end)) wave = move.wave;
      }
      ASSERT_EQ(change.wave, wave);
    }
  }
}

TEST(PlannerTest, AFollowerThatIsToOwnItsBucketChangesPlacesWithTheOwner) {
  const Membership::Ptr base = Zoned(PlacementKind::kDirectory, 3, 6);
  const HashPoint end = base->ranges()[7].end;
  const std::vector<NodeId> was = CopiesAt(*base, {}, end);
  const absl::StatusOr<Preview> preview =
      Plan(*base, PlanOf({MoveBuckets{{7}, was[2], false}}), Facts(6));
  ASSERT_TRUE(preview.ok()) << preview.status();
  EXPECT_THAT(CopiesAt(*base, *preview, end), ElementsAre(was[2], was[1], was[0]));
  EXPECT_EQ(AllRanges(*preview), HashRangeSet({base->RangeAt(7)}));
  ASSERT_EQ(preview->follower_changes.size(), 1u);
  EXPECT_THAT(preview->warnings,
              ElementsAre(HasSubstr("0.0% of hash space gets followers to which")));
}

TEST(PlannerTest, AReplacementTakesTheSeatsOfAFollowerToo) {
  for (const PlacementKind placement : {PlacementKind::kDirectory, PlacementKind::kRing}) {
    const Membership::Ptr base = Zoned(placement, 2, 6);
    Node by = MakeNode(10);
    by.zone = "z1";
    const absl::StatusOr<Preview> preview =
        Plan(*base, PlanOf({ReplaceNode{"cache-01", by, false}}), Facts(6));
    ASSERT_TRUE(preview.ok()) << preview.status();
    for (const OwnedRange& range : base->ranges()) {
      std::vector<NodeId> expected = CopiesAt(*base, {}, range.end);
      std::replace(expected.begin(), expected.end(), NodeId("cache-01"), by.id);
      ASSERT_EQ(CopiesAt(*base, *preview, range.end), expected);
    }
    by.zone = "z0";
    ExpectError(Plan(*base, PlanOf({ReplaceNode{"cache-01", by, false}}), Facts(6)),
                absl::StatusCode::kInvalidArgument,
                AllOf(HasSubstr("two copies in one zone"), HasSubstr("in another zone")));
  }
}

TEST(PlannerTest, KeepsAsManyDomainsAsThereAreCopies) {
  for (const PlacementKind placement : {PlacementKind::kDirectory, PlacementKind::kRing}) {
    const Membership::Ptr base = Zoned(placement, 3, 5);
    ExpectError(Plan(*base, RemovePlan({"cache-02"}), Facts(5)), absl::StatusCode::kInvalidArgument,
                HasSubstr("3 copies need as many zones, and the 4 nodes that there would be"));
    EXPECT_TRUE(Plan(*base, RemovePlan({"cache-01"}), Facts(5)).ok());
  }
}

TEST(PlannerTest, FollowersThatAreTooManyForOneVersionChangeInSeveral) {
  CopiesAfter copies;
  for (uint32_t i = 0; i < 40'000; ++i) {
    copies.followers.push_back({{i * 16, i * 16 + 8}, "a", "a", {i % 2 == 0 ? "b" : "c"}, {"d"}});
  }
  EXPECT_EQ(PlanFollowers(copies, {}, 0, false).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto count = [&](bool at_once) {
    const auto changes = PlanFollowers(copies, {}, 2, at_once);
    EXPECT_TRUE(changes.ok()) << changes.status();
    std::vector<size_t> ranges(3, 0);
    for (const FollowerChange& change : *changes) {
      ranges[change.wave] += change.ranges.Ranges().size();
    }
    return ranges;
  };
  EXPECT_THAT(count(false), ElementsAre(0, 40'000 - 20'480, 20'480));
  EXPECT_THAT(count(true), ElementsAre(20'480, 0, 40'000 - 20'480));
  // An undo has to put back what the waves change, in one version.
  for (uint32_t i = 40'000; i < 41'000; ++i) {
    copies.followers.push_back({{i * 16, i * 16 + 8}, "a", "a", {"b"}, {"d"}});
  }
  EXPECT_THAT(std::string(PlanFollowers(copies, {}, 9, false).status().message()),
              HasSubstr("followers of 41000 ranges would change, which is too much"));
}

TEST(PlannerTest, APlanThatWaitsWhereThereAreFollowersIsOfNow) {
  const Membership::Ptr base = Zoned(PlacementKind::kDirectory, 2, 5);
  Node node = MakeNode(8);
  node.zone = "z2";
  const Preview first = *Plan(*base, AddPlan(node), Facts(5));
  const std::vector<OtherMigration> others = {{"mig-1", &first}};
  const MigrationPlan plan = RemovePlan({"cache-01"});
  EXPECT_EQ(Plan(*base, plan, Facts(5), others).status().code(), absl::StatusCode::kAborted);
  const absl::StatusOr<Preview> later = PlanForLater(*base, plan, Facts(5), others);
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_THAT(later->warnings, Contains(HasSubstr("migration 'mig-1' goes first")));
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

Membership::Ptr WithTenantOn(std::vector<OverrideRange> ranges) {
  MembershipData data = Make(Spec(PlacementKind::kDirectory), 3)->data();
  data.overrides = {{4, {OverrideRule::Match::kPrefix, "tenant:"}, std::move(ranges), Epoch(7)}};
  data.next_plane = 5;
  return *Membership::Create(data);
}

MigrationPlan OverridePlanOf(std::vector<Change> changes) {
  MigrationPlan plan = AddPlan(MakeNode(9));
  plan.changes = std::move(changes);
  return plan;
}

const OverrideRule kTenant = {OverrideRule::Match::kPrefix, "tenant:"};
const OverrideRule kOneKey = {OverrideRule::Match::kKey, "tenant:1"};

TEST(PlannerTest, AnOverrideIsOneWaveOnItsOwnPlane) {
  const Membership::Ptr membership = Make(Spec(PlacementKind::kDirectory), 3);
  const auto preview =
      Plan(*membership, OverridePlanOf({SetOverride{kTenant, {"cache-02"}}}), Facts(3));
  ASSERT_TRUE(preview.ok()) << preview.status();
  EXPECT_EQ(preview->waves, 1u);
  ASSERT_EQ(preview->moves.size(), 2u) << "from each node but the one that gets them";
  for (const PlannedMove& move : preview->moves) {
    EXPECT_EQ(move.to, "cache-02");
    EXPECT_EQ(move.ranges, membership->OwnedBy(move.from).CarriedTo(1));
  }
  EXPECT_EQ(preview->moved_share, 0.0) << "nothing of the common plane";
  EXPECT_EQ(preview->max_over_mean_before, preview->max_over_mean_after);
  ASSERT_EQ(preview->overrides.size(), 1u);
  EXPECT_TRUE(preview->overrides[0].is_new);
  EXPECT_EQ(preview->overrides[0].plane, 1u);
  EXPECT_THAT(preview->overrides[0].after, ElementsAre(PutOverride::Range{UINT64_MAX, "cache-02"}));
}

TEST(PlannerTest, AnOverrideThatIsThereChangesOnlyWhatDiffers) {
  const Membership::Ptr membership = WithTenantOn({{(uint64_t{1} << 63) - 1, 0}, {UINT64_MAX, 1}});
  const auto preview =
      Plan(*membership, OverridePlanOf({SetOverride{kTenant, {"cache-00", "cache-02"}}}), Facts(3));
  ASSERT_TRUE(preview.ok()) << preview.status();
  ASSERT_EQ(preview->moves.size(), 1u);
  EXPECT_EQ(preview->moves[0].from, "cache-01");
  EXPECT_EQ(preview->moves[0].to, "cache-02");
  EXPECT_EQ(preview->moves[0].ranges,
            HashRangeSet({HashRange{(uint64_t{1} << 63) - 1, UINT64_MAX, 4}}));
  EXPECT_FALSE(preview->overrides[0].is_new);
}

TEST(PlannerTest, AnOverrideThatEndsGivesItsKeysBack) {
  const Membership::Ptr membership = WithTenantOn({{UINT64_MAX, 1}});
  const auto preview = Plan(*membership, OverridePlanOf({RemoveOverride{kTenant}}), Facts(3));
  ASSERT_TRUE(preview.ok()) << preview.status();
  ASSERT_EQ(preview->moves.size(), 2u);
  for (const PlannedMove& move : preview->moves) {
    EXPECT_EQ(move.from, "cache-01");
    EXPECT_EQ(move.ranges,
              membership->OwnedOn(kCommonPlane, *membership->FindNode(move.to)).CarriedTo(4));
  }
  EXPECT_TRUE(preview->overrides[0].is_removed);
}

TEST(PlannerTest, RefusesOverridesThatDoNotFit) {
  const Membership::Ptr membership = WithTenantOn({{UINT64_MAX, 1}});
  const auto refusal = [&](std::vector<Change> changes) {
    const auto preview = Plan(*membership, OverridePlanOf(std::move(changes)), Facts(3));
    return preview.ok() ? std::string("planned") : std::string(preview.status().message());
  };
  EXPECT_THAT(
      refusal({SetOverride{kOneKey, {"cache-07"}}}),
      AllOf(HasSubstr("changes[0].set_override.nodes[0]"), HasSubstr("'cache-07' is not a node")));
  EXPECT_THAT(refusal({SetOverride{kOneKey, {}}}), HasSubstr("0 nodes: name 1 to 1024"));
  EXPECT_THAT(refusal({SetOverride{kOneKey, {"cache-00", "cache-00"}}}),
              HasSubstr("nodes[1]: 'cache-00' is named twice"));
  EXPECT_THAT(refusal({SetOverride{{OverrideRule::Match::kPrefix, ""}, {"cache-00"}}}),
              HasSubstr("changes[0].set_override.rule: it is empty"));
  EXPECT_THAT(refusal({SetOverride{kTenant, {"cache-01"}}}), HasSubstr("nothing would move"));
  EXPECT_THAT(refusal({RemoveOverride{kOneKey}}), HasSubstr("has no override for key 'tenant:1'"));
  EXPECT_THAT(
      refusal({SetOverride{kTenant, {"cache-00"}}, RemoveOverride{kTenant}}),
      HasSubstr("changes[1].remove_override.rule: prefix 'tenant:' is named by an earlier"));
  EXPECT_THAT(refusal({SetOverride{kTenant, {"cache-00"}}, AddNode{MakeNode(3)}}),
              HasSubstr("changes[1]: overrides change in a plan of their own"));
  EXPECT_THAT(refusal({RemoveNode{"cache-01"}}),
              HasSubstr("'cache-01' has keys of the override for prefix 'tenant:'"));
  EXPECT_EQ(refusal({RemoveNode{"cache-02"}}), "planned");

  MembershipData hashed = membership->data();
  hashed.overrides[0].ranges.clear();
  const auto preview =
      Plan(**Membership::Create(hashed), OverridePlanOf({RemoveOverride{kTenant}}), {});
  ASSERT_TRUE(preview.ok()) << preview.status();
  EXPECT_TRUE(preview->moves.empty());
  EXPECT_EQ(preview->waves, 0u);
}

TEST(PlannerTest, OverridesAreCounted) {
  MembershipData data = Make(Spec(PlacementKind::kDirectory), 3)->data();
  for (Plane plane = 1; plane <= OverrideTable::kMaxRules; ++plane) {
    data.overrides.push_back(
        {plane, {OverrideRule::Match::kKey, std::to_string(plane)}, {{UINT64_MAX, 0}}, Epoch(7)});
  }
  data.next_plane = OverrideTable::kMaxRules + 1;
  const auto preview =
      Plan(**Membership::Create(data), OverridePlanOf({SetOverride{kTenant, {"cache-00"}}}), {});
  EXPECT_THAT(std::string(preview.status().message()), HasSubstr("4097 overrides"));
}

}  // namespace
}  // namespace warmring
