// A set of points that consists of whole ranges names exactly those; any other set is refused with
// the boundary that is missing.

#include "core/membership/range_cover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<OwnedRange> kRanges = {
    {100, 0, Epoch(1)}, {200, 0, Epoch(1)}, {300, 0, Epoch(1)}, {400, 0, Epoch(1)}};

std::vector<size_t> Covered(const HashRangeSet& set) {
  absl::StatusOr<std::vector<size_t>> covered = CoveredRanges(kRanges, set);
  EXPECT_OK(covered);
  return covered.ok() ? *covered : std::vector<size_t>{999};
}

TEST(CoveredRangesTest, WholeRanges) {
  EXPECT_THAT(Covered(HashRangeSet()), IsEmpty());
  EXPECT_THAT(Covered(HashRangeSet({{100, 200}})), ElementsAre(1));
  EXPECT_THAT(Covered(HashRangeSet({{100, 300}})), ElementsAre(1, 2));
  EXPECT_THAT(Covered(HashRangeSet({{100, 200}, {300, 400}})), ElementsAre(1, 3));
  EXPECT_THAT(Covered(HashRangeSet({{400, 100}})), ElementsAre(0));
  EXPECT_THAT(Covered(HashRangeSet({{300, 200}})), ElementsAre(3, 0, 1));
  EXPECT_THAT(Covered(HashRangeSet::Whole()), ElementsAre(0, 1, 2, 3));
}

TEST(CoveredRangesTest, PartsOfRangesAreRefused) {
  const struct {
    HashRange range;
    std::string point;
  } cases[] = {
      {{150, 200}, "no range ends at 0000000000000096"},
      {{100, 201}, "no range ends at 00000000000000c9"},
      {{UINT64_MAX, 100}, "no range ends at ffffffffffffffff"},
      {{400, UINT64_MAX}, "no range ends at ffffffffffffffff"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(CoveredRanges(kRanges, HashRangeSet({c.range})),
                StatusIs(absl::StatusCode::kInvalidArgument, c.point));
  }
}

TEST(CoveredRangesTest, OneRangeIsCoveredByTheWholeSpaceOnly) {
  const std::vector<OwnedRange> one = {{7, 0, Epoch(1)}};
  ASSERT_OK_AND_ASSIGN(const std::vector<size_t> covered,
                       CoveredRanges(one, HashRangeSet({{7, 7}})));
  EXPECT_THAT(covered, ElementsAre(0));
  EXPECT_THAT(CoveredRanges(one, HashRangeSet({{7, 8}})),
              StatusIs(absl::StatusCode::kInvalidArgument, "no range ends at 0000000000000008"));
}

TEST(RangeEndingAtTest, FindsTheEndOnly) {
  EXPECT_EQ(RangeEndingAt(kRanges, 100), 0u);
  EXPECT_EQ(RangeEndingAt(kRanges, 400), 3u);
  EXPECT_EQ(RangeEndingAt(kRanges, 99), 4u);
  EXPECT_EQ(RangeEndingAt(kRanges, 401), 4u);
}

}  // namespace
}  // namespace warmring
