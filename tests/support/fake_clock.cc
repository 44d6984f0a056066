#include "tests/support/fake_clock.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace warmring::support {

FakeClock::FakeClock() : FakeClock(absl::FromUnixSeconds(1'800'000'000)) {}

absl::Time FakeClock::Now() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return wall_;
}

absl::Duration FakeClock::SinceBoot() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return since_boot_;
}

Instant FakeClock::Boot() const { return Instant{absl::ToInt64Nanoseconds(SinceBoot())}; }

void FakeClock::Advance(absl::Duration by) {
  if (by < absl::ZeroDuration()) {
    std::fprintf(stderr, "FakeClock::Advance(%s): time never goes back; use SetWall\n",
                 absl::FormatDuration(by).c_str());
    std::abort();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  wall_ += by;
  since_boot_ += by;
}

void FakeClock::SetWall(absl::Time wall) {
  const std::lock_guard<std::mutex> lock(mutex_);
  wall_ = wall;
}

}  // namespace warmring::support
