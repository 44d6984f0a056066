#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gtest/gtest.h"
#include "tests/crash/crash_points.h"

// Runs after all tests that kill processes: each listed point was reached by one of them.

namespace warmring::crash {
namespace {

TEST(CrashPointsReachedTest, EachListedPointWasReached) {
  const char* const path = std::getenv("WARMRING_FAILPOINT_LOG");
  ASSERT_NE(path, nullptr);
  std::set<std::string> reached;
  std::ifstream file(path);
  for (std::string name; std::getline(file, name);) reached.insert(name);
  std::set<std::string> missed;
  for (const std::string& name : ListedCrashPoints().All()) {
    if (!reached.contains(name)) missed.insert(name);
  }
  EXPECT_TRUE(missed.empty()) << fmt::format("{} of {} listed points were never reached: {}",
                                             missed.size(), ListedCrashPoints().All().size(),
                                             fmt::join(missed, ", "));
}

}  // namespace
}  // namespace warmring::crash
