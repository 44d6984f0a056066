#include "core/placement/rendezvous.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/hashing/key_hash.h"

// Weighted rendezvous: the logarithm is exact enough and the same everywhere; shares follow the
// weights; a change moves only what belongs to the node that comes or goes.

namespace warmring {
namespace {

constexpr uint64_t kOne = uint64_t{1} << 48;

TEST(RendezvousTest, LogarithmOfPowersOfTwo) {
  EXPECT_EQ(NegativeLog2(UINT64_MAX), 0u);
  EXPECT_EQ(NegativeLog2((uint64_t{1} << 63) - 1), kOne);
  EXPECT_EQ(NegativeLog2((uint64_t{1} << 62) - 1), 2 * kOne);
  EXPECT_EQ(NegativeLog2(0), 64 * kOne);
}

TEST(RendezvousTest, LogarithmIsNearTheRealOne) {
  uint64_t u = 0x9e3779b97f4a7c15;
  for (int i = 0; i < 100'000; ++i) {
    u = u * 6364136223846793005 + 1442695040888963407;
    const double real = 64 - std::log2(static_cast<double>(u) + 1);
    const double ours = static_cast<double>(NegativeLog2(u)) / static_cast<double>(kOne);
    ASSERT_NEAR(ours, real, 1e-12) << u;
  }
}

// -log2 falls, also across the borders of the table and of the powers of two.
TEST(RendezvousTest, LogarithmNeverRises) {
  for (uint64_t i = 1; i < 4096; ++i) {
    const uint64_t border = i << 52;
    for (uint64_t step : {uint64_t{1}, uint64_t{1000}, uint64_t{1} << 40}) {
      EXPECT_GE(NegativeLog2(border - step), NegativeLog2(border)) << border;
      EXPECT_GE(NegativeLog2(border), NegativeLog2(border + step)) << border;
    }
  }
}

std::vector<DirectoryNode> MakeNodes(int count, int zones = 0) {
  std::vector<DirectoryNode> nodes;
  for (int i = 0; i < count; ++i) {
    nodes.push_back(
        {fmt::format("cache-{:04}", i), 1000, zones == 0 ? "" : fmt::format("zone-{}", i % zones)});
  }
  return nodes;
}

// With equal weights it is plain rendezvous hashing: the ranks are the largest hashes, in order.
TEST(RendezvousTest, EqualWeightsRankByHash) {
  const Directory directory = AllocateByRendezvous({6, 3, true}, MakeNodes(7)).value();
  for (uint32_t bucket = 0; bucket < 64; ++bucket) {
    std::vector<std::pair<uint64_t, uint32_t>> hashes;
    for (uint32_t i = 0; i < 7; ++i) {
      hashes.emplace_back(BucketOrderKey(bucket, directory.nodes[i].id, 0), i);
    }
    std::sort(hashes.rbegin(), hashes.rend());
    for (uint32_t r = 0; r < 3; ++r) EXPECT_EQ(directory.OwnerOf(bucket, r), hashes[r].second);
  }
}

TEST(RendezvousTest, SharesFollowTheWeights) {
  std::vector<DirectoryNode> nodes = MakeNodes(4);
  nodes[0].weight_milli = 500;
  nodes[1].weight_milli = 1000;
  nodes[2].weight_milli = 2000;
  nodes[3].weight_milli = 4500;
  const Directory directory = AllocateByRendezvous({16, 1, true}, nodes).value();
  const std::vector<uint64_t> slots = SlotsPerNode(directory, 0);
  for (size_t i = 0; i < 4; ++i) {
    // Four standard deviations of 65536 draws.
    const double p = nodes[i].weight_milli / 8000.0;
    EXPECT_NEAR(static_cast<double>(slots[i]), 65536 * p, 4 * std::sqrt(65536 * p * (1 - p)));
  }
}

TEST(RendezvousTest, ReplicasStandInDistinctDomains) {
  const Directory directory = AllocateByRendezvous({10, 3, true}, MakeNodes(10, 4)).value();
  EXPECT_TRUE(ValidateDirectory(directory).ok());
  EXPECT_EQ(CountViolations(directory), 0u);
}

TEST(RendezvousTest, TooFewDomains) {
  const absl::Status refused = AllocateByRendezvous({4, 3, true}, MakeNodes(10, 2)).status();
  EXPECT_EQ(refused.message(),
            "ranks: 3 replicas on distinct domains need as many domains, and 10 nodes stand in 2: "
            "add nodes in other domains, lower the replication, or use the best-effort rule");
  const Directory placed = AllocateByRendezvous({4, 3, false}, MakeNodes(10, 2)).value();
  EXPECT_TRUE(ValidateDirectory(placed).ok());
  EXPECT_EQ(CountViolations(placed), 16u);
  const Directory few = AllocateByRendezvous({4, 3, false}, MakeNodes(2)).value();
  EXPECT_TRUE(ValidateDirectory(few).ok());
  EXPECT_EQ(CountViolations(few), 16u);
}

TEST(RendezvousTest, AJoinMovesOnlyToTheNewNode) {
  const Directory before = AllocateByRendezvous({12, 3, true}, MakeNodes(20)).value();
  const Directory after = AllocateByRendezvous({12, 3, true}, MakeNodes(21)).value();
  const uint64_t own = SlotsPerNode(after, std::nullopt)[20];
  EXPECT_EQ(MovementBetween(before, after).moved_slots, own);
  EXPECT_EQ(MovementBetween(after, before).moved_slots, own);
}

TEST(RendezvousTest, TheOrderOfNodesDoesNotMatter) {
  std::vector<DirectoryNode> nodes = MakeNodes(9, 3);
  const Directory directory = AllocateByRendezvous({8, 2, true}, nodes).value();
  std::reverse(nodes.begin(), nodes.end());
  EXPECT_EQ(AllocateByRendezvous({8, 2, true}, nodes).value(), directory);
}

}  // namespace
}  // namespace warmring
