#include "core/placement/deliberate_ring.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/membership/update.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

Node MakeNode(size_t i, uint32_t weight_milli = 1000) {
  Node node;
  node.id = "n" + std::to_string(1000 + i);
  node.address = node.id + ":1";
  node.weight_milli = weight_milli;
  return node;
}

Membership::Ptr Create(MembershipData data) {
  absl::StatusOr<Membership::Ptr> made = Membership::Create(std::move(data));
  EXPECT_TRUE(made.ok()) << made.status();
  return made.value();
}

Membership::Ptr MakeRing(uint32_t tokens, const std::vector<Node>& nodes) {
  MembershipData data;
  data.version = Version(1);
  data.spec.id = "ring";
  data.spec.placement = PlacementKind::kRing;
  data.spec.allocator = Allocator::kDeliberate;
  data.spec.tokens_per_node = tokens;
  data.nodes = nodes;
  data.ranges = InitialRanges(data.spec, nodes, Epoch(1));
  return Create(std::move(data));
}

Membership::Ptr Follow(const Membership& base, const Reallocation& reallocation,
                       const std::vector<Node>& added, const std::vector<NodeId>& removed) {
  Update update;
  update.put_nodes = added;
  update.split_at = reallocation.splits;
  const Epoch epoch(base.version().value + 1);
  for (const RangeMove& move : reallocation.moves) {
    update.assignments.push_back({move.ranges, move.to, epoch});
  }
  update.remove_nodes = removed;
  absl::StatusOr<Membership::Ptr> next = Apply(base, update);
  EXPECT_TRUE(next.ok()) << next.status();
  return next.value();
}

std::map<NodeId, double> RelativeLoads(const Membership& membership) {
  double weights = 0;
  for (const Node& node : membership.nodes()) weights += node.weight_milli;
  std::map<NodeId, double> loads;
  for (const Node& node : membership.nodes()) {
    loads[node.id] = membership.OwnedBy(node.id).Share() * weights / node.weight_milli;
  }
  return loads;
}

double MaxOverMean(const Membership& membership) {
  double most = 0;
  for (const auto& [id, load] : RelativeLoads(membership)) most = std::max(most, load);
  return most;
}

double Moved(const Reallocation& reallocation) {
  double moved = 0;
  for (const RangeMove& move : reallocation.moves) moved += move.ranges.Share();
  return moved;
}

size_t ArcsGained(const Reallocation& reallocation, const NodeId& id) {
  size_t arcs = 0;
  for (const RangeMove& move : reallocation.moves) {
    if (move.to == id) arcs += move.ranges.Ranges().size();
  }
  return arcs;
}

std::vector<Node> Nodes(size_t count) {
  std::vector<Node> nodes;
  for (size_t i = 0; i < count; ++i) nodes.push_back(MakeNode(i));
  return nodes;
}

TEST(DeliberateRingTest, ANewRingIsExact) {
  const Membership::Ptr ring = MakeRing(4, {MakeNode(0), MakeNode(1), MakeNode(2, 2000)});
  // 4, 4 and 8 arcs; shares of a quarter, a quarter and a half.
  EXPECT_EQ(ring->ranges().size(), 16u);
  EXPECT_EQ(ring->OwnedBy("n1000").Measure(), HashMeasure{1} << 62);
  EXPECT_EQ(ring->OwnedBy("n1001").Measure(), HashMeasure{1} << 62);
  EXPECT_EQ(ring->OwnedBy("n1002").Measure(), HashMeasure{1} << 63);
}

TEST(DeliberateRingTest, AJoinCutsOnePieceOffTheFullestNodeEachTime) {
  // One node with one arc, the whole space; the other takes the first half of it in one piece.
  const Membership::Ptr one = MakeRing(1, {MakeNode(0)});
  const std::vector<Node> joins = {MakeNode(1)};
  const Reallocation reallocation = Reallocate(*one, joins, {});
  ASSERT_EQ(reallocation.moves.size(), 1u);
  EXPECT_EQ(reallocation.moves[0].from, "n1000");
  EXPECT_EQ(reallocation.moves[0].to, "n1001");
  const HashRange half = {UINT64_MAX, (uint64_t{1} << 63) - 1};
  EXPECT_EQ(reallocation.moves[0].ranges, HashRangeSet({half}));
  EXPECT_EQ(reallocation.splits, std::vector<HashPoint>{half.end});
}

