#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/hash_range.h"

namespace warmring {

// The end of bucket `bucket` on a directory of 2^bits buckets. REQUIRES: bits in 1..63.
constexpr HashPoint BucketEnd(uint32_t bits, uint64_t bucket) {
  // For the last bucket the left side wraps to 0, so that its end is 2^64 - 1.
  return ((bucket + 1) << (64 - bits)) - 1;
}

// The compiled form of an ordered list of range ends: hash point -> index of its range. One class
// for both placements. Uniform ends (a directory) cost one shift; others (a ring) a top-bits index
// and a short scan. Immutable after Build, any thread.
class RoutingTable {
 public:
  RoutingTable() = default;

  // REQUIRES: `ends` sorted, unique, not empty. Range i is (ends[i-1], ends[i]]; range 0 wraps.
  static RoutingTable Build(const std::vector<HashPoint>& ends);

  // Index of the first end at or clockwise after `h`.
  size_t Find(HashPoint h) const {
    if (uniform_shift_ != 0) return static_cast<size_t>(h >> uniform_shift_);
    size_t i = index_[static_cast<size_t>(h >> index_shift_)];
    while (i < ends_.size() && ends_[i] < h) ++i;
    return i == ends_.size() ? 0 : i;
  }

 private:
  std::vector<HashPoint> ends_;  // empty when uniform
  std::vector<uint32_t> index_;  // by top bits: first range whose end is >= the cell's first point
  uint32_t index_shift_ = 0;     // 64 - index bits
  uint32_t uniform_shift_ = 0;   // not 0: ends are uniform, range = h >> shift
};

}  // namespace warmring
