#include "core/ownership/change_log.h"

#include <string>
#include <vector>

#include "core/ownership/quarter_ring_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

using Page = ChangeLog::Page;
using Keys = std::vector<std::string>;

constexpr Incarnation kIncarnation{{7, 8}};
constexpr Id128 kFirst{1, 1};
constexpr Id128 kSecond{1, 2};
const HashRangeSet kQuarter0({Quarter(0)});
const HashRangeSet kQuarter1({Quarter(1)});

TEST(ChangeLog, LogsOnlyWhatATransferTracks) {
  ChangeLog log(kIncarnation, 1 << 20);
  EXPECT_EQ(log.id(), "00000000000000070000000000000008.0");
  log.Append("before", In(0));
  EXPECT_EQ(log.end(), 0u);
  ASSERT_OK_AND_ASSIGN(const uint64_t start, log.Track(kFirst, kQuarter0));
  EXPECT_EQ(start, 0u);
  log.Append("in", In(0));
  log.Append("out", In(1));
  EXPECT_EQ(log.end(), 1u);
  ASSERT_OK_AND_ASSIGN(const Page page, log.Read(kFirst, log.id(), start, 0, 10));
  EXPECT_EQ(page, (Page{1, {"in"}}));
}

TEST(ChangeLog, PagesThroughWithBinaryKeysAndGivesAKeyOnceAPage) {
  ChangeLog log(kIncarnation, 1 << 20);
  ASSERT_OK(log.Track(kFirst, kQuarter0));
  const std::string binary("k\0\xff\n", 4);
  for (const std::string& key : {std::string("a"), binary, std::string("a"), std::string("b")}) {
    log.Append(key, In(0));
  }
  ASSERT_OK_AND_ASSIGN(Page page, log.Read(kFirst, log.id(), 0, 0, 2));
  EXPECT_EQ(page, (Page{2, {"a", binary}}));
  ASSERT_OK_AND_ASSIGN(page, log.Read(kFirst, log.id(), page.next, 0, 2));
  EXPECT_EQ(page, (Page{4, {"a", "b"}}));
  ASSERT_OK_AND_ASSIGN(page, log.Read(kFirst, log.id(), 0, 0, 10));
  EXPECT_EQ(page, (Page{4, {"a", binary, "b"}}));
  ASSERT_OK_AND_ASSIGN(page, log.Read(kFirst, log.id(), page.next, 0, 10));
  EXPECT_EQ(page, (Page{4, {}}));
}

TEST(ChangeLog, PassesOverTheEntriesOfOtherTransfers) {
  ChangeLog log(kIncarnation, 1 << 20);
  ASSERT_OK(log.Track(kFirst, kQuarter0));
  ASSERT_OK(log.Track(kSecond, kQuarter1));
  for (int i = 0; i < 100; ++i) log.Append("other", In(1));
  log.Append("mine", In(0));
  // One call looks at a bounded number of entries; the cursor moves on all the same.
  ASSERT_OK_AND_ASSIGN(Page page, log.Read(kFirst, log.id(), 0, 0, 1));
  EXPECT_EQ(page, (Page{64, {}}));
  ASSERT_OK_AND_ASSIGN(page, log.Read(kFirst, log.id(), page.next, 0, 1));
  EXPECT_EQ(page, (Page{101, {"mine"}}));
}

TEST(ChangeLog, IsTrimmedAtTheSmallestAcknowledgement) {
  ChangeLog log(kIncarnation, 1 << 20);
  ASSERT_OK(log.Track(kFirst, kQuarter0));
  ASSERT_OK(log.Track(kSecond, kQuarter0));
  for (const char* key : {"a", "b", "c"}) log.Append(key, In(0));
  const size_t full = log.bytes();
  EXPECT_EQ(full, 3 * (ChangeLog::kEntryBytes + 1));
  ASSERT_OK(log.Read(kFirst, log.id(), 3, 3, 10));
  EXPECT_EQ(log.bytes(), full);
  ASSERT_OK(log.Read(kSecond, log.id(), 2, 1, 10));
  EXPECT_EQ(log.bytes(), full * 2 / 3);
  // What a transfer has acknowledged it cannot read again, even while it is still there.
  EXPECT_THAT(log.Read(kFirst, log.id(), 1, 0, 10),
              StatusIs(absl::StatusCode::kFailedPrecondition, "cursor 1"));
  ASSERT_OK_AND_ASSIGN(const Page page, log.Read(kSecond, log.id(), 1, 1, 10));
  EXPECT_EQ(page, (Page{3, {"b", "c"}}));
  EXPECT_TRUE(log.Untrack(kSecond));
  EXPECT_FALSE(log.Untrack(kSecond));
  EXPECT_EQ(log.bytes(), ChangeLog::kEntryBytes) << "that the transfer is over has a position";
  log.Append("d", In(0));
  EXPECT_EQ(log.end(), 5u);
  ASSERT_OK(log.Read(kFirst, log.id(), 5, 5, 10));
  EXPECT_EQ(log.bytes(), 0u);
}

