#include "client/sync/last_known_good.h"

#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "client/base/membership_testing.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

// The file brings back exactly the membership that was written, and nothing
// else is taken for one.

namespace warmring {
namespace {

using client_testing::kKeyspace;
using client_testing::MakeMembership;
using client_testing::NextVersion;
using client_testing::TwoNodes;

class LastKnownGoodTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(dir_, support::TempDir::Create("lkg"));
    path_ = dir_->File("membership");
  }

  std::string Bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void SetBytes(std::string_view bytes) const {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), std::ssize(bytes));
  }

  std::unique_ptr<support::TempDir> dir_;
  std::string path_;
};

TEST_F(LastKnownGoodTest, BringsBackWhatWasWrittenLast) {
  const LastKnownGood file(path_);
  const Membership::Ptr first = MakeMembership(TwoNodes());
  const Membership::Ptr second = NextVersion(*first);
  ASSERT_OK(file.Write(*first));
  ASSERT_OK(file.Write(*second));
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr read, file.Read(kKeyspace));
  EXPECT_EQ(read->version(), Version(2));
  EXPECT_EQ(read->digest(), second->digest());
  struct stat info {};
  EXPECT_NE(stat((path_ + ".tmp").c_str(), &info), 0);
}

TEST_F(LastKnownGoodTest, AMissingFileIsNotFound) {
  EXPECT_THAT(LastKnownGood(path_).Read(kKeyspace), StatusIs(absl::StatusCode::kNotFound, path_));
}

TEST_F(LastKnownGoodTest, AFileOfAnotherKeyspaceIsRefusedByName) {
  ASSERT_OK(LastKnownGood(path_).Write(*MakeMembership(TwoNodes())));
  EXPECT_THAT(LastKnownGood(path_).Read("carts"),
              StatusIs(absl::StatusCode::kFailedPrecondition, "sessions"));
}

TEST_F(LastKnownGoodTest, EveryTruncationAndFlippedByteIsNoticed) {
  const LastKnownGood file(path_);
  ASSERT_OK(file.Write(*MakeMembership(TwoNodes())));
  const std::string good = Bytes();
  for (size_t size = 0; size < good.size(); size += 97) {
    SetBytes(good.substr(0, size));
    EXPECT_FALSE(file.Read(kKeyspace).ok()) << size;
  }
  for (size_t at = 0; at < good.size(); at += 41) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x20);
    SetBytes(bad);
    EXPECT_FALSE(file.Read(kKeyspace).ok()) << at;
  }
  SetBytes(good);
  EXPECT_OK(file.Read(kKeyspace));
}

TEST_F(LastKnownGoodTest, ADirectoryThatIsNotThereIsNamed) {
  const LastKnownGood file(dir_->File("none/membership"));
  EXPECT_THAT(file.Write(*MakeMembership(TwoNodes())),
              StatusIs(absl::StatusCode::kUnavailable, "none/membership"));
  EXPECT_THAT(LastKnownGood(dir_->Path()).Read(kKeyspace), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace warmring
