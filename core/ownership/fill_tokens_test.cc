#include "core/ownership/fill_tokens.h"

#include "gtest/gtest.h"

namespace warmring {
namespace {

constexpr Incarnation kIncarnation{{7, 8}};

TEST(FillTokens, AreVoidAfterABumpOfTheirStripe) {
  FillTokens tokens(kIncarnation);
  const std::string token = tokens.Issue(0x1234'5678'9abc'def0, Epoch(17));
  EXPECT_EQ(token, "00000000000000070000000000000008-11-def0-0");
  EXPECT_TRUE(tokens.IsValid(token, 0x1234'5678'9abc'def0, Epoch(17)));
  tokens.Bump(0xffff'ffff'ffff'def1);
  EXPECT_TRUE(tokens.IsValid(token, 0x1234'5678'9abc'def0, Epoch(17)));
  // Another key of the same stripe: a needless refusal, never a stale fill.
  tokens.Bump(0xffff'ffff'ffff'def0);
  EXPECT_FALSE(tokens.IsValid(token, 0x1234'5678'9abc'def0, Epoch(17)));
  const std::string other = tokens.Issue(1, Epoch(17));
  EXPECT_TRUE(tokens.IsValid(other, 1, Epoch(17)));
  tokens.BumpAll();
  EXPECT_FALSE(tokens.IsValid(other, 1, Epoch(17)));
}

TEST(FillTokens, AreBoundToStripeEpochAndIncarnation) {
  FillTokens tokens(kIncarnation);
  const std::string token = tokens.Issue(5, Epoch(17));
  EXPECT_FALSE(tokens.IsValid(token, 6, Epoch(17)));
  EXPECT_FALSE(tokens.IsValid(token, 5, Epoch(18)));
  EXPECT_FALSE(FillTokens(Incarnation{{7, 9}}).IsValid(token, 5, Epoch(17)));
  EXPECT_FALSE(tokens.IsValid("", 5, Epoch(17)));
  EXPECT_FALSE(tokens.IsValid(token + " ", 5, Epoch(17)));
}

}  // namespace
}  // namespace warmring
