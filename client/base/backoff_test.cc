#include "client/base/backoff.h"

#include <set>

#include "gtest/gtest.h"

// Delays grow from min to max, stay within the upper half of their limit, and
// differ between seeds.

namespace warmring {
namespace {

TEST(BackoffTest, DoublesUpToTheMaximumAndStartsAgainAfterReset) {
  Backoff backoff(absl::Milliseconds(10), absl::Milliseconds(100), 7);
  for (const int limit : {10, 20, 40, 80, 100, 100}) {
    const absl::Duration delay = backoff.Next();
    EXPECT_GE(delay, absl::Milliseconds(limit) / 2) << limit;
    EXPECT_LE(delay, absl::Milliseconds(limit)) << limit;
  }
  backoff.Reset();
  EXPECT_LE(backoff.Next(), absl::Milliseconds(10));
}

TEST(BackoffTest, TheSameSeedGivesTheSameDelaysAndOthersSpread) {
  Backoff a(absl::Seconds(1), absl::Seconds(1), 1);
  Backoff b(absl::Seconds(1), absl::Seconds(1), 1);
  EXPECT_EQ(a.Next(), b.Next());
  std::set<absl::Duration> first;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    first.insert(Backoff(absl::Seconds(1), absl::Seconds(1), seed).Next());
  }
  EXPECT_EQ(first.size(), 50U);
}

}  // namespace
}  // namespace warmring
