// A membership that exists is sound: each broken invariant is refused with its field. A sound one
// routes each point to the owner of the range that holds it, and tells what is moving.

#include "core/membership/membership.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/hashing/key_hash.h"
#include "core/membership/membership_testing.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr MovePhase kWarming = MovePhase::kWarming;
constexpr MovePhase kGrace = MovePhase::kGrace;

// a owns (400, 100] and (200, 300], b owns (100, 200], c owns (300, 400]. (100, 200] is being
// warmed on c; (300, 400] was b's.
MembershipData Sample() {
  MembershipData data =
      SampleRing({"a", "b", "c"},
                 {{100, 0, Epoch(1)}, {200, 1, Epoch(2)}, {300, 0, Epoch(1)}, {400, 2, Epoch(3)}});
  data.moves = {SampleMove("add-c", 0, "b", "c", kGrace, HashRangeSet({{300, 400}})),
                SampleMove("add-c", 1, "b", "c", kWarming, HashRangeSet({{100, 200}}))};
  return data;
}

Membership::Ptr Create(MembershipData data) {
  absl::StatusOr<Membership::Ptr> membership = Membership::Create(std::move(data));
  EXPECT_OK(membership);
  return membership.ok() ? *membership : nullptr;
}

TEST(MembershipCreateTest, RefusesEachBrokenInvariantWithItsField) {
  struct Case {
    std::string message;
    std::function<void(MembershipData&)> spoil;
  };
  using D = MembershipData;
  const Case cases[] = {
      {"version: 0 means none", [](D& d) { d.version = Version(); }},
      {"spec.id: ''", [](D& d) { d.spec.id.clear(); }},
      {"spec.replication: 0", [](D& d) { d.spec.replication = 0; }},
      {"nodes: a membership needs at least one node", [](D& d) { d.nodes.clear(); }},
      {"nodes[1].id: 'B'", [](D& d) { d.nodes[1].id = "B"; }},
      {"nodes[2].address: 'c'", [](D& d) { d.nodes[2].address = "c"; }},
      {"nodes[1].id: 'a' follows 'a'", [](D& d) { d.nodes[1].id = "a"; }},
      {"nodes[1].id: 'b' follows 'd'", [](D& d) { d.nodes[0].id = "d"; }},
      {"ranges: at least one range", [](D& d) { d.ranges.clear(); }},
      {"ranges[2].end: 00000000000000c8 follows 00000000000000c8",
       [](D& d) { d.ranges[2].end = 200; }},
      {"ranges[1].end: 0000000000000032 follows", [](D& d) { d.ranges[1].end = 50; }},
      {"ranges[3].owner: 3 is not a node: there are 3 nodes", [](D& d) { d.ranges[3].owner = 3; }},
      {"ranges[0].epoch: 0 means none", [](D& d) { d.ranges[0].epoch = Epoch(); }},
      {"moves[0].migration: ''", [](D& d) { d.moves[0].migration.clear(); }},
      {"moves[1].phase: 3 is unknown", [](D& d) { d.moves[1].phase = static_cast<MovePhase>(3); }},
      {"moves[0].to: 'b' is also the donor", [](D& d) { d.moves[0].to = "b"; }},
      {"moves[0].ranges: a move needs a range", [](D& d) { d.moves[0].ranges = {}; }},
      {"moves[1]: (add-c, 0, b, c) is out of order", [](D& d) { d.moves[1].wave = 0; }},
      {"moves[1]: (add-c, 1, b, c) is out of order", [](D& d) { d.moves[0].wave = 2; }},
      {"moves[0].from: 'x' is not a node", [](D& d) { d.moves[0].from = "x"; }},
      {"moves[1].to: 'x' is not a node", [](D& d) { d.moves[1].to = "x"; }},
      {"moves[1].ranges: (0000000000000064, 0000000000000096] is not made of whole ranges",
       [](D& d) {
         d.moves[1].ranges = HashRangeSet({{100, 150}});
       }},
      {"moves[1].ranges: (0000000000000064, 00000000000000c8] is already in moves[0]",
       [](D& d) {
         d.moves[0].phase = kWarming;
         d.moves[0].ranges = d.moves[1].ranges;
       }},
      {"moves[1].ranges: (00000000000000c8, 000000000000012c] belongs to 'a', and must belong to "
       "'b' while it is warming",
       [](D& d) {
         d.moves[1].ranges = HashRangeSet({{200, 300}});
       }},
      {"belongs to 'b', and must belong to 'c' while it is in grace",
       [](D& d) { d.moves[1].phase = kGrace; }},
  };
  EXPECT_OK(Membership::Create(Sample()));
  for (const Case& c : cases) {
    MembershipData data = Sample();
    c.spoil(data);
    EXPECT_THAT(Membership::Create(data), StatusIs(StatusCode::kInvalidArgument, c.message));
  }
}

