#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace warmring {

// Delays between attempts: each is drawn from [limit / 2, limit], where the
// limit doubles from `min` to `max`, so that clients which failed together do
// not come back together. Pure: the randomness comes from the seed. Not
// thread-safe.
class Backoff {
 public:
  // REQUIRES: 0 < min <= max.
  Backoff(absl::Duration min, absl::Duration max, uint64_t seed)
      : min_(min), max_(max), limit_(min), state_(seed) {}

  absl::Duration Next();
  // The next delay starts from `min` again.
  void Reset() { limit_ = min_; }

 private:
  absl::Duration min_;
  absl::Duration max_;
  absl::Duration limit_;
  uint64_t state_;
};

}  // namespace warmring
