// Equal values have equal bytes and other bytes are refused: a membership or delta that decodes,
// encodes to the very bytes it came from. Hostile bytes fail before they cost memory.

#include "core/membership/encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/byte_writer.h"
#include "core/membership/membership_testing.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

using absl::StatusCode;

constexpr MovePhase kWarming = MovePhase::kWarming;
constexpr MovePhase kGrace = MovePhase::kGrace;

MembershipData Ring() {
  MembershipData data = SampleRing(
      {"a", "b", "c"},
      {{100, 0, Epoch(1)}, {200, 1, Epoch(2)}, {300, 0, Epoch(1)}, {400, 2, Epoch(300)}});
  data.nodes[0].hash_name = std::string("\x00\xff", 2);
  data.nodes[1].zone = "eu-1a";
  data.nodes[1].labels = {{"rack", "r7"}, {"tier", "gold"}};
  data.nodes[2].weight_milli = 1'000'000;
  data.spec.hash.hash_tags = true;
  data.spec.origin_fill_qps = 400;
  data.moves = {SampleMove("add-c", 0, "b", "c", kGrace, HashRangeSet({{300, 400}})),
                SampleMove("add-c", 1, "a", "c", kWarming, HashRangeSet({{400, 100}, {200, 300}}))};
  return data;
}

MembershipData Directory() {
  MembershipData data = SampleDirectory(10, {"a", "b", "c"});
  for (size_t i = 0; i < 1024; i += 7) data.ranges[i].epoch = Epoch(2 + i % 5);
  std::vector<HashRange> moving;
  for (size_t i = 0; i < 1024; i += 30)
    moving.push_back({BucketEnd(10, i) - (1ull << 54), BucketEnd(10, i)});
  data.moves = {SampleMove("m", 0, "a", "b", kWarming, HashRangeSet(moving))};
  return data;
}

MembershipData Pinned() {
  MembershipData data = SampleDirectory(10, {"a", "b", "c"});
  data.pins = {{0, "a"}, {1, "c"}, {1023, "b"}};
  return data;
}

Membership::Ptr Create(MembershipData data) {
  absl::StatusOr<Membership::Ptr> membership = Membership::Create(std::move(data));
  EXPECT_OK(membership);
  return membership.ok() ? *membership : nullptr;
}

Delta SampleDelta() {
  Delta delta;
  delta.history.high = 1;
  delta.history.low = 2;
  delta.from = Version(41);
  delta.to = Version(42);
  delta.digest = 0x0123456789abcdef;
  Update& update = delta.update;
  update.put_nodes = {Ring().nodes[1], SampleNode("z")};
  update.split_at = {7, 3, UINT64_MAX};
  update.assignments = {{HashRangeSet({{3, 7}, {UINT64_MAX, 0}}), "z", Epoch(9)},
                        {HashRangeSet::Whole(), "b", Epoch(UINT64_MAX)}};
  update.remove_moves = {"old", "older"};
  update.put_moves = {SampleMove("new", 3, "b", "z", kWarming, HashRangeSet({{100, 3}}))};
  update.merge_at = {5};
  update.remove_nodes = {"gone"};
  return delta;
}

Delta PinDelta() {
  Delta delta = SampleDelta();
  delta.update.directory_bits = 12;
  delta.update.remove_pins = {7, 1048575};
  delta.update.put_pins = {{3, "b"}, {9, "z"}};
  return delta;
}

TEST(EncodingTest, PinsAndGrowthRoundTrip) {
  const MembershipData data = Pinned();
  const std::string bytes = EncodeMembership(data);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr decoded, DecodeMembership(bytes));
  EXPECT_EQ(decoded->data(), data);
  EXPECT_EQ(EncodeMembership(decoded->data()), bytes);
  ASSERT_OK_AND_ASSIGN(const Delta delta, DecodeDelta(EncodeDelta(PinDelta())));
  EXPECT_EQ(delta, PinDelta());
  Delta growth;
  growth.update.directory_bits = 20;
  ASSERT_OK_AND_ASSIGN(const Delta grown, DecodeDelta(EncodeDelta(growth)));
  EXPECT_EQ(grown, growth);
}

