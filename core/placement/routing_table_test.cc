// A compiled table finds what a binary search over the ends finds: the first end at or clockwise
// after the point, wrapping.

#include "core/placement/routing_table.h"

#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace warmring {
namespace {

constexpr HashPoint kTop = UINT64_MAX;

size_t Expected(const std::vector<HashPoint>& ends, HashPoint point) {
  auto it = std::lower_bound(ends.begin(), ends.end(), point);
  return it == ends.end() ? 0 : static_cast<size_t>(it - ends.begin());
}

// Probes at, just before and just after each end, at the ends of the space, and at random.
void ExpectAgrees(const std::vector<HashPoint>& ends, std::mt19937_64& random) {
  const RoutingTable table = RoutingTable::Build(ends);
  std::vector<uint32_t> numbers;
  for (uint32_t i = 0; i < ends.size(); ++i) numbers.push_back(i * 3);
  const RoutingTable with_numbers = RoutingTable::Build(ends, numbers, 1);
  std::vector<HashPoint> points = {0, 1, kTop, kTop - 1, kTop >> 1, (kTop >> 1) + 1};
  for (const HashPoint end : ends) {
    points.insert(points.end(), {end - 1, end, end + 1});
  }
  for (int i = 0; i < 1000; ++i) points.push_back(random());
  for (const HashPoint point : points) {
    ASSERT_EQ(table.Find(point), Expected(ends, point)) << point << " among " << ends.size();
    ASSERT_EQ(with_numbers.Find(point), Expected(ends, point));
    ASSERT_EQ(with_numbers.Value(point), numbers[Expected(ends, point)]);
  }
}

std::vector<HashPoint> Sorted(const std::set<HashPoint>& ends) {
  return {ends.begin(), ends.end()};
}

std::vector<HashPoint> BucketEnds(uint32_t bits) {
  std::vector<HashPoint> ends;
  for (uint64_t i = 0; i < uint64_t{1} << bits; ++i) ends.push_back(BucketEnd(bits, i));
  return ends;
}

TEST(BucketEndTest, LastBucketEndsAtTheTop) {
  EXPECT_EQ(BucketEnd(1, 0), 0x7fffffffffffffffu);
  EXPECT_EQ(BucketEnd(1, 1), kTop);
  EXPECT_EQ(BucketEnd(14, 0), 0x0003ffffffffffffu);
  EXPECT_EQ(BucketEnd(14, 16383), kTop);
  EXPECT_EQ(BucketEnd(20, 0), 0x00000fffffffffffu);
}

TEST(RoutingTableTest, BucketOfAHashIsItsTopBits) {
  const RoutingTable table = RoutingTable::Build(BucketEnds(14));
  EXPECT_EQ(table.Find(0), 0u);
  EXPECT_EQ(table.Find(kTop), 16383u);
  EXPECT_EQ(table.Find(0x123456789abcdef0), size_t{0x123456789abcdef0 >> 50});
}

TEST(RoutingTableTest, UniformEnds) {
  std::mt19937_64 random(1);
  for (const uint32_t bits : {1u, 2u, 10u, 12u}) ExpectAgrees(BucketEnds(bits), random);
}

TEST(RoutingTableTest, AlmostUniformEndsAreNotTakenForUniform) {
  std::mt19937_64 random(2);
  for (const size_t moved : {size_t{0}, size_t{1}, size_t{512}, size_t{1022}, size_t{1023}}) {
    std::vector<HashPoint> ends = BucketEnds(10);
    ends[moved] -= 1;
    ExpectAgrees(ends, random);
    ends.erase(ends.begin() + static_cast<std::ptrdiff_t>(moved));
    ExpectAgrees(ends, random);
  }
}

TEST(RoutingTableTest, OneEndOwnsEverything) {
  std::mt19937_64 random(3);
  for (const HashPoint end : {HashPoint{0}, HashPoint{1}, HashPoint{12345}, kTop >> 1, kTop}) {
    ExpectAgrees({end}, random);
    EXPECT_EQ(RoutingTable::Build({end}).Find(random()), 0u);
  }
}

TEST(RoutingTableTest, EndsAtTheEndsOfTheSpace) {
  std::mt19937_64 random(4);
  ExpectAgrees({0, kTop}, random);
  ExpectAgrees({0, 1}, random);
  ExpectAgrees({kTop - 1, kTop}, random);
  ExpectAgrees({0, 1, 2, kTop - 2, kTop - 1, kTop}, random);
}

TEST(RoutingTableTest, RandomEnds) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    std::set<HashPoint> ends;
    const uint64_t size = random() % (round < 100 ? 8 : 700) + 1;
    while (ends.size() < size) ends.insert(random());
    if (round % 3 == 0) ends.insert(0);
    if (round % 5 == 0) ends.insert(kTop);
    ExpectAgrees(Sorted(ends), random);
  }
}

