#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

// Intervals of the 64-bit hash space, the one unit that both placements share: an arc of a ring or
// a bucket of a directory. Pure values, any thread.
//
// There is more than one such space. Keys hash into the common plane, number 0; the keys that an
// override matches (core/membership/override.h) hash into a plane of their own, so that they can be
// owned, fenced, copied and moved apart from all others by what works on ranges.

namespace warmring {

using HashPoint = uint64_t;

using Plane = uint32_t;
inline constexpr Plane kCommonPlane = 0;

// Where a key is: its hash, and the plane that it counts in.
struct KeyPoint {
  HashPoint hash = 0;
  Plane plane = kCommonPlane;

  KeyPoint() = default;
  // Implicit: most keys are in the common plane.
  constexpr KeyPoint(HashPoint h, Plane p = kCommonPlane) : hash(h), plane(p) {}
  friend auto operator<=>(const KeyPoint&, const KeyPoint&) = default;
};

// Counts points of hash space: the whole space has 2^64 of them, one more than 64 bits hold.
__extension__ typedef unsigned __int128 HashMeasure;

// The half-open run `(start, end]` of one plane, clockwise, wrapping at 2^64.
// `start == end` is the whole plane. There is no empty HashRange.
struct HashRange {
  HashPoint start = 0;
  HashPoint end = 0;
  Plane plane = kCommonPlane;

  static constexpr HashRange Whole(Plane plane = kCommonPlane) {
    return {UINT64_MAX, UINT64_MAX, plane};
  }

  // Points in the range minus one, so that the whole space fits: 2^64 - 1.
  constexpr uint64_t SizeMinusOne() const { return end - start - 1; }
  constexpr bool Contains(KeyPoint p) const {
    return p.plane == plane && p.hash - start - 1 <= SizeMinusOne();
  }
  std::string ToString() const;  // "(0011..., ffee...]", "3:(0011..., ffee...]" on plane 3
  friend bool operator==(const HashRange&, const HashRange&) = default;
};

// A set of points of any planes, kept as sorted disjoint maximal ranges. Value type, any thread.
class HashRangeSet {
 public:
  HashRangeSet() = default;
  explicit HashRangeSet(const std::vector<HashRange>& ranges);

  static HashRangeSet Whole(Plane plane = kCommonPlane);

  bool empty() const { return spans_.empty(); }
  bool Contains(KeyPoint p) const;
  bool Intersects(const HashRangeSet& other) const;
  bool Includes(const HashRangeSet& other) const;  // other is a subset of this
  HashRangeSet Union(const HashRangeSet& other) const;
  HashRangeSet Minus(const HashRangeSet& other) const;
  HashRangeSet Intersection(const HashRangeSet& other) const;

  // Maximal ranges by plane, then in order of their first point; one that wraps is the last of its
  // plane.
  std::vector<HashRange> Ranges() const;

  // The planes that it has points of, ascending.
  std::vector<Plane> Planes() const;
  // Its points on `plane`.
  HashRangeSet On(Plane plane) const;
  // The points of the common plane that are in it, on `plane` instead.
  HashRangeSet CarriedTo(Plane plane) const;

  // Number of its points in the common plane, of which there are 2^64, hence the width. How much of
  // the data the points of another plane stand for cannot be told from their number.
  HashMeasure Measure() const;
  // Measure / 2^64, for people; never used to decide.
  double Share() const;

  friend bool operator==(const HashRangeSet&, const HashRangeSet&) = default;

 private:
  // Closed, non-wrapping, sorted, disjoint and not adjacent.
  struct Span {
    Plane plane;
    HashPoint first;
    HashPoint last;
    friend bool operator==(const Span&, const Span&) = default;
  };
  void Normalise();

  std::vector<Span> spans_;
};

}  // namespace warmring
