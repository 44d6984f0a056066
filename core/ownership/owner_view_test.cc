#include "core/ownership/owner_view.h"

#include <string>
#include <vector>

#include "core/ownership/quarter_ring_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

constexpr Incarnation kIncarnation{{7, 7}};
constexpr Instant kNow{1'000'000'000'000};
const std::string kTag = "a1b2c3d4";

EpochWord Word(uint64_t epoch) { return {kTag, Epoch(epoch)}; }

OwnerView ViewOf(const NodeId& node) { return {kQuarterHistory, "cache", node, kIncarnation}; }

Move MoveOfQuarter(uint64_t quarter, const NodeId& from, const NodeId& to, MovePhase phase) {
  return {"grow", 0, from, to, phase, HashRangeSet({Quarter(quarter)})};
}

void GrantLease(OwnerView& view, absl::Duration ttl, uint64_t version, Instant at = kNow) {
  const uint64_t seq = view.Renew(at);
  ASSERT_OK(view.Grant({seq, Term(1), ttl, Version(version), {}}));
}

// Everything that decides about one request, and the one right answer, written out.
struct Case {
  bool lease;
  bool mine;        // by the map: else node b owns the range
  uint64_t epoch;   // of the range: always 5
  uint64_t floor;   // 0: none
  std::string tag;  // of the request
  uint64_t word;    // its epoch
  Verdict write;
  Verdict read;
};

std::vector<Case> Table() {
  using enum Verdict;
  std::vector<Case> cases;
  const uint64_t max = UINT64_MAX;
  // The lease comes first for writes; reads do not ask for it.
  for (const uint64_t floor : {0u, 4u, 5u, 9u}) {
    for (const bool lease : {false, true}) {
      const auto with_lease = [&](Verdict verdict) { return lease ? verdict : kNoLease; };
      const Verdict at_epoch = floor >= 5 ? kFencing : kAdmit;
      cases.push_back({lease, true, 5, floor, kTag, 5, with_lease(at_epoch), at_epoch});
      cases.push_back({lease, true, 5, floor, kTag, 4, with_lease(kStaleEpoch), kStaleEpoch});
      cases.push_back({lease, true, 5, floor, kTag, 0, with_lease(kStaleEpoch), kStaleEpoch});
      cases.push_back({lease, true, 5, floor, kTag, 6, with_lease(kOwnerBehind), kOwnerBehind});
      cases.push_back({lease, true, 5, floor, kTag, max, with_lease(kOwnerBehind), kOwnerBehind});
      cases.push_back({lease, false, 5, floor, kTag, 5, with_lease(kNotOwner), kNotOwner});
      cases.push_back({lease, false, 5, floor, kTag, 4, with_lease(kNotOwner), kNotOwner});
      cases.push_back({lease, false, 5, floor, kTag, 6, with_lease(kOwnerBehind), kOwnerBehind});
      for (const bool mine : {false, true}) {
        for (const uint64_t word : {4u, 5u, 6u}) {
          cases.push_back(
              {lease, mine, 5, floor, "a1b2c3d5", word, with_lease(kWrongHistory), kWrongHistory});
        }
      }
    }
  }
  return cases;
}

TEST(AcceptanceRule, AnswersEveryCombination) {
  for (const Case& c : Table()) {
    SCOPED_TRACE(testing::Message() << "lease " << c.lease << ", mine " << c.mine << ", floor "
                                    << c.floor << ", word " << c.tag << ':' << c.word);
    OwnerView view = ViewOf("a");
    ASSERT_OK(view.Install(QuarterMap(3, {{{c.mine ? 0u : 1u, c.epoch}, {1, 1}, {1, 1}, {1, 1}}})));
    if (c.lease) GrantLease(view, absl::Seconds(10), 3);
    if (c.floor > 0) view.Fence(HashRangeSet({Quarter(0)}), Epoch(c.floor));

    const EpochWord word{c.tag, Epoch(c.word)};
    const Admission write = view.AdmitWrite(In(0), word, kNow);
    EXPECT_EQ(write.verdict, c.write);
    EXPECT_EQ(view.AdmitRead(In(0), word).verdict, c.read);
    // What cures the client is in every answer.
    EXPECT_EQ(write.epoch, Epoch(5));
    EXPECT_EQ(write.version, Version(3));
    EXPECT_EQ(write.owner, c.mine ? 0u : 1u);

    Verdict plain = c.floor >= 5 ? Verdict::kFencing : Verdict::kAdmit;
    if (!c.mine) plain = Verdict::kNotOwner;
    if (!c.lease) plain = Verdict::kNoLease;
    EXPECT_EQ(view.AdmitPlain(In(0), kNow).verdict, plain);
  }
}

