#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/history/event.h"

namespace warmring::history {

// Collects the events of many threads in memory. Thread-safe.
class Recorder {
 public:
  // Nanoseconds of CLOCK_MONOTONIC: the clock of all times in a history.
  static int64_t Now();
  // The same for a time of the wall clock, as it is set now.
  static int64_t FromWallNanos(int64_t nanos);

  void Add(Event event);
  void Add(std::vector<Event> events);
  std::vector<Event> Events() const;
  size_t Size() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Event> events_;  // guarded by mutex_
};

}  // namespace warmring::history
