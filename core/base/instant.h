#pragma once

#include <compare>
#include <cstdint>

#include "absl/time/time.h"

namespace warmring {

// A reading of one machine's CLOCK_BOOTTIME: counts suspend, never steps. Comparable only with
// readings of the same machine since the same boot. Leases are arithmetic on Instants.
struct Instant {
  int64_t nanos = 0;

  static constexpr Instant Never() { return Instant{INT64_MAX}; }

  friend auto operator<=>(const Instant&, const Instant&) = default;
  friend Instant operator+(Instant t, absl::Duration d) {
    return t == Never() ? t : Instant{t.nanos + absl::ToInt64Nanoseconds(d)};
  }
  friend absl::Duration operator-(Instant a, Instant b) {
    return absl::Nanoseconds(a.nanos - b.nanos);
  }
};

}  // namespace warmring
