#include "tests/crash/ledger.h"

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

// The crash tests are worth as much as their judge: it must see a value that came back from the
// past, and must not accuse anybody of what a lost answer explains.

namespace warmring::crash {
namespace {

TEST(LedgerTest, OriginHasTheValueThatWasBegunLast) {
  Ledger ledger(2);
  EXPECT_EQ(ledger.Origin("key-1"), ledger.Value(1, 0));
  EXPECT_EQ(ledger.Begin(1), 1U);
  EXPECT_EQ(ledger.Begin(1), 2U);
  EXPECT_EQ(ledger.Origin("key-1"), ledger.Value(1, 2));
  EXPECT_EQ(ledger.Origin("key-0"), ledger.Value(0, 0));
  EXPECT_EQ(ledger.Origin("key-2"), std::nullopt);
  EXPECT_EQ(ledger.Origin("other"), std::nullopt);
}

TEST(LedgerTest, AnOlderValueThanTheCompletedOneIsStale) {
  Ledger ledger(1);
  ledger.Completed(0, ledger.Begin(0));
  ledger.Begin(0);
  EXPECT_OK(ledger.Judge(0, 1, ledger.Value(0, 1)));
  EXPECT_OK(ledger.Judge(0, 1, ledger.Value(0, 2)));  // under way
  ledger.Completed(0, 2);
  // A read that began before sees the older one with right, one that begins now does not.
  EXPECT_OK(ledger.Judge(0, 1, ledger.Value(0, 1)));
  EXPECT_THAT(ledger.Judge(0, ledger.NewestCompleted(0), ledger.Value(0, 1)),
              StatusIs(absl::StatusCode::kDataLoss, "value 1 although the write of 2"));
}

TEST(LedgerTest, AnUnknownSetStaysAllowed) {
  Ledger ledger(1);
  ledger.SetUnknown(0, ledger.Begin(0));
  ledger.Completed(0, ledger.Begin(0));
  EXPECT_OK(ledger.Judge(0, 2, ledger.Value(0, 1)));
  EXPECT_THAT(ledger.Judge(0, 2, ledger.Value(0, 0)), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(LedgerTest, WhatNobodyWroteIsNoValue) {
  Ledger ledger(2);
  for (const std::string& value :
       {ledger.Value(0, 1), ledger.Value(1, 0), std::string("key-0:x:"), std::string()}) {
    EXPECT_THAT(ledger.Judge(0, 0, value), StatusIs(absl::StatusCode::kDataLoss, "never written"))
        << value;
  }
}

}  // namespace
}  // namespace warmring::crash
