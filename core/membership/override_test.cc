#include "core/membership/override.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/hashing/key_hash.h"
#include "core/membership/encoding.h"
#include "core/membership/membership.h"
#include "core/membership/membership_testing.h"
#include "core/membership/update.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

using absl::StatusCode;
using support::StatusIs;
using testing::ElementsAre;
using testing::IsEmpty;

OverrideRule Key(std::string bytes) { return {OverrideRule::Match::kKey, std::move(bytes)}; }
OverrideRule Prefix(std::string bytes) { return {OverrideRule::Match::kPrefix, std::move(bytes)}; }

std::vector<Override> Rules(const std::vector<OverrideRule>& rules) {
  std::vector<Override> overrides;
  for (const OverrideRule& rule : rules) {
    overrides.push_back({static_cast<Plane>(overrides.size() + 1), rule, {}, Epoch()});
  }
  return overrides;
}

TEST(OverrideTableTest, AKeyWinsOverPrefixesAndTheLongestPrefixOverOthers) {
  const OverrideTable table(Rules({Prefix("a"), Prefix("a:b:"), Key("a:b:c"), Key("z")}));
  EXPECT_EQ(table.Find("a"), 0u);
  EXPECT_EQ(table.Find("a:b"), 0u);
  EXPECT_EQ(table.Find("a:b:"), 1u);
  EXPECT_EQ(table.Find("a:b:cd"), 1u);
  EXPECT_EQ(table.Find("a:b:c"), 2u);
  EXPECT_EQ(table.Find("z"), 3u);
  EXPECT_EQ(table.Find("zz"), OverrideTable::kNone);
  EXPECT_EQ(table.Find(""), OverrideTable::kNone);
}

TEST(OverrideTableTest, AParentIsWhatTheKeysWouldHaveWithoutTheRule) {
  const OverrideTable table(
      Rules({Prefix("a"), Prefix("a:b:"), Key("a:b:c"), Key("a:b:"), Prefix("b"), Key("b")}));
  EXPECT_EQ(table.ParentOf(0), OverrideTable::kNone);
  EXPECT_EQ(table.ParentOf(1), 0u);
  EXPECT_EQ(table.ParentOf(2), 1u);
  EXPECT_EQ(table.ParentOf(3), 1u) << "a key may be just the prefix";
  EXPECT_EQ(table.ParentOf(4), OverrideTable::kNone);
  EXPECT_EQ(table.ParentOf(5), 4u);
}

TEST(OverrideTableTest, BytesAreBytes) {
  const std::string nul("t\0x", 3);
  const OverrideTable table(Rules({Prefix(nul), Key(std::string(1, '\xff'))}));
  EXPECT_EQ(table.Find(nul + "1"), 0u);
  EXPECT_EQ(table.Find("t"), OverrideTable::kNone);
  EXPECT_EQ(table.Find("\xff"), 1u);
}

// Against a walk over all rules.
TEST(OverrideTableTest, ManyRulesFindWhatAWalkFinds) {
  uint64_t state = 5;
  const auto word = [&state] {
    std::string text;
    do {
      state = state * 6364136223846793005 + 1442695040888963407;
      text.push_back(static_cast<char>('a' + (state >> 60) % 3));
    } while ((state >> 40) % 4 != 0);
    return text;
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<OverrideRule> rules;
    for (int i = 0; i < 20; ++i) {
      OverrideRule rule = i % 2 == 0 ? Prefix(word()) : Key(word());
      if (std::find(rules.begin(), rules.end(), rule) == rules.end()) rules.push_back(rule);
    }
    const OverrideTable table(Rules(rules));
    for (int i = 0; i < 50; ++i) {
      const std::string key = word();
      size_t best = OverrideTable::kNone;
      for (size_t r = 0; r < rules.size(); ++r) {
        if (!rules[r].Matches(key)) continue;
        const bool wins = best == OverrideTable::kNone ||
                          rules[r].match == OverrideRule::Match::kKey ||
                          (rules[best].match == OverrideRule::Match::kPrefix &&
                           rules[r].bytes.size() > rules[best].bytes.size());
        if (wins) best = r;
      }
      ASSERT_EQ(table.Find(key), best) << key;
    }
  }
}

