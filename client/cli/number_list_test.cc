// Buckets and loads as people and scripts write them.

#include "client/cli/number_list.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace warmring::cli {
namespace {

using ::testing::ElementsAre;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(NumberListTest, ABucketOrASpanOfThem) {
  EXPECT_THAT(ParseBuckets("7").value(), ElementsAre(7));
  EXPECT_THAT(ParseBuckets("5-8").value(), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(ParseBuckets("9-9").value(), ElementsAre(9));
  EXPECT_EQ(ParseBuckets("0-1048575")->size(), size_t{1} << 20);
  for (const char* bad : {"", "-", "-1", "1-", "9-5", "1-2-3", "a", "1,2", "0x3", "+4", " 5",
                          "4294967296", "0-4294967295", "0-1048576"}) {
    EXPECT_THAT(ParseBuckets(bad), StatusIs(kInvalid, std::string("'") + bad + "' is neither"));
  }
}

TEST(NumberListTest, ALoadByLines) {
  EXPECT_THAT(ParseLoad("f", "# requests\n1\n\n 20 \r\n300").value(), ElementsAre(1, 20, 300));
  EXPECT_THAT(ParseLoad("f", "0\n18446744073709551615\n").value(), ElementsAre(0, UINT64_MAX));
  EXPECT_THAT(ParseLoad("f", "1\n2\n-3\n"), StatusIs(kInvalid, "f:3: '-3' is not a whole number"));
  EXPECT_THAT(ParseLoad("f", "1.5"), StatusIs(kInvalid, "f:1: '1.5'"));
  EXPECT_THAT(ParseLoad("f", "1 2"), StatusIs(kInvalid, "f:1: '1 2'"));
  EXPECT_THAT(ParseLoad("f", "18446744073709551616"), StatusIs(kInvalid, "f:1:"));
  EXPECT_THAT(ParseLoad("f", "\x01\xff"), StatusIs(kInvalid, "f:1: '\\x01\\xff'"));
  EXPECT_THAT(ParseLoad("f", "\n#\n"), StatusIs(kInvalid, "f: it has no number"));
}

TEST(NumberListTest, ALoadInJson) {
  EXPECT_THAT(ParseLoad("f", "\n [1, 20,\n300]").value(), ElementsAre(1, 20, 300));
  EXPECT_THAT(ParseLoad("f", "[1, 20"), StatusIs(kInvalid, "f: it begins like a JSON array"));
  EXPECT_THAT(ParseLoad("f", "[1, -2]"), StatusIs(kInvalid, "f: [1]: -2 is not a whole number"));
  EXPECT_THAT(ParseLoad("f", "[1, 2.0]"), StatusIs(kInvalid, "f: [1]: 2.0"));
  EXPECT_THAT(ParseLoad("f", "[\"x\"]"), StatusIs(kInvalid, "f: [0]: \"x\""));
}

TEST(NumberListTest, AFileThatIsNotThere) {
  EXPECT_THAT(ReadLoadFile("/nonexistent/load"),
              StatusIs(kInvalid, "--load: '/nonexistent/load' cannot be opened"));
}

}  // namespace
}  // namespace warmring::cli
