#include "client/sync/membership_sync_machine.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "client/base/membership_testing.h"
#include "core/membership/encoding.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

// How a client follows a membership: it resumes where it is, applies what fits,
// asks for a snapshot where something does not, and never goes back in version,
// whatever order things come in.

namespace warmring {
namespace {

using client_testing::History;
using client_testing::MakeDelta;
using client_testing::MakeMembership;
using client_testing::NextVersion;
using client_testing::TwoNodes;
using Machine = MembershipSyncMachine;

constexpr Instant kStart{1'000'000'000'000};

class MembershipSyncMachineTest : public testing::Test {
 protected:
  MembershipSyncMachineTest() {
    options_.keyspace = client_testing::kKeyspace;
    options_.decode = [](std::string_view bytes) { return DecodeMembership(bytes); };
    options_.max_snapshot_bytes = 1 << 20;
    for (uint64_t version = 1; version <= 6; ++version) {
      versions_.push_back(version == 1 ? MakeMembership(TwoNodes())
                                       : NextVersion(*versions_.back()));
    }
  }

  // Version n, counted from 1.
  const Membership::Ptr& V(uint64_t n) const { return versions_[n - 1]; }
  Delta DeltaTo(uint64_t n) const { return MakeDelta(*V(n - 1), Update{}); }
  static WatchMessage Whole(const Membership& membership) {
    return SnapshotPiece{membership.version(), 0, 1, EncodeMembership(membership.data())};
  }
  static std::vector<SnapshotPiece> Pieces(const Membership& membership, uint32_t count) {
    const std::string bytes = EncodeMembership(membership.data());
    std::vector<SnapshotPiece> pieces;
    for (uint32_t i = 0; i < count; ++i) {
      const size_t from = bytes.size() * i / count;
      const size_t to = bytes.size() * (i + 1) / count;
      pieces.push_back({membership.version(), i, count, bytes.substr(from, to - from)});
    }
    return pieces;
  }

  static std::vector<Machine::Action> Installed(const Membership::Ptr& membership) {
    return {Machine::Install{membership}, Machine::Send{WatchAcknowledge{membership->version()}}};
  }
  static std::vector<Machine::Action> AsksForSnapshot() {
    return {Machine::Send{WatchSubscribe{}}};
  }
  static std::vector<Machine::Action> GivesUp() { return {Machine::Disconnect{}}; }

  // A machine that is connected and has `have` (null: nothing).
  Machine Subscribed(Membership::Ptr have) {
    Machine machine(options_, std::move(have));
    machine.Start(kStart);
    machine.OnConnected(kStart);
    return machine;
  }

