#include "client/base/boot_clock.h"

#include <sys/random.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>

#ifdef WARMRING_FAILPOINTS
#include <unistd.h>

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

void FillRandom(void* bytes, size_t count) {
  if (getrandom(bytes, count, 0) == static_cast<ssize_t>(count)) return;
  std::fputs("warmring: getrandom failed: the system has no random source\n", stderr);
  std::abort();
}

}  // namespace

Instant BootNow() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return AtRate(Instant{now.tv_sec * 1'000'000'000 + now.tv_nsec});
}

uint64_t RandomSeed() {
  uint64_t seed = 0;
  FillRandom(&seed, sizeof(seed));
  return seed;
}

Incarnation RandomIncarnation() {
  uint64_t words[2] = {0, 0};
  FillRandom(words, sizeof(words));
  return Incarnation{{words[0], words[1]}};
}

}  // namespace warmring
