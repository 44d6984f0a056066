#include "agent/notice.h"

#include "gtest/gtest.h"

// A Redis that is down for an hour is two lines in the log, not a hundred thousand.

namespace warmring {
namespace {

TEST(NoticeTest, SpeaksOncePerChange) {
  Notice notice("redis 127.0.0.1:6379");
  EXPECT_FALSE(notice.Report(absl::OkStatus()));
  EXPECT_TRUE(notice.Report(absl::UnavailableError("Connection refused")));
  EXPECT_FALSE(notice.Report(absl::UnavailableError("Connection refused")));
  EXPECT_TRUE(notice.Report(absl::UnavailableError("timed out")));
  EXPECT_TRUE(notice.Report(absl::OkStatus()));
  EXPECT_FALSE(notice.Report(absl::OkStatus()));
}

}  // namespace
}  // namespace warmring
