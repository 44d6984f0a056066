#include "core/placement/directory_allocator.h"

#include <algorithm>
#include <map>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/hash_range.h"
#include "core/hashing/key_hash.h"
#include "core/placement/directory_board.h"

// Who holds which bucket when nodes come, go and change, with what an operator may ask for: pins,
// caps, listed moves, balance by load. Small examples are worked out by hand; the figures of the
// design are checked at full size.

namespace warmring {
namespace {

DirectoryNode MakeNode(int number, int zones = 0) {
  return {fmt::format("cache-{:04}", number), 1000,
          zones == 0 ? "" : fmt::format("zone-{}", number % zones)};
}

std::vector<DirectoryNode> MakeNodes(int count, int zones = 0) {
  std::vector<DirectoryNode> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back(MakeNode(i, zones));
  return nodes;
}

using Numbers = std::vector<uint64_t>;

Numbers Slots(const Directory& directory) { return SlotsPerNode(directory, std::nullopt); }

std::string Refusal(const absl::StatusOr<Directory>& result) {
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(result.status().message());
}

// Four buckets, one rank: a has 0, 1, 2; b has 3.
Directory Lopsided() { return {{2, 1, true}, {{"a", 1000, ""}, {"b", 1000, ""}}, {0, 0, 0, 1}}; }

TEST(DirectoryAllocatorTest, OneNodeHoldsAll) {
  const Directory directory = Allocate({2, 1, true}, {{"a", 1000, ""}}).value();
  EXPECT_EQ(directory.owner, (std::vector<uint32_t>{0, 0, 0, 0}));
}

TEST(DirectoryAllocatorTest, AsManyRanksAsNodes) {
  const Directory directory = Allocate({2, 2, true}, {{"b", 1000, ""}, {"a", 5000, ""}}).value();
  EXPECT_EQ(directory.nodes[0].id, "a");
  EXPECT_EQ(Slots(directory), (Numbers{4, 4}));
  EXPECT_EQ(SlotsPerNode(directory, 0), (Numbers{2, 2}));
}

TEST(DirectoryAllocatorTest, WeightsAreHonouredExactly) {
  const Directory directory =
      Allocate({4, 1, true}, {{"a", 1000, ""}, {"b", 2000, ""}, {"c", 5000, ""}}).value();
  EXPECT_EQ(Slots(directory), (Numbers{2, 4, 10}));
}

// A heavy node may hold each bucket once; the light ones share the other rank.
TEST(DirectoryAllocatorTest, AHeavyNodeHoldsEachBucketOnce) {
  const Directory directory =
      Allocate({3, 2, true}, {{"a", 90'000, ""}, {"b", 1000, ""}, {"c", 1000, ""}}).value();
  EXPECT_EQ(Slots(directory), (Numbers{8, 4, 4}));
  EXPECT_EQ(SlotsPerNode(directory, 0), (Numbers{4, 2, 2}));
  EXPECT_EQ(CountViolations(directory), 0u);
}

// The order of steps is a contract: other implementations follow it.
TEST(DirectoryAllocatorTest, IsTheSameOnEveryMachine) {
  const Directory three = Allocate({3, 2, true}, MakeNodes(3)).value();
  EXPECT_EQ(three.owner, (std::vector<uint32_t>{1, 2, 1, 0, 2, 1, 0, 2, 0, 2, 2, 1, 1, 0, 2, 0}));
  const Directory four = Reallocate(three, MakeNodes(4)).value();
  EXPECT_EQ(four.owner, (std::vector<uint32_t>{1, 3, 1, 3, 2, 1, 0, 2, 0, 2, 2, 1, 3, 0, 3, 0}));
  EXPECT_EQ(Slots(four), (Numbers{4, 4, 4, 4}));
  EXPECT_EQ(MovementBetween(three, four).moved_slots, 4u);
}

TEST(DirectoryAllocatorTest, OrderKeysAreThoseOfTheSpecification) {
  for (uint32_t bucket : {0u, 1u, 77u, 1u << 19}) {
    EXPECT_EQ(BucketOrder("cache-0001", 2).KeyOf(bucket), BucketOrderKey(bucket, "cache-0001", 2));
  }
}

TEST(DirectoryAllocatorTest, RemovalSpreadsWhatTheNodeHad) {
  const Directory base = {
      {2, 1, true}, {{"a", 1000, ""}, {"b", 1000, ""}, {"c", 1000, ""}}, {0, 1, 2, 2}};
  const Directory after = Reallocate(base, {base.nodes[0], base.nodes[1]}).value();
  EXPECT_EQ(Slots(after), (Numbers{2, 2}));
  EXPECT_EQ(after.OwnerOf(0, 0), 0u);
  EXPECT_EQ(after.OwnerOf(1, 0), 1u);
}

TEST(DirectoryAllocatorTest, WithoutReplicasLeftTheDirectoryIsPlacedAnew) {
  const Directory after = Reallocate(Lopsided(), {{"x", 1000, ""}, {"y", 1000, ""}}).value();
  EXPECT_EQ(Slots(after), (Numbers{2, 2}));
}

TEST(DirectoryAllocatorTest, BalanceMovesOneBucket) {
  const Directory after = Reallocate(Lopsided(), Lopsided().nodes).value();
  EXPECT_EQ(Slots(after), (Numbers{2, 2}));
  EXPECT_EQ(MovementBetween(Lopsided(), after).moved_slots, 1u);
}

TEST(DirectoryAllocatorTest, AddedOnlyLeavesTheOthersAlone) {
  ReallocateOptions options;
  options.balance = ReallocateOptions::Balance::kAddedOnly;
  EXPECT_EQ(Reallocate(Lopsided(), Lopsided().nodes, options).value(), Lopsided());
  // Shares are 4/3: the added node takes one, from the only node above its share.
  const Directory after =
      Reallocate(Lopsided(), {{"a", 1000, ""}, {"b", 1000, ""}, {"c", 1000, ""}}, options).value();
  EXPECT_EQ(Slots(after), (Numbers{2, 1, 1}));
}

TEST(DirectoryAllocatorTest, NothingMeansOnlyWhatMust) {
  ReallocateOptions options;
  options.balance = ReallocateOptions::Balance::kNothing;
  const std::vector<DirectoryNode> nodes = {{"b", 1000, ""}, {"c", 1000, ""}};
  const Directory after = Reallocate(Lopsided(), nodes, options).value();
  EXPECT_EQ(after.OwnerOf(3, 0), 0u);
  EXPECT_EQ(MovementBetween(Lopsided(), after).moved_slots, 3u);
}

TEST(DirectoryAllocatorTest, ListedMovesAndNothingElse) {
  ReallocateOptions options;
  options.balance = ReallocateOptions::Balance::kNothing;
  options.moves = {{1, "a", "b"}, {3, "b", "a"}};
  EXPECT_EQ(Reallocate(Lopsided(), Lopsided().nodes, options).value().owner,
            (std::vector<uint32_t>{0, 1, 0, 0}));
}

// The move counts for balance, and balance does not take it back.
TEST(DirectoryAllocatorTest, ListedMovesStay) {
  ReallocateOptions options;
  options.moves = {{3, "b", "a"}};
  const Directory after = Reallocate(Lopsided(), Lopsided().nodes, options).value();
  EXPECT_EQ(Slots(after), (Numbers{2, 2}));
  EXPECT_EQ(after.OwnerOf(3, 0), 0u);
}

TEST(DirectoryAllocatorTest, MovesAreChecked) {
  const auto with = [](ReallocateOptions::BucketMove move) {
    ReallocateOptions options;
    options.moves = {std::move(move)};
    return Refusal(Reallocate(Lopsided(), Lopsided().nodes, options));
  };
  EXPECT_EQ(with({4, "a", "b"}), "moves: there is no bucket 4: use 0 to 3");
  EXPECT_EQ(with({0, "a", "z"}), "moves: there is no node 'z' after this change");
  EXPECT_EQ(with({3, "a", "b"}), "moves: 'a' does not hold bucket 3");
  Directory zones = {{0, 2, true}, {{"a", 1000, "x"}, {"b", 1000, "y"}, {"c", 1000, "y"}}, {0, 1}};
  ReallocateOptions options;
  options.moves = {{0, "a", "c"}};
  EXPECT_EQ(Refusal(Reallocate(zones, zones.nodes, options)),
            "moves: bucket 0 may not go to 'c': it or its domain holds a replica");
  options.moves = {{0, "b", "c"}, {0, "c", "b"}};
  EXPECT_EQ(Refusal(Reallocate(zones, zones.nodes, options)),
            "moves: bucket 0 moves twice: its replica went to 'c' already");
}

TEST(DirectoryAllocatorTest, PinnedBucketsDoNotMove) {
  ReallocateOptions options;
  options.pins = {{0, {}}, {1, {}}};
  const Directory after = Reallocate(Lopsided(), Lopsided().nodes, options).value();
  EXPECT_EQ(after.owner, (std::vector<uint32_t>{0, 0, 1, 1}));
  options.pins.push_back({2, {}});
  EXPECT_EQ(Reallocate(Lopsided(), Lopsided().nodes, options).value(), Lopsided());
}

TEST(DirectoryAllocatorTest, APinWithoutSeatDoesNotHoldANodeThatLeaves) {
  ReallocateOptions options;
  options.pins = {{0, {}}};
  const Directory after = Reallocate(Lopsided(), {{"b", 1000, ""}}, options).value();
  EXPECT_EQ(Slots(after), (Numbers{4}));
}

// A hot bucket on a node of its own.
TEST(DirectoryAllocatorTest, ABucketIsIsolated) {
  const Directory base = Allocate({4, 1, true}, MakeNodes(3)).value();
  std::vector<DirectoryNode> nodes = MakeNodes(3);
  nodes.push_back({"hot", 1000, ""});
  ReallocateOptions options;
  options.pins = {{5, ReallocateOptions::Seat{0, "hot"}}};
  options.node_caps = {{"hot", 1}};
  const Directory after = Reallocate(base, nodes, options).value();
  EXPECT_EQ(Slots(after), (Numbers{5, 5, 5, 1}));
  EXPECT_EQ(after.OwnerOf(5, 0), 3u);
}

TEST(DirectoryAllocatorTest, APinSwapsRanksOfOneNode) {
  const Directory base = {{0, 2, true}, {{"a", 1000, ""}, {"b", 1000, ""}}, {0, 1}};
  ReallocateOptions options;
  options.pins = {{0, ReallocateOptions::Seat{0, "b"}}};
  EXPECT_EQ(Reallocate(base, base.nodes, options).value().owner, (std::vector<uint32_t>{1, 0}));
}

// Pinning b to the first rank sends away d, which stands in b's zone.
TEST(DirectoryAllocatorTest, APinMakesRoomForItsDomain) {
  const Directory base = {{0, 2, true},
                          {{"a", 1000, "x"}, {"b", 1000, "y"}, {"c", 1000, "z"}, {"d", 1000, "y"}},
                          {0, 3}};
  ReallocateOptions options;
  options.pins = {{0, ReallocateOptions::Seat{0, "b"}}};
  options.node_caps = {{"c", 0}};
  EXPECT_EQ(Reallocate(base, base.nodes, options).value().owner, (std::vector<uint32_t>{1, 0}));
}

TEST(DirectoryAllocatorTest, PinsAreChecked) {
  const auto with = [](std::vector<ReallocateOptions::Pin> pins) {
    const Directory base = {
        {0, 2, true}, {{"a", 1000, "x"}, {"b", 1000, "y"}, {"c", 1000, "y"}}, {0, 1}};
    ReallocateOptions options;
    options.pins = std::move(pins);
    return Refusal(Reallocate(base, base.nodes, options));
  };
  using Seat = ReallocateOptions::Seat;
  EXPECT_EQ(with({{1, {}}}), "pins: there is no bucket 1: use 0 to 0");
  EXPECT_EQ(with({{0, Seat{0, "z"}}}), "pins: there is no node 'z' after this change");
  EXPECT_EQ(with({{0, Seat{2, "a"}}}), "pins: bucket 0 has no rank 2: use 0 to 1");
  const std::string contradiction =
      ": another pin or move of the bucket has the slot, the node or its domain";
  EXPECT_EQ(with({{0, Seat{0, "a"}}, {0, Seat{0, "b"}}}),
            "pins: bucket 0 rank 0 cannot be pinned to 'b'" + contradiction);
  EXPECT_EQ(with({{0, Seat{0, "a"}}, {0, Seat{1, "a"}}}),
            "pins: bucket 0 rank 1 cannot be pinned to 'a'" + contradiction);
  EXPECT_EQ(with({{0, Seat{0, "b"}}, {0, Seat{1, "c"}}}),
            "pins: bucket 0 rank 1 cannot be pinned to 'c'" + contradiction);
}

TEST(DirectoryAllocatorTest, CapsAreKept) {
  ReallocateOptions options;
  options.node_caps = {{"cache-0001", 3}};
  const Directory base = Allocate({5, 1, true}, MakeNodes(3)).value();
  // Of 14.5 and 14.5, the one with the lower order key is rounded up.
  ASSERT_LT(NodeOrderKey("cache-0002"), NodeOrderKey("cache-0000"));
  EXPECT_EQ(Slots(Reallocate(base, MakeNodes(3), options).value()), (Numbers{14, 3, 15}));
  const Directory zones = Allocate({4, 2, true}, MakeNodes(6, 3)).value();
  options.node_caps.clear();
  options.domain_caps = {{"zone-2", 6}};
  const Numbers slots = Slots(Reallocate(zones, MakeNodes(6, 3), options).value());
  EXPECT_EQ(slots[2] + slots[5], 6u);
  EXPECT_EQ(slots[0] + slots[3], 13u);
}

TEST(DirectoryAllocatorTest, CapsAreChecked) {
  const auto with = [](std::vector<ReallocateOptions::Cap> node_caps,
                       std::vector<ReallocateOptions::Cap> domain_caps) {
    const Directory base = Allocate({2, 1, true}, MakeNodes(2, 2)).value();
    ReallocateOptions options;
    options.node_caps = std::move(node_caps);
    options.domain_caps = std::move(domain_caps);
    options.pins = {{0, ReallocateOptions::Seat{0, "cache-0000"}},
                    {1, ReallocateOptions::Seat{0, "cache-0000"}}};
    return Refusal(Reallocate(base, base.nodes, options));
  };
  EXPECT_EQ(with({{"z", 1}}, {}), "node_caps: there is no node 'z' after this change");
  EXPECT_EQ(with({}, {{"zone-7", 1}}), "domain_caps: no node is in domain 'zone-7'");
  EXPECT_EQ(with({{"cache-0000", 1}}, {}),
            "node_caps: 'cache-0000' may hold 1 slots, and 2 are pinned to it: raise the cap");
  EXPECT_EQ(with({}, {{"zone-0", 1}}),
            "domain_caps: a domain may hold 1 slots, and 2 are pinned in it: raise the cap");
  EXPECT_EQ(with({{"cache-0000", 2}, {"cache-0001", 1}}, {}),
            "caps: the nodes have room for 3 slots of 4: raise the caps or add nodes");
}

TEST(DirectoryAllocatorTest, StrictNeedsADomainForEachRank) {
  EXPECT_EQ(Refusal(Allocate({4, 3, true}, MakeNodes(10, 2))),
            "ranks: 3 replicas on distinct domains need as many domains, and 10 nodes stand in 2: "
            "add nodes in other domains, lower the replication, or use the best-effort rule");
  const Directory base = Allocate({4, 3, true}, MakeNodes(3, 3)).value();
  EXPECT_NE(Refusal(Reallocate(base, MakeNodes(2, 3))).find("stand in 2"), std::string::npos);
}

// Two zones for three ranks: each bucket has two of one zone. When the third zone comes, it gets
// one rank of each bucket and nothing is violated any more.
TEST(DirectoryAllocatorTest, BestEffortHealsWhenADomainComes) {
  const Directory two = Allocate({6, 3, false}, MakeNodes(6, 2)).value();
  EXPECT_EQ(CountViolations(two), 64u);
  EXPECT_EQ(Slots(two), Numbers(6, 32));
  std::vector<DirectoryNode> nodes = MakeNodes(6, 2);
  nodes.push_back({"new", 1000, "zone-2"});
  const Directory three = Reallocate(two, nodes).value();
  EXPECT_EQ(CountViolations(three), 0u);
  EXPECT_EQ(Slots(three)[6], 64u);
  const Directory back = Reallocate(three, MakeNodes(6, 2)).value();
  EXPECT_EQ(CountViolations(back), 64u);
  EXPECT_EQ(Slots(back), Numbers(6, 32));
}

// All four copies of each bucket stand in one zone, and then there are four zones: three of them
// have to go, in whatever order they are found at the ranks.
TEST(DirectoryAllocatorTest, ACrowdOfFourIsThinnedOutToOne) {
  std::vector<DirectoryNode> nodes = {
      {"a", 1000, "z1"}, {"b", 2000, "z1"}, {"c", 4000, "z1"}, {"d", 8000, "z1"}};
  const Directory crowd = Allocate({6, 4, false}, nodes).value();
  EXPECT_EQ(CountViolations(crowd), 192u);
  for (const char* zone : {"z2", "z3", "z4"}) nodes.push_back({zone, 1000, zone});
  ReallocateOptions nothing;
  nothing.balance = ReallocateOptions::Balance::kNothing;
  const Directory spread = Reallocate(crowd, nodes, nothing).value();
  EXPECT_EQ(CountViolations(spread), 0u);
  EXPECT_EQ(MovementBetween(crowd, spread).moved_slots, 192u);
}

TEST(DirectoryAllocatorTest, FewerNodesThanRanksLeaveTheLastRanksEmpty) {
  const Directory one = Allocate({3, 3, false}, MakeNodes(1)).value();
  EXPECT_EQ(CountViolations(one), 16u);
  const Directory three = Reallocate(one, MakeNodes(3)).value();
  EXPECT_EQ(CountViolations(three), 0u);
  EXPECT_EQ(Slots(three), (Numbers{8, 8, 8}));
  EXPECT_EQ(MovementBetween(one, three).moved_slots, 16u);
  const Directory two = Reallocate(three, {MakeNode(0), MakeNode(2)}).value();
  EXPECT_TRUE(ValidateDirectory(two).ok());
  EXPECT_EQ(CountViolations(two), 8u);
  EXPECT_EQ(MovementBetween(three, two).moved_slots, 0u);
}

// Two nodes that shared buckets find themselves in one rack: one of each pair goes elsewhere.
TEST(DirectoryAllocatorTest, AChangedDomainForcesMoves) {
  const Directory base = Allocate({6, 2, true}, MakeNodes(4)).value();
  uint64_t shared = 0;
  for (uint32_t bucket = 0; bucket < 64; ++bucket) {
    const uint32_t a = base.OwnerOf(bucket, 0);
    const uint32_t b = base.OwnerOf(bucket, 1);
    if (a + b == 1) ++shared;
  }
  ASSERT_GT(shared, 0u);
  std::vector<DirectoryNode> nodes = MakeNodes(4);
  nodes[0].domain = nodes[1].domain = "rack-1";
  const Directory after = Reallocate(base, nodes).value();
  EXPECT_EQ(CountViolations(after), 0u);
  EXPECT_EQ(Slots(after), Numbers(4, 32));
  EXPECT_LE(MovementBetween(base, after).moved_slots, 2 * shared);
}

TEST(DirectoryAllocatorTest, AWeightChangeMovesTheDifference) {
  const Directory base = Allocate({8, 1, true}, MakeNodes(4)).value();
  std::vector<DirectoryNode> nodes = MakeNodes(4);
  nodes[2].weight_milli = 5000;
  const Directory up = Reallocate(base, nodes).value();
  EXPECT_EQ(Slots(up), (Numbers{32, 32, 160, 32}));
  EXPECT_EQ(MovementBetween(base, up).moved_slots, 96u);
  const Directory down = Reallocate(up, MakeNodes(4)).value();
  EXPECT_EQ(Slots(down), Numbers(4, 64));
  EXPECT_EQ(MovementBetween(up, down).moved_slots, 96u);
}

// Nodes of equal weight must meet all others in their buckets, or the loss of one would fall on
// few.
TEST(DirectoryAllocatorTest, PartnersAreSpread) {
  const Directory directory = Allocate({12, 3, true}, MakeNodes(20)).value();
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> together;
  for (uint32_t bucket = 0; bucket < 4096; ++bucket) {
    for (uint32_t a = 0; a < 3; ++a) {
      for (uint32_t b = 0; b < 3; ++b) {
        if (a != b) ++together[{directory.OwnerOf(bucket, a), directory.OwnerOf(bucket, b)}];
      }
    }
  }
  EXPECT_EQ(together.size(), 20u * 19u);
  // 64.7 buckets a pair on average.
  for (const auto& [pair, buckets] : together) {
    EXPECT_GT(buckets, 32u);
    EXPECT_LT(buckets, 108u);
  }
}

// Loads 110 and 20 with a target of 65: bucket 0 is too large to move, and 1 is as good as 2.
TEST(DirectoryHeatTest, MovesWhatFits) {
  Directory base = {{2, 1, true}, {{"a", 1000, ""}, {"b", 1000, ""}}, {0, 0, 1, 1}};
  ReallocateOptions options;
  options.heat = {100, 10, 10, 10};
  EXPECT_EQ(Reallocate(base, base.nodes, options).value().owner,
            (std::vector<uint32_t>{0, 1, 1, 1}));
}

// Loads 70 and 30: the one bucket of 20 does it, though two of 10 would as well.
TEST(DirectoryHeatTest, MovesAsFewAsItCan) {
  const Directory base = {
      {3, 1, true}, {{"a", 1000, ""}, {"b", 1000, ""}}, {0, 0, 0, 0, 0, 1, 1, 1}};
  ReallocateOptions options;
  options.heat = {10, 20, 10, 20, 10, 10, 10, 10};
  const Directory after = Reallocate(base, base.nodes, options).value();
  EXPECT_EQ(after.owner, (std::vector<uint32_t>{0, 0, 0, 1, 0, 1, 1, 1}));
}

TEST(DirectoryHeatTest, WithinTheToleranceNothingMoves) {
  const Directory base = {{2, 1, true}, {{"a", 1000, ""}, {"b", 1000, ""}}, {0, 0, 1, 1}};
  ReallocateOptions options;
  options.heat = {101, 1, 50, 50};
  EXPECT_EQ(Reallocate(base, base.nodes, options).value(), base);
  options.heat_tolerance_ppm = 0;
  EXPECT_EQ(Reallocate(base, base.nodes, options).value().owner,
            (std::vector<uint32_t>{0, 1, 1, 1}));
}

TEST(DirectoryHeatTest, PinnedAndListedBucketsStay) {
  const Directory base = {{2, 1, true}, {{"a", 1000, ""}, {"b", 1000, ""}}, {0, 0, 0, 1}};
  ReallocateOptions options;
  options.heat = {20, 20, 20, 20};
  options.pins = {{2, {}}, {1, {}}};
  EXPECT_EQ(Reallocate(base, base.nodes, options).value().owner,
            (std::vector<uint32_t>{1, 0, 0, 1}));
}

TEST(DirectoryHeatTest, JoinAndRemovalFollowTheLoad) {
  Directory directory = Allocate({10, 2, true}, MakeNodes(4)).value();
  ReallocateOptions options;
  uint64_t total = 0;
  for (uint64_t bucket = 0; bucket < 1024; ++bucket) {
    // A few hot buckets, many cool ones.
    options.heat.push_back(100'000 / (1 + (bucket * 389 & 1023)));
    total += options.heat.back();
  }
  const auto loads = [&](const Directory& d) {
    Numbers load(d.nodes.size(), 0);
    for (size_t i = 0; i < d.owner.size(); ++i) load[d.owner[i]] += options.heat[i / 2];
    return load;
  };
  for (int count : {5, 6, 5, 4}) {
    directory = Reallocate(directory, MakeNodes(count), options).value();
    EXPECT_EQ(CountViolations(directory), 0u);
    for (uint64_t load : loads(directory)) {
      const double target = static_cast<double>(2 * total) / count;
      EXPECT_NEAR(static_cast<double>(load), target, 0.0101 * target) << count;
    }
  }
}

TEST(DirectoryHeatTest, HeatIsChecked) {
  ReallocateOptions options;
  options.heat = {1, 2, 3};
  EXPECT_EQ(Refusal(Reallocate(Lopsided(), Lopsided().nodes, options)),
            "heat: has 3 entries: give one for each of the 4 buckets");
  options.heat = {1, 2, 3, (uint64_t{1} << 40) + 1};
  EXPECT_EQ(Refusal(Reallocate(Lopsided(), Lopsided().nodes, options)),
            "heat: bucket 3 has 1099511627777: use at most 1099511627776");
}

// The bars of the design at P = 16, from 1 to 100 nodes and back by 20: balance, movement, domains.
class FleetTest : public testing::Test {
 protected:
  static constexpr uint32_t kBits = 16;

  // The most that a node has over its share, in millionths, over all ranks or at one.
  static uint64_t WorstPpm(const Directory& directory) {
    uint64_t worst = 0;
    for (uint32_t r = 0; r <= directory.shape.ranks; ++r) {
      const DirectoryBalance balance =
          BalanceOf(directory, r == 0 ? std::nullopt : std::optional(r - 1));
      worst = std::max(worst, static_cast<uint64_t>(HashMeasure{balance.max.numerator} * 1'000'000 /
                                                    balance.max.denominator));
    }
    return worst;
  }

  static void Run(uint32_t ranks, int zones) {
    std::vector<DirectoryNode> nodes = MakeNodes(1, zones);
    Directory directory = Allocate({kBits, ranks, false}, nodes).value();
    while (nodes.size() < 100) {
      nodes.push_back(MakeNode(static_cast<int>(nodes.size()), zones));
      const Directory next = Reallocate(directory, nodes).value();
      const uint64_t own = Slots(next).back();
      EXPECT_LE(MovementBetween(directory, next).moved_slots * 100, own * 102) << nodes.size();
      if (nodes.size() >= ranks) {
        EXPECT_EQ(CountViolations(next), 0u) << nodes.size();
        EXPECT_LE(WorstPpm(next), 1'002'000u) << nodes.size();
      }
      directory = next;
    }
    for (size_t i = 0; i < 20; ++i) {
      nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(i * 7 % nodes.size()));
      directory = Reallocate(directory, nodes).value();
      EXPECT_EQ(CountViolations(directory), 0u) << i;
      EXPECT_LE(WorstPpm(directory), 1'005'000u) << i;
    }
  }
};

TEST_F(FleetTest, OneRank) { Run(1, 0); }
TEST_F(FleetTest, ThreeRanksOnFiveZones) { Run(3, 5); }

TEST_F(FleetTest, AThousandNodesAtEighteenBits) {
  const Directory base = Allocate({18, 1, true}, MakeNodes(1000)).value();
  const Directory after = Reallocate(base, MakeNodes(1001)).value();
  const Numbers slots = Slots(after);
  EXPECT_EQ(*std::min_element(slots.begin(), slots.end()), 261u);
  EXPECT_EQ(*std::max_element(slots.begin(), slots.end()), 262u);
  EXPECT_EQ(MovementBetween(base, after).moved_slots, slots.back());
}

}  // namespace
}  // namespace warmring
