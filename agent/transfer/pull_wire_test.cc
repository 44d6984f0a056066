#include "agent/transfer/pull_wire.h"

#include <string>
#include <utility>
#include <variant>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

// What one agent says, the other one understands; what is malformed is refused by name.

namespace warmring {
namespace {

PullOrder Order() {
  PullOrder order;
  order.keyspace = "shop";
  order.history = HistoryId{{1, 2}};
  order.migration = "add-c";
  order.nonce = {3, 4};
  order.mode = PullMode::kDirty;
  order.ranges = HashRangeSet({{10, 20}, {100, 5}});
  order.limits = {.keys_per_second = 7, .bytes_per_second = 8};
  order.recipient = "node-c";
  return order;
}

template <typename Item>
Item RoundTrip(Item item) {
  const auto back = PullItemFromProto(PullItemToProto(std::move(item)));
  EXPECT_OK(back);
  const Item* found = back.ok() ? std::get_if<Item>(&*back) : nullptr;
  EXPECT_NE(found, nullptr);
  return found == nullptr ? Item() : *found;
}

TEST(PullWireTest, AnOrderComesBack) {
  ASSERT_OK_AND_ASSIGN(const PullOrder back, PullOrderFromProto(PullOrderToProto(Order())));
  EXPECT_EQ(back, Order());
}

TEST(PullWireTest, AMalformedOrderIsRefusedByField) {
  const auto refused = [](void (*spoil)(v1::PullStart&)) {
    v1::PullStart proto = PullOrderToProto(Order());
    spoil(proto);
    return PullOrderFromProto(proto).status();
  };
  const auto names = [](const char* field) {
    return StatusIs(absl::StatusCode::kInvalidArgument, field);
  };
  EXPECT_THAT(refused([](v1::PullStart& p) { p.set_keyspace("A/b"); }), names("start.keyspace"));
  EXPECT_THAT(refused([](v1::PullStart& p) { p.set_migration(""); }), names("start.migration"));
  EXPECT_THAT(refused([](v1::PullStart& p) { p.set_recipient("\n"); }), names("start.recipient"));
  EXPECT_THAT(refused([](v1::PullStart& p) { p.set_history("xyz"); }), names("start.history"));
  EXPECT_THAT(refused([](v1::PullStart& p) { p.set_nonce("12"); }), names("start.nonce"));
  EXPECT_THAT(refused([](v1::PullStart& p) { p.clear_mode(); }), names("start.mode"));
  EXPECT_THAT(refused([](v1::PullStart& p) { p.clear_ranges(); }), names("start.ranges"));
  EXPECT_THAT(refused([](v1::PullStart& p) { p.mutable_ranges()->add_starts(1); }),
              names("start.ranges"));
}

TEST(PullWireTest, ABatchComesBack) {
  EntryBatch batch;
  batch.scan = true;
  batch.keys_total = 99;
  batch.entries = {{"k\0y", false, std::string("\x00\xff payload", 10), 1234, 5},
                   {"gone", true, "", -1, -1}};
  const EntryBatch back = RoundTrip(batch);
  EXPECT_EQ(back.entries, batch.entries);
  EXPECT_TRUE(back.scan);
  EXPECT_EQ(back.keys_total, 99u);
}

TEST(PullWireTest, EveryOtherItemComesBack) {
  EXPECT_EQ(RoundTrip(LogPosition{"log.1", 17}), (LogPosition{"log.1", 17}));
  EXPECT_EQ(RoundTrip(ScanEnd{5}).keys, 5u);
  EXPECT_EQ(RoundTrip(SuspectNote{"overflow"}).reason, "overflow");
  const DirtyEnd end = RoundTrip(DirtyEnd{3, true, {"log.1", 9}});
  EXPECT_EQ(end.keys, 3u);
  EXPECT_TRUE(end.complete);
  EXPECT_EQ(end.watermark, (LogPosition{"log.1", 9}));
  DigestBatch digests;
  digests.digests = {{"a", false, UINT64_MAX}, {"b", true, 0}};
  digests.done = true;
  const DigestBatch back = RoundTrip(digests);
  ASSERT_EQ(back.digests.size(), 2u);
  EXPECT_EQ(back.digests[0].key, "a");
  EXPECT_EQ(back.digests[0].digest, UINT64_MAX);
  EXPECT_TRUE(back.digests[1].absent);
  EXPECT_TRUE(back.done);
}

TEST(PullWireTest, AVerifyRequestComesBack) {
  const VerifyRequest back =
      VerifyRequestFromProto(VerifyRequestToProto({.sample = 7, .keys = {"a", "b"}}));
  EXPECT_EQ(back.sample, 7u);
  EXPECT_EQ(back.keys, (std::vector<std::string>{"a", "b"}));
}

TEST(PullWireTest, AnEmptyItemIsRefused) {
  EXPECT_THAT(PullItemFromProto(v1::PullResponse()),
              StatusIs(absl::StatusCode::kInvalidArgument, "response"));
}

}  // namespace
}  // namespace warmring