TEST(OverrideRuleTest, WhatIsNoRule) {
  EXPECT_THAT(ValidateOverrideRule("rule", Prefix("")),
              StatusIs(StatusCode::kInvalidArgument, "every key"));
  EXPECT_THAT(ValidateOverrideRule("rule", Key("")),
              StatusIs(StatusCode::kInvalidArgument, "no key"));
  EXPECT_THAT(ValidateOverrideRule("rule", Prefix(std::string(1025, 'x'))),
              StatusIs(StatusCode::kInvalidArgument, "1025 bytes are over the limit of 1024"));
  EXPECT_THAT(ValidateOverrideRule("rule", {static_cast<OverrideRule::Match>(9), "x"}),
              StatusIs(StatusCode::kInvalidArgument, "rule.match: 9"));
  EXPECT_OK(ValidateOverrideRule("rule", Prefix(std::string(1024, '\0'))));
  EXPECT_EQ(Prefix(std::string("a\n\xff")).ToString(), "prefix 'a\\x0a\\xff'");
}

HashRange Quarter(uint64_t i) {
  constexpr uint64_t kSize = uint64_t{1} << 62;
  return {i * kSize - 1, (i + 1) * kSize - 1};
}
HashPoint In(uint64_t i) { return Quarter(i).end - 7; }

MembershipData Quarters() {
  MembershipData data = SampleRing({"a", "b", "c"}, {{Quarter(0).end, 0, Epoch(1)},
                                                     {Quarter(1).end, 1, Epoch(2)},
                                                     {Quarter(2).end, 0, Epoch(3)},
                                                     {Quarter(3).end, 2, Epoch(4)}});
  data.version = Version(9);
  return data;
}

Membership::Ptr MustCreate(MembershipData data) {
  absl::StatusOr<Membership::Ptr> membership = Membership::Create(std::move(data));
  EXPECT_OK(membership);
  return *membership;
}

// A ring of four quarters: a, b, a, c; "t" on c and b, half and half.
MembershipData WithTenant() {
  MembershipData data = Quarters();
  data.overrides = {{1, Prefix("t"), {{(uint64_t{1} << 63) - 1, 2}, {UINT64_MAX, 1}}, Epoch(7)}};
  data.next_plane = 2;
  return data;
}

MembershipData AsHashed(Epoch epoch) {
  MembershipData data = WithTenant();
  data.overrides[0].ranges.clear();
  data.overrides[0].epoch = epoch;
  return data;
}

TEST(OverriddenMembershipTest, KeysOfARuleAreOnItsPlane) {
  const Membership::Ptr m = MustCreate(WithTenant());
  for (int i = 0; i < 100; ++i) {
    const std::string other = "k" + std::to_string(i);
    EXPECT_EQ(m->PointOf(other).plane, kCommonPlane);
    EXPECT_EQ(m->PointOf(other).hash, HashKey(m->spec().hash, other));
    const std::string key = "t" + std::to_string(i);
    const KeyPoint point = m->PointOf(key);
    EXPECT_EQ(point, KeyPoint(HashKey(m->spec().hash, key), 1));
    const Route route = RouteKey(*m, key);
    EXPECT_EQ(route.owner, point.hash >> 63 == 0 ? 2u : 1u);
    EXPECT_EQ(route.epoch, Epoch(7));
    EXPECT_EQ(route.plane, 1u);
  }
}

TEST(OverriddenMembershipTest, AsHashedIsTheCommonPlaneUnderTheHigherEpoch) {
  for (const Epoch floor : {Epoch(), Epoch(3)}) {
    const Membership::Ptr m = MustCreate(AsHashed(floor));
    for (uint64_t quarter = 0; quarter < 4; ++quarter) {
      const OwnedRange common = m->RangeOf(In(quarter));
      const OwnedRange plane = m->RangeOf({In(quarter), 1});
      EXPECT_EQ(plane.owner, common.owner);
      EXPECT_EQ(plane.epoch, std::max(common.epoch, floor));
    }
    EXPECT_EQ(m->OwnedOn(1, 0), m->OwnedOn(kCommonPlane, 0).CarriedTo(1));
  }
}

