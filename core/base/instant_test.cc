// Lease arithmetic never wraps: what cannot be reached is Never.

#include "core/base/instant.h"

#include <gtest/gtest.h>

namespace warmring {
namespace {

TEST(InstantTest, AddsAndSubtracts) {
  const Instant t{1'000'000'000};
  EXPECT_EQ(t + absl::Milliseconds(5), Instant{1'005'000'000});
  EXPECT_EQ(t + absl::Milliseconds(-5), Instant{995'000'000});
  EXPECT_EQ(t - Instant{400'000'000}, absl::Milliseconds(600));
  EXPECT_EQ(Instant{400'000'000} - t, absl::Milliseconds(-600));
  EXPECT_LT(t, t + absl::Nanoseconds(1));
}

TEST(InstantTest, Saturates) {
  EXPECT_EQ(Instant::Never() + absl::Seconds(-1), Instant::Never());
  EXPECT_EQ(Instant{5} + absl::InfiniteDuration(), Instant::Never());
  EXPECT_EQ(Instant{INT64_MAX - 1} + absl::Seconds(1), Instant::Never());
  EXPECT_EQ(Instant{-5} + (-absl::InfiniteDuration()), Instant{INT64_MIN});
  EXPECT_EQ(Instant{INT64_MAX} - Instant{-1}, absl::Nanoseconds(INT64_MAX) + absl::Nanoseconds(1));
}

}  // namespace
}  // namespace warmring
