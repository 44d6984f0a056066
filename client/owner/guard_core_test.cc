#include "client/owner/guard_core.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "client/base/membership_testing.h"
#include "gtest/gtest.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

// A service that holds keys: what it admits, when an admitted write may be acknowledged, when a
// fence is answered, and what the application is asked to fetch and drop.

namespace warmring {
namespace {

using client_testing::History;
using client_testing::KeyOwnedBy;
using client_testing::MakeMembership;
using client_testing::RangeOfKey;
using client_testing::TwoNodes;
using support::FakeClock;
using support::kDefaultWait;
using support::WaitFor;

class GuardCoreTest : public testing::Test {
 protected:
  GuardCoreTest() : membership_(MakeMembership(TwoNodes())), key_(KeyOwnedBy(*membership_, "a")) {
    options_.keyspace = client_testing::kKeyspace;
    options_.node = "a";
    options_.data_address = "127.0.0.1:7001";
    options_.clock = [this] { return clock_.Boot(); };
    options_.drain_timeout = absl::Seconds(5);
  }

  void Make() { core_ = std::make_unique<GuardCore>(options_); }
  void AttachWithLease(absl::Duration ttl = absl::Seconds(10)) {
    Make();
    core_->OnMembership(membership_);
    ASSERT_OK_AND_ASSIGN(identity_, core_->Attach(History(), OnRestart::kPurge));
    Grant(ttl);
  }
  void Grant(absl::Duration ttl, std::vector<Floor> floors = {}) {
    ASSERT_OK_AND_ASSIGN(const OwnerPort::Renewal renewal, core_->Renew());
    LeaseGrant grant;
    grant.seq = renewal.seq;
    grant.term = Term(1);
    grant.ttl = ttl;
    grant.version = membership_->version();
    grant.floors = std::move(floors);
    ASSERT_OK(core_->Grant(grant));
  }
  static std::string Word(uint64_t epoch) { return History().Tag() + ":" + std::to_string(epoch); }
  static Task MakeTask(decltype(Task::body) body, uint64_t nonce = 1) {
    Task task;
    task.migration = "m1";
    task.wave = 1;
    task.nonce = Id128{0, nonce};
    task.body = std::move(body);
    return task;
  }
  Task FenceOfKey() const { return MakeTask(FenceTask{RangeOfKey(*membership_, key_), Epoch(1)}); }
  // The next report; waits for it.
  TaskReport Next() {
    if (reports_.empty()) {
      EXPECT_OK(WaitFor("a report", kDefaultWait, [&] {
        for (TaskReport& report : core_->TakeReports()) reports_.push_back(std::move(report));
        return !reports_.empty();
      }));
    }
    TaskReport report = reports_.front();
    reports_.erase(reports_.begin());
    EXPECT_EQ(report.node, "a");
    EXPECT_EQ(report.incarnation, identity_.incarnation);
    return report;
  }

