// A range is (start, end], clockwise, wrapping; a set of ranges is a set of points, whatever ranges
// it was made of.

#include "core/base/hash_range.h"

#include <bit>
#include <random>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace warmring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr HashPoint kTop = UINT64_MAX;

TEST(HashRangeTest, HoldsItsEndAndNotItsStart) {
  const HashRange range{10, 20};
  EXPECT_FALSE(range.Contains(10));
  EXPECT_TRUE(range.Contains(11));
  EXPECT_TRUE(range.Contains(20));
  EXPECT_FALSE(range.Contains(21));
  EXPECT_FALSE(range.Contains(0));
  EXPECT_FALSE(range.Contains(kTop));
  EXPECT_EQ(range.SizeMinusOne(), 9u);
}

TEST(HashRangeTest, Wraps) {
  const HashRange range{kTop - 1, 1};
  EXPECT_FALSE(range.Contains(kTop - 1));
  EXPECT_TRUE(range.Contains(kTop));
  EXPECT_TRUE(range.Contains(0));
  EXPECT_TRUE(range.Contains(1));
  EXPECT_FALSE(range.Contains(2));
  EXPECT_EQ(range.SizeMinusOne(), 2u);
}

TEST(HashRangeTest, EqualEndsAreTheWholeSpace) {
  for (const HashRange range : {HashRange::Whole(), HashRange{0, 0}, HashRange{7, 7}}) {
    for (const HashPoint point : {HashPoint{0}, HashPoint{6}, HashPoint{7}, HashPoint{8}, kTop}) {
      EXPECT_TRUE(range.Contains(point)) << range.ToString() << " " << point;
    }
    EXPECT_EQ(range.SizeMinusOne(), kTop);
    EXPECT_EQ(HashRangeSet({range}), HashRangeSet::Whole());
  }
}

TEST(HashRangeTest, SinglePoint) {
  EXPECT_TRUE((HashRange{kTop, 0}).Contains(0));
  EXPECT_FALSE((HashRange{kTop, 0}).Contains(kTop));
  EXPECT_FALSE((HashRange{kTop, 0}).Contains(1));
  EXPECT_TRUE((HashRange{kTop - 1, kTop}).Contains(kTop));
  EXPECT_EQ((HashRange{kTop - 1, kTop}).SizeMinusOne(), 0u);
}

TEST(HashRangeTest, WritesItself) {
  EXPECT_EQ((HashRange{0x11, kTop}).ToString(), "(0000000000000011, ffffffffffffffff]");
}

TEST(HashRangeSetTest, EmptyAndWhole) {
  const HashRangeSet empty;
  const HashRangeSet whole = HashRangeSet::Whole();
  EXPECT_TRUE(empty.empty());
  EXPECT_THAT(empty.Ranges(), IsEmpty());
  EXPECT_EQ(empty.Measure(), HashMeasure{0});
  EXPECT_FALSE(empty.Contains(0));
  EXPECT_THAT(whole.Ranges(), ElementsAre(HashRange::Whole()));
  EXPECT_EQ(whole.Measure(), HashMeasure{1} << 64);
  EXPECT_EQ(whole.Share(), 1.0);
  EXPECT_TRUE(whole.Includes(empty));
  EXPECT_TRUE(whole.Includes(whole));
  EXPECT_TRUE(empty.Includes(empty));
  EXPECT_FALSE(empty.Includes(whole));
  EXPECT_FALSE(whole.Intersects(empty));
  EXPECT_EQ(whole.Minus(whole), empty);
  EXPECT_EQ(whole.Minus(empty), whole);
  EXPECT_EQ(empty.Union(whole), whole);
  EXPECT_EQ(whole.Intersection(whole), whole);
}

TEST(HashRangeSetTest, AdjacentRangesBecomeOneAlsoAcrossZero) {
  EXPECT_THAT(HashRangeSet({{10, 20}, {20, 30}}).Ranges(), ElementsAre(HashRange{10, 30}));
  EXPECT_THAT(HashRangeSet({{kTop, 5}, {100, kTop}}).Ranges(), ElementsAre(HashRange{100, 5}));
  EXPECT_EQ(HashRangeSet({{5, 100}, {100, 5}}), HashRangeSet::Whole());
  EXPECT_THAT(HashRangeSet({{30, 40}, {50, 2}, {10, 20}}).Ranges(),
              ElementsAre(HashRange{10, 20}, HashRange{30, 40}, HashRange{50, 2}));
}

TEST(HashRangeSetTest, HalfOfTheSpaceIsOneHalf) {
  EXPECT_EQ(HashRangeSet({{kTop, kTop >> 1}}).Share(), 0.5);
}

