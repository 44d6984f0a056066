// A wait ends as soon as its condition holds, and a wait that fails says what was awaited.

#include "tests/support/wait.h"

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace warmring::support {
namespace {

TEST(WaitForTest, EndsAtTheFirstTrueAnswer) {
  int asked = 0;
  EXPECT_OK(WaitFor("the third question", kDefaultWait, [&asked] { return ++asked == 3; }));
  EXPECT_EQ(asked, 3);
}

TEST(WaitForTest, AsksOnceEvenWithoutTime) {
  EXPECT_OK(WaitFor("the truth", absl::ZeroDuration(), [] { return true; }));
}

TEST(WaitForTest, NamesWhatWasAwaited) {
  EXPECT_THAT(WaitFor("a blue moon", absl::Milliseconds(20), [] { return false; }),
              StatusIs(absl::StatusCode::kDeadlineExceeded, "waited 20ms for a blue moon"));
}

TEST(WaitUntilOkTest, RepeatsTheLastAnswer) {
  EXPECT_THAT(WaitUntilOk("a port", absl::ZeroDuration(),
                          [] { return absl::UnavailableError("connection refused"); }),
              StatusIs(absl::StatusCode::kDeadlineExceeded, "connection refused"));
}

}  // namespace
}  // namespace warmring::support
