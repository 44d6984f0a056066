#include "server/executor/clock.h"

#include <ctime>

#include "absl/time/clock.h"

namespace warmring {

Instant SystemClock::Boot() const {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return Instant{int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec};
}

absl::Time SystemClock::Wall() const { return absl::Now(); }

}  // namespace warmring
