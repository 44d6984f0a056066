// A failpoint acts at its nth hit and at no other.

#include "server/executor/failpoint.h"

#include <chrono>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace warmring::failpoint {
namespace {

#ifdef WARMRING_FAILPOINTS
TEST(FailpointTest, ActsOnceAtItsHit) {
  ASSERT_OK(Configure("a=error@2;b=error;"));
  EXPECT_OK(WARMRING_FP_STATUS("a"));
  EXPECT_THAT(WARMRING_FP_STATUS("a"), StatusIs(absl::StatusCode::kUnknown, "failpoint a"));
  EXPECT_OK(WARMRING_FP_STATUS("a"));
  EXPECT_THAT(WARMRING_FP_STATUS("b"), StatusIs(absl::StatusCode::kUnknown));
  EXPECT_OK(WARMRING_FP_STATUS("c"));
  ASSERT_OK(Configure(""));
  EXPECT_OK(WARMRING_FP_STATUS("b"));
}

TEST(FailpointTest, ExitIsLikeKill9) {
  ASSERT_OK(Configure("x=exit"));
  EXPECT_EXIT(WARMRING_FP("x"), ::testing::ExitedWithCode(137), "");
}

TEST(FailpointTest, SleepHoldsUpTheThread) {
  ASSERT_OK(Configure("s=sleep(30)@2"));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_OK(WARMRING_FP_STATUS("s"));
  EXPECT_OK(WARMRING_FP_STATUS("s"));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(30));
}

TEST(FailpointTest, MalformedIsRefused) {
  for (const char* text : {"a", "=exit", "a=die", "a=exit@0", "a=exit@x", "a=exit@", "a=sleep",
                           "a=sleep(", "a=sleep()", "a=sleep(x)", "a=sleep(1)x"}) {
    EXPECT_THAT(Configure(text), StatusIs(absl::StatusCode::kInvalidArgument, "malformed")) << text;
  }
}
#else
TEST(FailpointTest, AbsentFromThisBuild) {
  EXPECT_OK(WARMRING_FP_STATUS("a"));
  EXPECT_THAT(Configure("a=exit"), StatusIs(absl::StatusCode::kInvalidArgument, "no failpoints"));
}
#endif

}  // namespace
}  // namespace warmring::failpoint