// One by one to a hundred: what moves is the newcomer's share, in at most V arcs, and balance
// stays.
TEST(DeliberateRingTest, JoinsMoveTheShareInFewArcsAndKeepTheBalance) {
  for (const uint32_t tokens : {4u, 16u, 64u}) {
    Membership::Ptr ring = MakeRing(tokens, {MakeNode(0)});
    double worst = 0;
    for (size_t i = 1; i < 100; ++i) {
      const std::vector<Node> joins = {MakeNode(i)};
      const Reallocation reallocation = Reallocate(*ring, joins, {});
      EXPECT_LE(ArcsGained(reallocation, joins[0].id), tokens);
      EXPECT_NEAR(Moved(reallocation), 1.0 / static_cast<double>(i + 1), 1e-9) << i;
      for (const RangeMove& move : reallocation.moves) EXPECT_EQ(move.to, joins[0].id);
      ring = Follow(*ring, reallocation, joins, {});
      worst = std::max(worst, MaxOverMean(*ring));
    }
    EXPECT_LE(worst, 1 + 2.0 / tokens) << tokens;
    RecordProperty("worst_" + std::to_string(tokens), std::to_string(worst));
  }
}

TEST(DeliberateRingTest, ARemovalReOwnsAndDoesNotPileUp) {
  Membership::Ptr ring = MakeRing(16, Nodes(20));
  std::mt19937_64 random(7);
  for (int i = 0; i < 10; ++i) {
    const NodeId leaves = ring->nodes()[random() % ring->nodes().size()].id;
    const double share = ring->OwnedBy(leaves).Share();
    const Reallocation reallocation = Reallocate(*ring, {}, {leaves});
    EXPECT_TRUE(reallocation.splits.empty()) << "arcs change owner whole";
    EXPECT_NEAR(Moved(reallocation), share, 1e-12);
    for (const RangeMove& move : reallocation.moves) EXPECT_EQ(move.from, leaves);
    ring = Follow(*ring, reallocation, {}, {leaves});
    // Whole arcs of a sixteenth of a share each.
    EXPECT_LE(MaxOverMean(*ring), 1.13) << i;
  }
}

TEST(DeliberateRingTest, WeightsAreHonoured) {
  Membership::Ptr ring = MakeRing(16, {MakeNode(0, 1000), MakeNode(1, 3000)});
  const std::vector<Node> joins = {MakeNode(2, 500), MakeNode(3, 2500)};
  const Reallocation reallocation = Reallocate(*ring, joins, {});
  ring = Follow(*ring, reallocation, joins, {});
  EXPECT_NEAR(ring->OwnedBy("n1002").Share(), 0.5 / 7, 1e-9);
  EXPECT_NEAR(ring->OwnedBy("n1003").Share(), 2.5 / 7, 1e-9);
  for (const auto& [id, load] : RelativeLoads(*ring)) EXPECT_NEAR(load, 1, 2.0 / 16) << id;
}

TEST(DeliberateRingTest, AllNodesMayBeReplacedAtOnce) {
  Membership::Ptr ring = MakeRing(8, Nodes(3));
  const std::vector<Node> joins = {MakeNode(10), MakeNode(11)};
  const std::vector<NodeId> leaves = {"n1000", "n1001", "n1002"};
  const Reallocation reallocation = Reallocate(*ring, joins, leaves);
  EXPECT_NEAR(Moved(reallocation), 1, 1e-12);
  ring = Follow(*ring, reallocation, joins, leaves);
  EXPECT_LE(MaxOverMean(*ring), 1.01);
}

TEST(DeliberateRingTest, OrderOfInputsDoesNotMatter) {
  const Membership::Ptr ring = MakeRing(16, Nodes(7));
  std::vector<Node> joins = {MakeNode(20), MakeNode(21, 2000), MakeNode(22)};
  const Reallocation first = Reallocate(*ring, joins, {"n1002", "n1005"});
  std::reverse(joins.begin(), joins.end());
  EXPECT_EQ(Reallocate(*ring, joins, {"n1005", "n1002"}), first);
}

TEST(DeliberateRingTest, AThousandNodes) {
  const Membership::Ptr ring = MakeRing(256, Nodes(1000));
  EXPECT_EQ(ring->ranges().size(), 256'000u);
  const std::vector<Node> joins = {MakeNode(5000)};
  const Reallocation reallocation = Reallocate(*ring, joins, {});
  EXPECT_NEAR(Moved(reallocation), 1.0 / 1001, 1e-9);
  EXPECT_LE(ArcsGained(reallocation, joins[0].id), 256u);
}

}  // namespace
}  // namespace warmring
