// Whoever says himself who owns what is taken at his word, or told what is wrong with it.

#include "server/service/explicit_placement.h"

#include <limits>

#include "core/base/reason.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

KeyspaceSpec Spec(PlacementKind kind) {
  KeyspaceSpec spec;
  spec.id = "sessions";
  spec.placement = kind;
  spec.directory_bits = 10;
  return spec;
}

v1::ExplicitPlacement Ring(const std::vector<HashPoint>& ends,
                           const std::vector<uint32_t>& owners) {
  v1::ExplicitPlacement placement;
  placement.mutable_range_ends()->Assign(ends.begin(), ends.end());
  placement.mutable_range_owners()->Assign(owners.begin(), owners.end());
  return placement;
}

TEST(ExplicitPlacementTest, ARingHasTheEndsAsGiven) {
  const KeyspaceSpec spec = Spec(PlacementKind::kRing);
  ASSERT_OK_AND_ASSIGN(const auto ranges,
                       RangesOfPlacement(spec, 2, Ring({0, 7, UINT64_MAX}, {1, 0, 1})));
  EXPECT_EQ(ranges, (std::vector<OwnedRange>{
                        {0, 1, Epoch(1)}, {7, 0, Epoch(1)}, {UINT64_MAX, 1, Epoch(1)}}));
  EXPECT_OK(RangesOfPlacement(spec, 1, Ring({5}, {0})));
}

TEST(ExplicitPlacementTest, ADirectoryHasItsBuckets) {
  std::vector<uint32_t> owners(1024);
  for (uint32_t i = 0; i < owners.size(); ++i) owners[i] = i % 3;
  ASSERT_OK_AND_ASSIGN(const auto ranges,
                       RangesOfPlacement(Spec(PlacementKind::kDirectory), 3, Ring({}, owners)));
  ASSERT_EQ(ranges.size(), 1024u);
  EXPECT_EQ(ranges[5], (OwnedRange{BucketEnd(10, 5), 2, Epoch(1)}));
  EXPECT_EQ(ranges[1023].end, UINT64_MAX);
}

TEST(ExplicitPlacementTest, RefusesWithTheField) {
  const struct {
    PlacementKind kind;
    v1::ExplicitPlacement placement;
    std::string message;
  } cases[] = {
      {PlacementKind::kRing, Ring({}, {}), "placement.range_ends: none is given"},
      {PlacementKind::kRing, Ring({1, 2}, {0}),
       "placement.range_owners: 1 for 2 range_ends: each range needs one"},
      {PlacementKind::kRing, Ring({1}, {0, 0}), "placement.range_owners: 2 for 1 range_ends"},
      {PlacementKind::kRing, Ring({1, 1}, {0, 1}),
       "placement.range_ends[1]: 0000000000000001 does not follow 0000000000000001"},
      {PlacementKind::kRing, Ring({9, 3}, {0, 1}),
       "placement.range_ends[1]: 0000000000000003 does not follow 0000000000000009"},
      {PlacementKind::kRing, Ring({1, 2}, {0, 2}),
       "placement.range_owners[1]: 2 is no node: 2 are given"},
      {PlacementKind::kRing, Ring({1}, {std::numeric_limits<uint32_t>::max()}),
       "placement.range_owners[0]: 4294967295 is no node"},
      {PlacementKind::kDirectory, Ring({7}, std::vector<uint32_t>(1024)),
       "placement.range_ends: 1 for a directory"},
      {PlacementKind::kDirectory, Ring({}, {}),
       "placement.range_owners: 0 for the 2^10 buckets of the directory: give 1024"},
      {PlacementKind::kDirectory, Ring({}, std::vector<uint32_t>(1025)),
       "placement.range_owners: 1025 for the 2^10"},
      {PlacementKind::kDirectory, Ring({}, std::vector<uint32_t>(1024, 2)),
       "placement.range_owners[0]: 2 is no node"},
  };
  for (const auto& c : cases) {
    const auto ranges = RangesOfPlacement(Spec(c.kind), 2, c.placement);
    EXPECT_THAT(ranges, StatusIs(kInvalid, c.message));
    EXPECT_EQ(ReasonNameOf(ranges.status()), "BAD_FIELD");
  }
}

TEST(ExplicitPlacementTest, TooManyRangesAreRefusedBeforeTheyAreRead) {
  v1::ExplicitPlacement placement;
  placement.mutable_range_ends()->Resize(static_cast<int>(Membership::kMaxRanges) + 1, 0);
  placement.mutable_range_owners()->Resize(static_cast<int>(Membership::kMaxRanges) + 1, 0);
  EXPECT_THAT(RangesOfPlacement(Spec(PlacementKind::kRing), 1, placement),
              StatusIs(kInvalid, "over the limit of 8388608"));
}

}  // namespace
}  // namespace warmring