TEST(MembershipCreateTest, ADirectoryHasExactlyItsBuckets) {
  EXPECT_OK(Membership::Create(SampleDirectory(10, {"a", "b"})));
  MembershipData short_by_one = SampleDirectory(10, {"a"});
  short_by_one.ranges.pop_back();
  EXPECT_THAT(Membership::Create(short_by_one),
              StatusIs(StatusCode::kInvalidArgument,
                       "ranges: 1023 ranges on a directory of 2^10 = 1024 buckets"));
  MembershipData off_by_one = SampleDirectory(10, {"a"});
  off_by_one.ranges[5].end += 1;
  EXPECT_THAT(Membership::Create(off_by_one),
              StatusIs(StatusCode::kInvalidArgument,
                       "ranges[5].end: 0180000000000000 is not the end of bucket 5, which is "
                       "017fffffffffffff"));
}

TEST(MembershipCreateTest, LimitsAreChecked) {
  MembershipData data = SampleRing({"a"}, {{7, 0, Epoch(1)}});
  data.nodes.resize(Membership::kMaxNodes + 1, data.nodes[0]);
  EXPECT_THAT(
      Membership::Create(data),
      StatusIs(StatusCode::kInvalidArgument, "nodes: 100001 nodes are over the limit of 100000"));
}

TEST(MembershipTest, KnowsItsRanges) {
  const Membership::Ptr m = Create(Sample());
  EXPECT_EQ(m->RangeAt(0), (HashRange{400, 100}));
  EXPECT_EQ(m->RangeAt(1), (HashRange{100, 200}));
  EXPECT_EQ(m->RangeIndexOf(100), 0u);
  EXPECT_EQ(m->RangeIndexOf(101), 1u);
  EXPECT_EQ(m->RangeIndexOf(400), 3u);
  EXPECT_EQ(m->RangeIndexOf(401), 0u);
  EXPECT_EQ(m->RangeIndexOf(UINT64_MAX), 0u);
  EXPECT_EQ(m->RangeIndexOf(0), 0u);
  EXPECT_EQ(m->RangeOf(150).epoch, Epoch(2));
  EXPECT_EQ(m->FindNode("b"), NodeIndex{1});
  EXPECT_EQ(m->FindNode("bb"), std::nullopt);
  EXPECT_EQ(m->FindNode(""), std::nullopt);
  EXPECT_THAT(m->OwnedBy("a").Ranges(), ElementsAre(HashRange{200, 300}, HashRange{400, 100}));
  EXPECT_THAT(m->OwnedBy("c").Ranges(), ElementsAre(HashRange{300, 400}));
  EXPECT_THAT(m->OwnedBy("nobody").Ranges(), IsEmpty());
  EXPECT_EQ(m->MoveAt(0), -1);
  EXPECT_EQ(m->MoveAt(1), 1);
  EXPECT_EQ(m->MoveAt(3), 0);
}

TEST(MembershipTest, OneRangeIsEverything) {
  const Membership::Ptr m = Create(SampleRing({"a"}, {{7, 0, Epoch(1)}}));
  EXPECT_EQ(m->OwnedBy("a"), HashRangeSet::Whole());
  EXPECT_EQ(m->RangeAt(0), (HashRange{7, 7}));
  EXPECT_EQ(m->MoveAt(0), -1);
}

TEST(MembershipTest, TheWholeSpaceCanMove) {
  MembershipData data = SampleRing({"a", "b"}, {{7, 0, Epoch(1)}, {9, 0, Epoch(2)}});
  data.moves = {SampleMove("all", 0, "a", "b", kWarming, HashRangeSet::Whole())};
  const Membership::Ptr m = Create(data);
  EXPECT_EQ(RoutePoint(*m, 8).pending, NodeIndex{1});
  EXPECT_EQ(RoutePoint(*m, 10).pending, NodeIndex{1});
}

