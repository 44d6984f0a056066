#include "client/loader/fill_budget.h"

#include "gtest/gtest.h"

// The rate holds over any second, a short burst passes at once, and who cannot be served in time
// takes nothing from the others.

namespace warmring {
namespace {

constexpr Instant kStart{5'000'000'000};

// Fills that start within `span` when somebody asks every millisecond and waits for his turn.
int Started(FillBudget& budget, Instant from, absl::Duration span) {
  int started = 0;
  for (absl::Duration at; at < span; at += absl::Milliseconds(1)) {
    const auto wait = budget.Take(from + at, absl::ZeroDuration());
    if (wait) ++started;
  }
  return started;
}

TEST(FillBudgetTest, UnlimitedByDefaultAndByZero) {
  FillBudget budget;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(budget.Take(kStart, absl::ZeroDuration()), absl::ZeroDuration());
  }
  budget.SetRate(1);
  budget.SetRate(0);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(budget.Take(kStart, absl::ZeroDuration()), absl::ZeroDuration());
  }
}

TEST(FillBudgetTest, HoldsTheRateAfterABurstOfATenthOfASecond) {
  FillBudget budget;
  budget.SetRate(100);
  int burst = 0;
  while (budget.Take(kStart, absl::ZeroDuration())) ++burst;
  EXPECT_EQ(burst, 10);
  EXPECT_EQ(Started(budget, kStart, absl::Seconds(10)), 1000 - 1);
}

TEST(FillBudgetTest, ASlowRateStillLetsOneThroughAtOnce) {
  FillBudget budget;
  budget.SetRate(0.5);
  EXPECT_EQ(budget.Take(kStart, absl::ZeroDuration()), absl::ZeroDuration());
  EXPECT_EQ(budget.Take(kStart, absl::Seconds(1)), std::nullopt);
  EXPECT_EQ(budget.Take(kStart, absl::Seconds(3)), absl::Seconds(2));
}

TEST(FillBudgetTest, WaitersQueueAndTheImpatientTakeNothing) {
  FillBudget budget;
  budget.SetRate(10);
  EXPECT_EQ(budget.Take(kStart, absl::Seconds(9)), absl::ZeroDuration());
  EXPECT_EQ(budget.Take(kStart, absl::Seconds(9)), absl::Milliseconds(100));
  EXPECT_EQ(budget.Take(kStart, absl::Milliseconds(150)), std::nullopt);
  EXPECT_EQ(budget.Take(kStart, absl::Seconds(9)), absl::Milliseconds(200));
}

TEST(FillBudgetTest, IdleTimeSavesNoMoreThanTheBurst) {
  FillBudget budget;
  budget.SetRate(100);
  budget.Take(kStart, absl::ZeroDuration());
  const Instant later = kStart + absl::Hours(1);
  int burst = 0;
  while (budget.Take(later, absl::ZeroDuration())) ++burst;
  EXPECT_EQ(burst, 10);
}

TEST(FillBudgetTest, ANewRateHoldsForTheNextTaker) {
  FillBudget budget;
  budget.SetRate(10);
  budget.Take(kStart, absl::ZeroDuration());
  budget.SetRate(1000);
  EXPECT_EQ(Started(budget, kStart + absl::Seconds(1), absl::Seconds(1)), 1000);
}

}  // namespace
}  // namespace warmring