TEST(OwnerView, AdmitsNothingBeforeItHasAMap) {
  OwnerView view = ViewOf("a");
  EXPECT_EQ(view.AdmitWrite(In(0), Word(1), kNow).verdict, Verdict::kNoLease);
  EXPECT_EQ(view.AdmitPlain(In(0), kNow).verdict, Verdict::kNoLease);
  EXPECT_EQ(view.AdmitPeek(In(0), Word(1)).verdict, Verdict::kOwnerBehind);
  const Admission read = view.AdmitRead(In(0), Word(1));
  EXPECT_EQ(read.verdict, Verdict::kOwnerBehind);
  EXPECT_EQ(read.version, Version());
  EXPECT_EQ(read.epoch, Epoch());
  EXPECT_EQ(read.owner, std::nullopt);
  EXPECT_FALSE(view.Owns(In(0)));
  EXPECT_FALSE(view.IsEntitled(In(0)));
  EXPECT_EQ(view.EntitledRanges(), HashRangeSet());
}

TEST(OwnerView, ALeaseWithoutAMapAdmitsNothing) {
  OwnerView view = ViewOf("a");
  GrantLease(view, absl::Seconds(10), 0);
  EXPECT_FALSE(view.HasLease(kNow));
  EXPECT_EQ(view.AdmitPlain(In(0), kNow).verdict, Verdict::kNoLease);
}

TEST(Install, RefusesWhatIsNotAheadOrNotOurs) {
  OwnerView view = ViewOf("a");
  const Membership::Ptr third = QuarterMap(3, {{{0, 5}, {1, 1}, {1, 1}, {1, 1}}});
  ASSERT_OK(view.Install(third));
  EXPECT_OK(view.Install(third));
  EXPECT_OK(view.Install(QuarterMap(3, {{{0, 5}, {1, 1}, {1, 1}, {1, 1}}})));

  EXPECT_THAT(view.Install(QuarterMap(2, {{{0, 5}, {1, 1}, {1, 1}, {1, 1}}})),
              StatusIs(absl::StatusCode::kFailedPrecondition, "version: 2 is older than 3"));
  EXPECT_THAT(view.Install(QuarterMap(3, {{{0, 6}, {1, 1}, {1, 1}, {1, 1}}})),
              StatusIs(absl::StatusCode::kFailedPrecondition, "digest"));
  MembershipData other = QuarterData(4, {{{0, 5}, {1, 1}, {1, 1}, {1, 1}}});
  other.history.low = 3;
  EXPECT_THAT(view.Install(MustCreate(other)),
              StatusIs(absl::StatusCode::kFailedPrecondition, "attach again"));
  other = QuarterData(4, {{{0, 5}, {1, 1}, {1, 1}, {1, 1}}});
  other.spec.id = "sessions";
  EXPECT_THAT(view.Install(MustCreate(other)),
              StatusIs(absl::StatusCode::kInvalidArgument, "'sessions'"));
  EXPECT_EQ(view.membership(), third);

  ASSERT_OK(view.Install(QuarterMap(7, {{{0, 5}, {1, 1}, {1, 1}, {1, 1}}})));
  EXPECT_EQ(view.membership()->version(), Version(7));
}

TEST(Lease, RunsFromTheStampOfItsRenewal) {
  OwnerView view = ViewOf("a");
  ASSERT_OK(view.Install(QuarterMap(1, {{{0, 5}, {1, 1}, {1, 1}, {1, 1}}})));
  const uint64_t seq = view.Renew(kNow);
  // However late the grant arrives.
  ASSERT_OK(view.Grant({seq, Term(1), absl::Seconds(10), Version(1), {}}));
  EXPECT_EQ(view.lease_until(), kNow + absl::Seconds(10));
  const Instant last = kNow + absl::Seconds(10) + absl::Nanoseconds(-1);
  EXPECT_TRUE(view.AdmitWrite(In(0), Word(5), last).ok());
  EXPECT_EQ(view.AdmitWrite(In(0), Word(5), kNow + absl::Seconds(10)).verdict, Verdict::kNoLease);
  EXPECT_TRUE(view.AdmitRead(In(0), Word(5)).ok());
}