TEST(MembershipTest, DigestIsEqualExactlyForEqualMemberships) {
  const Membership::Ptr m = Create(Sample());
  EXPECT_EQ(Create(Sample())->digest(), m->digest());
  using D = MembershipData;
  const std::function<void(D&)> changes[] = {
      [](D& d) { d.history.low = 8; },
      [](D& d) { d.version = Version(42); },
      [](D& d) { d.spec.grace_ms = 1; },
      [](D& d) { d.spec.hash.hash_tags = true; },
      [](D& d) { d.spec.allocator = Allocator::kDeliberate; },
      [](D& d) { d.nodes[0].weight_milli = 999; },
      [](D& d) { d.nodes[0].hash_name = "a"; },
      [](D& d) { d.nodes[0].labels["k"] = "v"; },
      [](D& d) {
        d.ranges.insert(d.ranges.begin() + 3, {350, 2, Epoch(3)});
      },
      [](D& d) { d.ranges[2].owner = 1; },
      [](D& d) { d.ranges[2].epoch = Epoch(2); },
      [](D& d) { d.moves.pop_back(); },
      [](D& d) { d.moves[0].wave = 0, d.moves[1].wave = 2; },
  };
  for (const auto& change : changes) {
    MembershipData data = Sample();
    change(data);
    ASSERT_FALSE(data == Sample());
    EXPECT_NE(Create(data)->digest(), m->digest());
  }
}

TEST(MovingRangesTest, OfOneMigrationPhaseAndPair) {
  MembershipData data = Sample();
  data.moves = {SampleMove("add-c", 0, "b", "c", kGrace, HashRangeSet({{300, 400}})),
                SampleMove("add-c", 1, "b", "c", kWarming, HashRangeSet({{100, 200}})),
                SampleMove("add-c", 2, "b", "c", kWarming, HashRangeSet({{200, 300}}))};
  data.ranges[2].owner = 1;
  const Membership::Ptr m = Create(data);
  EXPECT_EQ(MovingRanges(*m, "add-c", kGrace, "b", "c"), HashRangeSet({{300, 400}}));
  // Waves do not matter.
  EXPECT_EQ(MovingRanges(*m, "add-c", kWarming, "b", "c"), HashRangeSet({{100, 300}}));
  EXPECT_EQ(MovingRanges(*m, "add-c", kWarming, "c", "b"), HashRangeSet());
  EXPECT_EQ(MovingRanges(*m, "add-c", kWarming, "a", "c"), HashRangeSet());
  EXPECT_EQ(MovingRanges(*m, "add-d", kWarming, "b", "c"), HashRangeSet());
}

TEST(RouteTest, OwnerAndEpoch) {
  const Membership::Ptr m = Create(Sample());
  EXPECT_EQ(RoutePoint(*m, 50), (Route{50, 0, Epoch(1), std::nullopt, std::nullopt}));
  EXPECT_EQ(RoutePoint(*m, 250), (Route{250, 0, Epoch(1), std::nullopt, std::nullopt}));
}

TEST(RouteTest, WarmingRangeHasAPendingNode) {
  EXPECT_EQ(RoutePoint(*Create(Sample()), 200),
            (Route{200, 1, Epoch(2), NodeIndex{2}, std::nullopt}));
}

TEST(RouteTest, RangeInGraceHasAPreviousOwner) {
  EXPECT_EQ(RoutePoint(*Create(Sample()), 301),
            (Route{301, 2, Epoch(3), std::nullopt, NodeIndex{1}}));
}

TEST(RouteTest, AKeyGoesWhereItsHashGoes) {
  MembershipData data = SampleDirectory(10, {"a", "b", "c"});
  data.spec.hash.hash_tags = true;
  const Membership::Ptr m = Create(data);
  // XXH3_64("user1000") = b03c8988cdc1c874: bucket 0x2c0 = 704 of 1024, node 704 mod 3 = 2.
  const Route route = RouteKey(*m, "{user1000}.followers");
  EXPECT_EQ(route, (Route{0xb03c8988cdc1c874, 2, Epoch(1), std::nullopt, std::nullopt}));
}

}  // namespace
}  // namespace warmring
