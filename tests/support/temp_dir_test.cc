// Every temporary directory is a new one and leaves nothing behind.

#include "tests/support/temp_dir.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace warmring::support {
namespace {

TEST(TempDirTest, IsNewAndGoesAwayWithItsContents) {
  std::string path;
  {
    ASSERT_OK_AND_ASSIGN(const auto dir, TempDir::Create("temp-dir-test"));
    ASSERT_OK_AND_ASSIGN(const auto other, TempDir::Create("temp-dir-test"));
    path = dir->Path();
    EXPECT_NE(path, other->Path());
    std::filesystem::create_directories(dir->File("a/b"));
    std::ofstream(dir->File("a/b/c")) << "text";
    EXPECT_TRUE(std::filesystem::exists(path + "/a/b/c"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace warmring::support
