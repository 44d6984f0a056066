// The copies of a range beside its owner's: what a membership, its encoding and its changes do with
// them.

#include <algorithm>
#include <bit>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/membership/encoding.h"
#include "core/membership/membership.h"
#include "core/membership/membership_testing.h"
#include "core/membership/update.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

using testing::ElementsAre;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// Three copies of (.., 100] at b, c, d; of (100, 200] at c, d, nobody; of (200, 300] at d, b, c.
MembershipData Sample() {
  MembershipData data =
      SampleRing({"b", "c", "d"}, {{100, 0, Epoch(1)}, {200, 1, Epoch(1)}, {300, 2, Epoch(1)}});
  data.spec.replication = 3;
  data.spec.domains = {DomainLevel::kZone, true};
  data.followers = {1, 2, 2, kNoNode, 0, 1};
  return data;
}

std::vector<NodeId> FollowersOf(const Membership& membership, HashPoint at) {
  std::vector<NodeId> ids;
  for (const NodeIndex follower : membership.FollowersAt(membership.RangeIndexOf(at))) {
    ids.push_back(follower == kNoNode ? "-" : membership.nodes()[follower].id);
  }
  return ids;
}

TEST(FollowersTest, EachRangeHasItsOwn) {
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr membership, Membership::Create(Sample()));
  EXPECT_THAT(FollowersOf(*membership, 50), ElementsAre("c", "d"));
  EXPECT_THAT(FollowersOf(*membership, 150), ElementsAre("d", "-"));
  EXPECT_THAT(FollowersOf(*membership, 250), ElementsAre("b", "c"));
}

// The row of the table says what the fields say.
void ExpectRowsSayTheSame(const Membership& membership) {
  const size_t followers = membership.spec().replication - 1;
  for (size_t i = 0; i < membership.ranges().size(); ++i) {
    const OwnedRange& range = membership.ranges()[i];
    const Membership::Holders holders = membership.HoldersOf(range.end);
    ASSERT_EQ(holders.owner(), range.owner);
    ASSERT_EQ(membership.tenures()[holders.tenure()].epoch, range.epoch);
    ASSERT_EQ(membership.HolderOf(range.end).owner, range.owner);
    ASSERT_EQ(membership.HolderOf(range.end).tenure, holders.tenure());
    for (size_t rank = 0; rank < followers; ++rank) {
      ASSERT_EQ(holders.follower(rank), membership.FollowersAt(i)[rank]) << "of range " << i;
    }
  }
}

// `ranges` ranges of a ring, or of a directory where they are a power of two, with followers at
// random, about one in eight of them missing.
MembershipData RandomCopies(size_t nodes, size_t ranges, uint32_t replication,
                            PlacementKind placement) {
  std::mt19937_64 random(replication);
  MembershipData data = SampleRing({}, {});
  for (size_t i = 0; i < nodes; ++i) data.nodes.push_back(SampleNode(fmt::format("n{:06}", i)));
  data.spec.replication = replication;
  data.spec.placement = placement;
  const auto bits = static_cast<uint32_t>(std::countr_zero(ranges));
  if (placement == PlacementKind::kDirectory) data.spec.directory_bits = bits;
  std::set<HashPoint> ends;
  for (size_t i = 0; ends.size() < ranges; ++i) {
    ends.insert(placement == PlacementKind::kDirectory ? BucketEnd(bits, i) : random());
  }
  for (const HashPoint end : ends) {
    std::vector<NodeIndex> copies;
    while (copies.size() < std::min<size_t>(replication, nodes)) {
      const auto node = static_cast<NodeIndex>(random() % nodes);
      if (std::find(copies.begin(), copies.end(), node) == copies.end()) copies.push_back(node);
    }
    copies.resize(replication, kNoNode);
    data.ranges.push_back({end, copies[0], Epoch(random() % 5 + 1)});
    for (size_t i = 1; i < copies.size(); ++i) {
      data.followers.push_back(random() % 8 == 0 ? kNoNode : copies[i]);
    }
  }
  return data;
}

