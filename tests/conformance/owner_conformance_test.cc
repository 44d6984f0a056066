// What every owner promises, asked of each kind of owner: a real Redis with the module by its
// commands, and OwnerGuard as its session drives it.

#include <memory>
#include <string>
#include <utility>

#include "core/hashing/key_hash.h"
#include "core/ownership/quarter_ring_testing.h"
#include "gtest/gtest.h"
#include "tests/conformance/tested_owner.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

constexpr absl::Duration kLong = absl::Minutes(10);

// The n-th key whose hash lies in the quarter.
std::string KeyIn(uint64_t quarter) {
  for (int i = 0;; ++i) {
    std::string key = "key:" + std::to_string(i);
    if (Quarter(quarter).Contains(HashKey(HashSpec(), key))) return key;
  }
}

std::string At(uint64_t epoch) { return FormatEpochWord(kQuarterHistory, Epoch(epoch)); }
HashRangeSet QuarterSet(uint64_t i) { return HashRangeSet({Quarter(i)}); }

// Node a has quarters 0 and 1 under epoch 5, b the others.
Membership::Ptr SettledMap(uint64_t version = 10) {
  return QuarterMap(version, {{{0, 5}, {0, 5}, {1, 5}, {1, 5}}});
}
// The same, with quarter 0 at `node` under `epoch`.
Membership::Ptr MovedMap(uint64_t version, NodeIndex node, uint64_t epoch) {
  return QuarterMap(version, {{{node, epoch}, {0, 5}, {1, 5}, {1, 5}}});
}
// The same, with an override for keys that begin with "key" on plane `plane`, or none; as hashed
// under the epochs of their ranges, or at `node` under `epoch`.
Membership::Ptr RuledMap(uint64_t version, Plane next_plane, std::optional<Plane> plane,
                         uint64_t epoch = 0, std::optional<NodeIndex> node = std::nullopt) {
  MembershipData data = QuarterData(version, {{{0, 5}, {0, 5}, {1, 5}, {1, 5}}});
  data.next_plane = next_plane;
  if (plane) {
    data.overrides = {{*plane, {OverrideRule::Match::kPrefix, "key"}, {}, Epoch(epoch)}};
    if (node) data.overrides[0].ranges = {{UINT64_MAX, *node}};
  }
  return MustCreate(std::move(data));
}

using Kind = std::pair<std::string, MakeTestedOwner>;

class OwnerConformanceTest : public testing::TestWithParam<Kind> {
 protected:
  OwnerConformanceTest() : owner_(GetParam().second()) {}

  absl::Status Grant(absl::Duration ttl = kLong, std::vector<Floor> floors = {},
                     std::optional<Version> version = std::nullopt) {
    return Grant(owner_->Renew(), Term(3), ttl, std::move(floors), version);
  }
  absl::Status Grant(uint64_t seq, Term term, absl::Duration ttl, std::vector<Floor> floors = {},
                     std::optional<Version> version = std::nullopt) {
    return owner_->Grant({seq, term, ttl, version.value_or(owner_->version()), std::move(floors)});
  }
  // Attached, with this map and a long lease.
  void Serve(const Membership::Ptr& map) {
    owner_->Attach(kQuarterHistory);
    owner_->Offer(map);
    ASSERT_EQ(owner_->version(), map->version());
    ASSERT_OK(Grant());
  }

  // Nothing: it is admitted.
  static std::optional<RefusalReason> ReasonOf(const Answer& answer) {
    EXPECT_FALSE(answer.malformed);
    return answer.refusal ? std::optional(answer.refusal->reason) : std::nullopt;
  }
  std::optional<RefusalReason> Write(uint64_t quarter, uint64_t epoch) {
    return ReasonOf(owner_->Write(KeyIn(quarter), At(epoch)));
  }
  std::optional<RefusalReason> Read(uint64_t quarter, uint64_t epoch) {
    return ReasonOf(owner_->Read(KeyIn(quarter), At(epoch)));
  }

  const std::unique_ptr<TestedOwner> owner_;
};

constexpr std::nullopt_t kAdmitted = std::nullopt;

TEST_P(OwnerConformanceTest, StartsClosed) {
  EXPECT_EQ(Write(0, 5), RefusalReason::kNoLease);
  EXPECT_NE(Read(0, 5), kAdmitted);
  owner_->Attach(kQuarterHistory);
  EXPECT_EQ(Write(0, 5), RefusalReason::kNoLease);
  EXPECT_NE(Read(0, 5), kAdmitted);
  owner_->Offer(SettledMap());
  EXPECT_EQ(Write(0, 5), RefusalReason::kNoLease);
  EXPECT_EQ(Read(0, 5), kAdmitted) << "reads need no lease";
  ASSERT_OK(Grant());
  EXPECT_EQ(Write(0, 5), kAdmitted);
}

