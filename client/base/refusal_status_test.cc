#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "warmring/status.h"

// A refusal goes into a status and comes out of it unchanged, under the code that says what helps.

namespace warmring {
namespace {

TEST(RefusalStatusTest, GoesThroughAStatusUnchanged) {
  for (const auto& [reason, code] :
       {std::pair{RefusalReason::kNotOwner, absl::StatusCode::kFailedPrecondition},
        std::pair{RefusalReason::kStaleEpoch, absl::StatusCode::kFailedPrecondition},
        std::pair{RefusalReason::kWrongHistory, absl::StatusCode::kFailedPrecondition},
        std::pair{RefusalReason::kOwnerBehind, absl::StatusCode::kUnavailable},
        std::pair{RefusalReason::kFencing, absl::StatusCode::kUnavailable},
        std::pair{RefusalReason::kNoLease, absl::StatusCode::kUnavailable}}) {
    const RefusalInfo info{reason, "a1b2c3d4:17", Version(42), "10.0.0.7:6379"};
    const absl::Status status = RefusalStatus(info, "refused");
    EXPECT_THAT(status, StatusIs(code, "refused"));
    EXPECT_EQ(RefusalOf(status), info);
  }
  const RefusalInfo bare{RefusalReason::kNoLease, "", Version(0), ""};
  EXPECT_EQ(RefusalOf(RefusalStatus(bare, "x")), bare);
}

TEST(RefusalStatusTest, OtherStatusesCarryNone) {
  EXPECT_EQ(RefusalOf(absl::OkStatus()), std::nullopt);
  EXPECT_EQ(RefusalOf(absl::UnavailableError("x")), std::nullopt);
}

}  // namespace
}  // namespace warmring