TEST(OverriddenMembershipTest, WhatANodeOwnsIsOnAllPlanes) {
  const Membership::Ptr m = MustCreate(WithTenant());
  EXPECT_EQ(m->OwnedBy("a"), HashRangeSet({Quarter(0), Quarter(2)}));
  EXPECT_EQ(m->OwnedBy("b"), HashRangeSet(std::vector<HashRange>{
                                 Quarter(1), {(uint64_t{1} << 63) - 1, UINT64_MAX, 1}}));
  EXPECT_EQ(m->HeldUpTo(1, Epoch(6)), HashRangeSet());
  EXPECT_EQ(m->HeldUpTo(1, Epoch(7)), HashRangeSet::Whole(1));
  const Membership::Ptr hashed = MustCreate(AsHashed(Epoch(3)));
  EXPECT_EQ(hashed->HeldUpTo(1, Epoch(2)), HashRangeSet());
  EXPECT_EQ(hashed->HeldUpTo(1, Epoch(3)),
            HashRangeSet({Quarter(0), Quarter(1), Quarter(2)}).CarriedTo(1));
}

TEST(OverriddenMembershipTest, MovesOnAPlaneAreThoseOfItsKeys) {
  MembershipData data = AsHashed(Epoch());
  data.moves = {{"m1", 0, "a", "c", MovePhase::kWarming,
                 HashRangeSet({Quarter(0), Quarter(2)}).CarriedTo(1)}};
  const Membership::Ptr m = MustCreate(data);
  EXPECT_EQ(m->MoveOf({In(0), 1}), 0);
  EXPECT_EQ(m->MoveOf({In(1), 1}), -1);
  EXPECT_EQ(m->MoveOf(In(0)), -1);
  EXPECT_EQ(RoutePoint(*m, {In(0), 1}).pending, NodeIndex{2});
  EXPECT_EQ(RoutePoint(*m, In(0)).pending, std::nullopt);

  MembershipData foreign = data;
  foreign.moves[0].ranges = HashRangeSet::Whole(1);
  EXPECT_THAT(Membership::Create(foreign),
              StatusIs(StatusCode::kInvalidArgument, "must belong to 'a' while it is warming"));
  MembershipData twice = data;
  twice.moves.push_back(twice.moves[0]);
  twice.moves[1].wave = 1;
  EXPECT_THAT(Membership::Create(twice),
              StatusIs(StatusCode::kInvalidArgument, "on plane 1 is already in moves[0]"));
  MembershipData nowhere = data;
  nowhere.moves[0].ranges = HashRangeSet({Quarter(0)}).CarriedTo(5);
  EXPECT_THAT(Membership::Create(nowhere),
              StatusIs(StatusCode::kInvalidArgument, "no override has plane 5"));
}

TEST(OverriddenMembershipTest, WhatIsRefused) {
  const auto refused = [](auto change) {
    MembershipData data = WithTenant();
    change(data);
    const auto created = Membership::Create(std::move(data));
    return created.ok() ? std::string("created") : std::string(created.status().message());
  };
  using testing::HasSubstr;
  EXPECT_THAT(refused([](MembershipData& d) { d.next_plane = 1; }),
              HasSubstr("overrides[0].plane"));
  EXPECT_THAT(refused([](MembershipData& d) { d.next_plane = 0; }), HasSubstr("next_plane: 0"));
  EXPECT_THAT(refused([](MembershipData& d) { d.overrides[0].plane = 0; }),
              HasSubstr("overrides[0].plane: 0"));
  EXPECT_THAT(refused([](MembershipData& d) {
                d.overrides.push_back(d.overrides[0]);
                d.overrides[1].plane = 2;
                d.next_plane = 3;
              }),
              HasSubstr("has a rule already"));
  EXPECT_THAT(refused([](MembershipData& d) { d.overrides[0].ranges[1].owner = 3; }),
              HasSubstr("overrides[0].ranges[1].owner: 3 is not a node"));
  EXPECT_THAT(refused([](MembershipData& d) { d.overrides[0].ranges[1].end = 5; }),
              HasSubstr("ends must be unique and sorted"));
  EXPECT_THAT(refused([](MembershipData& d) { d.overrides[0].epoch = Epoch(); }),
              HasSubstr("overrides[0].epoch: 0"));
  EXPECT_THAT(refused([](MembershipData& d) { d.overrides[0].rule.bytes.clear(); }),
              HasSubstr("overrides[0]: it is empty"));
  EXPECT_THAT(refused([](MembershipData& d) {
                d.overrides[0].ranges.assign(Override::kMaxRanges + 1, {1, 0});
              }),
              HasSubstr("1025 ranges are over the limit of 1024"));
  EXPECT_THAT(refused([](MembershipData& d) {
                d.spec.replication = 2;
                d.followers = {1, 0, 1, 0};
              }),
              HasSubstr("replication 2"));
}