TEST_P(OwnerConformanceTest, EachVerdictAndWhatCuresIt) {
  Serve(SettledMap());
  EXPECT_EQ(Write(0, 5), kAdmitted);
  EXPECT_EQ(Write(0, 4), RefusalReason::kStaleEpoch);
  EXPECT_EQ(Write(2, 5), RefusalReason::kNotOwner);
  EXPECT_EQ(Write(2, 4), RefusalReason::kNotOwner);
  EXPECT_EQ(ReasonOf(owner_->Write(KeyIn(0), "00000009:5")), RefusalReason::kWrongHistory);
  EXPECT_EQ(Read(0, 4), RefusalReason::kStaleEpoch);
  EXPECT_EQ(Read(2, 5), RefusalReason::kNotOwner);
  for (const uint64_t never : {uint64_t{6}, uint64_t{1000}, UINT64_MAX}) {
    EXPECT_EQ(Write(0, never), RefusalReason::kOwnerBehind) << never;
    EXPECT_EQ(Read(0, never), RefusalReason::kOwnerBehind) << never;
  }
  EXPECT_EQ(Write(0, 5), kAdmitted) << "nothing is learnt from clients";

  const Answer moved = owner_->Write(KeyIn(2), At(4));
  EXPECT_EQ(moved.refusal,
            (RefusalInfo{RefusalReason::kNotOwner, At(5), Version(10), "host-b:6379"}));
  for (const char* const word : {"", "5", "a1b2c3d4", "a1b2c3d4:", "a1b2c3d4:x", "A1B2C3D4:5",
                                 "a1b2c3d4:99999999999999999999", "a1b2c3d4:-1"}) {
    EXPECT_TRUE(owner_->Write(KeyIn(0), word).malformed) << word;
    EXPECT_TRUE(owner_->Read(KeyIn(0), word).malformed) << word;
  }
}

TEST_P(OwnerConformanceTest, TheLeaseEnds) {
  owner_->Attach(kQuarterHistory);
  owner_->Offer(SettledMap());
  const absl::Duration ttl = absl::Milliseconds(500);
  ASSERT_OK(Grant(ttl));
  owner_->Outlive(ttl);
  EXPECT_EQ(Write(0, 5), RefusalReason::kNoLease);
  EXPECT_EQ(Read(0, 5), kAdmitted);
  ASSERT_OK(Grant());
  EXPECT_EQ(Write(0, 5), kAdmitted);
}

// The instant of a renewal counts, and not that of its grant.
TEST_P(OwnerConformanceTest, TheLeaseCountsFromItsRenewal) {
  owner_->Attach(kQuarterHistory);
  owner_->Offer(SettledMap());
  const absl::Duration ttl = absl::Milliseconds(300);
  ASSERT_OK(Grant(ttl));
  const uint64_t seq = owner_->Renew();
  owner_->Outlive(ttl);
  EXPECT_OK(Grant(seq, Term(3), ttl)) << "in order, but it comes too late";
  owner_->Outlive(absl::ZeroDuration());
  EXPECT_EQ(Write(0, 5), RefusalReason::kNoLease);
}

TEST_P(OwnerConformanceTest, OnlyTheOutstandingRenewalIsGranted) {
  owner_->Attach(kQuarterHistory);
  owner_->Offer(SettledMap());
  const uint64_t first = owner_->Renew();
  const uint64_t second = owner_->Renew();
  EXPECT_GT(second, first);
  EXPECT_FALSE(Grant(first, Term(3), kLong).ok());
  EXPECT_FALSE(Grant(second + 1, Term(3), kLong).ok());
  EXPECT_EQ(Write(0, 5), RefusalReason::kNoLease);
  EXPECT_OK(Grant(second, Term(3), kLong));
  EXPECT_EQ(Write(0, 5), kAdmitted);
  EXPECT_OK(Grant(second, Term(3), kLong)) << "a state, not an event";
}

TEST_P(OwnerConformanceTest, ALowerTermGrantsNothing) {
  owner_->Attach(kQuarterHistory);
  owner_->Offer(SettledMap());
  const absl::Duration ttl = absl::Milliseconds(300);
  ASSERT_OK(Grant(owner_->Renew(), Term(7), ttl));
  EXPECT_FALSE(Grant(owner_->Renew(), Term(6), kLong).ok());
  owner_->Outlive(ttl);
  EXPECT_EQ(Write(0, 5), RefusalReason::kNoLease);
  EXPECT_OK(Grant(owner_->Renew(), Term(7), kLong));
  EXPECT_EQ(Write(0, 5), kAdmitted);
}

