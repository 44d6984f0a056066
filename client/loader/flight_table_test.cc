#include "client/loader/flight_table.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

// Who may share a look at the origin, and who may not because the answer could be too old for him.

namespace warmring {
namespace {

Miss At(uint64_t version, std::string token) { return {"a1b2c3d4", Version(version), token}; }

FlightTable::Result Value(const std::string& text) { return std::optional<std::string>(text); }

TEST(FlightTableTest, CallersWithTheSameTokenShareOneLook) {
  FlightTable table;
  const auto leader = table.Join("k", At(1, "t"));
  EXPECT_TRUE(leader.leader);
  table.Begin("k", leader.flight);
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    const auto joined = table.Join("k", At(1, "t"));
    EXPECT_FALSE(joined.leader);
    waiters.emplace_back([joined] {
      const auto result = joined.flight->Wait(BootNow() + absl::Seconds(30));
      ASSERT_TRUE(result.has_value());
      ASSERT_OK(*result);
      EXPECT_EQ(**result, "v");
    });
  }
  table.Land("k", leader.flight, Value("v"));
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_TRUE(table.Join("k", At(1, "t")).leader);
}

TEST(FlightTableTest, OtherKeysHaveTheirOwn) {
  FlightTable table;
  EXPECT_TRUE(table.Join("k", At(1, "t")).leader);
  EXPECT_TRUE(table.Join("l", At(1, "t")).leader);
}

TEST(FlightTableTest, SomebodyWroteBetweenTheMisses) {
  FlightTable table;
  const auto first = table.Join("k", At(1, "t"));
  // Before the look begins, any miss may share it: it will read what is there now.
  EXPECT_FALSE(table.Join("k", At(1, "u")).leader);
  table.Begin("k", first.flight);
  const auto second = table.Join("k", At(1, "u"));
  EXPECT_TRUE(second.leader);
  // The first one lands without ending the second.
  table.Land("k", first.flight, Value("old"));
  table.Begin("k", second.flight);
  EXPECT_FALSE(table.Join("k", At(1, "u")).leader);
}

TEST(FlightTableTest, WithoutATokenOnlyALookThatHasNotBegunIsShared) {
  FlightTable table;
  const auto first = table.Join("k", At(1, ""));
  EXPECT_FALSE(table.Join("k", At(1, "")).leader);
  table.Begin("k", first.flight);
  EXPECT_TRUE(table.Join("k", At(1, "")).leader);
}

TEST(FlightTableTest, NobodyWaitsAcrossVersionsOrHistories) {
  FlightTable table;
  EXPECT_TRUE(table.Join("k", At(1, "t")).leader);
  EXPECT_TRUE(table.Join("k", At(2, "t")).leader);
  EXPECT_TRUE(table.Join("k", {"ffffffff", Version(2), "t"}).leader);
}

TEST(FlightTableTest, AWriteOfThisProcessDetaches) {
  FlightTable table;
  const auto first = table.Join("k", At(1, "t"));
  table.Detach("k");
  EXPECT_TRUE(table.Join("k", At(1, "t")).leader);
  table.Land("k", first.flight, Value("v"));
  EXPECT_FALSE(table.Join("k", At(1, "t")).leader);
}

TEST(FlightTableTest, AWaiterLeavesAtItsDeadline) {
  FlightTable table;
  const auto leader = table.Join("k", At(1, "t"));
  EXPECT_EQ(leader.flight->Wait(BootNow()), std::nullopt);
}

}  // namespace
}  // namespace warmring
