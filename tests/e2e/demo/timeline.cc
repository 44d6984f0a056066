#include "tests/e2e/demo/timeline.h"

#include <algorithm>
#include <cmath>

namespace warmring::demo {
namespace {

size_t SlotOf(double seconds) {
  return static_cast<size_t>(std::max(0.0, std::round(seconds / Timeline::kSlotSeconds)));
}

}  // namespace

Timeline::Timeline(double max_seconds) : slots_(SlotOf(max_seconds) + 1) {}

double Timeline::Now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Timeline::Count() {
  const auto slot = static_cast<size_t>(Now() / kSlotSeconds);
  if (slot < slots_.size()) slots_[slot].fetch_add(1, std::memory_order_relaxed);
}

uint64_t Timeline::Total(double from, double to) const {
  uint64_t total = 0;
  for (size_t i = SlotOf(from); i < std::min(SlotOf(to), slots_.size()); ++i) {
    total += slots_[i].load(std::memory_order_relaxed);
  }
  return total;
}

std::vector<double> Timeline::Rates(double from, double to, double window) const {
  std::vector<double> rates;
  for (double t = from; t + window <= to + 1e-9; t += 1.0) {
    rates.push_back(static_cast<double>(Total(t, t + window)) / window);
  }
  return rates;
}

double Timeline::Peak(double from, double to, double window) const {
  double peak = 0;
  for (double t = from; t + window <= to + 1e-9; t += kSlotSeconds) {
    peak = std::max(peak, static_cast<double>(Total(t, t + window)) / window);
  }
  return peak;
}

}  // namespace warmring::demo
