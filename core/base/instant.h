#pragma once

#include <compare>
#include <cstdint>

#include "absl/time/time.h"

namespace warmring {

// A reading of one machine's CLOCK_BOOTTIME: counts suspend, never steps. Comparable only with
// readings of the same machine since the same boot. Leases are arithmetic on Instants, which
// saturates: Never() stays what it is, and an infinite duration leads to it.
struct Instant {
  int64_t nanos = 0;

  static constexpr Instant Never() { return Instant{INT64_MAX}; }

  friend auto operator<=>(const Instant&, const Instant&) = default;
  friend Instant operator+(Instant t, absl::Duration d) {
    int64_t sum = 0;
    const int64_t delta = absl::ToInt64Nanoseconds(d);
    if (t == Never() || d == absl::InfiniteDuration()) return Never();
    if (__builtin_add_overflow(t.nanos, delta, &sum))
      return Instant{delta > 0 ? INT64_MAX : INT64_MIN};
    return Instant{sum};
  }
  friend absl::Duration operator-(Instant a, Instant b) {
    return absl::Nanoseconds(a.nanos) - absl::Nanoseconds(b.nanos);
  }
};

}  // namespace warmring
