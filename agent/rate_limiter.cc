#include "agent/rate_limiter.h"

#include <algorithm>

namespace warmring {

void RateLimiter::Bucket::SetRate(double value) {
  rate = value;
  level = std::min(level, rate * absl::ToDoubleSeconds(kBurst));
}

void RateLimiter::Bucket::Fill(double seconds) {
  level = std::min(level + rate * seconds, rate * absl::ToDoubleSeconds(kBurst));
}

double RateLimiter::Bucket::SecondsUntilPositive() const {
  if (rate <= 0 || level >= 0) return 0;
  return -level / rate;
}

void RateLimiter::SetRates(uint64_t keys_per_second, uint64_t bytes_per_second) {
  keys_.SetRate(static_cast<double>(keys_per_second));
  bytes_.SetRate(static_cast<double>(bytes_per_second));
}

void RateLimiter::Fill(Instant now) {
  const double seconds = started_ ? absl::ToDoubleSeconds(now - filled_at_) : 0;
  started_ = true;
  filled_at_ = now;
  keys_.Fill(seconds);
  bytes_.Fill(seconds);
}

absl::Duration RateLimiter::Wait(Instant now) {
  Fill(now);
  return absl::Seconds(std::max(keys_.SecondsUntilPositive(), bytes_.SecondsUntilPositive()));
}

void RateLimiter::Charge(Instant now, uint64_t keys, uint64_t bytes) {
  Fill(now);
  if (keys_.rate > 0) keys_.level -= static_cast<double>(keys);
  if (bytes_.rate > 0) bytes_.level -= static_cast<double>(bytes);
}

uint32_t RateLimiter::ReadSize(uint32_t max) const {
  if (keys_.rate <= 0) return max;
  const double size = keys_.rate * absl::ToDoubleSeconds(kBurst);
  return static_cast<uint32_t>(std::clamp(size, 1.0, static_cast<double>(max)));
}

}  // namespace warmring
