#include "client/base/boot_clock.h"

#include <sys/random.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>

namespace warmring {
namespace {

void FillRandom(void* bytes, size_t count) {
  if (getrandom(bytes, count, 0) == static_cast<ssize_t>(count)) return;
  std::fputs("warmring: getrandom failed: the system has no random source\n", stderr);
  std::abort();
}

}  // namespace

Instant BootNow() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return Instant{now.tv_sec * 1'000'000'000 + now.tv_nsec};
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
