#include "core/placement/bucket_change.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

// Weights, lists, pins and load on a directory: what was asked for happens, what was not stays.

namespace warmring {
namespace {

using Balance = ReallocateOptions::Balance;
using testing::IsEmpty;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr uint32_t kBits = 10;
constexpr uint32_t kBuckets = 1u << kBits;

Node MakeNode(int number, uint32_t weight_milli = 1000) {
  Node node;
  node.id = fmt::format("cache-{}", number);
  node.address = fmt::format("10.0.0.{}:6379", number + 1);
  node.weight_milli = weight_milli;
  return node;
}

Membership::Ptr Make(int nodes, std::vector<Pin> pins = {},
                     Allocator allocator = Allocator::kStandard) {
  MembershipData data;
  data.version = Version(1);
  data.spec.id = "sessions";
  data.spec.directory_bits = kBits;
  data.spec.allocator = allocator;
  for (int i = 0; i < nodes; ++i) data.nodes.push_back(MakeNode(i));
  data.ranges = InitialRanges(data.spec, data.nodes, Epoch(1));
  data.pins = std::move(pins);
  absl::StatusOr<Membership::Ptr> made = Membership::Create(std::move(data));
  EXPECT_OK(made);
  return made.value();
}

NodeId OwnerOf(const Membership& membership, size_t bucket) {
  return membership.nodes()[membership.ranges()[bucket].owner].id;
}

// The owner of each bucket when `change` is done.
std::vector<NodeId> OwnersAfter(const Membership& base, const Reallocation& reallocation) {
  std::vector<NodeId> owners;
  for (size_t bucket = 0; bucket < base.ranges().size(); ++bucket) {
    owners.push_back(OwnerOf(base, bucket));
    for (const RangeMove& move : reallocation.moves) {
      if (!move.ranges.Contains(base.ranges()[bucket].end)) continue;
      EXPECT_EQ(owners.back(), move.from) << bucket;
      owners.back() = move.to;
      break;
    }
  }
  return owners;
}

std::vector<NodeId> Owners(const Membership& base, const BucketChange& change) {
  absl::StatusOr<Reallocation> reallocation = ReallocateBuckets(base, change);
  EXPECT_OK(reallocation);
  if (!reallocation.ok()) return {};
  EXPECT_THAT(reallocation->splits, IsEmpty());
  return OwnersAfter(base, *reallocation);
}

std::vector<NodeId> Owners(const Membership& base) { return OwnersAfter(base, {}); }

std::map<NodeId, int> Count(const std::vector<NodeId>& owners) {
  std::map<NodeId, int> count;
  for (const NodeId& owner : owners) ++count[owner];
  return count;
}

size_t Differences(const std::vector<NodeId>& a, const std::vector<NodeId>& b) {
  size_t differences = 0;
  for (size_t i = 0; i < a.size(); ++i) differences += a[i] != b[i];
  return differences;
}

TEST(BucketChangeTest, ALighterNodeGivesAndAHeavierTakesTheLeast) {
  const Membership::Ptr base = Make(4);
  BucketChange change;
  change.balance = Balance::kAll;
  change.weight_milli = {{"cache-1", 2000}};
  const std::vector<NodeId> heavier = Owners(*base, change);
  const std::map<NodeId, int> count = Count(heavier);
  EXPECT_NEAR(count.at("cache-1"), kBuckets * 2 / 5, 1);
  EXPECT_NEAR(count.at("cache-0"), kBuckets / 5, 1);
  EXPECT_NEAR(static_cast<double>(Differences(heavier, Owners(*base))), kBuckets * 0.15, 2);

  change.weight_milli = {{"cache-1", 10}};
  EXPECT_NEAR(Count(Owners(*base, change)).at("cache-1"), kBuckets * 0.01 / 3.01, 1);
}

TEST(BucketChangeTest, PlacedBucketsGoThereAndNothingElseMoves) {
  const Membership::Ptr base = Make(4);
  BucketChange change;
  change.balance = Balance::kNothing;
  change.placed = {{0, "cache-3"}, {7, "cache-3"}, {1023, "cache-0"}};
  std::vector<NodeId> expected = Owners(*base);
  expected[0] = expected[7] = "cache-3";
  expected[1023] = "cache-0";
  EXPECT_EQ(Owners(*base, change), expected);
}

TEST(BucketChangeTest, TwoNodesMayTradeBuckets) {
  const Membership::Ptr base = Make(2);
  BucketChange change;
  change.balance = Balance::kNothing;
  std::vector<NodeId> expected = Owners(*base);
  for (uint32_t bucket = 0; bucket < 10; ++bucket) {
    expected[bucket] = expected[bucket] == "cache-0" ? "cache-1" : "cache-0";
    change.placed.push_back({bucket, expected[bucket]});
  }
  EXPECT_EQ(Owners(*base, change), expected);
}

TEST(BucketChangeTest, AnAddedNodeMayBeGivenBucketsByName) {
  const Membership::Ptr base = Make(4);
  BucketChange change;
  change.added = {MakeNode(4)};
  change.placed = {{5, "cache-4"}};
  const std::vector<NodeId> owners = Owners(*base, change);
  EXPECT_EQ(owners[5], "cache-4");
  EXPECT_NEAR(Count(owners).at("cache-4"), kBuckets / 5, 1);
}

TEST(BucketChangeTest, PinnedBucketsStayWhateverTheBalance) {
  std::vector<Pin> pins;
  const Membership::Ptr bare = Make(4);
  for (uint32_t bucket = 0; pins.size() < 200; ++bucket) {
    if (OwnerOf(*bare, bucket) == "cache-2") pins.push_back({bucket, "cache-2"});
  }
  for (const Allocator allocator : {Allocator::kStandard, Allocator::kRendezvous}) {
    const Membership::Ptr base = Make(
        4,
        allocator == Allocator::kStandard ? pins : std::vector<Pin>{{3, "cache-0"}, {9, "cache-1"}},
        allocator);
    for (const Balance balance : {Balance::kAll, Balance::kAddedOnly}) {
      BucketChange change;
      change.balance = balance;
      change.added = {MakeNode(4, 8000)};
      const std::vector<NodeId> owners = Owners(*base, change);
      for (const Pin& pin : base->pins()) {
        EXPECT_EQ(owners[pin.bucket], OwnerOf(*base, pin.bucket)) << pin.bucket;
      }
      EXPECT_GT(Count(owners).at("cache-4"), 500) << "the others give what they can";
    }
  }
}

TEST(BucketChangeTest, UnpinnedAndPlacedBucketsMayMoveAgain) {
  std::vector<Pin> pins;
  const Membership::Ptr bare = Make(2);
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    pins.push_back({bucket, OwnerOf(*bare, bucket)});
  }
  const Membership::Ptr base = Make(2, pins);
  BucketChange change;
  change.balance = Balance::kAll;
  change.weight_milli = {{"cache-0", 500}};
  EXPECT_EQ(Owners(*base, change), Owners(*base)) << "everything is pinned";

