// docs/errors.md and the enum of reasons are one catalogue: each has what the other has.

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "warmring/v1/error.pb.h"

namespace warmring {
namespace {

std::set<std::string> ReasonsOfThePage() {
  const char* root = std::getenv("WARMRING_SOURCE_DIR");
  std::ifstream page(std::string(root == nullptr ? "." : root) + "/docs/errors.md");
  std::set<std::string> reasons;
  std::string line;
  while (std::getline(page, line)) {
    std::istringstream row(line);
    std::string bar;
    std::string reason;
    row >> bar >> reason;
    const bool is_row = bar == "|" && reason != "reason" && reason.find('-') == std::string::npos;
    if (is_row) reasons.insert(reason);
  }
  return reasons;
}

TEST(ErrorCatalogue, PageAndEnumAreOne) {
  const std::string prefix = "ERROR_REASON_";
  std::set<std::string> expected;
  const auto* type = v1::ErrorReason_descriptor();
  for (int i = 1; i < type->value_count(); ++i) {
    expected.insert(type->value(i)->name().substr(prefix.size()));
  }
  EXPECT_GT(expected.size(), 10u);
  EXPECT_EQ(ReasonsOfThePage(), expected);
}

}  // namespace
}  // namespace warmring
