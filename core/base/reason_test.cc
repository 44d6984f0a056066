// A reason travels inside a status without changing its code and message.

#include "core/base/reason.h"

#include "gtest/gtest.h"

namespace warmring {
namespace {

TEST(ReasonTest, TravelsWithTheStatus) {
  const absl::Status status = WithReason(absl::AbortedError("base version 3 is not current"),
                                         "VERSION_MISMATCH", {{"currentVersion", "4"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(std::string(status.message()), "base version 3 is not current");
  EXPECT_EQ(ReasonOf(status), (Reason{"VERSION_MISMATCH", {{"currentVersion", "4"}}}));
  EXPECT_EQ(ReasonNameOf(WithReason(status, "NOT_FOUND")), "NOT_FOUND");
}

TEST(ReasonTest, AbsentWhereNobodyGaveOne) {
  EXPECT_EQ(ReasonOf(absl::InternalError("x")), std::nullopt);
  EXPECT_EQ(ReasonNameOf(absl::InternalError("x")), "");
  EXPECT_TRUE(WithReason(absl::OkStatus(), "NOT_FOUND").ok());
}

}  // namespace
}  // namespace warmring
