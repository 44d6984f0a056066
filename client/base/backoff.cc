#include "client/base/backoff.h"

#include <algorithm>

namespace warmring {
namespace {

// SplitMix64: one addition and three mixes, and good for any seed.
uint64_t NextRandom(uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

absl::Duration Backoff::Next() {
  const double fraction = static_cast<double>(NextRandom(state_) >> 11) * 0x1p-53;
  const absl::Duration delay = limit_ * (0.5 + fraction / 2);
  limit_ = std::min(limit_ * 2, max_);
  return delay;
}

}  // namespace warmring