Membership::Ptr MustApply(const Membership& base, const Update& update) {
  const absl::StatusOr<Membership::Ptr> next = Apply(base, update);
  EXPECT_OK(next);
  return next.ok() ? *next : nullptr;
}

std::string Refusal(const Membership& base, const Update& update) {
  const absl::StatusOr<Membership::Ptr> next = Apply(base, update);
  return next.ok() ? std::string("applied") : std::string(next.status().message());
}

TEST(OverrideUpdateTest, ARuleComesMovesAndGoes) {
  const Membership::Ptr base = MustCreate(Quarters());
  Update put;
  put.put_overrides = {{1, Prefix("t"), {}, Epoch()}};
  const Membership::Ptr there = MustApply(*base, put);
  EXPECT_THAT(Diff(*base, *there), IsEmpty()) << "a new rule moves nothing";
  EXPECT_EQ(there->data().next_plane, 2u);

  Update move;
  move.put_overrides = {{1, Prefix("t"), {{UINT64_MAX, "c"}}, Epoch(9)}};
  const Membership::Ptr moved = MustApply(*there, move);
  EXPECT_THAT(Diff(*there, *moved),
              ElementsAre(RangeMove{"a", "c", HashRangeSet({Quarter(0), Quarter(2)}).CarriedTo(1)},
                          RangeMove{"b", "c", HashRangeSet({Quarter(1)}).CarriedTo(1)}));
  EXPECT_EQ(Diff(*base, *moved), Diff(*there, *moved)) << "who lacks the rule has it as hashed";

  Update back;
  back.put_overrides = {{1, Prefix("t"), {}, Epoch(10)}};
  const Membership::Ptr hashed = MustApply(*moved, back);
  Update gone;
  gone.remove_overrides = {1};
  EXPECT_THAT(Refusal(*moved, gone), testing::HasSubstr("still has nodes of its own"));
  const Membership::Ptr last = MustApply(*hashed, gone);
  EXPECT_THAT(last->overrides(), IsEmpty());
  EXPECT_THAT(Diff(*base, *last), IsEmpty());
  EXPECT_EQ(last->data().next_plane, 2u);
  EXPECT_THAT(Refusal(*last, put), testing::HasSubstr("plane: 1 is used up"));
  EXPECT_TRUE(HasEndedOverrides(*hashed, *last));
  EXPECT_FALSE(HasMissedOverrides(*hashed, *last));
  EXPECT_TRUE(HasMissedOverrides(*base, *last));
  EXPECT_FALSE(HasEndedOverrides(*base, *hashed));

  for (const auto& [from, update, to] :
       {std::tuple(base, put, there), std::tuple(there, move, moved),
        std::tuple(hashed, gone, last)}) {
    Delta delta{from->history(), from->version(), to->version(), update, to->digest()};
    ASSERT_OK_AND_ASSIGN(const Delta read, DecodeDelta(EncodeDelta(delta)));
    EXPECT_EQ(read, delta);
    ASSERT_OK_AND_ASSIGN(const Membership::Ptr applied, ApplyDelta(*from, read));
    EXPECT_EQ(applied->data(), to->data());
  }
}