  const uint32_t placed = pins[0].node == "cache-0" ? 0 : 1;
  change.placed = {{placed, "cache-1"}};
  change.unpinned = {20, 21, 22, 23};
  const std::vector<NodeId> owners = Owners(*base, change);
  EXPECT_EQ(owners[placed], "cache-1");
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    if (bucket == placed || (bucket >= 20 && bucket < 24)) continue;
    EXPECT_EQ(owners[bucket], pins[bucket].node);
  }
}

TEST(BucketChangeTest, LoadIsLevelledWithFewMoves) {
  const Membership::Ptr base = Make(4);
  BucketChange change;
  change.balance = Balance::kAll;
  change.load.assign(kBuckets, 100);
  // One node has the hot buckets.
  uint64_t total = 0;
  int hot = 0;
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    if (OwnerOf(*base, bucket) == "cache-0" && hot < 15) {
      change.load[bucket] = 3000;
      ++hot;
    }
    total += change.load[bucket];
  }
  const std::vector<NodeId> owners = Owners(*base, change);
  std::map<NodeId, uint64_t> load;
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket)
    load[owners[bucket]] += change.load[bucket];
  for (const auto& [node, sum] : load) {
    EXPECT_LE(static_cast<double>(sum), static_cast<double>(total) / 4 * 1.02) << node;
  }
  EXPECT_LE(Differences(owners, Owners(*base)), 100u) << "large buckets first";

  change.load_tolerance_ppm = 1'000'000;
  EXPECT_EQ(Owners(*base, change), Owners(*base)) << "nobody is twice off its target";
}

TEST(BucketChangeTest, RendezvousMovesWhatIsNamedOnly) {
  const Membership::Ptr base = Make(4, {}, Allocator::kRendezvous);
  BucketChange change;
  change.balance = Balance::kNothing;
  std::vector<NodeId> expected = Owners(*base);
  expected[8] = expected[8] == "cache-1" ? "cache-2" : "cache-1";
  change.placed = {{8, expected[8]}};
  EXPECT_EQ(Owners(*base, change), expected);
  change.removed = {"cache-3"};
  const std::vector<NodeId> owners = Owners(*base, change);
  EXPECT_EQ(Count(owners).count("cache-3"), 0u);
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    if (expected[bucket] != "cache-3") {
      EXPECT_EQ(owners[bucket], expected[bucket]);
    }
  }
  change.load.assign(kBuckets, 1);
  EXPECT_THAT(ReallocateBuckets(*base, change), StatusIs(kInvalid, "load: rendezvous decides"));
}

TEST(BucketChangeTest, RefusesWhatDoesNotFit) {
  const Membership::Ptr base = Make(4);
  BucketChange change;
  change.placed = {{kBuckets, "cache-1"}};
  EXPECT_THAT(ReallocateBuckets(*base, change),
              StatusIs(kInvalid, "placed: there is no bucket 1024: use 0 to 1023"));
  change.placed = {{3, "cache-1"}, {3, "cache-1"}};
  EXPECT_THAT(ReallocateBuckets(*base, change), StatusIs(kInvalid, "bucket 3 is placed twice"));
  change.placed = {{3, "cache-1"}};
  change.removed = {"cache-1"};
  EXPECT_THAT(ReallocateBuckets(*base, change), StatusIs(kInvalid, "no node 'cache-1' after"));
  change = {};
  change.load = {1, 2, 3};
  EXPECT_THAT(ReallocateBuckets(*base, change), StatusIs(kInvalid, "heat: has 3 entries"));
}

}  // namespace
}  // namespace warmring
