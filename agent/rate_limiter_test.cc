#include "agent/rate_limiter.h"

#include "gtest/gtest.h"

// A donor may be asked to copy no faster than so many keys and bytes per second, whatever the
// number of transfers, and a lull must not be saved up for a burst.

namespace warmring {
namespace {

constexpr Instant kStart{1'000'000'000};

// Reads `read_keys` of `key_bytes` each as fast as the limiter allows, for `span`; keys read.
uint64_t ReadFor(RateLimiter& limiter, Instant start, absl::Duration span, uint32_t read_keys,
                 uint64_t key_bytes) {
  uint64_t total = 0;
  Instant now = start;
  const Instant end = start + span;
  while (now < end) {
    const absl::Duration wait = limiter.Wait(now);
    if (wait > absl::ZeroDuration()) {
      now = now + wait + absl::Nanoseconds(1);
      continue;
    }
    limiter.Charge(now, read_keys, read_keys * key_bytes);
    total += read_keys;
    now = now + absl::Microseconds(10);
  }
  return total;
}

TEST(RateLimiterTest, WithoutRatesNothingWaits) {
  RateLimiter limiter;
  limiter.Charge(kStart, 1'000'000, 1'000'000'000);
  EXPECT_EQ(limiter.Wait(kStart), absl::ZeroDuration());
  EXPECT_EQ(limiter.ReadSize(512), 512u);
}

TEST(RateLimiterTest, KeysPerSecondHold) {
  RateLimiter limiter;
  limiter.SetRates(1000, 0);
  const uint64_t keys = ReadFor(limiter, kStart, absl::Seconds(10), 50, 100);
  EXPECT_GE(keys, 10'000u - 50);
  EXPECT_LE(keys, 10'000u + 100 + 50);
}

TEST(RateLimiterTest, BytesPerSecondHoldWhenTheyAreTheTighterOne) {
  RateLimiter limiter;
  limiter.SetRates(1000, 10'000);
  const uint64_t keys = ReadFor(limiter, kStart, absl::Seconds(10), 10, 100);
  EXPECT_GE(keys, 1000u - 10);  // 10,000 bytes/s at 100 bytes a key
  EXPECT_LE(keys, 1000u + 10 + 10);
}

TEST(RateLimiterTest, ALullIsNotSavedUp) {
  RateLimiter limiter;
  limiter.SetRates(1000, 0);
  EXPECT_EQ(limiter.Wait(kStart), absl::ZeroDuration());
  const Instant later = kStart + absl::Seconds(3600);
  const uint64_t keys = ReadFor(limiter, later, absl::Seconds(1), 10, 1);
  EXPECT_LE(keys, 1000u + 100 + 10);
}

TEST(RateLimiterTest, OneLargeReadIsPaidOffBeforeTheNext) {
  RateLimiter limiter;
  limiter.SetRates(0, 1'000'000);
  limiter.Wait(kStart);
  limiter.Charge(kStart, 1, 5'000'000);
  EXPECT_NEAR(absl::ToDoubleSeconds(limiter.Wait(kStart)), 5.0, 0.001);
  EXPECT_EQ(limiter.Wait(kStart + absl::Seconds(6)), absl::ZeroDuration());
}

TEST(RateLimiterTest, ReadsAreSmallWhenTheRateIs) {
  RateLimiter limiter;
  limiter.SetRates(100, 0);
  EXPECT_EQ(limiter.ReadSize(512), 10u);
  limiter.SetRates(3, 0);
  EXPECT_EQ(limiter.ReadSize(512), 1u);
  limiter.SetRates(1'000'000, 0);
  EXPECT_EQ(limiter.ReadSize(512), 512u);
}

TEST(RateLimiterTest, RaisingTheRateFreesAWaitingReader) {
  RateLimiter limiter;
  limiter.SetRates(1, 0);
  limiter.Wait(kStart);
  limiter.Charge(kStart, 100, 0);
  EXPECT_GT(limiter.Wait(kStart), absl::Seconds(90));
  limiter.SetRates(0, 0);
  EXPECT_EQ(limiter.Wait(kStart), absl::ZeroDuration());
}

}  // namespace
}  // namespace warmring
