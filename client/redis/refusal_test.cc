#include "client/redis/refusal.h"

#include "gtest/gtest.h"

// The lines of docs/protocol.md section 2.2 become values; whatever else Redis
// says does not.

namespace warmring {
namespace {

TEST(RefusalTest, ReadsEveryField) {
  const auto refusal =
      ParseRefusal("WRMOVED a1b2c3d4:17 42 10.0.0.7:6379 this node does not own the key");
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(*refusal, (Refusal{RefusalCode::kMoved, "a1b2c3d4:17", Version(42), "10.0.0.7:6379",
                               "this node does not own the key"}));
}

TEST(RefusalTest, ADashStandsForNothing) {
  const auto refusal = ParseRefusal("WRNOLEASE - 0 - no lease");
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(*refusal, (Refusal{RefusalCode::kNoLease, "", Version(0), "", "no lease"}));
}

TEST(RefusalTest, KnowsEveryCodeByItsName) {
  for (const RefusalCode code :
       {RefusalCode::kMoved, RefusalCode::kStale, RefusalCode::kHistory, RefusalCode::kBehind,
        RefusalCode::kFencing, RefusalCode::kNoLease, RefusalCode::kBusy}) {
    const auto refusal = ParseRefusal(std::string(RefusalName(code)) + " a1b2c3d4:1 2 - text");
    ASSERT_TRUE(refusal.has_value()) << RefusalName(code);
    EXPECT_EQ(refusal->code, code);
  }
}

TEST(RefusalTest, TheTextMayBeMissing) {
  const auto refusal = ParseRefusal("WRSTALE a1b2c3d4:1 18446744073709551615 -");
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->version, Version(UINT64_MAX));
  EXPECT_EQ(refusal->text, "");
}

TEST(RefusalTest, OtherErrorsAreNoRefusals) {
  for (const char* text :
       {"", " ", "ERR unknown command 'WR.READ'", "WRONGTYPE Operation against a key", "WRMOVED",
        "WRMOVED a1b2c3d4:1", "WRMOVED a1b2c3d4:1 x - text", "WRMOVED a1b2c3d4:1 -1 - text",
        "WRMOVED a1b2c3d4:1 18446744073709551616 - text", "WRGENERATION 4 is over",
        "WRMOVEDX a1b2c3d4:1 2 - text"}) {
    EXPECT_FALSE(ParseRefusal(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace warmring
