// Both clocks move together when time passes; only the wall clock can be set.

#include "tests/support/fake_clock.h"

#include "gtest/gtest.h"

namespace warmring::support {
namespace {

TEST(FakeClockTest, MovesOnlyWhenTold) {
  FakeClock clock(absl::FromUnixSeconds(100));
  const absl::Duration boot = clock.SinceBoot();
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(100));
  clock.Advance(absl::Milliseconds(1500));
  EXPECT_EQ(clock.Now(), absl::FromUnixMillis(101'500));
  EXPECT_EQ(clock.SinceBoot() - boot, absl::Milliseconds(1500));
  EXPECT_EQ(clock.Boot().nanos, absl::ToInt64Nanoseconds(clock.SinceBoot()));
}

TEST(FakeClockTest, AWallClockThatIsSetBackLeavesTheMonotonicTimeAlone) {
  FakeClock clock;
  const absl::Duration boot = clock.SinceBoot();
  clock.SetWall(absl::FromUnixSeconds(5));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(5));
  EXPECT_EQ(clock.SinceBoot(), boot);
}

TEST(FakeClockDeathTest, RefusesToGoBack) {
  FakeClock clock;
  EXPECT_DEATH(clock.Advance(-absl::Seconds(1)), "time never goes back");
}

}  // namespace
}  // namespace warmring::support
