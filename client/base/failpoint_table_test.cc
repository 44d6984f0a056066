#include "client/base/failpoint_table.h"

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

// A test that kills a process at a point must be sure that the point is the one it means.

namespace warmring {
namespace {

using Kind = FailpointAction::Kind;

TEST(FailpointTableTest, ReadsEveryAction) {
  ASSERT_OK_AND_ASSIGN(
      const auto actions,
      ParseFailpoints("fence.after=exit;apply.batch=stop@3;purge.batch=sleep(200)"));
  const std::map<std::string, FailpointAction> expected = {
      {"fence.after", {Kind::kExit, 0, 1}},
      {"apply.batch", {Kind::kStop, 0, 3}},
      {"purge.batch", {Kind::kSleep, 200, 1}},
  };
  EXPECT_EQ(actions, expected);
}

TEST(FailpointTableTest, NothingIsNothing) {
  ASSERT_OK_AND_ASSIGN(const auto actions, ParseFailpoints(""));
  EXPECT_TRUE(actions.empty());
}

TEST(FailpointTableTest, RefusesWhatItCannotRead) {
  for (const char* text : {"fence.after", "=exit", "a=explode", "a=sleep(x)", "a=exit@0",
                           "a=exit@x", "a=sleep(1", "a=exit;b"}) {
    EXPECT_THAT(ParseFailpoints(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

}  // namespace
}  // namespace warmring