// A donor that loses the stream notes changes for it no more, while its recipient may still think
// that it has all of them. A fence must then ask for a position that the recipient does not have.
TEST(ChangeLog, WhoseTransferIsOverHasNotReadToTheEnd) {
  ChangeLog log(kIncarnation, 1 << 20);
  ASSERT_OK(log.Track(kFirst, kQuarter0));
  log.Append("a", In(0));
  ASSERT_OK_AND_ASSIGN(Page page, log.Read(kFirst, log.id(), 0, 0, 10));
  EXPECT_EQ(page, (Page{1, {"a"}}));
  EXPECT_TRUE(log.Untrack(kFirst));
  EXPECT_GT(log.end(), page.next);
  EXPECT_EQ(log.bytes(), 0u);

  ASSERT_OK_AND_ASSIGN(const uint64_t start, log.Track(kSecond, kQuarter0));
  ASSERT_OK(log.Track(kFirst, kQuarter0));
  EXPECT_TRUE(log.Untrack(kFirst));
  ASSERT_OK_AND_ASSIGN(page, log.Read(kSecond, log.id(), start, start, 10));
  EXPECT_EQ(page, (Page{start + 1, {}})) << "nothing changed for the others";
}

TEST(ChangeLog, TrackingTwiceGoesOnWhereTheTransferStood) {
  ChangeLog log(kIncarnation, 1 << 20);
  ASSERT_OK(log.Track(kFirst, kQuarter0));
  for (const char* key : {"a", "b"}) log.Append(key, In(0));
  ASSERT_OK(log.Read(kFirst, log.id(), 1, 1, 10));
  ASSERT_OK_AND_ASSIGN(const uint64_t again, log.Track(kFirst, kQuarter0));
  EXPECT_EQ(again, 1u);
  ASSERT_NE(log.RangesOf(kFirst), nullptr);
  EXPECT_EQ(*log.RangesOf(kFirst), kQuarter0);
  EXPECT_EQ(log.RangesOf(kSecond), nullptr);
  EXPECT_THAT(log.Track(kFirst, kQuarter1),
              StatusIs(absl::StatusCode::kFailedPrecondition, "other ranges"));
  ASSERT_OK_AND_ASSIGN(const uint64_t later, log.Track(kSecond, kQuarter0));
  EXPECT_EQ(later, 2u);
}

TEST(ChangeLog, OverflowIsNeverSilent) {
  ChangeLog log(kIncarnation, 3 * (ChangeLog::kEntryBytes + 1));
  ASSERT_OK(log.Track(kFirst, kQuarter0));
  const std::string id = log.id();
  for (const char* key : {"a", "b", "c"}) log.Append(key, In(0));
  EXPECT_EQ(log.id(), id);
  log.Append("d", In(0));
  EXPECT_EQ(log.id(), "00000000000000070000000000000008.1");
  EXPECT_EQ(log.bytes(), 0u);
  EXPECT_EQ(log.transfers(), 0u);
  EXPECT_THAT(log.Read(kFirst, id, 0, 0, 10),
              StatusIs(absl::StatusCode::kFailedPrecondition, "over its 195 bytes"));
  // Nor can a new attempt be mistaken for the old one.
  ASSERT_OK_AND_ASSIGN(const uint64_t start, log.Track(kFirst, kQuarter0));
  EXPECT_EQ(start, 4u);
  EXPECT_THAT(log.Read(kFirst, log.id(), 3, 0, 10),
              StatusIs(absl::StatusCode::kFailedPrecondition, "cursor 3"));
  log.Append("e", In(0));
  ASSERT_OK_AND_ASSIGN(const Page page, log.Read(kFirst, log.id(), start, start, 10));
  EXPECT_EQ(page, (Page{5, {"e"}}));
}

TEST(ChangeLog, OneKeyLargerThanTheBoundLosesTheLog) {
  ChangeLog log(kIncarnation, 10);
  ASSERT_OK(log.Track(kFirst, kQuarter0));
  log.Append("k", In(0));
  EXPECT_EQ(log.id(), "00000000000000070000000000000008.1");
}

TEST(ChangeLog, RefusesWhatItDoesNotKnow) {
  ChangeLog log(kIncarnation, 1 << 20);
  EXPECT_THAT(log.Read(kFirst, log.id(), 0, 0, 10),
              StatusIs(absl::StatusCode::kFailedPrecondition, "not tracked"));
  ASSERT_OK(log.Track(kFirst, kQuarter0));
  log.Append("a", In(0));
  EXPECT_THAT(log.Read(kFirst, log.id(), 2, 0, 10),
              StatusIs(absl::StatusCode::kFailedPrecondition, "cursor 2"));
  EXPECT_THAT(log.Read(kFirst, log.id(), 0, 1, 10),
              StatusIs(absl::StatusCode::kInvalidArgument, "ack: 1"));
  EXPECT_THAT(log.Read(kFirst, "another", 0, 0, 10),
              StatusIs(absl::StatusCode::kFailedPrecondition, "the log is"));
  log.Lose("the server was flushed");
  EXPECT_THAT(log.Read(kFirst, "another", 0, 0, 10),
              StatusIs(absl::StatusCode::kFailedPrecondition, "the server was flushed"));
  for (uint64_t i = 0; i < ChangeLog::kMaxTransfers; ++i) {
    ASSERT_OK(log.Track(Id128{2, i}, kQuarter0));
  }
  EXPECT_THAT(log.Track(kFirst, kQuarter0), StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace warmring