TEST(HostileBytesTest, PinsAndGrowth) {
  const std::string pinned = EncodeMembership(Pinned());
  const std::string delta = EncodeDelta(PinDelta());
  for (size_t size = 0; size < pinned.size(); ++size) {
    ASSERT_THAT(DecodeMembership(std::string_view(pinned).substr(0, size)),
                StatusIs(StatusCode::kInvalidArgument, "byte"))
        << size;
  }
  for (size_t size = 0; size < delta.size(); ++size) {
    ASSERT_THAT(DecodeDelta(std::string_view(delta).substr(0, size)),
                StatusIs(StatusCode::kInvalidArgument, "byte"))
        << size;
  }
  const auto is_exact_or_refused = [](const auto& decoded, const auto& encode,
                                      const std::string& bytes) {
    if (decoded.ok()) {
      ASSERT_EQ(encode(*decoded), bytes);
    } else {
      ASSERT_TRUE(absl::IsInvalidArgument(decoded.status()) ||
                  absl::IsUnimplemented(decoded.status()))
          << decoded.status();
    }
  };
  for (int value = 1; value < 256; value = value < 16 ? value + 1 : value * 2 - 5) {
    // Of the membership only the end, where the pins are.
    for (size_t i = pinned.size() - 40; i < pinned.size(); ++i) {
      std::string flipped = pinned;
      flipped[i] = static_cast<char>(flipped[i] ^ value);
      ASSERT_NO_FATAL_FAILURE(is_exact_or_refused(
          DecodeMembership(flipped),
          [](const Membership::Ptr& membership) { return EncodeMembership(membership->data()); },
          flipped))
          << i << " ^ " << value;
    }
    for (size_t i = 0; i < delta.size(); ++i) {
      std::string flipped = delta;
      flipped[i] = static_cast<char>(flipped[i] ^ value);
      ASSERT_NO_FATAL_FAILURE(is_exact_or_refused(
          DecodeDelta(flipped), [](const Delta& decoded) { return EncodeDelta(decoded); }, flipped))
          << i << " ^ " << value;
    }
  }
}

TEST(EncodingTest, MembershipsRoundTrip) {
  for (const MembershipData& data :
       {Ring(), Directory(), SampleRing({"a"}, {{0, 0, Epoch(1)}}),
        SampleRing({"a"}, {{UINT64_MAX, 0, Epoch(UINT64_MAX)}}),
        // Uniform ends on a ring are left out of the bytes too.
        SampleRing({"a", "b"}, {{UINT64_MAX >> 1, 0, Epoch(1)}, {UINT64_MAX, 1, Epoch(2)}})}) {
    const Membership::Ptr membership = Create(data);
    const std::string bytes = EncodeMembership(data);
    ASSERT_OK_AND_ASSIGN(const Membership::Ptr decoded, DecodeMembership(bytes));
    EXPECT_EQ(decoded->data(), data);
    EXPECT_EQ(decoded->digest(), membership->digest());
    EXPECT_EQ(EncodeMembership(decoded->data()), bytes);
  }
}

TEST(EncodingTest, RandomRingsRoundTrip) {
  std::mt19937_64 random(21);
  for (int round = 0; round < 50; ++round) {
    const MembershipData data = RandomRing(random, 1 + random() % 9, 1 + random() % 300);
    ASSERT_OK_AND_ASSIGN(const Membership::Ptr decoded, DecodeMembership(EncodeMembership(data)));
    ASSERT_EQ(decoded->data(), data);
  }
}

TEST(EncodingTest, DeltasRoundTrip) {
  for (const Delta& delta : {Delta(), SampleDelta()}) {
    ASSERT_OK_AND_ASSIGN(const Delta decoded, DecodeDelta(EncodeDelta(delta)));
    EXPECT_EQ(decoded, delta);
  }
}

TEST(EncodingTest, RandomSetsRoundTripInADelta) {
  std::mt19937_64 random(22);
  for (int round = 0; round < 300; ++round) {
    // Boundaries with `shift` zero bits, so that the common scale differs from set to set.
    const uint64_t shift = random() % 64;
    std::vector<HashRange> ranges;
    for (uint64_t i = random() % 6; i > 0; --i) {
      ranges.push_back({((random() >> shift) << shift) - 1, ((random() >> shift) << shift) - 1});
    }
    Delta delta;
    delta.update.assignments = {{HashRangeSet(ranges), "a", Epoch(1)}};
    ASSERT_OK_AND_ASSIGN(const Delta decoded, DecodeDelta(EncodeDelta(delta)));
    ASSERT_EQ(decoded, delta);
  }
}

