// What may name a keyspace, node or migration, and how ids are written.

#include "core/base/ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

TEST(IdsTest, AcceptsTheGrammar) {
  for (const std::string id : {"a", "a1", "cache-0", "z--9", "n0de"}) {
    EXPECT_TRUE(IsValidId(id)) << id;
  }
  EXPECT_TRUE(IsValidId(std::string(63, 'a')));
}

TEST(IdsTest, RefusesEverythingElse) {
  for (const std::string id :
       {"", "-a", "a-", "1a", "A", "aB", "a.b", "a_b", "a b", "a/b", "\xc3\xa4"}) {
    EXPECT_FALSE(IsValidId(id)) << id;
  }
  EXPECT_FALSE(IsValidId(std::string(64, 'a')));
  EXPECT_FALSE(IsValidId(std::string("a\0b", 3)));
}

TEST(IdsTest, RefusalNamesFieldValueAndGrammar) {
  EXPECT_THAT(ValidateId("node.id", "Cache\n1"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "node.id: 'Cache\\x0a1' is not a valid id: use 1 to 63 lower-case"));
  EXPECT_OK(ValidateId("node.id", "cache-1"));
}

TEST(IdsTest, Id128RoundTripsThroughItsText) {
  const Id128 id{0x0123456789abcdef, 0xfedcba9876543210};
  EXPECT_EQ(id.ToString(), "0123456789abcdeffedcba9876543210");
  ASSERT_OK_AND_ASSIGN(const Id128 parsed, Id128::Parse(id.ToString()));
  EXPECT_EQ(parsed, id);
  EXPECT_TRUE(Id128().IsZero());
  EXPECT_FALSE((Id128{0, 1}).IsZero());
}

TEST(IdsTest, Id128RefusesOtherText) {
  for (const std::string& text :
       {std::string(), std::string(31, '0'), std::string(33, '0'),
        std::string("0123456789ABCDEF0123456789abcdef"), std::string(31, '0') + "g"}) {
    EXPECT_THAT(Id128::Parse(text), StatusIs(absl::StatusCode::kInvalidArgument, "32 lower-case"))
        << text;
  }
}

TEST(IdsTest, HistoryTagIsTheFirstEightDigits) {
  HistoryId history;
  history.high = 0xa1b2c3d400000000;
  EXPECT_EQ(history.Tag(), "a1b2c3d4");
}

TEST(IdsTest, PrintableEscapesAndShortens) {
  EXPECT_EQ(Printable("plain"), "plain");
  EXPECT_EQ(Printable("a\\b\x7f\xff"), "a\\x5cb\\x7f\\xff");
  EXPECT_EQ(Printable("0123456789", 4), "0123...");
}

TEST(StrongIntTest, CountsAndCompares) {
  EXPECT_EQ(Version(41).Next(), Version(42));
  EXPECT_LT(Epoch(1), Epoch(2));
  EXPECT_EQ(Epoch().value, 0u);
  static_assert(!std::is_convertible_v<Epoch, Version>);
  static_assert(!std::is_convertible_v<uint64_t, Epoch>);
}

}  // namespace
}  // namespace warmring