  MembershipSyncOptions options_;
  std::vector<Membership::Ptr> versions_;
};

// Equal memberships are equal by digest here, not by address.
testing::AssertionResult SameInstall(const Machine::Step& step, const Membership::Ptr& want) {
  if (step.actions.size() != 2) {
    return testing::AssertionFailure() << step.actions.size() << " actions, not install and ack";
  }
  const auto* install = std::get_if<Machine::Install>(&step.actions[0]);
  if (install == nullptr || install->membership->digest() != want->digest()) {
    return testing::AssertionFailure() << "not an install of version " << want->version().value;
  }
  const Machine::Action ack = Machine::Send{WatchAcknowledge{want->version()}};
  if (step.actions[1] != ack) return testing::AssertionFailure() << "not acknowledged";
  return testing::AssertionSuccess();
}

TEST_F(MembershipSyncMachineTest, ConnectsAsksForASnapshotAndFollowsDeltas) {
  Machine machine(options_, nullptr);
  Machine::Step step = machine.Start(kStart);
  EXPECT_EQ(step.actions, std::vector<Machine::Action>{Machine::Connect{0}});
  EXPECT_EQ(step.wake_at, kStart + options_.idle_timeout);
  EXPECT_FALSE(machine.status().ok());

  step = machine.OnConnected(kStart);
  EXPECT_EQ(step.actions, AsksForSnapshot());
  EXPECT_TRUE(SameInstall(machine.OnMessage(kStart, Whole(*V(1))), V(1)));
  EXPECT_TRUE(SameInstall(machine.OnMessage(kStart, DeltaTo(2)), V(2)));
  EXPECT_TRUE(SameInstall(machine.OnMessage(kStart, DeltaTo(3)), V(3)));
  EXPECT_EQ(machine.current()->digest(), V(3)->digest());
  EXPECT_OK(machine.status());
}

TEST_F(MembershipSyncMachineTest, ResumesFromWhatItHas) {
  Machine machine(options_, V(3));
  machine.Start(kStart);
  const std::vector<Machine::Action> subscribes = {
      Machine::Send{WatchSubscribe{History(), Version(3)}}};
  EXPECT_EQ(machine.OnConnected(kStart).actions, subscribes);
  EXPECT_TRUE(SameInstall(machine.OnMessage(kStart, DeltaTo(4)), V(4)));
}

TEST_F(MembershipSyncMachineTest, AssemblesASnapshotInPieces) {
  Machine machine = Subscribed(nullptr);
  const auto pieces = Pieces(*V(2), 3);
  EXPECT_TRUE(machine.OnMessage(kStart, pieces[0]).actions.empty());
  EXPECT_TRUE(machine.OnMessage(kStart, pieces[1]).actions.empty());
  EXPECT_TRUE(SameInstall(machine.OnMessage(kStart, pieces[2]), V(2)));
}

TEST_F(MembershipSyncMachineTest, PiecesInAnyOtherOrderAreNeverInstalled) {
  std::array<size_t, 4> order{};
  std::iota(order.begin(), order.end(), 0);
  const auto pieces = Pieces(*V(2), order.size());
  do {
    Machine machine = Subscribed(nullptr);
    for (const size_t i : order) machine.OnMessage(kStart, pieces[i]);
    const bool in_order = std::is_sorted(order.begin(), order.end());
    EXPECT_EQ(machine.current() != nullptr, in_order);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(MembershipSyncMachineTest, PiecesOfTwoSnapshotsDoNotMix) {
  Machine machine = Subscribed(nullptr);
  machine.OnMessage(kStart, Pieces(*V(2), 2)[0]);
  EXPECT_EQ(machine.OnMessage(kStart, Pieces(*V(3), 2)[1]).actions, AsksForSnapshot());
  // What is left of the old one is not counted against the new one.
  EXPECT_TRUE(machine.OnMessage(kStart, Pieces(*V(2), 2)[1]).actions.empty());
  EXPECT_TRUE(SameInstall(machine.OnMessage(kStart, Whole(*V(3))), V(3)));
}

TEST_F(MembershipSyncMachineTest, ASnapshotIsBoundedInPiecesAndBytes) {
  for (const SnapshotPiece& piece :
       {SnapshotPiece{Version(1), 0, 0, ""}, SnapshotPiece{Version(1), 0, UINT32_MAX, "x"},
        SnapshotPiece{Version(1), 0, 2, std::string((1 << 20) + 1, 'x')}}) {
    Machine machine = Subscribed(nullptr);
    EXPECT_EQ(machine.OnMessage(kStart, piece).actions, AsksForSnapshot()) << piece.count;
  }
  Machine machine = Subscribed(nullptr);
  EXPECT_TRUE(machine.OnMessage(kStart, SnapshotPiece{Version(1), 0, 2, std::string(1 << 20, 'x')})
                  .actions.empty());
  EXPECT_EQ(machine.OnMessage(kStart, SnapshotPiece{Version(1), 1, 2, "x"}).actions,
            AsksForSnapshot());
}

TEST_F(MembershipSyncMachineTest, ADeltaOnAnotherBaseAsksForASnapshot) {
  Machine machine = Subscribed(V(2));
  EXPECT_EQ(machine.OnMessage(kStart, DeltaTo(4)).actions, AsksForSnapshot());
  // Deltas of the old subscription are still on their way, even one that would
  // fit.
  EXPECT_TRUE(machine.OnMessage(kStart, DeltaTo(3)).actions.empty());
  EXPECT_EQ(machine.current()->version(), Version(2));
  EXPECT_TRUE(SameInstall(machine.OnMessage(kStart, Whole(*V(5))), V(5)));
  EXPECT_TRUE(SameInstall(machine.OnMessage(kStart, DeltaTo(6)), V(6)));
}

TEST_F(MembershipSyncMachineTest, ADeltaWithAnotherDigestOrHistoryAsksForASnapshot) {
  Delta forged = DeltaTo(3);
  forged.digest ^= 1;
  Delta foreign = DeltaTo(3);
  foreign.history = History(2);
  for (const Delta& delta : {forged, foreign}) {
    Machine machine = Subscribed(V(2));
    EXPECT_EQ(machine.OnMessage(kStart, delta).actions, AsksForSnapshot());
    EXPECT_EQ(machine.current()->version(), Version(2));
    EXPECT_FALSE(machine.status().ok());
  }
}

TEST_F(MembershipSyncMachineTest, ADeltaBeforeTheFirstSnapshotAsksForIt) {
  Machine machine = Subscribed(nullptr);
  EXPECT_EQ(machine.OnMessage(kStart, DeltaTo(2)).actions, AsksForSnapshot());
}

TEST_F(MembershipSyncMachineTest, OldDeltasAreDroppedWithoutNoise) {
  Machine machine = Subscribed(V(4));
  EXPECT_TRUE(machine.OnMessage(kStart, DeltaTo(3)).actions.empty());
  EXPECT_TRUE(machine.OnMessage(kStart, DeltaTo(4)).actions.empty());
  EXPECT_TRUE(SameInstall(machine.OnMessage(kStart, DeltaTo(5)), V(5)));
}

TEST_F(MembershipSyncMachineTest, AnOlderSnapshotOfTheSameHistoryIsRefused) {
  Machine machine = Subscribed(V(4));
  EXPECT_EQ(machine.OnMessage(kStart, Whole(*V(3))).actions, GivesUp());
  EXPECT_EQ(machine.current()->version(), Version(4));
  EXPECT_THAT(machine.status(), StatusIs(absl::StatusCode::kUnavailable, "behind"));
}

TEST_F(MembershipSyncMachineTest, AnotherHistoryIsTakenOnlyAsASnapshot) {
  const Membership::Ptr restored = MakeMembership(TwoNodes(), Version(2), History(2));
  Machine machine = Subscribed(V(4));
  EXPECT_EQ(machine.OnMessage(kStart, MakeDelta(*restored, Update{})).actions, AsksForSnapshot());
  EXPECT_TRUE(SameInstall(machine.OnMessage(kStart, Whole(*restored)), restored));
  EXPECT_EQ(machine.current()->history(), History(2));
  EXPECT_EQ(machine.current()->version(), Version(2));
}

TEST_F(MembershipSyncMachineTest, ASnapshotOfAnotherKeyspaceOrVersionIsRefused) {
  MembershipData data = client_testing::MakeData(TwoNodes());
  data.spec.id = "other";
  const Membership::Ptr other = client_testing::Must(Membership::Create(data));
  Machine machine = Subscribed(nullptr);
  EXPECT_EQ(machine.OnMessage(kStart, Whole(*other)).actions, AsksForSnapshot());
  EXPECT_EQ(
      machine.OnMessage(kStart, SnapshotPiece{Version(9), 0, 1, EncodeMembership(V(1)->data())})
          .actions,
      AsksForSnapshot());
  EXPECT_EQ(machine.current(), nullptr);
}

TEST_F(MembershipSyncMachineTest, GarbageAsksForASnapshotAndEndlessGarbageGivesUp) {
  Machine machine = Subscribed(V(1));
  const WatchMessage garbage = WatchGarbage{absl::InvalidArgumentError("no content")};
  EXPECT_EQ(machine.OnMessage(kStart, garbage).actions, AsksForSnapshot());
  EXPECT_EQ(machine.OnMessage(kStart, garbage).actions, AsksForSnapshot());
  EXPECT_EQ(machine.OnMessage(kStart, garbage).actions, AsksForSnapshot());
  EXPECT_EQ(machine.OnMessage(kStart, garbage).actions, GivesUp());
  EXPECT_THAT(machine.status(), StatusIs(absl::StatusCode::kInvalidArgument, "no content"));
  EXPECT_EQ(machine.current(), V(1));
}

TEST_F(MembershipSyncMachineTest, ARefusalEndsTheStreamWithItsReason) {
  Machine machine = Subscribed(nullptr);
  const WatchMessage refusal = WatchRefusal{"NOT_FOUND", "keyspace sessions does not exist"};
  EXPECT_EQ(machine.OnMessage(kStart, refusal).actions, GivesUp());
  EXPECT_THAT(machine.status(), StatusIs(absl::StatusCode::kNotFound, "sessions"));
}

TEST_F(MembershipSyncMachineTest, BacksOffLongerEachTimeAndTakesTheEndpointsInTurn) {
  options_.seed = 5;
  Machine machine(options_, nullptr);
  Machine::Step step = machine.Start(kStart);
  Instant now = kStart;
  absl::Duration limit = options_.backoff_min;
  for (uint64_t turn = 5; turn < 15; ++turn) {
    EXPECT_EQ(step.actions, std::vector<Machine::Action>{Machine::Connect{turn}});
    step = machine.OnDisconnected(now, absl::UnavailableError("refused"));
    EXPECT_TRUE(step.actions.empty());
    EXPECT_GE(step.wake_at, now + limit / 2);
    EXPECT_LE(step.wake_at, now + limit);
    EXPECT_TRUE(machine.OnTimer(step.wake_at + absl::Nanoseconds(-1)).actions.empty());
    now = step.wake_at;
    step = machine.OnTimer(now);
    limit = std::min(limit * 2, options_.backoff_max);
  }
  EXPECT_THAT(machine.status(), StatusIs(absl::StatusCode::kUnavailable, "refused"));
}

TEST_F(MembershipSyncMachineTest, SuccessResetsTheBackoff) {
  Machine machine(options_, nullptr);
  machine.Start(kStart);
  Instant now = kStart;
  for (int i = 0; i < 6; ++i) {
    now = machine.OnDisconnected(now, absl::UnavailableError("refused")).wake_at;
    machine.OnTimer(now);
  }
  machine.OnConnected(now);
  machine.OnMessage(now, Whole(*V(1)));
  EXPECT_LE(machine.OnDisconnected(now, absl::UnavailableError("bye")).wake_at,
            now + options_.backoff_min);
}

TEST_F(MembershipSyncMachineTest, ASilentServerIsGivenUp) {
  Machine machine = Subscribed(V(1));
  const Instant spoke = kStart + absl::Seconds(10);
  EXPECT_EQ(machine.OnMessage(spoke, WatchProgress{Version(1), 1}).wake_at,
            spoke + options_.idle_timeout);
  EXPECT_TRUE(machine.OnTimer(kStart + options_.idle_timeout).actions.empty());
  const Machine::Step step = machine.OnTimer(spoke + options_.idle_timeout);
  EXPECT_EQ(step.actions, GivesUp());
  EXPECT_THAT(machine.status(), StatusIs(absl::StatusCode::kUnavailable, "silent"));
  EXPECT_EQ(machine.OnTimer(step.wake_at).actions,
            std::vector<Machine::Action>{Machine::Connect{1}});
}

TEST_F(MembershipSyncMachineTest, ProgressSaysHowFreshItIsAndHowManyWatch) {
  Machine machine(options_, V(2));
  EXPECT_FALSE(machine.fresh_at().has_value());
  machine.Start(kStart);
  machine.OnConnected(kStart);
  const Instant later = kStart + absl::Seconds(3);
  machine.OnMessage(later, WatchProgress{Version(2), 7});
  EXPECT_EQ(machine.fresh_at(), later);
  EXPECT_EQ(machine.watchers(), 7U);
  EXPECT_OK(machine.status());
  machine.OnMessage(later, WatchProgress{Version(2), 0});
  EXPECT_EQ(machine.watchers(), 1U);
}

TEST_F(MembershipSyncMachineTest, AVersionThatIsAnnouncedTwiceAndDoesNotComeIsAskedFor) {
  Machine machine = Subscribed(V(2));
  EXPECT_TRUE(machine.OnMessage(kStart, WatchProgress{Version(3), 1}).actions.empty());
  EXPECT_TRUE(SameInstall(machine.OnMessage(kStart, DeltaTo(3)), V(3)));
  EXPECT_TRUE(machine.OnMessage(kStart, WatchProgress{Version(4), 1}).actions.empty());
  EXPECT_EQ(machine.OnMessage(kStart, WatchProgress{Version(4), 1}).actions, AsksForSnapshot());
}

TEST_F(MembershipSyncMachineTest, EventsOfNoStreamAreHarmless) {
  Machine machine(options_, nullptr);
  Machine::Step step = machine.Start(kStart);
  step = machine.OnDisconnected(kStart, absl::OkStatus());
  EXPECT_TRUE(machine.OnMessage(kStart, Whole(*V(1))).actions.empty());
  EXPECT_TRUE(machine.OnConnected(kStart).actions.empty());
  EXPECT_EQ(machine.OnDisconnected(kStart, absl::OkStatus()).wake_at, step.wake_at);
  EXPECT_EQ(machine.current(), nullptr);
}

// Every sequence of four messages out of a set of good and bad ones, from every
// start: whatever is installed goes forward, and after it a fresh snapshot of
// the newest version is always taken.
TEST_F(MembershipSyncMachineTest, NoSequenceGoesBackOrGetsStuck) {
  Delta forged = DeltaTo(3);
  forged.digest ^= 1;
  const std::vector<WatchMessage> alphabet = {
      Whole(*V(2)),
      Whole(*V(4)),
      DeltaTo(3),
      DeltaTo(5),
      forged,
      Pieces(*V(3), 2)[0],
      Pieces(*V(3), 2)[1],
      WatchProgress{Version(4), 2},
      WatchGarbage{absl::InvalidArgumentError("x")},
  };
  const size_t n = alphabet.size();
  for (const Membership::Ptr& start : {Membership::Ptr(), V(2), V(4)}) {
    for (size_t code = 0; code < n * n * n * n; ++code) {
      Machine machine = Subscribed(start);
      Version highest = start == nullptr ? Version(0) : start->version();
      bool connected = true;
      for (size_t rest = code, i = 0; i < 4; ++i, rest /= n) {
        const Machine::Step step = machine.OnMessage(kStart, alphabet[rest % n]);
        for (const Machine::Action& action : step.actions) {
          if (const auto* install = std::get_if<Machine::Install>(&action)) {
            ASSERT_GE(install->membership->version(), highest) << code;
            ASSERT_EQ(install->membership->digest(),
                      V(install->membership->version().value)->digest());
            highest = install->membership->version();
          }
          if (std::holds_alternative<Machine::Disconnect>(action)) connected = false;
        }
      }
      if (!connected) {
        machine.OnTimer(kStart + absl::Hours(1));
        machine.OnConnected(kStart);
      }
      machine.OnMessage(kStart, Whole(*V(6)));
      ASSERT_EQ(machine.current()->version(), Version(6)) << code;
    }
  }
}

}  // namespace
}  // namespace warmring
