#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "core/base/instant.h"

namespace warmring {

// Two token buckets, keys and bytes per second, filled together. What a read will cost is known
// only afterwards, so a caller first waits until the buckets are not in debt and then charges what
// it took; over any span of t seconds no more than rate x (t + kBurst) is charged, plus one read.
// Knows no clock. Not thread-safe.
class RateLimiter {
 public:
  static constexpr absl::Duration kBurst = absl::Milliseconds(100);

  // 0 = unlimited. A change takes effect at once; debt is kept.
  void SetRates(uint64_t keys_per_second, uint64_t bytes_per_second);

  // How long to wait before the next read; zero when it may start now.
  // REQUIRES: `now` never goes back.
  absl::Duration Wait(Instant now);
  void Charge(Instant now, uint64_t keys, uint64_t bytes);

  // How many keys one read should take so that the flow stays smooth: what the rate allows in
  // kBurst, between 1 and `max`.
  uint32_t ReadSize(uint32_t max) const;

 private:
  struct Bucket {
    double rate = 0;   // per second; 0 = unlimited
    double level = 0;  // negative: in debt
    void SetRate(double value);
    void Fill(double seconds);
    double SecondsUntilPositive() const;
  };
  void Fill(Instant now);

  Bucket keys_;
  Bucket bytes_;
  bool started_ = false;
  Instant filled_at_;
};

}  // namespace warmring