// The space cut in 64 cells, so that a set of cells is a 64-bit mask.
constexpr uint32_t kCellShift = 58;

HashPoint CellFirst(int cell) { return static_cast<HashPoint>(cell) << kCellShift; }

HashRangeSet OfCells(uint64_t mask) {
  std::vector<HashRange> ranges;
  for (int cell = 0; cell < 64; ++cell) {
    if ((mask >> cell & 1) != 0) ranges.push_back({CellFirst(cell) - 1, CellFirst(cell + 1) - 1});
  }
  return HashRangeSet(ranges);
}

uint64_t ToCells(const HashRangeSet& set) {
  uint64_t mask = 0;
  for (int cell = 0; cell < 64; ++cell) {
    const bool first = set.Contains(CellFirst(cell));
    EXPECT_EQ(set.Contains(CellFirst(cell) + (HashPoint{1} << 57)), first) << cell;
    EXPECT_EQ(set.Contains(CellFirst(cell) | ((HashPoint{1} << 58) - 1)), first) << cell;
    if (first) mask |= uint64_t{1} << cell;
  }
  return mask;
}

// A mask of random density, so that long and short runs and the ends of the space all occur.
uint64_t RandomMask(std::mt19937_64& random) {
  uint64_t mask = random();
  for (uint64_t i = random() % 4; i > 0; --i)
    mask = random() % 2 == 0 ? mask & random() : mask | random();
  return mask;
}

// Random ranges whose union has these cells, overlapping and out of order.
std::pair<HashRangeSet, uint64_t> FromOverlappingRanges(std::mt19937_64& random) {
  std::vector<HashRange> ranges;
  uint64_t mask = 0;
  for (uint64_t i = random() % 5; i > 0; --i) {
    const int from = static_cast<int>(random() % 64);
    const int length = static_cast<int>(random() % 64) + 1;
    ranges.push_back({CellFirst(from) - 1, CellFirst((from + length) % 64) - 1});
    for (int j = 0; j < length; ++j) mask |= uint64_t{1} << ((from + j) % 64);
  }
  return {HashRangeSet(ranges), mask};
}

TEST(HashRangeSetTest, AlgebraAgreesWithMasks) {
  std::mt19937_64 random(20240611);
  for (int round = 0; round < 2000; ++round) {
    const uint64_t a = RandomMask(random);
    const uint64_t b = round % 3 == 0 ? a & RandomMask(random) : RandomMask(random);
    const HashRangeSet sa = OfCells(a);
    const HashRangeSet sb = OfCells(b);
    ASSERT_EQ(ToCells(sa), a);
    ASSERT_EQ(sa.Union(sb), OfCells(a | b));
    ASSERT_EQ(sa.Minus(sb), OfCells(a & ~b));
    ASSERT_EQ(sa.Intersection(sb), OfCells(a & b));
    ASSERT_EQ(ToCells(sa.Union(sb)), a | b);
    ASSERT_EQ(ToCells(sa.Minus(sb)), a & ~b);
    ASSERT_EQ(ToCells(sa.Intersection(sb)), a & b);
    ASSERT_EQ(sa.Intersects(sb), (a & b) != 0);
    ASSERT_EQ(sa.Includes(sb), (b & ~a) == 0);
    ASSERT_EQ(sa == sb, a == b);
    ASSERT_EQ(sa.empty(), a == 0);
    ASSERT_EQ(sa.Measure(), static_cast<HashMeasure>(std::popcount(a)) << kCellShift);
  }
}

TEST(HashRangeSetTest, RangesAreMaximalOrderedAndMakeTheSameSet) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    const auto [set, mask] = FromOverlappingRanges(random);
    ASSERT_EQ(ToCells(set), mask);
    const std::vector<HashRange> ranges = set.Ranges();
    ASSERT_EQ(HashRangeSet(ranges), set);
    // A maximal run begins at each set cell that follows a clear one.
    const uint64_t run_starts = mask & ~std::rotl(mask, 1);
    const size_t runs = mask == UINT64_MAX ? 1 : static_cast<size_t>(std::popcount(run_starts));
    ASSERT_EQ(ranges.size(), runs);
    for (size_t i = 1; i < ranges.size(); ++i)
      ASSERT_LT(ranges[i - 1].start + 1, ranges[i].start + 1);
  }
}

HashRangeSet Points(std::vector<HashRange> ranges) { return HashRangeSet(ranges); }