TEST(FollowersTest, OneRowHoldsAllCopies) {
  for (const PlacementKind placement : {PlacementKind::kRing, PlacementKind::kDirectory}) {
    for (const uint32_t replication : {1U, 2U, 3U, 4U, 15U, 16U}) {
      for (const size_t nodes : {size_t{2}, size_t{20}}) {
        ASSERT_OK_AND_ASSIGN(const Membership::Ptr membership,
                             Membership::Create(RandomCopies(nodes, 1024, replication, placement)));
        ExpectRowsSayTheSame(*membership);
      }
    }
  }
}

// Numbers of more than 16 bits: nobody is the number of nodes, which is the first that does not
// fit.
TEST(FollowersTest, OneRowHoldsAllCopiesOfManyNodes) {
  for (const size_t nodes : {size_t{65'535}, size_t{65'536}, size_t{70'000}}) {
    for (const uint32_t replication : {3U, 16U}) {
      ASSERT_OK_AND_ASSIGN(
          const Membership::Ptr membership,
          Membership::Create(RandomCopies(nodes, 4096, replication, PlacementKind::kRing)));
      ExpectRowsSayTheSame(*membership);
    }
  }
}

TEST(FollowersTest, OneRowHoldsAllCopiesUnderManyEpochs) {
  MembershipData data = RandomCopies(20, 66'000, 3, PlacementKind::kRing);
  for (size_t i = 0; i < data.ranges.size(); ++i) data.ranges[i].epoch = Epoch(i + 1);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr membership, Membership::Create(std::move(data)));
  EXPECT_EQ(membership->tenures().size(), 66'000U);
  ExpectRowsSayTheSame(*membership);
}

TEST(FollowersTest, OneCopyHasNone) {
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr membership,
                       Membership::Create(SampleRing({"a"}, {{7, 0, Epoch(1)}})));
  EXPECT_TRUE(membership->FollowersAt(0).empty());
}

TEST(FollowersTest, WhatDoesNotFitIsRefused) {
  using D = MembershipData;
  const struct {
    std::string message;
    std::function<void(D&)> change;
  } cases[] = {
      {"followers: 5 for 3 ranges with replication 3", [](D& d) { d.followers.pop_back(); }},
      {"followers: 0 for 3 ranges", [](D& d) { d.followers.clear(); }},
      {"followers: 6 for 3 ranges with replication 1",
       [](D& d) {
         d.spec.replication = 1;
         d.spec.domains = {};
       }},
      {"followers[1]: 3 is not a node", [](D& d) { d.followers[1] = 3; }},
      {"followers[0]: 'b' has a copy", [](D& d) { d.followers[0] = 0; }},
      {"followers[5]: 'b' has a copy", [](D& d) { d.followers[5] = 0; }},
      {"spec.failure_domain: 9 is unknown",
       [](D& d) { d.spec.domains.level = static_cast<DomainLevel>(9); }},
  };
  for (const auto& bad : cases) {
    MembershipData data = Sample();
    bad.change(data);
    EXPECT_THAT(Membership::Create(data), StatusIs(kInvalid, bad.message));
  }
}

TEST(FollowersTest, AreEncodedAndCountForTheDigest) {
  const std::string bytes = EncodeMembership(Sample());
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr decoded, DecodeMembership(bytes));
  EXPECT_EQ(decoded->data(), Sample());
  for (const auto& change : std::vector<std::function<void(MembershipData&)>>{
           [](MembershipData& d) { std::swap(d.followers[0], d.followers[1]); },
           [](MembershipData& d) { d.followers[3] = 0; },
           [](MembershipData& d) { d.spec.domains.level = DomainLevel::kRack; },
           [](MembershipData& d) { d.spec.domains.best_effort = false; }}) {
    MembershipData data = Sample();
    change(data);
    ASSERT_OK_AND_ASSIGN(const Membership::Ptr other, Membership::Create(data));
    EXPECT_NE(other->digest(), decoded->digest());
  }
}

TEST(FollowersTest, DamagedBytesAreRefused) {
  const std::string bytes = EncodeMembership(Sample());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THAT(DecodeMembership(bytes.substr(0, length)), StatusIs(kInvalid, ""));
  }
  for (size_t i = 4; i < bytes.size(); ++i) {
    for (const int mask : {0x01, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      const auto decoded = DecodeMembership(damaged);
      if (decoded.ok()) {
        EXPECT_EQ(EncodeMembership((*decoded)->data()), damaged);
      }
    }
  }
}

TEST(FollowersTest, StayThemselvesWhenTheListOfNodesChanges) {
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr base, Membership::Create(Sample()));
  Update update;
  update.put_nodes = {SampleNode("a"), SampleNode("cc")};
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr next, Apply(*base, update));
  EXPECT_THAT(FollowersOf(*next, 50), ElementsAre("c", "d"));
  EXPECT_THAT(FollowersOf(*next, 150), ElementsAre("d", "-"));
  update = {};
  update.remove_nodes = {"a", "cc"};
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr back, Apply(*next, update));
  EXPECT_EQ(back->data().followers, base->data().followers);
}

