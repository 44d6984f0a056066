#pragma once

#include <mutex>

#include "absl/time/time.h"
#include "core/base/instant.h"

namespace warmring::support {

// A clock that moves only when the test moves it: a wall clock, which may jump either way, and a
// monotonic time since boot, on which leases are counted and which never goes back.
//
// Thread rule: all methods from any thread.
class FakeClock {
 public:
  FakeClock();
  explicit FakeClock(absl::Time wall) : wall_(wall) {}

  absl::Time Now() const;
  absl::Duration SinceBoot() const;
  // SinceBoot as the core's value.
  Instant Boot() const;

  // Time passes on both clocks. REQUIRES: `by` >= 0 (checked).
  void Advance(absl::Duration by);
  // Somebody sets the wall clock; no time passes.
  void SetWall(absl::Time wall);

 private:
  mutable std::mutex mutex_;
  absl::Time wall_;                                  // guarded by mutex_
  absl::Duration since_boot_ = absl::Seconds(1000);  // guarded by mutex_; never the zero of a bug
};

}  // namespace warmring::support