TEST(RoutingTableTest, EndsCrowdedInOneCell) {
  std::mt19937_64 random(6);
  for (const HashPoint base : {HashPoint{0}, HashPoint{1} << 40, kTop - 3000}) {
    std::set<HashPoint> ends;
    while (ends.size() < 300) ends.insert(base + random() % 3000);
    ExpectAgrees(Sorted(ends), random);
  }
}

// Ends that agree in every bit that a cell keeps are told apart by their low bits.
TEST(RoutingTableTest, EndsThatDifferInTheirLowestBitsOnly) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    std::set<HashPoint> ends;
    while (ends.size() < 400) {
      const HashPoint base = random();
      for (const HashPoint step : {0u, 1u, 2u, 7u}) ends.insert(base + step);
    }
    ExpectAgrees(Sorted(ends), random);
  }
}

// The largest fraction is what an empty lane holds.
TEST(RoutingTableTest, EndsAtTheEndsOfCells) {
  std::mt19937_64 random(8);
  std::set<HashPoint> ends;
  for (uint64_t cell = 0; cell < 64; ++cell) {
    const HashPoint last = (cell << 58) - 1;
    ends.insert({last, last + 1, last - (uint64_t{1} << 26), (cell << 58) + random() % 1000});
  }
  ExpectAgrees(Sorted(ends), random);
}

// (number of ranges, width, largest number)
void ExpectRows(const std::vector<HashPoint>& ends, uint32_t width, uint32_t largest) {
  std::mt19937_64 random(9);
  std::vector<uint32_t> values;
  for (size_t i = 0; i < ends.size() * width; ++i) {
    values.push_back(static_cast<uint32_t>(random() % (uint64_t{largest} + 1)));
  }
  values.back() = largest;
  const RoutingTable table = RoutingTable::Build(ends, values, width);
  for (int i = 0; i < 2000; ++i) {
    const HashPoint point = i < 2 ? HashPoint{0} - static_cast<HashPoint>(i) : random();
    const size_t range = Expected(ends, point);
    const RoutingTable::Row row = table.Values(point);
    ASSERT_EQ(table.Value(point), values[range * width]);
    for (uint32_t rank = 0; rank < width; ++rank) {
      ASSERT_EQ(row[rank], values[range * width + rank]) << "rank " << rank << " of " << width;
    }
  }
}

TEST(RoutingTableTest, RowsHoldTheNumbersOfTheirRange) {
  std::mt19937_64 random(10);
  std::set<HashPoint> ends;
  while (ends.size() < 3000) ends.insert(random());
  for (const uint32_t width : {1u, 2u, 3u, 4u, 5u, 8u, 16u, 17u, 32u}) {
    for (const uint32_t largest : {0u, 65535u, 65536u, UINT32_MAX}) {
      ExpectRows(Sorted(ends), width, largest);
      ExpectRows(BucketEnds(10), width, largest);
      ExpectRows({kTop >> 1}, width, largest);
    }
  }
}