// The format is stored and sent: these bytes may not change under the same format number.
TEST(EncodingTest, BytesOfFormatOne) {
  MembershipData data = SampleRing({"a"}, {{7, 0, Epoch(5)}});
  data.spec.id = "s";
  ByteWriter out;
  out.Fixed32(1);
  out.Fixed64(0xa1b2c3d400000000);
  out.Fixed64(7);
  out.Fixed64(41);
  out.String("s");
  out.Byte(1);        // ring
  out.Varint(14);     // directory_bits
  out.Varint(160);    // tokens_per_node
  out.Byte(1);        // xxh3
  out.Byte(0);        // no hash tags
  out.Varint(1);      // replication
  out.Byte(1);        // purge
  out.Varint(0);      // origin_fill_qps
  out.Varint(60000);  // grace_ms
  out.Varint(1);      // nodes
  out.String("a");
  out.String("");
  out.String("a:6379");
  out.Varint(1000);
  out.String("");
  out.Varint(0);   // labels
  out.Byte(0);     // ends are given
  out.Fixed64(5);  // highest epoch
  out.Varint(1);   // ranges
  out.Fixed64(7);
  out.Varint(0);  // owner
  out.Varint(0);  // below the highest epoch
  out.Varint(0);  // moves
  EXPECT_EQ(EncodeMembership(data), out.Take());
}

TEST(EncodingTest, ABucketTakesTwoOrThreeBytes) {
  const std::string bytes = EncodeMembership(SampleDirectory(14, SampleNames(200)));
  EXPECT_LT(bytes.size(), size_t{16384} * 3 + 200 * 20);
  // Half of the buckets move, each apart from the others: two or three bytes each.
  std::vector<HashRange> odd;
  for (uint64_t i = 1; i < 16384; i += 2) odd.push_back({BucketEnd(14, i - 1), BucketEnd(14, i)});
  Delta delta;
  delta.update.assignments = {{HashRangeSet(odd), "n0001", Epoch(2)}};
  EXPECT_LT(EncodeDelta(delta).size(), size_t{8192} * 3);
}

// Decodes; if that succeeds the value must encode to the same bytes.
void ExpectFailsOrIsExact(const std::string& bytes) {
  absl::StatusOr<Membership::Ptr> decoded = DecodeMembership(bytes);
  if (decoded.ok()) {
    ASSERT_EQ(EncodeMembership((*decoded)->data()), bytes);
    return;
  }
  ASSERT_TRUE(absl::IsInvalidArgument(decoded.status()) || absl::IsUnimplemented(decoded.status()))
      << decoded.status();
}

void ExpectDeltaFailsOrIsExact(const std::string& bytes) {
  absl::StatusOr<Delta> decoded = DecodeDelta(bytes);
  if (decoded.ok()) {
    ASSERT_EQ(EncodeDelta(*decoded), bytes);
    return;
  }
  ASSERT_TRUE(absl::IsInvalidArgument(decoded.status()) || absl::IsUnimplemented(decoded.status()))
      << decoded.status();
}

TEST(HostileBytesTest, EveryTruncationFails) {
  for (const MembershipData& data : {Ring(), Directory()}) {
    const std::string bytes = EncodeMembership(data);
    for (size_t size = 0; size < bytes.size(); ++size) {
      ASSERT_THAT(DecodeMembership(std::string_view(bytes).substr(0, size)),
                  StatusIs(StatusCode::kInvalidArgument, "byte"))
          << size;
    }
    EXPECT_THAT(DecodeMembership(bytes + '\0'),
                StatusIs(StatusCode::kInvalidArgument, "1 bytes follow"));
  }
  const std::string bytes = EncodeDelta(SampleDelta());
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_THAT(DecodeDelta(std::string_view(bytes).substr(0, size)),
                StatusIs(StatusCode::kInvalidArgument, "byte"))
        << size;
  }
  EXPECT_THAT(DecodeDelta(bytes + '\0'), StatusIs(StatusCode::kInvalidArgument, "1 bytes follow"));
}

TEST(HostileBytesTest, EveryOtherByteFailsOrIsAnotherValue) {
  const std::string ring = EncodeMembership(Ring());
  const std::string delta = EncodeDelta(SampleDelta());
  for (int value = 1; value < 256; value = value < 16 ? value + 1 : value * 2 - 5) {
    for (size_t i = 0; i < ring.size(); ++i) {
      std::string flipped = ring;
      flipped[i] = static_cast<char>(flipped[i] ^ value);
      ASSERT_NO_FATAL_FAILURE(ExpectFailsOrIsExact(flipped)) << i << " ^ " << value;
    }
    for (size_t i = 0; i < delta.size(); ++i) {
      std::string flipped = delta;
      flipped[i] = static_cast<char>(flipped[i] ^ value);
      ASSERT_NO_FATAL_FAILURE(ExpectDeltaFailsOrIsExact(flipped)) << i << " ^ " << value;
    }
  }
  const std::string directory = EncodeMembership(Directory());
  for (const int value : {0x01, 0x80, 0xff}) {
    for (size_t i = 0; i < directory.size(); ++i) {
      std::string flipped = directory;
      flipped[i] = static_cast<char>(flipped[i] ^ value);
      ASSERT_NO_FATAL_FAILURE(ExpectFailsOrIsExact(flipped)) << i << " ^ " << value;
    }
  }
}