TEST(Lease, ANewerRenewalVoidsTheEarlierOnes) {
  OwnerView view = ViewOf("a");
  ASSERT_OK(view.Install(QuarterMap(1, {{{0, 5}, {1, 1}, {1, 1}, {1, 1}}})));
  EXPECT_THAT(view.Grant({0, Term(1), absl::Seconds(10), Version(1), {}}),
              StatusIs(absl::StatusCode::kFailedPrecondition, "seq: 0"));
  EXPECT_EQ(view.Renew(kNow), 1u);
  EXPECT_EQ(view.Renew(kNow + absl::Seconds(1)), 2u);
  EXPECT_THAT(view.Grant({1, Term(1), absl::Seconds(10), Version(1), {}}),
              StatusIs(absl::StatusCode::kFailedPrecondition, "seq: 1"));
  EXPECT_THAT(view.Grant({3, Term(1), absl::Seconds(10), Version(1), {}}),
              StatusIs(absl::StatusCode::kFailedPrecondition, "seq: 3"));
  EXPECT_FALSE(view.HasLease(kNow));
  ASSERT_OK(view.Grant({2, Term(1), absl::Seconds(10), Version(1), {}}));
  EXPECT_EQ(view.lease_until(), kNow + absl::Seconds(11));
  // A grant is a state: a second copy of it changes nothing.
  ASSERT_OK(view.Grant({2, Term(1), absl::Seconds(10), Version(1), {}}));
  EXPECT_EQ(view.lease_until(), kNow + absl::Seconds(11));
}

TEST(Lease, NeverGetsShorter) {
  OwnerView view = ViewOf("a");
  ASSERT_OK(view.Install(QuarterMap(1, {{{0, 5}, {1, 1}, {1, 1}, {1, 1}}})));
  GrantLease(view, absl::Seconds(10), 1);
  GrantLease(view, absl::Seconds(2), 1, kNow + absl::Seconds(1));
  EXPECT_EQ(view.lease_until(), kNow + absl::Seconds(10));
}

TEST(Lease, IgnoresAFormerTerm) {
  OwnerView view = ViewOf("a");
  ASSERT_OK(view.Install(QuarterMap(1, {{{0, 5}, {1, 1}, {1, 1}, {1, 1}}})));
  uint64_t seq = view.Renew(kNow);
  ASSERT_OK(view.Grant({seq, Term(4), absl::Seconds(10), Version(1), {}}));
  seq = view.Renew(kNow + absl::Seconds(5));
  const Floor floor{HashRangeSet({Quarter(0)}), Epoch(5)};
  EXPECT_THAT(view.Grant({seq, Term(3), absl::Seconds(10), Version(1), {floor}}),
              StatusIs(absl::StatusCode::kFailedPrecondition, "term: 3"));
  EXPECT_EQ(view.lease_until(), kNow + absl::Seconds(10));
  // Closing is always safe, whoever asks for it.
  EXPECT_EQ(view.AdmitWrite(In(0), Word(5), kNow).verdict, Verdict::kFencing);
  ASSERT_OK(view.Grant({seq, Term(5), absl::Seconds(10), Version(1), {}}));
  EXPECT_EQ(view.lease_until(), kNow + absl::Seconds(15));
}

TEST(Lease, CountsOnlyOnceItsVersionIsInstalledAndItsFloorsAtOnce) {
  OwnerView view = ViewOf("a");
  ASSERT_OK(view.Install(QuarterMap(1, {{{0, 5}, {0, 5}, {1, 1}, {1, 1}}})));
  const uint64_t seq = view.Renew(kNow);
  const Floor floor{HashRangeSet({Quarter(0)}), Epoch(5)};
  ASSERT_OK(view.Grant({seq, Term(1), absl::Seconds(10), Version(3), {floor}}));
  EXPECT_FALSE(view.HasLease(kNow));
  EXPECT_EQ(view.FloorOf(In(0)), Epoch(5));
  ASSERT_OK(view.Install(QuarterMap(2, {{{0, 5}, {0, 5}, {1, 1}, {1, 1}}})));
  EXPECT_FALSE(view.HasLease(kNow));
  ASSERT_OK(view.Install(QuarterMap(3, {{{0, 5}, {0, 5}, {1, 1}, {1, 1}}})));
  EXPECT_EQ(view.lease_until(), kNow + absl::Seconds(10));
  EXPECT_EQ(view.AdmitWrite(In(0), Word(5), kNow).verdict, Verdict::kFencing);
  EXPECT_TRUE(view.AdmitWrite(In(1), Word(5), kNow).ok());
}

