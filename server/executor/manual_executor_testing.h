#pragma once

#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "absl/time/time.h"
#include "server/executor/clock.h"
#include "server/executor/executor.h"
#include "tests/support/fake_clock.h"

// Time and strands that move only when a test moves them.

namespace warmring {

class ManualClock final : public Clock {
 public:
  Instant Boot() const override { return fake_.Boot(); }
  absl::Time Wall() const override { return fake_.Now(); }
  void Advance(absl::Duration by) { fake_.Advance(by); }

 private:
  support::FakeClock fake_;
};

// Runs everything on the thread of the test. Not thread-safe.
class ManualExecutor final : public Executor {
 public:
  explicit ManualExecutor(ManualClock* clock) : clock_(clock) {}

  void Post(std::function<void()> work) override { ready_.push_back(std::move(work)); }
  void RunAt(Instant when, std::function<void()> work) override {
    if (when != Instant::Never()) timers_.emplace(when, std::move(work));
  }

  // Runs what is posted, and what that posts, until nothing is left; then due timers likewise.
  void RunUntilIdle() {
    while (true) {
      if (!ready_.empty()) {
        const std::function<void()> work = std::move(ready_.front());
        ready_.pop_front();
        work();
      } else if (!timers_.empty() && timers_.begin()->first <= clock_->Boot()) {
        ready_.push_back(std::move(timers_.begin()->second));
        timers_.erase(timers_.begin());
      } else {
        return;
      }
    }
  }

  // Lets time pass and runs what becomes due, each at its own time.
  void Advance(absl::Duration by) {
    const Instant end = clock_->Boot() + by;
    RunUntilIdle();
    while (!timers_.empty() && timers_.begin()->first <= end) {
      clock_->Advance(timers_.begin()->first - clock_->Boot());
      RunUntilIdle();
    }
    clock_->Advance(end - clock_->Boot());
  }

 private:
  ManualClock* const clock_;
  std::deque<std::function<void()>> ready_;
  std::multimap<Instant, std::function<void()>> timers_;
};

}  // namespace warmring