TEST(OverrideUpdateTest, WhatDoesNotFit) {
  using testing::HasSubstr;
  const Membership::Ptr base = MustCreate(WithTenant());
  const auto put = [](PutOverride item) {
    Update update;
    update.put_overrides = {std::move(item)};
    return update;
  };
  EXPECT_THAT(Refusal(*base, put({1, Prefix("u"), {}, Epoch(9)})), HasSubstr("plane 1 is that of"));
  EXPECT_THAT(Refusal(*base, put({1, Prefix("t"), {}, Epoch(7)})),
              HasSubstr("epoch: 7 is not greater than 7"));
  EXPECT_THAT(Refusal(*base, put({1, Prefix("t"), {{UINT64_MAX, "x"}}, Epoch(9)})),
              HasSubstr("'x' is not a node"));
  EXPECT_THAT(Refusal(*base, put({2, Prefix("u"), {{UINT64_MAX, "a"}}, Epoch(9)})),
              HasSubstr("a new override changes no owner"));
  EXPECT_THAT(Refusal(*base, put({2, Prefix("u"), {}, Epoch(9)})),
              HasSubstr("a new override changes no owner"));
  EXPECT_THAT(Refusal(*base, put({2, Prefix("t"), {}, Epoch()})), HasSubstr("has a rule already"));
  EXPECT_THAT(Refusal(*base, put({UINT32_MAX, Prefix("u"), {}, Epoch()})), HasSubstr("is used up"));
  Update remove;
  remove.remove_overrides = {4};
  EXPECT_THAT(Refusal(*base, remove), HasSubstr("no override has plane 4"));
  Update nodes;
  nodes.assignments = {{HashRangeSet({Quarter(3)}), "a", Epoch(9)}};
  nodes.remove_nodes = {"c"};
  EXPECT_THAT(Refusal(*base, nodes),
              HasSubstr("'c' still owns keys of the override for prefix 't'"));
  Update plane;
  plane.assignments = {{HashRangeSet::Whole(1), "a", Epoch(9)}};
  EXPECT_THAT(Refusal(*base, plane), HasSubstr("is on the plane of an override"));
}

TEST(OverrideUpdateTest, OwnersStayWhenNodesComeAndGo) {
  MembershipData data = WithTenant();
  data.ranges[0].owner = data.ranges[2].owner = 1;  // a owns nothing
  Update update;
  Node early;
  early.id = "aa";
  early.address = "aa:6379";
  update.put_nodes = {early};
  update.remove_nodes = {"a"};
  const Membership::Ptr next = MustApply(*MustCreate(data), update);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->nodes()[RoutePoint(*next, {0, 1}).owner].id, "c");
  EXPECT_EQ(next->nodes()[RoutePoint(*next, {UINT64_MAX, 1}).owner].id, "b");
}

TEST(OverrideEncodingTest, WhatUsesNoneIsWrittenAsBefore) {
  const Membership::Ptr plain = MustCreate(Quarters());
  EXPECT_EQ(EncodeMembership(plain->data())[0], 1);
  EXPECT_EQ(EncodeMembership(WithTenant())[0], 2);
  MembershipData used = plain->data();
  used.next_plane = 2;
  EXPECT_EQ(EncodeMembership(used)[0], 2) << "that a plane was used is part of the value";
  EXPECT_NE(MustCreate(used)->digest(), plain->digest());
}

TEST(OverrideEncodingTest, RoundTripsAndEveryDamageIsRefused) {
  MembershipData data = AsHashed(Epoch(6));
  data.overrides.push_back({4, Key(std::string("k\0", 2)), {{17, 0}, {UINT64_MAX, 2}}, Epoch(8)});
  data.next_plane = 9;
  data.moves = {{"m1", 0, "a", "c", MovePhase::kWarming,
                 HashRangeSet({Quarter(0), Quarter(2)})
                     .Union(HashRangeSet({Quarter(0), Quarter(2)}).CarriedTo(1))}};
  const std::string bytes = EncodeMembership(data);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr read, DecodeMembership(bytes));
  EXPECT_EQ(read->data(), data);
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(DecodeMembership(bytes.substr(0, i)).ok()) << i;
    for (const char flip : {'\x01', '\x80'}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      const auto decoded = DecodeMembership(damaged);
      if (!decoded.ok()) continue;
      EXPECT_EQ(EncodeMembership((*decoded)->data()), damaged) << i;
    }
  }
}

}  // namespace
}  // namespace warmring
