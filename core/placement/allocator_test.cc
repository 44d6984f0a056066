#include "core/placement/allocator.h"

#include <algorithm>
#include <map>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/hashing/key_hash.h"

// Who gets which range when nodes come and go: each gets its share, no more moves than must, and
// the answer depends on nothing but the inputs.

namespace warmring {
namespace {

Node MakeNode(int number, uint32_t weight_milli = 1000) {
  Node node;
  node.id = fmt::format("cache-{:04}", number);
  node.address = fmt::format("10.0.{}.{}:6379", number / 250, number % 250 + 1);
  node.weight_milli = weight_milli;
  return node;
}

std::vector<Node> MakeNodes(int count, int first = 0) {
  std::vector<Node> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back(MakeNode(first + i));
  return nodes;
}

KeyspaceSpec Directory(uint32_t bits) {
  KeyspaceSpec spec;
  spec.id = "sessions";
  spec.placement = PlacementKind::kDirectory;
  spec.directory_bits = bits;
  return spec;
}

KeyspaceSpec Ring(uint32_t tokens) {
  KeyspaceSpec spec;
  spec.id = "sessions";
  spec.placement = PlacementKind::kRing;
  spec.tokens_per_node = tokens;
  return spec;
}

Membership::Ptr Make(const KeyspaceSpec& spec, std::vector<Node> nodes) {
  MembershipData data;
  data.version = Version(1);
  data.spec = spec;
  data.ranges = InitialRanges(spec, nodes, Epoch(1));
  std::sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) { return a.id < b.id; });
  data.nodes = std::move(nodes);
  absl::StatusOr<Membership::Ptr> made = Membership::Create(std::move(data));
  EXPECT_TRUE(made.ok()) << made.status();
  return made.value();
}

// The membership once everything that `change` says has moved.
Membership::Ptr After(const Membership& base, const Reallocation& change,
                      const std::vector<Node>& added, const std::vector<NodeId>& removed) {
  Update update;
  update.put_nodes = added;
  update.split_at = change.splits;
  for (const RangeMove& move : change.moves) {
    update.assignments.push_back({move.ranges, move.to, Epoch(base.version().value + 1)});
  }
  update.remove_nodes = removed;
  absl::StatusOr<Membership::Ptr> next = Apply(base, update);
  EXPECT_TRUE(next.ok()) << next.status();
  return next.value();
}

Membership::Ptr Change(const Membership& base, const std::vector<Node>& added,
                       const std::vector<NodeId>& removed) {
  return After(base, Reallocate(base, added, removed), added, removed);
}

std::map<NodeId, uint64_t> RangesPerNode(const Membership& m) {
  std::map<NodeId, uint64_t> count;
  for (const Node& node : m.nodes()) count[node.id] = 0;
  for (const OwnedRange& range : m.ranges()) ++count[m.nodes()[range.owner].id];
  return count;
}

HashMeasure Moved(const Reallocation& change) {
  HashMeasure moved = 0;
  for (const RangeMove& move : change.moves) moved += move.ranges.Measure();
  return moved;
}

double MaxOverMean(const Membership& m) {
  double weights = 0;
  for (const Node& node : m.nodes()) weights += node.weight_milli;
  double worst = 0;
  for (const Node& node : m.nodes()) {
    worst = std::max(worst, m.OwnedBy(node.id).Share() / (node.weight_milli / weights));
  }
  return worst;
}

TEST(DirectoryTest, InitialSharesAreExactToOneBucket) {
  const Membership::Ptr m = Make(Directory(14), MakeNodes(5));
  for (const auto& [id, count] : RangesPerNode(*m)) {
    EXPECT_GE(count, 16384u / 5) << id;
    EXPECT_LE(count, 16384u / 5 + 1) << id;
  }
}

TEST(DirectoryTest, WeightsAreHonouredExactly) {
  const Membership::Ptr m = Make(
      Directory(14), {MakeNode(0, 1000), MakeNode(1, 2000), MakeNode(2, 500), MakeNode(3, 4500)});
  const std::map<NodeId, uint64_t> count = RangesPerNode(*m);
  EXPECT_EQ(count.at("cache-0000"), 2048u);
  EXPECT_EQ(count.at("cache-0001"), 4096u);
  EXPECT_EQ(count.at("cache-0002"), 1024u);
  EXPECT_EQ(count.at("cache-0003"), 9216u);
}

