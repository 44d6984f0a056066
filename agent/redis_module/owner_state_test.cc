#include "agent/redis_module/owner_state.h"

#include <string>

#include "core/ownership/quarter_ring_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

// What cannot be provoked through a real server: writes past the filter, and the loss of a dataset
// that is being served.

namespace warmring {
namespace {

constexpr Incarnation kFirst{{1, 1}};
constexpr Incarnation kSecond{{2, 2}};
constexpr Instant kNow{1'000'000'000};
constexpr Id128 kNonce{9, 9};

std::string KeyIn(uint64_t quarter) {
  for (int i = 0;; ++i) {
    std::string key = "key:" + std::to_string(i);
    if (Quarter(quarter).Contains(HashKey(HashSpec(), key))) return key;
  }
}

Membership::Ptr Map(uint64_t version, NodeIndex owner, uint64_t epoch,
                    std::vector<Move> moves = {}) {
  return QuarterMap(version, {{{owner, epoch}, {0, 5}, {1, 5}, {1, 5}}}, std::move(moves));
}

Move GrowMove(MovePhase phase) { return {"grow", 0, "a", "b", phase, HashRangeSet({Quarter(0)})}; }

OwnerState AttachedAs(const NodeId& node) {
  OwnerState state(kFirst, 100, {});
  state.Attach({kQuarterHistory, "cache", node}, OnRestart::kPurge, 0, kSecond);
  return state;
}

TEST(OwnerState, AWritePastTheFilterInAForeignRangeIsAFaultAndMakesTheLogSuspect) {
  OwnerState state = AttachedAs("a");
  ASSERT_OK(state.Install(Map(1, 0, 5), kNow));
  const std::string log = state.changes().id();
  state.NoteChange(KeyIn(0));
  state.NoteVanished(KeyIn(2));
  EXPECT_EQ(state.counters().faults, 0u);
  for (const Cause cause : {Cause::kForget, Cause::kTransfer, Cause::kRefusedDelete}) {
    const OwnerState::Action action(state, cause);
    state.NoteChange(KeyIn(2));
  }
  EXPECT_EQ(state.counters().faults, 0u);
  EXPECT_EQ(state.changes().id(), log);
  state.NoteChange(KeyIn(2));
  EXPECT_EQ(state.counters().faults, 1u);
  EXPECT_NE(state.changes().id(), log);
  {
    const OwnerState::Action action(state, Cause::kAdmitted);
    state.NoteChange(KeyIn(3));
  }
  EXPECT_EQ(state.counters().faults, 2u);
}

TEST(OwnerState, AKeyThatServerAndCommandNameCountsOnce) {
  OwnerState state = AttachedAs("a");
  ASSERT_OK(state.Install(Map(1, 0, 5), kNow));
  ASSERT_OK(state.Track(kNonce, HashRangeSet({Quarter(0)})));
  OwnerState::Action action(state, Cause::kAdmitted);
  state.NoteChange(KeyIn(0));
  action.Touch(KeyIn(0));
  EXPECT_EQ(state.changes().end(), 1u);
}

TEST(OwnerState, LosingTheDatasetLosesEveryProof) {
  OwnerState state = AttachedAs("b");
  ASSERT_OK(state.Install(Map(1, 0, 5, {GrowMove(MovePhase::kWarming)}), kNow));
  ASSERT_OK(state.Install(Map(2, 1, 6, {GrowMove(MovePhase::kGrace)}), kNow));
  const HashPoint hash = state.PointOf(KeyIn(0)).hash;
  const std::string token = state.tokens().Issue(hash, Epoch(6));
  const std::string log = state.changes().id();
  EXPECT_TRUE(state.MayPeek(KeyIn(0), hash, kNow));
  ASSERT_NE(state.DirtyOf("grow"), nullptr);
  EXPECT_TRUE(state.DirtyOf("grow")->complete());
  state.NoteLoss("the dataset was replaced");
  EXPECT_FALSE(state.MayPeek(KeyIn(0), hash, kNow));
  EXPECT_FALSE(state.DirtyOf("grow")->complete());
  EXPECT_FALSE(state.tokens().IsValid(token, hash, Epoch(6)));
  EXPECT_NE(state.changes().id(), log);
}

TEST(OwnerState, ADirtySetIsCompleteOnlyForWhoSawTheActivation) {
  const Move grace = GrowMove(MovePhase::kGrace);
  OwnerState saw = AttachedAs("b");
  ASSERT_OK(saw.Install(Map(1, 0, 5), kNow));  // the versions between are skipped
  ASSERT_OK(saw.Install(Map(4, 1, 6, {grace}), kNow));
  EXPECT_TRUE(saw.DirtyOf("grow")->complete());
  EXPECT_EQ(saw.DirtyOf("other"), nullptr);
  ASSERT_OK(saw.Install(Map(5, 1, 6, {grace}), kNow));
  EXPECT_TRUE(saw.DirtyOf("grow")->complete());
  ASSERT_OK(saw.Install(Map(6, 1, 6), kNow));
  EXPECT_EQ(saw.DirtyOf("grow"), nullptr);

  OwnerState restarted = AttachedAs("b");
  ASSERT_OK(restarted.Install(Map(4, 1, 6, {grace}), kNow));
  EXPECT_FALSE(restarted.DirtyOf("grow")->complete());
}

TEST(OwnerState, GraceEndsOnTheInstant) {
  OwnerState state = AttachedAs("b");
  MembershipData data = QuarterData(1, {{{0, 5}, {0, 5}, {1, 5}, {1, 5}}});
  data.spec.grace_ms = 500;
  ASSERT_OK(state.Install(MustCreate(data), kNow));
  data.version = Version(2);
  data.ranges[0] = {Quarter(0).end, 1, Epoch(6)};
  data.moves = {GrowMove(MovePhase::kGrace)};
  ASSERT_OK(state.Install(MustCreate(data), kNow));
  const HashPoint hash = state.PointOf(KeyIn(0)).hash;
  EXPECT_TRUE(state.MayPeek(KeyIn(0), hash, kNow + absl::Milliseconds(499)));
  EXPECT_FALSE(state.MayPeek(KeyIn(0), hash, kNow + absl::Milliseconds(500)));
  // A later map does not start it again.
  data.version = Version(3);
  ASSERT_OK(state.Install(MustCreate(data), kNow + absl::Milliseconds(400)));
  EXPECT_FALSE(state.MayPeek(KeyIn(0), hash, kNow + absl::Milliseconds(500)));
}

TEST(OwnerState, AnotherBindingIsAnotherIncarnation) {
  OwnerState state(kFirst, 100, {});
  EXPECT_FALSE(state.bound());
  const OwnerBinding binding{kQuarterHistory, "cache", "a"};
  OwnerState::Attachment attachment = state.Attach(binding, OnRestart::kPurge, 3, kSecond);
  EXPECT_EQ(attachment.generation, 101u);
  EXPECT_TRUE(attachment.purge_due);
  EXPECT_EQ(state.incarnation(), kFirst);
  attachment = state.Attach(binding, OnRestart::kPurge, 3, kSecond);
  EXPECT_EQ(attachment.generation, 102u);
  EXPECT_TRUE(attachment.purge_due);
  state.PurgeDone();
  EXPECT_FALSE(state.Attach(binding, OnRestart::kPurge, 3, kSecond).purge_due);
  ASSERT_OK(state.Install(Map(1, 0, 5), kNow));

  attachment = state.Attach({kQuarterHistory, "cache", "b"}, OnRestart::kTrust, 3, kSecond);
  EXPECT_EQ(attachment.generation, 105u);
  EXPECT_FALSE(attachment.purge_due);
  EXPECT_EQ(state.incarnation(), kSecond);
  EXPECT_FALSE(state.has_map());
  state.StartOver(kFirst);
  EXPECT_FALSE(state.bound());
  EXPECT_EQ(state.generation(), 106u);
}

}  // namespace
}  // namespace warmring