TEST(Fence, ClosesAllEpochsUpToTheFloorAndOnlyThere) {
  OwnerView view = ViewOf("a");
  ASSERT_OK(view.Install(QuarterMap(1, {{{0, 5}, {0, 5}, {1, 1}, {1, 1}}})));
  GrantLease(view, absl::Seconds(10), 1);
  const HashPoint middle = Quarter(0).start + (uint64_t{1} << 61);
  const HashRange half{Quarter(0).start, middle};
  view.Fence(HashRangeSet({half}), Epoch(5));
  EXPECT_EQ(view.AdmitWrite(middle, Word(5), kNow).verdict, Verdict::kFencing);
  EXPECT_TRUE(view.AdmitWrite(middle + 1, Word(5), kNow).ok());
  EXPECT_EQ(view.AdmitRead(middle, Word(5)).verdict, Verdict::kFencing);
  EXPECT_TRUE(view.AdmitRead(middle + 1, Word(5)).ok());

  // Lower floors change nothing, higher ones win, wherever they overlap.
  view.Fence(HashRangeSet({Quarter(0)}), Epoch(4));
  EXPECT_EQ(view.FloorOf(middle), Epoch(5));
  EXPECT_EQ(view.FloorOf(middle + 1), Epoch());  // epoch 4 is over there: nothing left to refuse
  view.Fence(HashRangeSet({Quarter(0)}), Epoch(8));
  EXPECT_EQ(view.FloorOf(middle), Epoch(8));
  EXPECT_EQ(view.FloorOf(middle + 1), Epoch(8));
}

TEST(Fence, IsInheritedByTheChildrenOfASplit) {
  OwnerView view = ViewOf("a");
  ASSERT_OK(view.Install(QuarterMap(1, {{{0, 5}, {1, 1}, {1, 1}, {1, 1}}})));
  GrantLease(view, absl::Seconds(10), 1);
  view.Fence(HashRangeSet({Quarter(0)}), Epoch(5));

  const HashPoint middle = Quarter(0).start + (uint64_t{1} << 61);
  MembershipData split = QuarterData(2, {{{0, 5}, {1, 1}, {1, 1}, {1, 1}}});
  split.ranges.insert(split.ranges.begin(), {middle, 0, Epoch(5)});
  ASSERT_OK(view.Install(MustCreate(split)));
  EXPECT_EQ(view.AdmitWrite(middle, Word(5), kNow).verdict, Verdict::kFencing);
  EXPECT_EQ(view.AdmitWrite(middle + 1, Word(5), kNow).verdict, Verdict::kFencing);

  // One child leaves under a new epoch; the other one stays closed.
  split.version = Version(3);
  split.ranges[0] = {middle, 1, Epoch(6)};
  ASSERT_OK(view.Install(MustCreate(split)));
  EXPECT_EQ(view.AdmitWrite(middle, Word(5), kNow).verdict, Verdict::kNotOwner);
  EXPECT_EQ(view.AdmitWrite(middle + 1, Word(5), kNow).verdict, Verdict::kFencing);
}

TEST(Fence, OutlivesEveryMapUnderWhichItCouldStillRefuse) {
  OwnerView view = ViewOf("a");
  // Before there is a map, nobody knows what the floor will refuse.
  view.Fence(HashRangeSet({Quarter(0), Quarter(1)}), Epoch(5));
  EXPECT_EQ(view.FloorOf(In(0)), Epoch(5));
  ASSERT_OK(view.Install(QuarterMap(1, {{{0, 4}, {0, 5}, {1, 1}, {1, 1}}})));
  EXPECT_EQ(view.FloorOf(In(0)), Epoch(5));
  ASSERT_OK(view.Install(QuarterMap(2, {{{0, 5}, {0, 6}, {1, 1}, {1, 1}}})));
  EXPECT_EQ(view.FloorOf(In(0)), Epoch(5));
  EXPECT_EQ(view.FloorOf(In(1)), Epoch());
  ASSERT_OK(view.Install(QuarterMap(3, {{{0, 6}, {0, 6}, {1, 1}, {1, 1}}})));
  EXPECT_EQ(view.FloorOf(In(0)), Epoch());
}

