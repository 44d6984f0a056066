#include "server/service/balance_cache.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace warmring {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

constexpr HashPoint kQuarter = HashPoint{1} << 62;

// A ring on which 'a' has a quarter, and 'b', which weighs twice as much, the rest.
Membership::Ptr Ring(uint64_t version = 1) {
  MembershipData data;
  data.version = Version(version);
  data.spec.id = "sessions";
  data.spec.placement = PlacementKind::kRing;
  for (const char* const id : {"a", "b"}) {
    Node node;
    node.id = id;
    node.address = "127.0.0.1:6379";
    data.nodes.push_back(node);
  }
  data.nodes[1].weight_milli = 2000;
  data.ranges = {{kQuarter - 1, 0, Epoch(1)}, {UINT64_MAX, 1, Epoch(1)}};
  const auto membership = Membership::Create(std::move(data));
  if (!membership.ok()) std::abort();
  return *membership;
}

TEST(BalanceOfTest, SharesByWeight) {
  const KeyspaceBalance balance = KeyspaceBalanceOf(*Ring());
  EXPECT_THAT(balance.shares, ElementsAre(DoubleEq(0.25), DoubleEq(0.75)));
  EXPECT_EQ(balance.total_weight, 3000);
  EXPECT_DOUBLE_EQ(balance.max_over_mean, 0.75 * 3000 / 2000);
  EXPECT_EQ(balance.domain_violations, 0U);
}

TEST(BalanceCacheTest, ComputesOnceForEachMembership) {
  BalanceCache cache;
  const Membership::Ptr first = Ring(1);
  const Membership::Ptr second = Ring(2);
  const auto balance = cache.Of(first);
  EXPECT_DOUBLE_EQ(balance->max_over_mean, 1.125);
  EXPECT_EQ(cache.Of(first), balance);
  EXPECT_NE(cache.Of(second), balance);
  EXPECT_EQ(cache.Of(first), balance);
  EXPECT_EQ(cache.size(), 2U);
}

TEST(BalanceCacheTest, KeepsNothingOfMembershipsThatAreGone) {
  BalanceCache cache;
  for (uint64_t version = 1; version <= 10; ++version) cache.Of(Ring(version));
  EXPECT_EQ(cache.size(), 1U);
}

}  // namespace
}  // namespace warmring
