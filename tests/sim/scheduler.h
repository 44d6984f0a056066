#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace warmring::sim {

using Work = std::function<void()>;

// Nanoseconds of the one true time, which no process can read.
using Nanos = int64_t;
inline constexpr Nanos kMicro = 1'000;
inline constexpr Nanos kMilli = 1'000'000;
inline constexpr Nanos kSecond = 1'000'000'000;

// What is still to happen, in the order of its time, and of the same time in the order in which it
// was asked for. One piece of work is one step. Not thread-safe.
class Scheduler {
 public:
  Nanos now() const { return now_; }
  uint64_t steps() const { return steps_; }
  bool empty() const { return heap_.empty(); }
  Nanos next_at() const { return heap_.front().at; }

  // Past times are now.
  void At(Nanos when, Work work) {
    heap_.push_back({std::max(when, now_), next_order_++, std::move(work)});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }

  // REQUIRES: !empty().
  void RunOne() {
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    Event event = std::move(heap_.back());
    heap_.pop_back();
    now_ = event.at;
    ++steps_;
    event.work();
  }

 private:
  struct Event {
    Nanos at = 0;
    uint64_t order = 0;
    Work work;
  };
  static bool Later(const Event& a, const Event& b) {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }

  std::vector<Event> heap_;
  Nanos now_ = 0;
  uint64_t next_order_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace warmring::sim