// A table with other numbers finds what a table that is built of them finds.
void ExpectWithValuesIsBuild(const std::vector<HashPoint>& ends, uint32_t width,
                             std::mt19937_64& random) {
  const auto draw = [&](size_t count, uint32_t largest) {
    std::vector<uint32_t> values;
    for (size_t i = 0; i < count; ++i) {
      values.push_back(static_cast<uint32_t>(random() % (uint64_t{largest} + 1)));
    }
    return values;
  };
  for (const uint32_t before : {65'535U, UINT32_MAX}) {
    for (const uint32_t after : {65'535U, UINT32_MAX}) {
      std::vector<uint32_t> values = draw(ends.size() * width, before);
      const RoutingTable base = RoutingTable::Build(ends, values, width);
      const std::vector<uint32_t> other = draw(ends.size() * width, after);
      const RoutingTable renewed = base.WithValues(other, width);
      const std::vector<uint32_t> rows = {0, static_cast<uint32_t>(ends.size() / 2),
                                          static_cast<uint32_t>(ends.size() - 1)};
      const std::vector<uint32_t> some = draw(rows.size() * width, after);
      const RoutingTable patched = base.WithRows(rows, some, width);
      for (size_t i = 0; i < some.size(); ++i) {
        values[rows[i / width] * width + i % width] = some[i];
      }
      std::vector<HashPoint> points = {0, kTop, ends[0], ends[ends.size() / 2], ends.back()};
      for (int i = 0; i < 500; ++i) points.push_back(random());
      for (const HashPoint point : points) {
        const size_t range = Expected(ends, point);
        ASSERT_EQ(renewed.Find(point), range);
        ASSERT_EQ(patched.Find(point), range);
        for (uint32_t rank = 0; rank < width; ++rank) {
          ASSERT_EQ(renewed.Values(point)[rank], other[range * width + rank]);
          ASSERT_EQ(patched.Values(point)[rank], values[range * width + rank]);
          ASSERT_EQ(patched.RowAt(range)[rank], values[range * width + rank]);
        }
      }
    }
  }
}

TEST(RoutingTableTest, NumbersChangeUnderTheSameEnds) {
  std::mt19937_64 random(12);
  std::set<HashPoint> ends;
  while (ends.size() < 3000) ends.insert(random());
  for (const uint32_t width : {1u, 2u, 3u, 17u}) {
    ExpectWithValuesIsBuild(Sorted(ends), width, random);
    ExpectWithValuesIsBuild(BucketEnds(10), width, random);
    ExpectWithValuesIsBuild({kTop >> 1}, width, random);
  }
}

TEST(RoutingTableTest, ATableOutlivesTheOneWhoseEndsItShares) {
  std::mt19937_64 random(13);
  std::set<HashPoint> ends;
  while (ends.size() < 3000) ends.insert(random());
  RoutingTable table = RoutingTable::Build(Sorted(ends), std::vector<uint32_t>(3000, 1), 1);
  table = table.WithValues(std::vector<uint32_t>(3000, 2), 1);
  table = table.WithRows({7}, {3}, 1);
  for (int i = 0; i < 1000; ++i) {
    const HashPoint point = random();
    const size_t range = Expected(Sorted(ends), point);
    ASSERT_EQ(table.Find(point), range);
    ASSERT_EQ(table.Value(point), range == 7 ? 3U : 2U);
  }
}

TEST(RoutingTableTest, ARowOfUpToALineLiesInOneLine) {
  for (uint32_t width = 2; width <= RoutingTable::kMaxWidth; ++width) {
    for (const bool narrow : {true, false}) {
      if (!narrow && width > 16) continue;
      const std::vector<uint32_t> values(1024 * width, narrow ? 65535 : 65536);
      const RoutingTable table = RoutingTable::Build(BucketEnds(10), values, width);
      for (uint64_t bucket = 0; bucket < 1024; ++bucket) {
        const RoutingTable::Row row = table.Values(bucket << 54);
        ASSERT_EQ(row.LineOf(0), row.LineOf(width - 1)) << width << " at " << bucket;
      }
    }
  }
}

TEST(RoutingTableTest, ATokenCostsAtMostTwentyFourBytes) {
  std::mt19937_64 random(11);
  for (const size_t size : {size_t{1600}, size_t{16'000}, size_t{160'000}}) {
    std::set<HashPoint> ends;
    while (ends.size() < size) ends.insert(random());
    const std::vector<uint32_t> owners(size, 7);
    const RoutingTable table = RoutingTable::Build(Sorted(ends), owners, 1);
    EXPECT_LE(table.MemoryBytes(), size * 24) << size;
  }
  const std::vector<uint32_t> owners(size_t{1} << 16, 7);
  const RoutingTable directory = RoutingTable::Build(BucketEnds(16), owners, 1);
  EXPECT_EQ(directory.MemoryBytes(), ((size_t{1} << 16) + 1) * 2);
}

}  // namespace
}  // namespace warmring
