#include "core/placement/directory_targets.h"

#include <numeric>

#include <gtest/gtest.h>

// Shares by weight, what caps and pins leave of them, and how they become whole numbers; each
// figure here can be worked out by hand.

namespace warmring {
namespace {

// Nodes without bounds, each a domain of its own.
TargetProblem Problem(uint64_t slots, const std::vector<uint64_t>& weights) {
  TargetProblem problem;
  problem.slots = slots;
  for (uint64_t weight : weights) {
    problem.nodes.push_back({weight, static_cast<uint32_t>(problem.nodes.size()), slots, 0, 0});
    problem.domain_caps.push_back(slots);
  }
  return problem;
}

std::vector<uint64_t> Targets(const TargetProblem& problem) {
  const std::vector<uint64_t> targets = RoundShares(problem, FillShares(problem));
  EXPECT_EQ(std::accumulate(targets.begin(), targets.end(), uint64_t{0}), problem.slots);
  return targets;
}

using Numbers = std::vector<uint64_t>;

TEST(TargetsTest, FollowTheWeights) {
  EXPECT_EQ(Targets(Problem(12, {1, 2, 3})), (Numbers{2, 4, 6}));
  EXPECT_EQ(Targets(Problem(16, {7})), (Numbers{16}));
}

// 10 * (5, 3, 2) / 9.999... of thousands: shares 5.5, 3.3 and 2.2 of 11.
TEST(TargetsTest, LargestRemaindersAreRoundedUp) {
  EXPECT_EQ(Targets(Problem(11, {5, 3, 2})), (Numbers{6, 3, 2}));
  EXPECT_EQ(Targets(Problem(10, {1, 1, 1})), (Numbers{4, 3, 3}));
}

// Of two that could be rounded up, it is the one that holds more than the floor already.
TEST(TargetsTest, WhoHoldsMoreKeepsIt) {
  TargetProblem problem = Problem(10, {1, 1, 1});
  problem.nodes[1].owned = 3;
  problem.nodes[2].owned = 4;
  EXPECT_EQ(Targets(problem), (Numbers{3, 3, 4}));
  problem = Problem(11, {5, 3, 2});
  problem.nodes[1].owned = 4;
  EXPECT_EQ(Targets(problem), (Numbers{5, 4, 2}));
}

// What a node above its cap leaves is shared by weight; that may take another to its cap.
TEST(TargetsTest, CapsSpillOver) {
  TargetProblem problem = Problem(8, {10, 1, 1});
  for (TargetProblem::Node& node : problem.nodes) node.cap = 4;
  EXPECT_EQ(Targets(problem), (Numbers{4, 2, 2}));
  problem = Problem(12, {8, 4, 1, 1});
  for (TargetProblem::Node& node : problem.nodes) node.cap = 4;
  EXPECT_EQ(Targets(problem), (Numbers{4, 4, 2, 2}));
}

// Zone 0 would get 12 of 16 and may have 8: 8/3 each; zones 1 and 2 share the other 8.
TEST(TargetsTest, DomainsHaveCapsToo) {
  TargetProblem problem = Problem(16, {2, 2, 2, 1, 1});
  const std::vector<uint32_t> zones = {0, 0, 0, 1, 2};
  for (size_t i = 0; i < zones.size(); ++i) problem.nodes[i].domain = zones[i];
  problem.domain_caps = {8, 8, 8};
  const std::vector<Ratio> shares = FillShares(problem);
  EXPECT_EQ(shares[0].numerator * 3, shares[0].denominator * 8);
  EXPECT_EQ(Targets(problem), (Numbers{3, 3, 2, 4, 4}));
}

// Pinned slots are part of a node's share; if they are more than it, the others share the rest, and
// one that was at its cap before may no longer be.
TEST(TargetsTest, PinnedSlotsCount) {
  TargetProblem problem = Problem(12, {1, 1, 1, 3});
  problem.nodes[0].least = 1;
  EXPECT_EQ(Targets(problem), (Numbers{2, 2, 2, 6}));
  problem.nodes[0].least = 7;
  EXPECT_EQ(Targets(problem), (Numbers{7, 1, 1, 3}));
  problem.nodes[3].cap = 4;
  EXPECT_EQ(Targets(problem), (Numbers{7, 1, 1, 3}));
  problem.nodes[3].cap = 2;
  problem.nodes[0].least = 6;
  EXPECT_EQ(Targets(problem), (Numbers{6, 2, 2, 2}));
}

TEST(TargetsTest, NaturalBoundsOfAFleet) {
  const std::vector<DirectoryNode> nodes = {
      {"a", 1000, "x"}, {"b", 1000, "x"}, {"c", 1000, "x"}, {"d", 1000, "y"}};
  const TargetProblem two = NaturalTargets({3, 2, true}, nodes);
  EXPECT_EQ(two.slots, 16u);
  EXPECT_EQ(two.domain_caps, (Numbers{8, 8}));
  EXPECT_EQ(Targets(two), (Numbers{3, 3, 2, 8}));
  // Three ranks on two domains: two of each bucket in x.
  const TargetProblem three = NaturalTargets({3, 3, false}, nodes);
  EXPECT_EQ(three.domain_caps, (Numbers{16, 8}));
  EXPECT_EQ(Targets(three), (Numbers{6, 5, 5, 8}));
  // More ranks than nodes: the last ones stay empty.
  const TargetProblem five = NaturalTargets({3, 5, false}, nodes);
  EXPECT_EQ(five.slots, 32u);
  EXPECT_EQ(Targets(five), (Numbers{8, 8, 8, 8}));
}

TEST(TargetsTest, DepthOfDomains) {
  EXPECT_EQ(DomainDepth({1, 1, 1}, 3), 1u);
  EXPECT_EQ(DomainDepth({5, 5}, 3), 2u);
  EXPECT_EQ(DomainDepth({1, 5}, 4), 3u);
  EXPECT_EQ(DomainDepth({4}, 4), 4u);
}

TEST(TargetsTest, RanksGetEqualParts) {
  // 4, 4 and 4 of 12: in two ranks of 6, two each.
  EXPECT_EQ(SplitByRank({4, 4, 4}, Numbers(6, 0), 2), (Numbers{2, 2, 2, 2, 2, 2}));
  // 3, 3 and 2 of 8: the odd ones alternate.
  EXPECT_EQ(SplitByRank({3, 3, 2}, Numbers(6, 0), 2), (Numbers{2, 1, 1, 2, 1, 1}));
}

TEST(TargetsTest, RanksKeepWhatTheyHave) {
  EXPECT_EQ(SplitByRank({3, 3, 2}, {1, 2, 2, 1, 1, 1}, 2), (Numbers{1, 2, 2, 1, 1, 1}));
  // Both hold two of rank 1; the sums allow one of them to.
  EXPECT_EQ(SplitByRank({3, 3, 2}, {1, 2, 1, 2, 2, 0}, 2), (Numbers{2, 1, 1, 2, 1, 1}));
}

}  // namespace
}  // namespace warmring