// The floors of a grant hold at once; its lease counts when its version is there.
TEST_P(OwnerConformanceTest, FloorsAtOnceLeaseWithItsVersion) {
  owner_->Attach(kQuarterHistory);
  owner_->Offer(SettledMap(10));
  ASSERT_OK(Grant(kLong, {Floor{QuarterSet(0), Epoch(5)}}, Version(11)));
  EXPECT_EQ(Write(1, 5), RefusalReason::kNoLease);
  EXPECT_EQ(Read(0, 5), RefusalReason::kFencing) << "the floor is there";
  owner_->Offer(SettledMap(11));
  EXPECT_EQ(Write(1, 5), kAdmitted);
  EXPECT_EQ(Write(0, 5), RefusalReason::kFencing);
}

TEST_P(OwnerConformanceTest, FloorsOfAGrantThatIsRefusedHold) {
  Serve(SettledMap());
  EXPECT_FALSE(Grant(owner_->Renew() + 1, Term(3), kLong, {Floor{QuarterSet(0), Epoch(5)}}).ok());
  EXPECT_EQ(Write(0, 5), RefusalReason::kFencing);
  EXPECT_EQ(Write(1, 5), kAdmitted);
}

TEST_P(OwnerConformanceTest, AFenceIsOneWayAndOfItsRangesOnly) {
  Serve(SettledMap());
  owner_->Fence(QuarterSet(0), Epoch(5));
  EXPECT_TRUE(owner_->Acknowledged());
  EXPECT_EQ(Write(0, 5), RefusalReason::kFencing);
  EXPECT_EQ(Read(0, 5), RefusalReason::kFencing);
  EXPECT_EQ(Write(1, 5), kAdmitted);
  // No grant, no lower fence and no map of the same epoch opens it again.
  ASSERT_OK(Grant());
  owner_->Fence(QuarterSet(0), Epoch(3));
  EXPECT_TRUE(owner_->Acknowledged());
  owner_->Offer(SettledMap(11));
  EXPECT_EQ(Write(0, 5), RefusalReason::kFencing);
}

TEST_P(OwnerConformanceTest, AFenceThatIsRepeatedIsAcknowledgedAgain) {
  Serve(SettledMap());
  for (int i = 0; i < 3; ++i) {
    owner_->Fence(QuarterSet(0), Epoch(5));
    EXPECT_TRUE(owner_->Acknowledged());
    EXPECT_EQ(Write(0, 5), RefusalReason::kFencing);
  }
}

TEST_P(OwnerConformanceTest, ActivatesAboveTheFloorOnly) {
  Serve(SettledMap());
  owner_->Fence(QuarterSet(0), Epoch(7));
  for (const uint64_t closed : {uint64_t{6}, uint64_t{7}}) {
    owner_->Offer(MovedMap(10 + closed, 0, closed));
    EXPECT_EQ(Write(0, closed), RefusalReason::kFencing) << closed;
  }
  owner_->Offer(MovedMap(20, 0, 8));
  EXPECT_EQ(Write(0, 8), kAdmitted);
  EXPECT_EQ(Write(0, 7), RefusalReason::kStaleEpoch);
}

// There and back: the same owner, and the epoch of the first time is refused.
TEST_P(OwnerConformanceTest, AnEpochOfTwoMovesAgoIsStale) {
  Serve(SettledMap());
  owner_->Fence(QuarterSet(0), Epoch(5));
  owner_->Offer(MovedMap(11, 1, 6));
  EXPECT_EQ(Write(0, 6), RefusalReason::kNotOwner);
  EXPECT_EQ(Write(0, 5), RefusalReason::kNotOwner);
  owner_->Offer(MovedMap(12, 0, 7));
  EXPECT_EQ(Write(0, 5), RefusalReason::kStaleEpoch);
  EXPECT_EQ(Write(0, 7), kAdmitted);
  EXPECT_EQ(Write(1, 5), kAdmitted) << "a range that never moved keeps its epoch";
}

TEST_P(OwnerConformanceTest, TheMapNeverGoesBack) {
  Serve(MovedMap(12, 1, 6));
  owner_->Offer(SettledMap(11));
  EXPECT_EQ(owner_->version(), Version(12));
  EXPECT_EQ(Write(0, 5), RefusalReason::kNotOwner);
  owner_->Offer(SettledMap(12));
  EXPECT_EQ(Write(0, 5), RefusalReason::kNotOwner) << "another content under the same version";
  EXPECT_EQ(Write(1, 5), kAdmitted);
}

