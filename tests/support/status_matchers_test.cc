// The matchers tell an error from a value, check code and text, and move values that cannot be
// copied.

#include "tests/support/status_matchers.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace warmring {
namespace {

using ::testing::Not;

absl::StatusOr<std::unique_ptr<int>> Answer() { return std::make_unique<int>(42); }

TEST(StatusMatchersTest, TellsErrorsFromValues) {
  EXPECT_OK(absl::OkStatus());
  EXPECT_OK(absl::StatusOr<int>(1));
  EXPECT_THAT(absl::AbortedError("x"), Not(IsOk()));
  EXPECT_THAT(absl::StatusOr<int>(absl::AbortedError("x")), Not(IsOk()));
}

TEST(StatusMatchersTest, ChecksCodeAndText) {
  const absl::Status status = absl::NotFoundError("keyspace \"a\" does not exist");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, "keyspace \"a\""));
  EXPECT_THAT(status, Not(StatusIs(absl::StatusCode::kNotFound, "keyspace \"b\"")));
  EXPECT_THAT(status, Not(StatusIs(absl::StatusCode::kAborted)));
  EXPECT_THAT(absl::StatusOr<int>(status), StatusIs(absl::StatusCode::kNotFound, "exist"));
}

TEST(StatusMatchersTest, MovesTheValueOut) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<int> answer, Answer());
  EXPECT_EQ(*answer, 42);
}

TEST(StatusMatchersTest, ShowsTheStatusWhenItFails) {
  ::testing::StringMatchResultListener listener;
  const ::testing::Matcher<absl::Status> matcher = IsOk();
  EXPECT_FALSE(matcher.MatchAndExplain(absl::AbortedError("lost the race"), &listener));
  EXPECT_EQ(listener.str(), "ABORTED: lost the race");
}

}  // namespace
}  // namespace warmring
