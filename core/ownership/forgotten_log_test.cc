#include "core/ownership/forgotten_log.h"

#include <string>

#include "core/ownership/quarter_ring_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

using Page = ForgottenLog::Page;

constexpr size_t kRoomy = 1 << 20;

OwnerView DonorView(const Membership::Ptr& map) {
  OwnerView view(kQuarterHistory, "cache", "a", Incarnation{{7, 7}});
  EXPECT_OK(view.Install(map));
  return view;
}

Membership::Ptr InGrace(uint64_t version) {
  return QuarterMap(version, {{{1, 6}, {0, 2}, {2, 1}, {2, 1}}},
                    {{"grow", 0, "a", "b", MovePhase::kGrace, HashRangeSet({Quarter(0)})}});
}

TEST(ForgottenLog, ForwardsWhatLeftAndNothingElse) {
  const OwnerView view = DonorView(InGrace(2));
  ForgottenLog log(kRoomy);
  const std::string binary("\0k", 2);
  log.Add(view, "k", In(0));
  log.Add(view, binary, In(0));
  log.Add(view, "never ours", In(2));
  EXPECT_EQ(log.Read(0, 1), (Page{1, {"k"}}));
  EXPECT_EQ(log.Read(0, 10), (Page{2, {"k", binary}}));
  // A cursor acknowledges what stands before it.
  EXPECT_EQ(log.Read(1, 10), (Page{2, {binary}}));
  EXPECT_EQ(log.Read(2, 10), (Page{2, {}}));
  log.Add(view, "later", In(0));
  EXPECT_EQ(log.Read(2, 10), (Page{3, {"later"}}));
  // An agent that remembers a cursor of another life misses nothing.
  EXPECT_EQ(log.Read(77, 10), (Page{3, {"later"}}));
}

TEST(ForgottenLog, ADeleteDuringTheFenceIsForwardedOnceTheRangeHasLeft) {
  OwnerView view = DonorView(QuarterMap(1, {{{0, 5}, {0, 2}, {2, 1}, {2, 1}}}));
  view.Fence(HashRangeSet({Quarter(0)}), Epoch(5));
  ForgottenLog log(kRoomy);
  log.Add(view, "k", In(0));
  EXPECT_EQ(log.Read(0, 10), (Page{0, {}}));
  ASSERT_OK(view.Install(QuarterMap(2, {{{0, 5}, {0, 3}, {2, 1}, {2, 1}}})));
  log.Settle(view);
  EXPECT_EQ(log.waiting(), 1u);
  ASSERT_OK(view.Install(InGrace(3)));
  log.Settle(view);
  EXPECT_EQ(log.waiting(), 0u);
  EXPECT_EQ(log.Read(0, 10), (Page{1, {"k"}}));
}

TEST(ForgottenLog, ADeleteUnderAStaleEpochAtThePresentOwnerNeedsNoForwarding) {
  OwnerView view = DonorView(QuarterMap(1, {{{0, 5}, {0, 2}, {2, 1}, {2, 1}}}));
  ForgottenLog log(kRoomy);
  log.Add(view, "k", In(0));
  EXPECT_EQ(log.waiting(), 1u);
  ASSERT_OK(view.Install(QuarterMap(2, {{{0, 5}, {0, 3}, {2, 1}, {2, 1}}})));
  log.Settle(view);
  EXPECT_EQ(log.waiting(), 0u);
  EXPECT_EQ(log.Read(0, 10), (Page{0, {}}));
}

TEST(ForgottenLog, ATenureThatCameBackMayHaveBroughtTheKeyBack) {
  OwnerView view = DonorView(QuarterMap(1, {{{0, 5}, {0, 2}, {2, 1}, {2, 1}}}));
  ForgottenLog log(kRoomy);
  log.Add(view, "k", In(0));
  ASSERT_OK(view.Install(QuarterMap(3, {{{0, 7}, {0, 2}, {2, 1}, {2, 1}}})));
  log.Settle(view);
  EXPECT_EQ(log.Read(0, 10), (Page{1, {"k"}}));
}

TEST(ForgottenLog, TheOldestMakeRoomAndAreCounted) {
  const OwnerView view = DonorView(InGrace(2));
  ForgottenLog log(2 * (ForgottenLog::kEntryBytes + 1));
  for (const char* key : {"a", "b", "c"}) log.Add(view, key, In(0));
  EXPECT_EQ(log.dropped(), 1u);
  EXPECT_EQ(log.Read(0, 10), (Page{3, {"b", "c"}}));
}

}  // namespace
}  // namespace warmring