TEST(DirectoryTest, AddMovesExactlyTheNewNodesShareAndOnlyToIt) {
  const Membership::Ptr base = Make(Directory(14), MakeNodes(4));
  const Node added = MakeNode(4);
  const Reallocation change = Reallocate(*base, {added}, {});
  EXPECT_TRUE(change.splits.empty());
  ASSERT_EQ(change.moves.size(), 4u);
  for (const RangeMove& move : change.moves) EXPECT_EQ(move.to, added.id);
  const Membership::Ptr after = After(*base, change, {added}, {});
  const uint64_t share = RangesPerNode(*after).at(added.id);
  EXPECT_GE(share, 16384u / 5);
  EXPECT_LE(share, 16384u / 5 + 1);
  EXPECT_TRUE(Moved(change) == static_cast<HashMeasure>(share) << 50);
  for (const auto& [id, count] : RangesPerNode(*after)) {
    EXPECT_GE(count, 16384u / 5) << id;
    EXPECT_LE(count, 16384u / 5 + 1) << id;
  }
}

// The simulated figures of the design: P = 16, N = 100: max/mean 1.0010.
TEST(DirectoryTest, BalanceAndMovementAtHundredNodes) {
  const Membership::Ptr base = Make(Directory(16), MakeNodes(99));
  const Reallocation change = Reallocate(*base, {MakeNode(99)}, {});
  const Membership::Ptr after = After(*base, change, {MakeNode(99)}, {});
  EXPECT_LE(MaxOverMean(*after), 1.0011);
  const double moved = static_cast<double>(Moved(change)) / 18446744073709551616.0;
  EXPECT_LE(moved / (1.0 / 100), 1.001);
  EXPECT_GE(moved / (1.0 / 100), 0.999);
}

TEST(DirectoryTest, RemovalMovesExactlyWhatTheNodeOwnedAndSpreadsIt) {
  const Membership::Ptr base = Make(Directory(14), MakeNodes(5));
  const Reallocation change = Reallocate(*base, {}, {"cache-0002"});
  ASSERT_EQ(change.moves.size(), 4u);
  HashRangeSet moved;
  for (const RangeMove& move : change.moves) {
    EXPECT_EQ(move.from, "cache-0002");
    moved = moved.Union(move.ranges);
  }
  EXPECT_EQ(moved, base->OwnedBy("cache-0002"));
  for (const auto& [id, count] : RangesPerNode(*After(*base, change, {}, {"cache-0002"}))) {
    EXPECT_EQ(count, 4096u) << id;
  }
}

TEST(DirectoryTest, BalanceLastsThroughManyChanges) {
  Membership::Ptr m = Make(Directory(14), MakeNodes(10));
  for (int i = 0; i < 20; ++i) m = Change(*m, {MakeNode(10 + i)}, {});
  for (int i = 0; i < 20; ++i) m = Change(*m, {}, {MakeNode(i).id});
  EXPECT_EQ(m->nodes().size(), 10u);
  EXPECT_LE(MaxOverMean(*m), 1.002);
}

TEST(DirectoryTest, ReplacementMovesEachBucketOfTheOldNodeOnce) {
  const Membership::Ptr base = Make(Directory(10), MakeNodes(4));
  const Reallocation change = Reallocate(*base, {MakeNode(9)}, {"cache-0000"});
  ASSERT_EQ(change.moves.size(), 1u);
  EXPECT_EQ(change.moves[0], (RangeMove{"cache-0000", "cache-0009", base->OwnedBy("cache-0000")}));
}

TEST(DirectoryTest, EveryNodeMayBeReplacedAtOnce) {
  const Membership::Ptr base = Make(Directory(10), MakeNodes(2));
  const std::vector<Node> added = MakeNodes(2, 5);
  const Membership::Ptr after = Change(*base, added, {"cache-0000", "cache-0001"});
  EXPECT_EQ(RangesPerNode(*after),
            (std::map<NodeId, uint64_t>{{"cache-0005", 512}, {"cache-0006", 512}}));
}

TEST(DirectoryTest, ANodeTooLightForOneBucketGetsNone) {
  const Membership::Ptr base =
      Make(Directory(10), {MakeNode(0, 1'000'000), MakeNode(1, 1'000'000)});
  EXPECT_TRUE(Reallocate(*base, {MakeNode(2, 10)}, {}).moves.empty());
}