TEST_P(OwnerConformanceTest, ADrainEndsBeforeItsAcknowledgement) {
  Serve(SettledMap());
  const auto write = owner_->Begin(KeyIn(0), At(5));
  if (write == nullptr) {
    // Nothing can be in flight: what was admitted is done, and the fence is acknowledged at once.
    EXPECT_EQ(Write(0, 5), kAdmitted);
    owner_->Fence(QuarterSet(0), Epoch(5));
    EXPECT_TRUE(owner_->Acknowledged());
    EXPECT_EQ(Write(0, 5), RefusalReason::kFencing);
    return;
  }
  const auto elsewhere = owner_->Begin(KeyIn(1), At(5));
  owner_->Fence(QuarterSet(0), Epoch(5));
  EXPECT_FALSE(owner_->Acknowledged());
  EXPECT_FALSE(write->Finish()) << "it may not be acknowledged any more";
  EXPECT_TRUE(owner_->Acknowledged());
  EXPECT_TRUE(elsewhere->Finish());
}

TEST_P(OwnerConformanceTest, AnotherHistoryIsAnotherOwner) {
  Serve(SettledMap());
  const HistoryId other{{0x0a0b0c0d'00000001, 3}};
  owner_->Attach(other);
  EXPECT_EQ(Write(0, 5), RefusalReason::kNoLease);
  EXPECT_NE(Read(0, 5), kAdmitted);
  owner_->Offer(SettledMap(11));
  EXPECT_EQ(owner_->version(), Version(0)) << "a map of the first history";
  MembershipData data = SettledMap(2)->data();
  data.history = other;
  owner_->Offer(MustCreate(std::move(data)));
  EXPECT_EQ(owner_->version(), Version(2)) << "its versions have nothing to do with those before";
  ASSERT_OK(Grant(owner_->Renew(), Term(1), kLong));
  EXPECT_EQ(Write(0, 5), RefusalReason::kWrongHistory);
  EXPECT_EQ(ReasonOf(owner_->Write(KeyIn(0), "0a0b0c0d:5")), kAdmitted);
}

// A fence of an override's keys waits for the map by which they are known.
TEST_P(OwnerConformanceTest, AFenceOfAPlaneWaitsForItsMap) {
  Serve(SettledMap());
  owner_->Fence(HashRangeSet::Whole(1), Epoch(5));
  EXPECT_FALSE(owner_->Acknowledged());
  EXPECT_EQ(Write(0, 5), kAdmitted) << "the rule is not known yet";
  owner_->Offer(RuledMap(11, 2, 1));
  EXPECT_TRUE(owner_->Acknowledged());
  EXPECT_EQ(Write(0, 5), RefusalReason::kFencing);
  owner_->Offer(RuledMap(12, 2, 1, 6, 0));
  EXPECT_EQ(Write(0, 6), kAdmitted);
  EXPECT_EQ(Write(2, 6), kAdmitted) << "all its keys are here now";
  EXPECT_EQ(Write(0, 5), RefusalReason::kStaleEpoch);
}

// A rule that is over gives its keys back to where they hash to.
TEST_P(OwnerConformanceTest, AnOverrideThatEndsGivesItsKeysBack) {
  Serve(RuledMap(11, 2, 1, 6, 1));
  EXPECT_EQ(Write(0, 6), RefusalReason::kNotOwner);
  EXPECT_EQ(Write(0, 5), RefusalReason::kNotOwner);
  owner_->Offer(RuledMap(12, 2, std::nullopt));
  EXPECT_EQ(Write(0, 5), kAdmitted);
  EXPECT_EQ(Write(0, 6), RefusalReason::kOwnerBehind);
  EXPECT_EQ(Write(2, 5), RefusalReason::kNotOwner);
}

// A restart forgets the floor, and the lease with it: nothing is accepted before the coordinator
// has said what is closed.
TEST_P(OwnerConformanceTest, ARestartIsClosedUntilItsGrant) {
  Serve(SettledMap());
  owner_->Fence(QuarterSet(0), Epoch(5));
  const uint64_t before = owner_->Renew();
  owner_->Restart();
  EXPECT_EQ(Write(0, 5), RefusalReason::kNoLease);
  EXPECT_NE(Read(0, 5), kAdmitted);
  owner_->Attach(kQuarterHistory);
  owner_->Offer(SettledMap());
  EXPECT_EQ(Write(0, 5), RefusalReason::kNoLease);
  EXPECT_FALSE(Grant(before, Term(3), kLong).ok()) << "a grant to the one before";
  EXPECT_EQ(Write(0, 5), RefusalReason::kNoLease);
  ASSERT_OK(Grant(kLong, {Floor{QuarterSet(0), Epoch(5)}}));
  EXPECT_EQ(Write(0, 5), RefusalReason::kFencing);
  EXPECT_EQ(Write(1, 5), kAdmitted);
}

INSTANTIATE_TEST_SUITE_P(Owners, OwnerConformanceTest,
                         testing::Values(Kind{"Guard", MakeGuardOwner},
                                         Kind{"Redis", MakeRedisOwner}),
                         [](const auto& kind) { return kind.param.first; });

}  // namespace
}  // namespace warmring