TEST(PlaneTest, APointIsOnOnePlane) {
  const HashRangeSet set = Points({{10, 20, 0}, {10, 20, 3}, {5, 7, 3}});
  EXPECT_TRUE(set.Contains(15));
  EXPECT_TRUE(set.Contains({15, 3}));
  EXPECT_FALSE(set.Contains({15, 1}));
  EXPECT_FALSE(set.Contains({15, 4}));
  EXPECT_FALSE(set.Contains({6, 0}));
  EXPECT_TRUE(set.Contains({6, 3}));
  EXPECT_FALSE((HashRange{10, 20, 3}.Contains(15)));
}

TEST(PlaneTest, RangesOfDifferentPlanesNeverJoin) {
  const HashRangeSet set =
      Points({{10, 20, 1}, {20, 30, 2}, {UINT64_MAX, 5, 2}, {40, UINT64_MAX, 1}});
  EXPECT_EQ(set.Ranges(), (std::vector<HashRange>{
                              {10, 20, 1}, {40, UINT64_MAX, 1}, {UINT64_MAX, 5, 2}, {20, 30, 2}}));
  EXPECT_EQ(set.Planes(), (std::vector<Plane>{1, 2}));
}

TEST(PlaneTest, EachPlaneWrapsForItself) {
  const HashRangeSet set = Points({{100, 50, 1}, {UINT64_MAX, UINT64_MAX, 2}, {7, 3, 0}});
  EXPECT_EQ(set.Ranges(),
            (std::vector<HashRange>{{7, 3, 0}, {100, 50, 1}, {UINT64_MAX, UINT64_MAX, 2}}));
  EXPECT_EQ(HashRangeSet(set.Ranges()), set);
  EXPECT_EQ(set.On(2), HashRangeSet::Whole(2));
  EXPECT_TRUE(set.On(5).empty());
}

TEST(PlaneTest, OnlyTheCommonPlaneIsMeasured) {
  EXPECT_EQ(HashRangeSet::Whole(4).Measure(), 0u);
  EXPECT_EQ(HashRangeSet::Whole().Union(HashRangeSet::Whole(4)).Share(), 1.0);
}

TEST(PlaneTest, PointsAreCarriedToAnotherPlane) {
  const HashRangeSet common = Points({{100, 50}, {60, 70}});
  EXPECT_EQ(common.CarriedTo(9), Points({{100, 50, 9}, {60, 70, 9}}));
  EXPECT_EQ(common.CarriedTo(9).CarriedTo(kCommonPlane), common);
}

TEST(PlaneTest, TextNamesThePlane) {
  EXPECT_EQ((HashRange{1, 2, 7}.ToString()), "7:(0000000000000001, 0000000000000002]");
  EXPECT_EQ((HashRange{1, 2}.ToString()), "(0000000000000001, 0000000000000002]");
}

// Sets of points 0..31 on three planes against bit sets.
TEST(PlaneTest, TheAlgebraIsThatOfSets) {
  uint64_t state = 11;
  const auto next = [&state](uint64_t below) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return (state >> 33) % below;
  };
  constexpr HashPoint kPoints = 32;
  const auto random_set = [&](std::set<std::pair<Plane, HashPoint>>& model) {
    std::vector<HashRange> ranges;
    for (uint64_t i = next(6); i > 0; --i) {
      const auto plane = static_cast<Plane>(next(3));
      const HashPoint first = next(kPoints);
      const HashPoint last = first + next(kPoints - first);
      ranges.push_back({first - 1, last, plane});
      for (HashPoint p = first; p <= last; ++p) model.insert({plane, p});
    }
    return HashRangeSet(ranges);
  };
  for (int round = 0; round < 2000; ++round) {
    std::set<std::pair<Plane, HashPoint>> in_a;
    std::set<std::pair<Plane, HashPoint>> in_b;
    const HashRangeSet a = random_set(in_a);
    const HashRangeSet b = random_set(in_b);
    const HashRangeSet both = a.Intersection(b);
    const HashRangeSet any = a.Union(b);
    const HashRangeSet rest = a.Minus(b);
    bool meets = false;
    bool includes = true;
    for (Plane plane = 0; plane < 3; ++plane) {
      for (HashPoint p = 0; p < kPoints; ++p) {
        const bool x = in_a.contains({plane, p});
        const bool y = in_b.contains({plane, p});
        ASSERT_EQ(both.Contains({p, plane}), x && y) << round;
        ASSERT_EQ(any.Contains({p, plane}), x || y) << round;
        ASSERT_EQ(rest.Contains({p, plane}), x && !y) << round;
        meets = meets || (x && y);
        includes = includes && (x || !y);
      }
    }
    ASSERT_EQ(a.Intersects(b), meets);
    ASSERT_EQ(a.Includes(b), includes);
    ASSERT_EQ(HashRangeSet(any.Ranges()), any);
    ASSERT_EQ(HashRangeSet(rest.Ranges()), rest);
  }
}

}  // namespace
}  // namespace warmring