TEST(Fence, AnAbortReopensTheRangeOnlyUnderAFreshEpoch) {
  OwnerView view = ViewOf("a");
  ASSERT_OK(view.Install(QuarterMap(1, {{{0, 5}, {1, 1}, {1, 1}, {1, 1}}})));
  GrantLease(view, absl::Seconds(10), 1);
  view.Fence(HashRangeSet({Quarter(0)}), Epoch(5));
  // Epoch 6 was reserved for the wave and is burned; 7 is the donor's fresh one.
  ASSERT_OK(view.Install(QuarterMap(2, {{{0, 7}, {1, 1}, {1, 1}, {1, 1}}})));
  EXPECT_TRUE(view.AdmitWrite(In(0), Word(7), kNow).ok());
  EXPECT_EQ(view.AdmitWrite(In(0), Word(5), kNow).verdict, Verdict::kStaleEpoch);
  EXPECT_EQ(view.AdmitWrite(In(0), Word(6), kNow).verdict, Verdict::kStaleEpoch);
  // The fence of the aborted wave, late.
  view.Fence(HashRangeSet({Quarter(0)}), Epoch(5));
  EXPECT_TRUE(view.AdmitWrite(In(0), Word(7), kNow).ok());
}

TEST(ThereAndBack, AWriteOfTheFirstTenureIsStaleInTheSecond) {
  OwnerView view = ViewOf("a");
  ASSERT_OK(view.Install(QuarterMap(1, {{{0, 1}, {1, 1}, {1, 1}, {1, 1}}})));
  GrantLease(view, absl::Seconds(10), 1);
  EXPECT_TRUE(view.AdmitWrite(In(0), Word(1), kNow).ok());
  ASSERT_OK(view.Install(QuarterMap(2, {{{1, 2}, {1, 1}, {1, 1}, {1, 1}}})));
  EXPECT_EQ(view.AdmitWrite(In(0), Word(1), kNow).verdict, Verdict::kNotOwner);
  ASSERT_OK(view.Install(QuarterMap(3, {{{0, 3}, {1, 1}, {1, 1}, {1, 1}}})));
  EXPECT_EQ(view.AdmitWrite(In(0), Word(1), kNow).verdict, Verdict::kStaleEpoch);
  EXPECT_EQ(view.AdmitWrite(In(0), Word(2), kNow).verdict, Verdict::kStaleEpoch);
  EXPECT_TRUE(view.AdmitWrite(In(0), Word(3), kNow).ok());
}

TEST(Peek, IsForThePreviousOwnerDuringGraceUnderThePresentEpoch) {
  // Quarter 0 has moved from a to b and is in grace; quarter 1 is being warmed for b.
  const Membership::Ptr map =
      QuarterMap(4, {{{1, 6}, {0, 2}, {2, 1}, {2, 1}}},
                 {MoveOfQuarter(0, "a", "b", MovePhase::kGrace),
                  {"grow", 1, "a", "b", MovePhase::kWarming, HashRangeSet({Quarter(1)})}});
  OwnerView previous = ViewOf("a");
  ASSERT_OK(previous.Install(map));
  EXPECT_TRUE(previous.AdmitPeek(In(0), Word(6)).ok());
  const Admission stale = previous.AdmitPeek(In(0), Word(5));
  EXPECT_EQ(stale.verdict, Verdict::kNotOwner);
  EXPECT_EQ(stale.owner, 1u);
  EXPECT_EQ(previous.AdmitPeek(In(0), Word(7)).verdict, Verdict::kOwnerBehind);
  EXPECT_EQ(previous.AdmitPeek(In(1), Word(2)).verdict, Verdict::kNotOwner);
  EXPECT_EQ(previous.AdmitPeek(In(0), {"ffffffff", Epoch(6)}).verdict, Verdict::kWrongHistory);
  OwnerView present = ViewOf("b");
  ASSERT_OK(present.Install(map));
  EXPECT_EQ(present.AdmitPeek(In(0), Word(6)).verdict, Verdict::kNotOwner);
}