TEST(HostileBytesTest, RandomBytesFail) {
  std::mt19937_64 random(23);
  for (int round = 0; round < 3000; ++round) {
    ByteWriter out;
    out.Fixed32(kMembershipFormat);
    for (uint64_t i = random() % 200; i > 0; --i) {
      // Small numbers reach further into the decoder.
      out.Byte(static_cast<uint8_t>(random() % (round % 2 == 0 ? 256 : 4)));
    }
    const std::string bytes = out.Take();
    ASSERT_NO_FATAL_FAILURE(ExpectFailsOrIsExact(bytes));
    ASSERT_NO_FATAL_FAILURE(ExpectDeltaFailsOrIsExact(bytes));
  }
}

// Everything of a membership up to the count of its nodes.
ByteWriter UpToNodes() {
  ByteWriter out;
  out.Fixed32(kMembershipFormat);
  for (int i = 0; i < 3; ++i) out.Fixed64(1);
  out.String("s");
  out.Byte(1);
  out.Varint(14);
  out.Varint(160);
  out.Byte(1);
  out.Byte(0);
  out.Varint(1);
  out.Byte(1);
  out.Varint(0);
  out.Varint(0);
  return out;
}

TEST(HostileBytesTest, HugeCountsFailBeforeTheyAllocate) {
  ByteWriter nodes = UpToNodes();
  nodes.Varint(Membership::kMaxNodes + 1);
  EXPECT_THAT(DecodeMembership(nodes.Take()),
              StatusIs(StatusCode::kInvalidArgument, "nodes: 100001 is over the limit of 100000"));
  ByteWriter starved = UpToNodes();
  starved.Varint(Membership::kMaxNodes);
  EXPECT_THAT(DecodeMembership(starved.Take()),
              StatusIs(StatusCode::kInvalidArgument, "nodes: truncated"));
  ByteWriter ranges = UpToNodes();
  ranges.Varint(0);
  ranges.Byte(1);
  ranges.Fixed64(1);
  ranges.Varint(Membership::kMaxRanges);
  EXPECT_THAT(DecodeMembership(ranges.Take()),
              StatusIs(StatusCode::kInvalidArgument, "ranges: truncated"));
  ByteWriter odd = UpToNodes();
  odd.Varint(0);
  odd.Byte(1);
  odd.Fixed64(1);
  odd.Varint(3);
  for (int i = 0; i < 6; ++i) odd.Byte(0);
  EXPECT_THAT(DecodeMembership(odd.Take()),
              StatusIs(StatusCode::kInvalidArgument, "3 uniform ranges are no power of two"));
}

TEST(HostileBytesTest, ABrokenInvariantIsNamed) {
  MembershipData data = Ring();
  data.ranges[2].owner = 9;
  EXPECT_THAT(DecodeMembership(EncodeMembership(data)),
              StatusIs(StatusCode::kInvalidArgument, "ranges[2].owner: 9 is not a node"));
}

TEST(EncodingTest, ANewerFormatIsUnimplemented) {
  std::string membership = EncodeMembership(Ring());
  std::string delta = EncodeDelta(SampleDelta());
  membership[0] = 3;
  delta[0] = 4;
  EXPECT_THAT(DecodeMembership(membership),
              StatusIs(StatusCode::kUnimplemented, "membership: format 3 is newer"));
  EXPECT_THAT(DecodeDelta(delta), StatusIs(StatusCode::kUnimplemented, "delta: format 4 is newer"));
  membership[0] = delta[0] = 0;
  EXPECT_THAT(DecodeMembership(membership),
              StatusIs(StatusCode::kInvalidArgument, "there is no format 0"));
  EXPECT_THAT(DecodeDelta(delta), StatusIs(StatusCode::kInvalidArgument, "there is no format 0"));
}

TEST(SealTest, RoundTrips) {
  const Membership::Ptr membership = Create(Ring());
  const std::string sealed = SealMembership(*membership);
  EXPECT_EQ(sealed.substr(0, 8), "WRMEMBER");
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr opened, UnsealMembership(sealed));
  EXPECT_EQ(opened->data(), membership->data());
}

TEST(SealTest, AnyDamageIsDataLoss) {
  const std::string sealed = SealMembership(*Create(Ring()));
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string damaged = sealed;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    ASSERT_THAT(UnsealMembership(damaged), StatusIs(StatusCode::kDataLoss)) << i;
    ASSERT_THAT(UnsealMembership(sealed.substr(0, i)), StatusIs(StatusCode::kDataLoss)) << i;
  }
  EXPECT_THAT(UnsealMembership(sealed + "x"), StatusIs(StatusCode::kDataLoss, "bytes where"));
}

}  // namespace
}  // namespace warmring
