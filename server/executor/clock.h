#pragma once

#include "absl/time/time.h"
#include "core/base/instant.h"

namespace warmring {

// The server's one source of time. Any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  // CLOCK_BOOTTIME: leases and timers. Counts suspend, never steps.
  virtual Instant Boot() const = 0;
  // The wall clock: for people, never to decide.
  virtual absl::Time Wall() const = 0;
};

// The machine's clocks.
class SystemClock final : public Clock {
 public:
  Instant Boot() const override;
  absl::Time Wall() const override;
};

}  // namespace warmring