TEST(AllocatorTest, OrderOfInputsDoesNotMatter) {
  for (const KeyspaceSpec& spec : {Directory(12), Ring(64)}) {
    std::vector<Node> nodes = MakeNodes(6);
    std::vector<Node> added = MakeNodes(3, 10);
    std::vector<NodeId> removed = {"cache-0001", "cache-0004"};
    const std::vector<OwnedRange> ranges = InitialRanges(spec, nodes, Epoch(1));
    const Membership::Ptr base = Make(spec, nodes);
    const Reallocation change = Reallocate(*base, added, removed);
    std::reverse(nodes.begin(), nodes.end());
    std::rotate(added.begin(), added.begin() + 1, added.end());
    std::reverse(removed.begin(), removed.end());
    EXPECT_EQ(InitialRanges(spec, nodes, Epoch(1)), ranges);
    EXPECT_EQ(Reallocate(*base, added, removed), change);
  }
}

TEST(DirectoryTest, AThousandNodesAtSixteenBits) {
  const Membership::Ptr base = Make(Directory(16), MakeNodes(1000));
  const Reallocation change = Reallocate(*base, {MakeNode(1000)}, {});
  const Membership::Ptr after = After(*base, change, {MakeNode(1000)}, {});
  const uint64_t share = RangesPerNode(*after).at("cache-1000");
  EXPECT_GE(share, 65u);
  EXPECT_LE(share, 66u);
  EXPECT_LE(MaxOverMean(*after), 66.0 / (65536.0 / 1001) + 1e-9);
}

TEST(RingTest, InitialRangesAreTheDerivedTokens) {
  const Membership::Ptr m = Make(Ring(8), MakeNodes(3));
  ASSERT_EQ(m->ranges().size(), 24u);
  for (const Node& node : m->nodes()) {
    for (uint32_t i = 0; i < 8; ++i) {
      const HashPoint token = DeriveToken(node.HashName(), i);
      EXPECT_EQ(m->nodes()[m->RangeOf(token).owner].id, node.id);
      EXPECT_EQ(m->RangeOf(token).end, token);
    }
  }
}

TEST(RingTest, TokensFollowTheWeight) {
  EXPECT_EQ(TokensOf(Ring(160), MakeNode(0, 1000)), 160u);
  EXPECT_EQ(TokensOf(Ring(160), MakeNode(0, 1500)), 240u);
  EXPECT_EQ(TokensOf(Ring(1), MakeNode(0, 1499)), 1u);
  EXPECT_EQ(TokensOf(Ring(1), MakeNode(0, 1500)), 2u);
  EXPECT_EQ(TokensOf(Ring(160), MakeNode(0, 10)), 2u);
  EXPECT_EQ(TokensOf(Ring(1), MakeNode(0, 10)), 1u);
}

TEST(RingTest, PlacementSizeIsBounded) {
  EXPECT_TRUE(ValidatePlacementSize(Ring(160), MakeNodes(1000)).ok());
  const absl::Status status = ValidatePlacementSize(
      Ring(4096), {MakeNode(0, 1'000'000), MakeNode(1, 1'000'000), MakeNode(2, 1'000'000)});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("need 12288000 tokens"), std::string::npos)
      << status;
  EXPECT_TRUE(ValidatePlacementSize(Directory(10), {MakeNode(0, 1'000'000)}).ok());
}

// However a ring got there, who owns a point is what the tokens of its present nodes say.
TEST(RingTest, AddAndRemoveGiveTheRingOfThePresentNodes) {
  Membership::Ptr m = Make(Ring(40), MakeNodes(4));
  m = Change(*m, {MakeNode(4)}, {});
  EXPECT_TRUE(Diff(*m, *Make(Ring(40), MakeNodes(5))).empty());
  m = Change(*m, {MakeNode(5), MakeNode(6)}, {"cache-0001"});
  std::vector<Node> nodes = MakeNodes(7);
  nodes.erase(nodes.begin() + 1);
  EXPECT_TRUE(Diff(*m, *Make(Ring(40), nodes)).empty());
  m = Change(*m, {}, {"cache-0000", "cache-0002", "cache-0003", "cache-0004", "cache-0005"});
  EXPECT_EQ(m->nodes().size(), 1u);
  EXPECT_EQ(m->OwnedBy("cache-0006"), HashRangeSet::Whole());
  m = Change(*m, MakeNodes(6), {});
  EXPECT_TRUE(Diff(*m, *Make(Ring(40), MakeNodes(7))).empty());
}