TEST(FollowersTest, ANodeThatFollowsCannotLeave) {
  MembershipData data = Sample();
  data.nodes.push_back(SampleNode("e"));
  data.followers[3] = 3;
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr base, Membership::Create(data));
  Update update;
  update.remove_nodes = {"e"};
  EXPECT_THAT(Apply(*base, update),
              StatusIs(kInvalid, "'e' still follows the range that ends at 00000000000000c8"));
}

TEST(FollowersTest, AnUpdateGivesRangesOtherFollowers) {
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr base, Membership::Create(Sample()));
  EXPECT_THAT(FollowersOf(*base, 150), ElementsAre("d", "-"));
  Update update;
  update.split_at = {120};
  update.put_followers = {{HashRangeSet({{100, 120}}), {"b", "d"}},
                          {HashRangeSet({{120, 200}}), {"", ""}}};
  // The owner of (100, 200] must not be among them.
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr next, Apply(*base, update));
  EXPECT_THAT(FollowersOf(*next, 110), ElementsAre("b", "d"));
  EXPECT_THAT(FollowersOf(*next, 150), ElementsAre("-", "-"));
  EXPECT_THAT(FollowersOf(*next, 50), ElementsAre("c", "d"));
  Update back;
  back.put_followers = {{HashRangeSet({{100, 200}}), {"d", ""}}};
  back.merge_at = {120};
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr restored, Apply(*next, back));
  EXPECT_EQ(restored->data().followers, base->data().followers);
  EXPECT_EQ(restored->data().ranges, base->data().ranges);
}

TEST(FollowersTest, AnOwnerAndAFollowerChangePlacesInOneUpdate) {
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr base, Membership::Create(Sample()));
  const NodeId owner = base->nodes()[RoutePoint(*base, 150).owner].id;
  Update update;
  update.assignments = {{HashRangeSet({{100, 200}}), "d", Epoch(99)}};
  EXPECT_THAT(Apply(*base, update), StatusIs(kInvalid, "'d' has a copy"));
  update.put_followers = {{HashRangeSet({{100, 200}}), {owner, ""}}};
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr next, Apply(*base, update));
  EXPECT_EQ(next->nodes()[RoutePoint(*next, 150).owner].id, "d");
  EXPECT_THAT(FollowersOf(*next, 150), ElementsAre(owner, "-"));
  EXPECT_TRUE(next->FollowedBy(owner).Includes(HashRangeSet({{100, 200}})));
  EXPECT_TRUE(next->IsFollower(*next->FindNode(owner), 150));
  EXPECT_FALSE(next->IsFollower(*next->FindNode("d"), 150));
  EXPECT_EQ(next->FollowedBy("nobody"), HashRangeSet());
  // A delta does it too.
  const Delta delta = {base->history(), base->version(), next->version(), update, next->digest()};
  ASSERT_OK_AND_ASSIGN(const Delta decoded, DecodeDelta(EncodeDelta(delta)));
  EXPECT_EQ(decoded, delta);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr applied, ApplyDelta(*base, decoded));
  EXPECT_EQ(applied->data(), next->data());
}

