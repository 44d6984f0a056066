// A failpoint acts at its nth hit and at no other.

#include "server/executor/failpoint.h"

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

TEST(FailpointTest, MalformedIsRefused) {
  for (const char* text : {"a", "=exit", "a=die", "a=exit@0", "a=exit@x", "a=exit@"}) {
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