TEST(RingTest, AddMovesOnlyToTheAddedNodeAndRemovalOnlyFromTheRemovedOne) {
  const Membership::Ptr base = Make(Ring(160), MakeNodes(3));
  const Reallocation add = Reallocate(*base, {MakeNode(3)}, {});
  EXPECT_EQ(add.splits.size(), 160u);
  ASSERT_EQ(add.moves.size(), 3u);
  size_t arcs = 0;
  for (const RangeMove& move : add.moves) {
    EXPECT_EQ(move.to, "cache-0003");
    EXPECT_TRUE(base->OwnedBy(move.from).Includes(move.ranges));
    arcs += move.ranges.Ranges().size();
  }
  EXPECT_LE(arcs, 160u);
  EXPECT_GT(arcs, 100u);
  const Reallocation removal = Reallocate(*base, {}, {"cache-0001"});
  EXPECT_TRUE(removal.splits.empty());
  for (const RangeMove& move : removal.moves) EXPECT_EQ(move.from, "cache-0001");
  EXPECT_TRUE(Moved(removal) == base->OwnedBy("cache-0001").Measure());
}

// An aborted add leaves its boundaries behind. They must not make the next one smaller, neither of
// the same node nor of another.
TEST(RingTest, BoundariesLeftByAnAbortDoNotMatter) {
  const Membership::Ptr base = Make(Ring(64), MakeNodes(4));
  Update prepare;
  prepare.split_at = Reallocate(*base, {MakeNode(7)}, {}).splits;
  const Membership::Ptr left = *Apply(*base, prepare);
  ASSERT_EQ(left->ranges().size(), base->ranges().size() + 64);

  const Reallocation again = Reallocate(*left, {MakeNode(7)}, {});
  EXPECT_TRUE(again.splits.empty());
  EXPECT_EQ(again.moves, Reallocate(*base, {MakeNode(7)}, {}).moves);
  EXPECT_EQ(Reallocate(*left, {MakeNode(8)}, {}).moves, Reallocate(*base, {MakeNode(8)}, {}).moves);
}

TEST(RingTest, ReplacementUnderTheSameHashNameTakesExactlyTheOldArcs) {
  const Membership::Ptr base = Make(Ring(32), MakeNodes(4));
  Node heir = MakeNode(9);
  heir.hash_name = "cache-0001";
  const Reallocation change = Reallocate(*base, {heir}, {"cache-0001"});
  EXPECT_TRUE(change.splits.empty());
  ASSERT_EQ(change.moves.size(), 1u);
  EXPECT_EQ(change.moves[0], (RangeMove{"cache-0001", "cache-0009", base->OwnedBy("cache-0001")}));
}

// Two live nodes that derive the same tokens: the lower (order key, id) wins each of them, whoever
// came first.
TEST(RingTest, OfEqualTokensTheLowestWins) {
  Node twin_a = MakeNode(1);
  Node twin_b = MakeNode(2);
  twin_a.hash_name = twin_b.hash_name = "twin";
  const Node& winner = NodeOrderKey(twin_a.id) < NodeOrderKey(twin_b.id) ? twin_a : twin_b;
  const Node& loser = winner.id == twin_a.id ? twin_b : twin_a;
  const Membership::Ptr other = Make(Ring(16), {MakeNode(0)});
  for (const Membership::Ptr& m :
       {Make(Ring(16), {MakeNode(0), twin_a, twin_b}),
        Change(*Make(Ring(16), {MakeNode(0), loser}), {winner}, {}),
        Change(*other, {twin_a, twin_b}, {}), Change(*other, {twin_b, twin_a}, {})}) {
    EXPECT_TRUE(m->OwnedBy(loser.id).empty());
    EXPECT_EQ(m->OwnedBy(winner.id), Make(Ring(16), {MakeNode(0), winner})->OwnedBy(winner.id));
  }
  EXPECT_TRUE(Reallocate(*Make(Ring(16), {MakeNode(0), winner}), {loser}, {}).moves.empty());
}

// The design's figure for derived tokens at V = 160, N = 100 is max/mean 1.204.
TEST(RingTest, BalanceOfDerivedTokens) {
  const Membership::Ptr m = Make(Ring(160), MakeNodes(100));
  EXPECT_LT(MaxOverMean(*m), 1.35);
  EXPECT_GT(MaxOverMean(*m), 1.05);
}

TEST(RingTest, AThousandNodes) {
  const Membership::Ptr base = Make(Ring(160), MakeNodes(1000));
  const Reallocation change = Reallocate(*base, {MakeNode(1000)}, {});
  EXPECT_TRUE(
      Diff(*After(*base, change, {MakeNode(1000)}, {}), *Make(Ring(160), MakeNodes(1001))).empty());
}

}  // namespace
}  // namespace warmring