TEST(FollowersTest, UpdatesThatDoNotFitAreRefused) {
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr base, Membership::Create(Sample()));
  const HashRangeSet range({{100, 200}});
  const auto refused = [&](std::vector<PutFollowers> puts) {
    Update update;
    update.put_followers = std::move(puts);
    return Apply(*base, update).status();
  };
  EXPECT_THAT(refused({{range, {"d"}}}),
              StatusIs(kInvalid, "put_followers[0].followers: 1 with replication 3: name 2"));
  EXPECT_THAT(refused({{range, {"d", "nobody"}}}),
              StatusIs(kInvalid, "put_followers[0].followers[1]: 'nobody' is not a node"));
  EXPECT_THAT(refused({{range, {"d", "d"}}}), StatusIs(kInvalid, "'d' has a copy"));
  EXPECT_THAT(refused({{HashRangeSet(), {"d", ""}}}), StatusIs(kInvalid, "no range is named"));
  EXPECT_THAT(refused({{HashRangeSet({{100, 150}}), {"d", ""}}}),
              StatusIs(kInvalid, "put_followers[0].ranges"));
  EXPECT_THAT(refused({{range, {"d", ""}}, {range, {"", ""}}}),
              StatusIs(kInvalid,
                       "put_followers[1].ranges: the range that ends at "
                       "00000000000000c8 is given followers twice"));
  MembershipData single = Sample();
  single.spec.replication = 1;
  single.spec.domains = {};
  single.followers.clear();
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr alone, Membership::Create(single));
  Update update;
  update.put_followers = {{range, {}}};
  EXPECT_THAT(Apply(*alone, update), StatusIs(kInvalid, "with replication 1"));
}

TEST(FollowersTest, DamagedDeltasAreRefused) {
  Delta delta;
  delta.update.put_followers = {{HashRangeSet({{100, 200}, {300, 400}}), {"d", ""}},
                                {HashRangeSet({{200, 300}}), {"c", "d"}}};
  const std::string bytes = EncodeDelta(delta);
  ASSERT_OK_AND_ASSIGN(const Delta decoded, DecodeDelta(bytes));
  EXPECT_EQ(decoded, delta);
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(DecodeDelta(bytes.substr(0, length)).ok()) << length;
  }
  for (size_t i = 4; i < bytes.size(); ++i) {
    for (const int mask : {0x01, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      const auto other = DecodeDelta(damaged);
      if (other.ok()) {
        EXPECT_EQ(EncodeDelta(*other), damaged);
      }
    }
  }
  // What has no followers is written as before there were such deltas.
  delta.update.put_followers.clear();
  EXPECT_EQ(EncodeDelta(delta)[0], 1);
}

TEST(FollowersTest, ChildrenOfASplitInheritThemAndAMergeWantsThemEqual) {
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr base, Membership::Create(Sample()));
  Update split;
  split.split_at = {50, 120, 200, 400};
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr divided, Apply(*base, split));
  ASSERT_EQ(divided->ranges().size(), 6u);
  for (const HashPoint at : {HashPoint{10}, HashPoint{60}, HashPoint{350}, HashPoint{500}}) {
    EXPECT_THAT(FollowersOf(*divided, at), ElementsAre("c", "d")) << at;
  }
  EXPECT_THAT(FollowersOf(*divided, 110), ElementsAre("d", "-"));
  EXPECT_THAT(FollowersOf(*divided, 130), ElementsAre("d", "-"));
  Update merge;
  merge.merge_at = {50, 120, 400};
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr merged, Apply(*divided, merge));
  EXPECT_EQ(merged->data().ranges, base->data().ranges);
  EXPECT_EQ(merged->data().followers, base->data().followers);

  MembershipData data = divided->data();
  data.followers[3] = kNoNode;  // of (50, 100]: no longer what (.., 50] has
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr unequal, Membership::Create(data));
  merge.merge_at = {50};
  EXPECT_THAT(Apply(*unequal, merge), StatusIs(kInvalid, "have the same followers"));
}

}  // namespace
}  // namespace warmring
