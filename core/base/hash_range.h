#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Intervals of the 64-bit hash space, the one unit that both placements share: an arc of a ring or
// a bucket of a directory. Pure values, any thread.

namespace warmring {

using HashPoint = uint64_t;

// Counts points of hash space: the whole space has 2^64 of them, one more than 64 bits hold.
__extension__ typedef unsigned __int128 HashMeasure;

// The half-open run `(start, end]` of hash space, clockwise, wrapping at 2^64.
// `start == end` is the whole space. There is no empty HashRange.
struct HashRange {
  HashPoint start = 0;
  HashPoint end = 0;

  static constexpr HashRange Whole() { return {UINT64_MAX, UINT64_MAX}; }

  // Points in the range minus one, so that the whole space fits: 2^64 - 1.
  constexpr uint64_t SizeMinusOne() const { return end - start - 1; }
  constexpr bool Contains(HashPoint h) const { return h - start - 1 <= SizeMinusOne(); }
  std::string ToString() const;  // "(0011..., ffee...]"
  friend bool operator==(const HashRange&, const HashRange&) = default;
};

// A set of points, kept as sorted disjoint maximal ranges. Value type, any thread.
class HashRangeSet {
 public:
  HashRangeSet() = default;
  explicit HashRangeSet(const std::vector<HashRange>& ranges);

  static HashRangeSet Whole();

  bool empty() const { return spans_.empty(); }
  bool Contains(HashPoint h) const;
  bool Intersects(const HashRangeSet& other) const;
  bool Includes(const HashRangeSet& other) const;  // other is a subset of this
  HashRangeSet Union(const HashRangeSet& other) const;
  HashRangeSet Minus(const HashRangeSet& other) const;
  HashRangeSet Intersection(const HashRangeSet& other) const;

  // Maximal ranges in order of their first point; one that wraps comes last.
  std::vector<HashRange> Ranges() const;

  // Number of points; the whole space is 2^64, hence the width.
  HashMeasure Measure() const;
  // Measure / 2^64, for people; never used to decide.
  double Share() const;

  friend bool operator==(const HashRangeSet&, const HashRangeSet&) = default;

 private:
  // Closed, non-wrapping, sorted, disjoint and not adjacent.
  struct Span {
    HashPoint first;
    HashPoint last;
    friend bool operator==(const Span&, const Span&) = default;
  };
  void Normalise();
  HashRangeSet Complement() const;

  std::vector<Span> spans_;
};

}  // namespace warmring
