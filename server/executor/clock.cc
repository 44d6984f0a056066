#include "server/executor/clock.h"

#include <ctime>

#include "absl/time/clock.h"

#ifdef WARMRING_FAILPOINTS
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/base/clock_rate.h"
#endif

namespace warmring {
namespace {

#ifdef WARMRING_FAILPOINTS
ClockRate RateOfEnvironment() {
  const char* const text = std::getenv("WARMRING_CLOCK_RATE");
  const absl::StatusOr<ClockRate> rate = ClockRate::Parse(text == nullptr ? "" : text);
  if (rate.ok()) return *rate;
  std::fputs((std::string(rate.status().message()) + "\n").c_str(), stderr);
  _exit(2);
}

// As the process begins, so that a wrong text ends it then.
const ClockRate kRate = RateOfEnvironment();

Instant AtRate(Instant now) {
  static const Instant anchor = now;
  return kRate.Scale(anchor, now);
}
#else
Instant AtRate(Instant now) { return now; }
#endif

}  // namespace

Instant SystemClock::Boot() const {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return AtRate(Instant{int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec});
}

absl::Time SystemClock::Wall() const { return absl::Now(); }

}  // namespace warmring
