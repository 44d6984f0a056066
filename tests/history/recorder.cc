#include "tests/history/recorder.h"

#include <chrono>
#include <iterator>
#include <utility>

namespace warmring::history {

int64_t Recorder::Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int64_t Recorder::FromWallNanos(int64_t nanos) {
  const int64_t wall = std::chrono::duration_cast<std::chrono::nanoseconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
  return nanos - wall + Now();
}

void Recorder::Add(Event event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  events_.push_back(std::move(event));
}

void Recorder::Add(std::vector<Event> events) {
  const std::lock_guard<std::mutex> lock(mutex_);
  events_.insert(events_.end(), std::make_move_iterator(events.begin()),
                 std::make_move_iterator(events.end()));
}

std::vector<Event> Recorder::Events() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return events_;
}

size_t Recorder::Size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return events_.size();
}

}  // namespace warmring::history
