#pragma once

#include <cstdint>

namespace warmring::sim {

// Chance that a seed repeats (splitmix64). Not thread-safe.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // REQUIRES: n > 0.
  uint64_t Below(uint64_t n) { return Next() % n; }
  // In [low, high]. REQUIRES: low <= high.
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low) + 1));
  }
  bool Chance(uint32_t per_mille) { return Below(1000) < per_mille; }

 private:
  uint64_t state_;
};

}  // namespace warmring::sim
