// Built binaries are found beside this test or where the environment says; a missing one is an
// error that says what to do.

#include "tests/support/binary.h"

#include <cstdlib>
#include <filesystem>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace warmring::support {
namespace {

TEST(BinaryTest, AreBesideTheTest) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  unsetenv("WARMRING_BIN_DIR");
  ASSERT_OK_AND_ASSIGN(const std::string path, BinaryPath(self.filename().string()));
  EXPECT_EQ(path, self.string());
}

TEST(BinaryTest, TheEnvironmentComesFirst) {
  setenv("WARMRING_BIN_DIR", "/bin", 1);
  ASSERT_OK_AND_ASSIGN(const std::string path, BinaryPath("sh"));
  EXPECT_EQ(path, "/bin/sh");
  EXPECT_THAT(BinaryPath("no-such-binary"),
              StatusIs(absl::StatusCode::kNotFound, "no-such-binary is not in /bin; build it"));
}

}  // namespace
}  // namespace warmring::support