TEST(Entitlement, CoversWhatIsOwnedWarmedOrKeptDuringGrace) {
  const Membership::Ptr map =
      QuarterMap(4, {{{1, 6}, {0, 2}, {2, 1}, {2, 1}}},
                 {MoveOfQuarter(0, "a", "b", MovePhase::kGrace),
                  {"grow", 1, "a", "b", MovePhase::kWarming, HashRangeSet({Quarter(1)})}});
  OwnerView a = ViewOf("a");
  ASSERT_OK(a.Install(map));
  EXPECT_EQ(a.EntitledRanges(), HashRangeSet({Quarter(0), Quarter(1)}));
  EXPECT_TRUE(a.IsEntitled(In(0)));
  EXPECT_TRUE(a.IsEntitled(In(1)));
  EXPECT_FALSE(a.IsEntitled(In(2)));
  EXPECT_FALSE(a.Owns(In(0)));
  OwnerView b = ViewOf("b");
  ASSERT_OK(b.Install(map));
  EXPECT_EQ(b.EntitledRanges(), HashRangeSet({Quarter(0), Quarter(1)}));
  OwnerView c = ViewOf("c");
  ASSERT_OK(c.Install(map));
  EXPECT_EQ(c.EntitledRanges(), HashRangeSet({Quarter(2), Quarter(3)}));
  OwnerView stranger = ViewOf("z");
  ASSERT_OK(stranger.Install(map));
  EXPECT_EQ(stranger.EntitledRanges(), HashRangeSet());
  GrantLease(stranger, absl::Seconds(10), 4);
  EXPECT_EQ(stranger.AdmitPlain(In(0), kNow).verdict, Verdict::kNotOwner);
  ASSERT_NE(a.MoveOf(In(0)), nullptr);
  EXPECT_EQ(a.MoveOf(In(0))->phase, MovePhase::kGrace);
  EXPECT_EQ(a.MoveOf(In(2)), nullptr);
}

TEST(EpochWordText, IsReadExactly) {
  ASSERT_OK_AND_ASSIGN(const EpochWord word, EpochWord::Parse("a1b2c3d4:17"));
  EXPECT_EQ(word.history_tag, "a1b2c3d4");
  EXPECT_EQ(word.epoch, Epoch(17));
  ASSERT_OK_AND_ASSIGN(const EpochWord largest, EpochWord::Parse("00000000:18446744073709551615"));
  EXPECT_EQ(largest.epoch, Epoch(UINT64_MAX));
  EXPECT_EQ(FormatEpochWord(kQuarterHistory, Epoch(17)), "a1b2c3d4:17");
  const std::vector<std::string> bad = {"",
                                        ":",
                                        "17",
                                        "a1b2c3d4",
                                        "a1b2c3d4:",
                                        "a1b2c3d4: 1",
                                        "a1b2c3d4:-1",
                                        "a1b2c3d4:+1",
                                        "a1b2c3d4:1 ",
                                        "a1b2c3d4:0x1",
                                        "A1B2C3D4:1",
                                        "a1b2c3d:17",
                                        "a1b2c3d4e:17",
                                        "a1b2c3g4:17",
                                        "a1b2c3d4;17",
                                        "a1b2c3d4:18446744073709551616",
                                        "a1b2c3d4:000000000000000000001",
                                        std::string("a1b2c3d4:1\0", 11)};
  for (const std::string& text : bad) {
    EXPECT_THAT(EpochWord::Parse(text), StatusIs(absl::StatusCode::kInvalidArgument, "epoch word"))
        << text;
  }
}

// The quarter ring with an override for keys that begin with "t": on b, or as hashed.
Membership::Ptr TenantMap(uint64_t version, std::optional<NodeIndex> node, uint64_t epoch,
                          std::vector<Move> moves = {}) {
  MembershipData data = QuarterData(version, {{{0, 5}, {0, 5}, {1, 5}, {1, 5}}});
  data.overrides = {{1, {OverrideRule::Match::kPrefix, "t"}, {}, Epoch(epoch)}};
  if (node) data.overrides[0].ranges = {{UINT64_MAX, *node}};
  data.next_plane = 2;
  data.moves = std::move(moves);
  return MustCreate(std::move(data));
}

