#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "core/base/instant.h"

namespace warmring {

// How much faster than the machine's clock the readings of a process run, for tests of what leases
// promise while clocks are within the bound on their rates, and of what happens beyond it. A value.
//
// In builds with WARMRING_FAILPOINTS, and in no other, the environment variable WARMRING_CLOCK_RATE
// ("1.02") is the rate of a process' readings of CLOCK_BOOTTIME from its first one on: of
// warmringd, of what uses the client library, such as agents, and of a Redis with the module. No
// reading leaves its process (what is sent are durations and sequence numbers), so that those of
// two processes are never compared. A text that is no rate ends a process at its start, and the
// module does not load.
class ClockRate {
 public:
  static constexpr double kLeast = 0.1;
  static constexpr double kMost = 10;

  // The machine's own.
  ClockRate() = default;

  // Reads "1.02": a decimal number from kLeast to kMost; empty is 1.
  //
  // Error: InvalidArgument naming the variable WARMRING_CLOCK_RATE, where the text comes from, what
  // is there, and what may be.
  [[nodiscard]] static absl::StatusOr<ClockRate> Parse(std::string_view text);

  double value() const { return rate_; }

  // What such a clock shows at `now` when it showed the truth at `anchor`. The same rate and anchor
  // never go back while `now` does not.
  Instant Scale(Instant anchor, Instant now) const;

 private:
  explicit ClockRate(double rate) : rate_(rate) {}

  double rate_ = 1;
};

}  // namespace warmring
