#pragma once

#include <optional>

#include "absl/time/time.h"
#include "core/base/instant.h"

namespace warmring {

// This client's part of the origin fills that all clients of a keyspace may do per second: a token
// bucket that holds a tenth of a second's worth, at least one. Pure: time arrives as a value. Not
// thread-safe.
class FillBudget {
 public:
  // Zero or less: unlimited.
  void SetRate(double per_second);

  // Takes one fill and tells how long to wait before it; those who come later wait longer. Nothing
  // when that would be longer than `max_wait`: nothing was taken.
  std::optional<absl::Duration> Take(Instant now, absl::Duration max_wait);

 private:
  absl::Duration interval_;   // between two fills; zero: unlimited
  absl::Duration tolerance_;  // how far ahead of its interval a fill may be
  Instant next_;              // when the next fill is due by the rate
};

}  // namespace warmring
