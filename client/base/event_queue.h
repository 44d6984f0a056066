#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/time/time.h"
#include "client/base/boot_clock.h"

namespace warmring {

// What the threads of a driver tell the one thread that decides. Bounded: a
// producer waits while it is full, which is the back-pressure on the stream
// that it reads. Thread-safe.
template <typename Event>
class EventQueue {
 public:
  explicit EventQueue(size_t capacity) : capacity_(capacity) {}

  // Waits for room. After Close, drops the event.
  void Push(Event event) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return events_.size() < capacity_ || closed_; });
    if (closed_) return;
    events_.push_back(std::make_unique<Event>(std::move(event)));
    changed_.notify_all();
  }

  // The next event, or null at `deadline`, after Wake, or once closed.
  std::unique_ptr<Event> PopUntil(Instant deadline, const InstantClock& clock) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (events_.empty() && !woken_ && !closed_) {
      const absl::Duration left = deadline - clock();
      if (left <= absl::ZeroDuration()) return nullptr;
      changed_.wait_for(lock, absl::ToChronoNanoseconds(std::min(left, absl::Minutes(1))));
    }
    woken_ = false;
    if (events_.empty() || closed_) return nullptr;
    std::unique_ptr<Event> event = std::move(events_.front());
    events_.pop_front();
    changed_.notify_all();
    return event;
  }

  // Makes the present or the next PopUntil return.
  void Wake() {
    const std::lock_guard<std::mutex> lock(mutex_);
    woken_ = true;
    changed_.notify_all();
  }

  // Ends the queue for good: nobody waits any more.
  void Close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  bool closed() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return closed_;
  }
  bool empty() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return events_.empty();
  }

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Event>> events_;  // guarded by mutex_
  bool woken_ = false;                         // guarded by mutex_
  bool closed_ = false;                        // guarded by mutex_
};

}  // namespace warmring
