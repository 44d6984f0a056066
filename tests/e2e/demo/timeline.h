#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace warmring::demo {

// Counts events over time, in slots of 100 ms. Thread-safe.
class Timeline {
 public:
  static constexpr double kSlotSeconds = 0.1;

  explicit Timeline(double max_seconds);

  void Start() { start_ = std::chrono::steady_clock::now(); }
  // Seconds since Start.
  double Now() const;
  void Count();

  uint64_t Total(double from, double to) const;
  // Events per second, as means over `window` seconds, one a second.
  std::vector<double> Rates(double from, double to, double window) const;
  // The largest mean over `window` seconds that lies within [from, to). 0 when none fits.
  double Peak(double from, double to, double window) const;

 private:
  std::chrono::steady_clock::time_point start_;
  std::vector<std::atomic<uint32_t>> slots_;
};

}  // namespace warmring::demo