TEST(OverrideFence, ClosesThePlaneAndNothingElse) {
  OwnerView view = ViewOf("a");
  ASSERT_OK(view.Install(TenantMap(3, std::nullopt, 0)));
  GrantLease(view, absl::Seconds(10), 3);
  const KeyPoint tenant{In(0), 1};
  EXPECT_TRUE(view.AdmitWrite(tenant, Word(5), kNow).ok());
  ASSERT_OK(view.CheckPlanes(HashRangeSet::Whole(1)));
  view.Fence(HashRangeSet({Quarter(0), Quarter(1)}).CarriedTo(1), Epoch(6));
  EXPECT_EQ(view.AdmitWrite(tenant, Word(5), kNow).verdict, Verdict::kFencing);
  EXPECT_EQ(view.AdmitRead(tenant, Word(5)).verdict, Verdict::kFencing);
  EXPECT_EQ(view.AdmitPlain(tenant, kNow).verdict, Verdict::kFencing);
  EXPECT_TRUE(view.AdmitWrite(In(0), Word(5), kNow).ok()) << "other keys of the same hash";
  // As hashed again, above the floor.
  ASSERT_OK(view.Install(TenantMap(4, std::nullopt, 7)));
  EXPECT_TRUE(view.AdmitWrite(tenant, Word(7), kNow).ok());
  EXPECT_EQ(view.AdmitWrite(tenant, Word(5), kNow).verdict, Verdict::kStaleEpoch);
}

TEST(OverrideFence, WaitsForTheMapThatKnowsTheRule) {
  OwnerView view = ViewOf("a");
  EXPECT_THAT(view.CheckPlanes(HashRangeSet::Whole(1)),
              StatusIs(absl::StatusCode::kFailedPrecondition, "does not know the override"));
  EXPECT_OK(view.CheckPlanes(HashRangeSet::Whole()));
  ASSERT_OK(view.Install(QuarterMap(2, {{{0, 5}, {0, 5}, {1, 5}, {1, 5}}})));
  EXPECT_THAT(view.CheckPlanes(HashRangeSet::Whole(1)),
              StatusIs(absl::StatusCode::kFailedPrecondition, "version 2"));
  // A floor that comes with a grant closes as soon as the keys can be told.
  const uint64_t seq = view.Renew(kNow);
  ASSERT_OK(view.Grant(
      {seq, Term(1), absl::Seconds(10), Version(2), {{HashRangeSet::Whole(1), Epoch(6)}}}));
  ASSERT_OK(view.Install(TenantMap(3, std::nullopt, 0)));
  EXPECT_EQ(view.AdmitWrite({In(0), 1}, Word(5), kNow).verdict, Verdict::kFencing);
  EXPECT_TRUE(view.AdmitWrite(In(0), Word(5), kNow).ok());
}

TEST(OverrideFence, AFloorEndsWithItsPlane) {
  OwnerView view = ViewOf("a");
  ASSERT_OK(view.Install(TenantMap(3, std::nullopt, 0)));
  GrantLease(view, absl::Seconds(10), 3);
  view.Fence(HashRangeSet::Whole(1), Epoch(6));
  MembershipData without = QuarterData(4, {{{0, 5}, {0, 5}, {1, 5}, {1, 5}}});
  without.next_plane = 2;
  ASSERT_OK(view.Install(MustCreate(without)));
  EXPECT_EQ(view.FloorOf({In(0), 1}), Epoch());
  EXPECT_TRUE(view.AdmitWrite(In(0), Word(5), kNow).ok());
}

TEST(OverrideFence, EntitlementIsByPlane) {
  OwnerView view = ViewOf("a");
  const HashRangeSet given = HashRangeSet({Quarter(0), Quarter(1)}).CarriedTo(1);
  ASSERT_OK(view.Install(TenantMap(3, 1, 6, {{"grow", 0, "a", "b", MovePhase::kGrace, given}})));
  EXPECT_TRUE(view.IsEntitled({In(0), 1})) << "in grace";
  EXPECT_FALSE(view.Owns({In(0), 1}));
  EXPECT_TRUE(view.AdmitPeek({In(0), 1}, Word(6)).ok());
  EXPECT_TRUE(view.Owns(In(0)));
  ASSERT_OK(view.Install(TenantMap(4, 1, 6)));
  EXPECT_FALSE(view.IsEntitled({In(0), 1}));
  EXPECT_TRUE(view.IsEntitled(In(0)));
  EXPECT_EQ(view.EntitledRanges(), HashRangeSet({Quarter(0), Quarter(1)}));
}

}  // namespace
}  // namespace warmring