  FakeClock clock_;
  OwnerOptions options_;
  Membership::Ptr membership_;
  std::string key_;
  std::unique_ptr<GuardCore> core_;
  OwnerPort::Identity identity_;
  std::vector<TaskReport> reports_;
};

TEST_F(GuardCoreTest, StartsClosed) {
  Make();
  absl::Status status = core_->Begin(key_, Word(1)).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, "lease"));
  EXPECT_EQ(RefusalOf(status), (RefusalInfo{RefusalReason::kNoLease, "", Version(0), ""}));
  EXPECT_THAT(core_->BeginRead(key_, Word(1)), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(core_->Renew(), StatusIs(absl::StatusCode::kAborted));
  core_->OnMembership(membership_);
  ASSERT_OK(core_->Attach(History(), OnRestart::kPurge));
  EXPECT_EQ(RefusalOf(core_->Begin(key_, Word(1)).status())->reason, RefusalReason::kNoLease);
  EXPECT_OK(core_->BeginRead(key_, Word(1)));
}

TEST_F(GuardCoreTest, AdmitsWithLeaseEpochAndOwnership) {
  AttachWithLease();
  EXPECT_TRUE(core_->HasLease());
  EXPECT_EQ(core_->version(), Version(1));
  ASSERT_OK_AND_ASSIGN(WriteGuard guard, core_->Begin(key_, Word(1)));
  EXPECT_OK(guard.StillHeld());
  const std::string other = KeyOwnedBy(*membership_, "b");
  const auto refusal = RefusalOf(core_->Begin(other, Word(1)).status());
  EXPECT_EQ(refusal,
            (RefusalInfo{RefusalReason::kNotOwner, Word(1), Version(1), "127.0.0.1:7002"}));
  EXPECT_EQ(RefusalOf(core_->Begin(key_, Word(2)).status())->reason, RefusalReason::kOwnerBehind);
  EXPECT_EQ(RefusalOf(core_->Begin(key_, "00000009:1").status())->reason,
            RefusalReason::kWrongHistory);
  EXPECT_THAT(core_->Begin(key_, "nonsense"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(GuardCoreTest, AWriteIsNotAcknowledgedAfterTheLease) {
  AttachWithLease(absl::Seconds(10));
  ASSERT_OK_AND_ASSIGN(WriteGuard guard, core_->Begin(key_, Word(1)));
  clock_.Advance(absl::Seconds(10));
  const absl::Status status = guard.StillHeld();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnknown, "must not be acknowledged"));
  EXPECT_EQ(RefusalOf(status)->reason, RefusalReason::kNoLease);
  EXPECT_FALSE(core_->HasLease());
}

TEST_F(GuardCoreTest, AFenceIsAnsweredWhenTheWritesInItsRangesHaveEnded) {
  AttachWithLease();
  std::string elsewhere;
  for (int i = 0; elsewhere.empty(); ++i) {
    const std::string key = KeyOwnedBy(*membership_, "a", "other" + std::to_string(i) + "-");
    if (RangeOfKey(*membership_, key) != RangeOfKey(*membership_, key_)) elsewhere = key;
  }
  ASSERT_OK_AND_ASSIGN(WriteGuard apart, core_->Begin(elsewhere, Word(1)));
  std::optional<WriteGuard> first = client_testing::Must(core_->Begin(key_, Word(1)));
  std::optional<WriteGuard> second = client_testing::Must(core_->Begin(key_, Word(1)));
  EXPECT_OK(first->StillHeld());
  core_->SetTasks({FenceOfKey()});
  EXPECT_EQ(RefusalOf(core_->Begin(key_, Word(1)).status())->reason, RefusalReason::kFencing);
  EXPECT_THAT(second->StillHeld(), StatusIs(absl::StatusCode::kUnknown));
  EXPECT_TRUE(core_->TakeReports().empty());
  second.reset();
  EXPECT_TRUE(core_->TakeReports().empty());
  first.reset();
  const TaskReport report = Next();
  EXPECT_EQ(report.migration, "m1");
  EXPECT_EQ(report.wave, 1U);
  EXPECT_EQ(report.nonce, (Id128{0, 1}));
  EXPECT_EQ(std::get<FenceAck>(report.body),
            (FenceAck{Epoch(1), identity_.incarnation.ToString(), 0, false}));
  EXPECT_OK(apart.StillHeld());
}

TEST_F(GuardCoreTest, AfterTheDrainTimeoutOnlyWritesThatHavePassedAreWaitedFor) {
  AttachWithLease(absl::Hours(1));
  ASSERT_OK_AND_ASSIGN(WriteGuard stuck, core_->Begin(key_, Word(1)));
  std::optional<WriteGuard> passed = client_testing::Must(core_->Begin(key_, Word(1)));
  EXPECT_OK(passed->StillHeld());
  core_->SetTasks({FenceOfKey()});
  clock_.Advance(options_.drain_timeout);
  ASSERT_OK(core_->Renew());
  EXPECT_TRUE(core_->TakeReports().empty());
  passed.reset();
  EXPECT_TRUE(std::holds_alternative<FenceAck>(Next().body));
  EXPECT_THAT(stuck.StillHeld(), StatusIs(absl::StatusCode::kUnknown));
}

TEST_F(GuardCoreTest, FloorsOfAGrantCloseToo) {
  AttachWithLease();
  Grant(absl::Seconds(10), {Floor{RangeOfKey(*membership_, key_), Epoch(1)}});
  EXPECT_EQ(RefusalOf(core_->Begin(key_, Word(1)).status())->reason, RefusalReason::kFencing);
}

TEST_F(GuardCoreTest, TasksOfARecipientAreAnsweredAtOnceByDefault) {
  AttachWithLease();
  const HashRangeSet ranges = RangeOfKey(*membership_, KeyOwnedBy(*membership_, "b"));
  core_->SetTasks({MakeTask(WarmTask{{TransferSource{"b", "", ranges}}, {}})});
  EXPECT_EQ(std::get<WarmReport>(Next().body), (WarmReport{true, true, 0, 0, 0}));
  core_->SetTasks({MakeTask(VerifyTask{2000})});
  EXPECT_EQ(std::get<VerifyReport>(Next().body), (VerifyReport{0, 0, true}));
  PrepareTask prepare;
  prepare.epoch = Epoch(7);
  prepare.donors = {{TransferSource{"b", "", ranges}, "log", 42}};
  for (const auto mode :
       {PrepareTask::Mode::kChanges, PrepareTask::Mode::kDirty, PrepareTask::Mode::kPurge}) {
    prepare.mode = mode;
    core_->SetTasks({MakeTask(prepare)});
    EXPECT_EQ(std::get<PreparedReport>(Next().body),
              (PreparedReport{Epoch(7), mode, {"b"}, {"log"}, {42}}));
  }
}

TEST_F(GuardCoreTest, TheApplicationFetchesAndDrops) {
  std::mutex mutex;
  std::vector<std::pair<std::string, HashRangeSet>> calls;
  const auto record = [&](const std::string& what) {
    return [&, what](const HashRangeSet& ranges) {
      const std::lock_guard<std::mutex> lock(mutex);
      calls.emplace_back(what, ranges);
      return absl::OkStatus();
    };
  };
  options_.on_warm = record("warm");
  options_.on_release = record("release");
  AttachWithLease();
  const std::string other = KeyOwnedBy(*membership_, "b");
  const HashRangeSet coming = RangeOfKey(*membership_, other);
  core_->SetTasks({MakeTask(WarmTask{{TransferSource{"b", "", coming}}, {}})});
  Next();
  {
    const std::lock_guard<std::mutex> lock(mutex);
    EXPECT_EQ(calls, (decltype(calls){{"release", coming}, {"warm", coming}}));
    calls.clear();
  }
  // Its donors are fenced: once more, without dropping; in an undo, dropping first.
  PrepareTask prepare;
  prepare.epoch = Epoch(7);
  prepare.donors = {{TransferSource{"b", "", coming}, "log", 42}};
  for (const auto mode : {PrepareTask::Mode::kChanges, PrepareTask::Mode::kPurge}) {
    prepare.mode = mode;
    core_->SetTasks({MakeTask(prepare)});
    EXPECT_EQ(std::get<PreparedReport>(Next().body).mode, mode);
  }
  // A donor that never acknowledged has nothing to fetch.
  prepare.donors[0].log_id.clear();
  core_->SetTasks({MakeTask(prepare)});
  Next();
  {
    const std::lock_guard<std::mutex> lock(mutex);
    EXPECT_EQ(calls,
              (decltype(calls){
                  {"warm", coming}, {"release", coming}, {"warm", coming}, {"release", coming}}));
    calls.clear();
  }
  // A range leaves.
  core_->OnMembership(client_testing::WithOwner(*membership_, key_, "b", Epoch(2)));
  ASSERT_OK(WaitFor("the release", kDefaultWait, [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    return !calls.empty();
  }));
  const std::lock_guard<std::mutex> lock(mutex);
  EXPECT_EQ(calls, (decltype(calls){{"release", RangeOfKey(*membership_, key_)}}));
}

// What the application was asked to do, one call after the other. Calls may be held back.
class Calls {
 public:
  using Call = std::pair<std::string, HashRangeSet>;

  std::function<absl::Status(const HashRangeSet&)> Named(const std::string& name) {
    return [this, name](const HashRangeSet& ranges) {
      std::unique_lock<std::mutex> lock(mutex_);
      calls_.emplace_back(name, ranges);
      changed_.notify_all();
      changed_.wait(lock, [this] { return !held_; });
      return absl::OkStatus();
    };
  }
  void Hold(bool held) {
    const std::lock_guard<std::mutex> lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  void AwaitCount(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, absl::ToChronoNanoseconds(kDefaultWait),
                                  [&] { return calls_.size() >= count; }));
  }
  std::vector<Call> Taken() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(calls_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Call> calls_;
  bool held_ = false;
};

class GuardTasksTest : public GuardCoreTest {
 protected:
  void SetUp() override {
    options_.on_warm = calls_.Named("warm");
    options_.on_release = calls_.Named("release");
    AttachWithLease();
    std::vector<HashRangeSet> of_b;
    for (size_t i = 0; i < membership_->ranges().size(); ++i) {
      if (membership_->nodes()[membership_->ranges()[i].owner].id != "b") continue;
      of_b.push_back(HashRangeSet({membership_->RangeAt(i)}));
    }
    ASSERT_GE(of_b.size(), 2u);
    one_ = of_b[0];
    other_ = of_b[1];
  }
  static PrepareTask Prepare(PrepareTask::Mode mode, std::vector<PrepareTask::Donor> donors) {
    PrepareTask prepare;
    prepare.mode = mode;
    prepare.epoch = Epoch(7);
    prepare.donors = std::move(donors);
    return prepare;
  }

  Calls calls_;
  HashRangeSet one_;
  HashRangeSet other_;
};

// The list changes while the application drops: what it did for the first list is no answer to the
// second.
TEST_F(GuardTasksTest, AJobAnswersTheTaskThatItWasBegunFor) {
  calls_.Hold(true);
  core_->SetTasks({MakeTask(Prepare(PrepareTask::Mode::kPurge, {{{"b", "", one_}, "", 0}}))});
  calls_.AwaitCount(1);
  core_->SetTasks({MakeTask(
      Prepare(PrepareTask::Mode::kPurge, {{{"b", "", one_}, "", 0}, {{"c", "", other_}, "", 0}}))});
  calls_.Hold(false);
  EXPECT_EQ(std::get<PreparedReport>(Next().body).donors, (std::vector<NodeId>{"b", "c"}));
  EXPECT_EQ(calls_.Taken(),
            (std::vector<Calls::Call>{{"release", one_}, {"release", one_.Union(other_)}}));
  EXPECT_TRUE(core_->TakeReports().empty());
}

// The server may act on an answer from the moment on that it has it: what has been done is not done
// again when the task comes back, as after a restart of the server.
TEST_F(GuardTasksTest, AnAnswerIsRepeatedWithoutDoingItAgain) {
  PrepareTask prepare = Prepare(PrepareTask::Mode::kChanges, {{{"b", "", one_}, "log", 42}});
  core_->SetTasks({MakeTask(prepare)});
  EXPECT_EQ(std::get<PreparedReport>(Next().body).applied, std::vector<uint64_t>{42});
  EXPECT_EQ(calls_.Taken(), (std::vector<Calls::Call>{{"warm", one_}}));
  core_->SetTasks({});
  prepare.donors[0].watermark = 43;
  prepare.donors[0].source.transfer_address = "127.0.0.1:1";
  core_->SetTasks({MakeTask(prepare)});
  EXPECT_EQ(std::get<PreparedReport>(Next().body).applied, std::vector<uint64_t>{43});
  // For another epoch it is other work.
  prepare.epoch = Epoch(9);
  core_->SetTasks({MakeTask(prepare)});
  EXPECT_EQ(std::get<PreparedReport>(Next().body).epoch, Epoch(9));
  EXPECT_EQ(calls_.Taken(), (std::vector<Calls::Call>{{"warm", one_}}));
}

// A failure is told once, whatever address comes and goes, and is not an answer to keep.
TEST_F(GuardCoreTest, AFailedPreparationIsToldOnceAndTriedAgainWhenItComesBack) {
  std::atomic<int> calls = 0;
  options_.on_warm = [&](const HashRangeSet&) {
    ++calls;
    return absl::InternalError("no disk");
  };
  AttachWithLease();
  PrepareTask prepare;
  prepare.epoch = Epoch(7);
  const HashRangeSet ranges = RangeOfKey(*membership_, KeyOwnedBy(*membership_, "b"));
  prepare.donors = {{TransferSource{"b", "", ranges}, "log", 42}};
  core_->SetTasks({MakeTask(prepare)});
  EXPECT_TRUE(std::holds_alternative<TaskFailure>(Next().body));
  prepare.donors[0].source.transfer_address = "127.0.0.1:1";
  core_->SetTasks({MakeTask(prepare)});
  EXPECT_TRUE(core_->TakeReports().empty());
  EXPECT_EQ(calls, 1);
  core_->SetTasks({});
  core_->SetTasks({MakeTask(prepare)});
  EXPECT_TRUE(std::holds_alternative<TaskFailure>(Next().body));
  EXPECT_EQ(calls, 2);
}

// An undo: one present owner has acknowledged, the other one was passed over.
TEST_F(GuardTasksTest, OnlyWhatAFencedDonorHasIsFetched) {
  core_->SetTasks({MakeTask(Prepare(PrepareTask::Mode::kPurge,
                                    {{{"b", "", one_}, "log", 1}, {{"c", "", other_}, "", 0}}))});
  Next();
  EXPECT_EQ(calls_.Taken(),
            (std::vector<Calls::Call>{{"release", one_.Union(other_)}, {"warm", one_}}));
}

// With each wave there is less to be warmed.
TEST_F(GuardTasksTest, WhatIsWarmStaysWarm) {
  const HashRangeSet both = one_.Union(other_);
  core_->SetTasks({MakeTask(WarmTask{{TransferSource{"b", "", both}}, {}})});
  EXPECT_TRUE(std::get<WarmReport>(Next().body).caught_up);
  core_->SetTasks({MakeTask(WarmTask{{TransferSource{"b", "", other_}}, {}})});
  EXPECT_TRUE(core_->TakeReports().empty());
  core_->SetTasks({MakeTask(WarmTask{{TransferSource{"b", "", both}}, {}})});
  EXPECT_TRUE(std::get<WarmReport>(Next().body).caught_up);
  EXPECT_EQ(calls_.Taken(),
            (std::vector<Calls::Call>{
                {"release", both}, {"warm", both}, {"release", both}, {"warm", both}}));
}

// What this node owns is nothing to drop or to write over, whatever a late list says.
TEST_F(GuardTasksTest, ItsOwnRangesAreLeftAlone) {
  const HashRangeSet mine = RangeOfKey(*membership_, key_);
  core_->SetTasks(
      {MakeTask(Prepare(PrepareTask::Mode::kPurge, {{{"b", "", mine.Union(one_)}, "log", 1}}))});
  Next();
  EXPECT_EQ(calls_.Taken(), (std::vector<Calls::Call>{{"release", one_}, {"warm", one_}}));
}

TEST_F(GuardCoreTest, AFetchThatFailsIsReported) {
  options_.on_warm = [](const HashRangeSet&) { return absl::InternalError("no disk"); };
  AttachWithLease();
  const HashRangeSet ranges = RangeOfKey(*membership_, KeyOwnedBy(*membership_, "b"));
  core_->SetTasks({MakeTask(WarmTask{{TransferSource{"b", "", ranges}}, {}})});
  const auto failure = std::get<TaskFailure>(Next().body);
  EXPECT_NE(failure.reason.find("no disk"), std::string::npos);
  EXPECT_TRUE(failure.restart);
}

TEST_F(GuardCoreTest, TheNewestReportsAreGivenAgainAfterANewHello) {
  AttachWithLease();
  core_->SetTasks({FenceOfKey()});
  Next();
  EXPECT_TRUE(core_->TakeReports().empty());
  // A repeated list asks for nothing new.
  core_->SetTasks({FenceOfKey()});
  EXPECT_TRUE(core_->TakeReports().empty());
  ASSERT_OK(core_->Attach(History(), OnRestart::kPurge));
  EXPECT_TRUE(std::holds_alternative<FenceAck>(Next().body));
  core_->SetTasks({});
  ASSERT_OK(core_->Attach(History(), OnRestart::kPurge));
  EXPECT_TRUE(core_->TakeReports().empty());
}

TEST_F(GuardCoreTest, AnotherHistoryIsAnotherOwner) {
  AttachWithLease();
  ASSERT_OK_AND_ASSIGN(const auto again, core_->Attach(History(), OnRestart::kPurge));
  EXPECT_EQ(again.incarnation, identity_.incarnation);
  ASSERT_OK_AND_ASSIGN(const auto other, core_->Attach(History(2), OnRestart::kPurge));
  EXPECT_NE(other.incarnation, identity_.incarnation);
  EXPECT_FALSE(core_->HasLease());
  EXPECT_EQ(core_->version(), Version(0));
  EXPECT_THAT(core_->Begin(key_, Word(1)), StatusIs(absl::StatusCode::kUnavailable));
}

// Away from a history and back to it: what was admitted before is of another owner.
TEST_F(GuardCoreTest, AWriteThatOutlivesAHistoryIsNotAcknowledged) {
  AttachWithLease();
  ASSERT_OK_AND_ASSIGN(WriteGuard write, core_->Begin(key_, Word(1)));
  ASSERT_OK(core_->Attach(History(2), OnRestart::kPurge));
  EXPECT_THAT(write.StillHeld(), StatusIs(absl::StatusCode::kUnknown));
  ASSERT_OK_AND_ASSIGN(identity_, core_->Attach(History(), OnRestart::kPurge));
  Grant(absl::Seconds(10));
  EXPECT_OK(core_->Begin(key_, Word(1)).status()) << "new ones are";
  EXPECT_THAT(write.StillHeld(), StatusIs(absl::StatusCode::kUnknown));
}

TEST_F(GuardCoreTest, NotifiesWhenThereIsSomethingToTake) {
  AttachWithLease();
  std::atomic<int> notified = 0;
  core_->SetNotify([&] { ++notified; });
  const int before = notified;
  core_->SetTasks({FenceOfKey()});
  EXPECT_EQ(notified, before + 1);
  core_->SetTasks({FenceOfKey()});
  EXPECT_EQ(notified, before + 1);
  core_->SetNotify(nullptr);
}

TEST_F(GuardCoreTest, BadOptionsAreNamed) {
  options_.endpoints = {"127.0.0.1:1"};
  OwnerOptions bad = options_;
  bad.node = "";
  EXPECT_THAT(OwnerGuard::Start(bad), StatusIs(absl::StatusCode::kInvalidArgument, "node"));
  bad = options_;
  bad.data_address = "nowhere";
  EXPECT_THAT(OwnerGuard::Start(bad), StatusIs(absl::StatusCode::kInvalidArgument, "nowhere"));
  // A server that is down is no reason to fail, nor to admit anything.
  ASSERT_OK_AND_ASSIGN(const auto guard, OwnerGuard::Start(options_));
  EXPECT_THAT(guard->Begin(key_, Word(1)), StatusIs(absl::StatusCode::kUnavailable, "lease"));
  EXPECT_FALSE(guard->HasLease());
}

// Keys that begin with "k" have an override: as hashed under `epoch`, or none.
Membership::Ptr WithRule(const Membership& base, std::optional<uint64_t> epoch,
                         std::optional<NodeIndex> node = std::nullopt) {
  MembershipData data = base.data();
  data.version = data.version.Next();
  data.next_plane = 2;
  data.overrides.clear();
  if (epoch) data.overrides = {{1, {OverrideRule::Match::kPrefix, "k"}, {}, Epoch(*epoch)}};
  if (node) data.overrides[0].ranges = {{UINT64_MAX, *node}};
  return client_testing::Must(Membership::Create(std::move(data)));
}

TEST_F(GuardCoreTest, AFenceOfAnOverrideWaitsUntilItsKeysCanBeTold) {
  AttachWithLease();
  ASSERT_TRUE(key_.starts_with("k")) << key_;
  std::optional<WriteGuard> write = client_testing::Must(core_->Begin(key_, Word(1)));
  core_->SetTasks({MakeTask(FenceTask{HashRangeSet::Whole(1), Epoch(1)})});
  EXPECT_TRUE(core_->TakeReports().empty());
  EXPECT_OK(write->StillHeld()) << "the rule is not known yet";
  const Membership::Ptr ruled = WithRule(*membership_, 0);
  core_->OnMembership(ruled);
  EXPECT_TRUE(core_->TakeReports().empty()) << "a write that may be acknowledged is in flight";
  EXPECT_EQ(RefusalOf(core_->Begin(key_, Word(1)).status())->reason, RefusalReason::kFencing);
  EXPECT_EQ(core_->PointOf(key_).plane, 1u);
  write.reset();
  EXPECT_EQ(std::get<FenceAck>(Next().body).floor, Epoch(1));
}

// The key has its epoch 1 again at the end, and was elsewhere in between.
TEST_F(GuardCoreTest, AWriteThatOutlivesAnOverrideIsNotAcknowledged) {
  for (const bool seen : {true, false}) {
    SCOPED_TRACE(seen);
    AttachWithLease();
    ASSERT_OK_AND_ASSIGN(WriteGuard write, core_->Begin(key_, Word(1)));
    const Membership::Ptr away = WithRule(*WithRule(*membership_, 0), 6, 1);
    if (seen) core_->OnMembership(away);
    core_->OnMembership(WithRule(*away, std::nullopt));
    EXPECT_THAT(write.StillHeld(), StatusIs(absl::StatusCode::kUnknown));
    EXPECT_OK(core_->Begin(key_, Word(1)).status()) << "new ones are";
  }
}

// When a rule ends, its keys are where they hash to again: what this node had of them is found by
// where they are now, and not by the plane on which they were.
TEST_F(GuardCoreTest, WhatAnEndedOverrideHadIsReleased) {
  std::mutex mutex;
  HashRangeSet released;
  options_.on_release = [&](const HashRangeSet& ranges) {
    const std::lock_guard<std::mutex> lock(mutex);
    released = released.Union(ranges);
    return absl::OkStatus();
  };
  const Membership::Ptr plain = membership_;
  membership_ = WithRule(*WithRule(*plain, 0), 6, 0);
  AttachWithLease();
  const std::string others = KeyOwnedBy(*plain, "b");
  ASSERT_TRUE(others.starts_with("k")) << others;
  EXPECT_EQ(core_->PointOf(others).plane, 1u);
  core_->OnMembership(WithRule(*membership_, std::nullopt));
  EXPECT_OK(WaitFor("the release of what hashes to b", kDefaultWait, [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    return released.Contains(core_->PointOf(others));
  }));
  const std::lock_guard<std::mutex> lock(mutex);
  EXPECT_FALSE(released.Contains(core_->PointOf(key_))) << "its own";
}

// A task may come by the session before its map comes by the watch.
TEST_F(GuardCoreTest, WarmingAnOverrideWaitsUntilItsKeysCanBeTold) {
  std::atomic<int> warmed = 0;
  options_.on_warm = [&](const HashRangeSet& ranges) {
    EXPECT_EQ(ranges, HashRangeSet::Whole(1));
    EXPECT_EQ(core_->PointOf(key_).plane, 1u) << "the application can find the keys";
    ++warmed;
    return absl::OkStatus();
  };
  AttachWithLease();
  WarmTask warm;
  warm.sources = {{"b", "127.0.0.1:9000", HashRangeSet::Whole(1)}};
  core_->SetTasks({MakeTask(warm)});
  core_->OnMembership(WithRule(*WithRule(*membership_, 0), 6, 1));
  EXPECT_TRUE(std::get<WarmReport>(Next().body).caught_up);
  EXPECT_EQ(warmed, 1);
}

}  // namespace
}  // namespace warmring
