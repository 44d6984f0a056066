// The copies of a range beside its owner's: what a membership, its encoding and its changes do with
// them.

#include <functional>
#include <string>
#include <vector>

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
