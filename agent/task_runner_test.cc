#include "agent/task_runner.h"

#include <atomic>
#include <map>

#include "agent/transfer/pair_testing.h"

// A node does what the newest list of tasks says, once, and says what came of it; a list that is
// repeated, reordered or late does no harm, and a task that has left the list leaves nothing
// behind.

namespace warmring {
namespace {

using support::kDefaultWait;
using support::WaitFor;

const Id128 kNonce{1, 2};

class TaskRunnerTest : public testing::Test {
 protected:
  void SetUp() override {
    a_.Attach();
    b_.Attach();
    for (TestNode* node : {&a_, &b_}) node->Install(MovingMap(1, 0, 0));
    for (int i = 0; i < 500; ++i) ASSERT_OK(a_.engine().Set(TestKey(i), "value"));
    for (TestNode* node : {&a_, &b_}) node->Install(MovingMap(2, 2, 0));
    a_.Serve();
    Begin();
  }

  void Begin() {
    donor_ = std::make_unique<TaskRunner>(
        a_.Context(), [this] { ++due_; }, [this] { a_.server().Nudge(); });
    recipient_ = std::make_unique<TaskRunner>(
        b_.Context(), [this] { ++due_; }, [] {});
    donor_->SetIncarnation(Incarnation{{1, 1}});
    recipient_->SetIncarnation(Incarnation{{2, 2}});
  }

  Task Warm() {
    return {kTestMigration, 0, kNonce, WarmTask{{{"a", a_.Address(), Quarters(0, 2)}}, {}}};
  }
  Task Fence() { return {kTestMigration, 0, kNonce, FenceTask{Quarters(0, 1), Epoch(9)}}; }
  Task Prepare(const FenceAck& ack) {
    PrepareTask prepare;
    prepare.epoch = Epoch(10);
    prepare.donors = {{{"a", a_.Address(), Quarters(0, 1)}, ack.log_id, ack.watermark}};
    return {kTestMigration, 0, kNonce, prepare};
  }

  template <typename Report>
  Report Await(
      TaskRunner& runner,
      const std::function<bool(const Report&)>& wanted = [](const Report&) { return true; }) {
    Report found;
    EXPECT_OK(WaitFor("report", kDefaultWait, [&] {
      for (const TaskReport& report : runner.TakeReports()) {
        const auto* body = std::get_if<Report>(&report.body);
        if (body == nullptr || !wanted(*body)) continue;
        found = *body;
        return true;
      }
      return false;
    }));
    return found;
  }
  void AwaitCaughtUp() {
    Await<WarmReport>(*recipient_, [](const WarmReport& report) { return report.caught_up; });
  }

  support::FakeClock clock_;
  TestNode a_{"a", &clock_};
  TestNode b_{"b", &clock_};
  std::atomic<int> due_ = 0;
  std::unique_ptr<TaskRunner> donor_;
  std::unique_ptr<TaskRunner> recipient_;
};

TEST_F(TaskRunnerTest, AWaveFromWarmToPrepared) {
  recipient_->SetTasks({Warm()});
  AwaitCaughtUp();
  EXPECT_GT(due_, 0);
  donor_->SetTasks({Fence()});
  const auto ack = Await<FenceAck>(*donor_);
  EXPECT_EQ(ack.floor, Epoch(9));
  recipient_->SetTasks({Warm(), Prepare(ack)});
  const auto prepared = Await<PreparedReport>(*recipient_);
  EXPECT_EQ(prepared.epoch, Epoch(10));
  EXPECT_EQ(prepared.log_ids, std::vector<std::string>{ack.log_id});
  EXPECT_GE(prepared.applied.at(0), ack.watermark);
}

// The server, or the donor's agent, was restarted and asked the donor again.
TEST_F(TaskRunnerTest, AHigherWatermarkAsksForAnotherPromise) {
  recipient_->SetTasks({Warm()});
  AwaitCaughtUp();
  donor_->SetTasks({Fence()});
  const auto ack = Await<FenceAck>(*donor_);
  recipient_->SetTasks({Warm(), Prepare(ack)});
  Await<PreparedReport>(*recipient_);
  for (int i = 0; i < 100; ++i) {
    if (!InQuarters(TestKey(i), 1, 2)) continue;
    ASSERT_OK(a_.engine().Set(TestKey(i), "not fenced"));
  }
  const auto later = a_.engine().Fence(kTestMigration, Epoch(9), Quarters(0, 1));
  ASSERT_OK(later);
  FenceAck newer = ack;
  newer.watermark = later->watermark.position;
  ASSERT_GT(newer.watermark, ack.watermark);
  recipient_->SetTasks({Warm(), Prepare(newer)});
  const auto prepared = Await<PreparedReport>(*recipient_);
  EXPECT_GE(prepared.applied.at(0), newer.watermark);
}

TEST_F(TaskRunnerTest, AReportNamesItsTaskNodeAndIncarnation) {
  donor_->SetTasks({Fence()});
  std::vector<TaskReport> reports;
  ASSERT_OK(WaitFor("report", kDefaultWait, [&] {
    reports = donor_->TakeReports();
    return !reports.empty();
  }));
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].migration, kTestMigration);
  EXPECT_EQ(reports[0].wave, 0u);
  EXPECT_EQ(reports[0].nonce, kNonce);
  EXPECT_EQ(reports[0].node, "a");
  EXPECT_EQ(reports[0].incarnation, (Incarnation{{1, 1}}));
}

TEST_F(TaskRunnerTest, ARepeatedListDoesNothingTwice) {
  donor_->SetTasks({Fence()});
  Await<FenceAck>(*donor_);
  for (int i = 0; i < 10; ++i) donor_->SetTasks({Fence()});
  EXPECT_TRUE(donor_->TakeReports().empty());
  recipient_->SetTasks({Warm()});
  AwaitCaughtUp();
  const size_t tracks = a_.engine().TrackCount();
  for (int i = 0; i < 10; ++i) recipient_->SetTasks({Warm()});
  EXPECT_EQ(a_.engine().TrackCount(), tracks);
}

TEST_F(TaskRunnerTest, ANewListenerHearsTheNewestOfEachTaskAgain) {
  donor_->SetTasks({Fence()});
  const auto ack = Await<FenceAck>(*donor_);
  EXPECT_TRUE(donor_->TakeReports().empty());
  donor_->RepeatReports();
  const std::vector<TaskReport> again = donor_->TakeReports();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(std::get<FenceAck>(again[0].body), ack);
}

TEST_F(TaskRunnerTest, ATaskThatLeftTheListIsOver) {
  recipient_->SetTasks({Warm()});
  AwaitCaughtUp();
  recipient_->SetTasks({});
  EXPECT_TRUE(recipient_->TakeReports().empty());
  EXPECT_OK(
      WaitFor("the stream's end", kDefaultWait, [this] { return a_.engine().TrackCount() == 0; }));
  ASSERT_OK(a_.engine().Set(TestKey(1), "later"));
  recipient_->RepeatReports();
  EXPECT_TRUE(recipient_->TakeReports().empty());
}

TEST_F(TaskRunnerTest, AFenceWaitsForItsEngineAndIsThenRaised) {
  a_.engine().SetDown(true);
  donor_->SetTasks({Fence()});
  EXPECT_TRUE(donor_->TakeReports().empty());
  a_.engine().SetDown(false);
  Await<FenceAck>(*donor_);
  int refused = 0;
  for (int i = 0; i < 500; ++i) {
    const bool in_range = InQuarters(TestKey(i), 0, 1);
    EXPECT_EQ(a_.engine().Set(TestKey(i), "x").ok(), !in_range) << TestKey(i);
    refused += in_range ? 1 : 0;
  }
  EXPECT_GT(refused, 50);
}

TEST_F(TaskRunnerTest, AnotherIncarnationBeginsAnew) {
  donor_->SetTasks({Fence()});
  Await<FenceAck>(*donor_);
  EXPECT_TRUE(donor_->Fenced(kTestMigration, Quarters(0, 1)).has_value());
  donor_->SetIncarnation(Incarnation{{1, 7}});
  EXPECT_FALSE(donor_->Fenced(kTestMigration, Quarters(0, 1)).has_value());
  donor_->RepeatReports();
  EXPECT_TRUE(donor_->TakeReports().empty()) << "what an earlier incarnation said is void";
  donor_->SetTasks({Fence()});
  std::vector<TaskReport> reports;
  ASSERT_OK(WaitFor("report", kDefaultWait, [&] {
    reports = donor_->TakeReports();
    return !reports.empty();
  }));
  EXPECT_EQ(reports[0].incarnation, (Incarnation{{1, 7}}));
}

TEST_F(TaskRunnerTest, FencedIsForTheWholeOfTheRanges) {
  donor_->SetTasks({Fence()});
  Await<FenceAck>(*donor_);
  EXPECT_TRUE(donor_->Fenced(kTestMigration, Quarters(0, 1)).has_value());
  EXPECT_FALSE(donor_->Fenced(kTestMigration, Quarters(0, 2)).has_value());
  EXPECT_FALSE(donor_->Fenced("another", Quarters(0, 1)).has_value());
}

// A new attempt purges; what is late of the old one must not land behind that.
TEST_F(TaskRunnerTest, ANewAttemptWaitsUntilTheOldOneIsClosed) {
  recipient_->SetTasks({Warm()});
  AwaitCaughtUp();
  b_.engine().SetDown(true);
  Task again = Warm();
  again.nonce = Id128{3, 4};
  recipient_->SetTasks({again});
  EXPECT_OK(WaitFor("the old stream's end", kDefaultWait,
                    [this] { return a_.engine().TrackCount() == 0; }));
  EXPECT_EQ(b_.engine().OpenTransferCount(), 1u) << "the engine could not be told yet";
  EXPECT_TRUE(recipient_->TakeReports().empty());
  b_.engine().SetDown(false);
  AwaitCaughtUp();
  EXPECT_EQ(b_.engine().OpenTransferCount(), 1u);
}

// The agent died after it had said "prepared", or before: it cannot know. If it began anew it would
// purge what the server may be about to commit.
TEST_F(TaskRunnerTest, AfterARestartInAFenceItNeitherPurgesNorVouches) {
  recipient_->SetTasks({Warm()});
  AwaitCaughtUp();
  donor_->SetTasks({Fence()});
  const auto ack = Await<FenceAck>(*donor_);
  recipient_->SetTasks({Warm(), Prepare(ack)});
  Await<PreparedReport>(*recipient_);
  const size_t keys = b_.engine().KeyCount();
  recipient_ = std::make_unique<TaskRunner>(
      b_.Context(), [this] { ++due_; }, [] {});
  recipient_->SetIncarnation(Incarnation{{2, 2}});
  due_ = 0;
  recipient_->SetTasks({Warm(), Prepare(ack)});
  EXPECT_GT(due_, 0);
  const auto failure = Await<TaskFailure>(*recipient_);
  EXPECT_TRUE(failure.restart);
  EXPECT_EQ(b_.engine().KeyCount(), keys);
  EXPECT_TRUE(recipient_->TakeReports().empty());
  // Once the wave is through, or given up, the rest goes on.
  for (TestNode* node : {&a_, &b_}) node->Install(MovingMap(3, 2, 1));
  Task rest = Warm();
  std::get<WarmTask>(rest.body).sources[0].ranges = Quarters(1, 2);
  recipient_->SetTasks({rest});
  AwaitCaughtUp();
  EXPECT_EQ(b_.engine().KeyCount(), keys);
}

TEST_F(TaskRunnerTest, VerifyIsPartOfTheTransfer) {
  Task verify{kTestMigration, 0, kNonce, VerifyTask{100}};
  recipient_->SetTasks({verify, Warm()});
  const auto report =
      Await<VerifyReport>(*recipient_, [](const VerifyReport& verified) { return verified.done; });
  EXPECT_EQ(report.compared, 100u);
  EXPECT_EQ(report.mismatched, 0u);
}

TEST_F(TaskRunnerTest, APurgeInsteadOfTheDonorsWord) {
  recipient_->SetTasks({Warm()});
  AwaitCaughtUp();
  PrepareTask prepare;
  prepare.mode = PrepareTask::Mode::kPurge;
  prepare.epoch = Epoch(10);
  prepare.donors = {{{"a", "", Quarters(0, 1)}, "", 0}};
  recipient_->SetTasks({Warm(), {kTestMigration, 0, kNonce, prepare}});
  const auto prepared = Await<PreparedReport>(*recipient_);
  EXPECT_EQ(prepared.mode, PrepareTask::Mode::kPurge);
  for (int i = 0; i < 500; ++i) {
    if (InQuarters(TestKey(i), 0, 1)) {
      EXPECT_EQ(b_.engine().Get(TestKey(i)), std::nullopt);
    }
  }
}

// Of two donors one has answered and one is lost: there is a task for each.
TEST_F(TaskRunnerTest, OnlyWhatALostDonorGaveIsDropped) {
  recipient_->SetTasks({Warm()});
  AwaitCaughtUp();
  donor_->SetTasks({Fence()});
  const auto ack = Await<FenceAck>(*donor_);
  PrepareTask purge;
  purge.mode = PrepareTask::Mode::kPurge;
  purge.epoch = Epoch(10);
  purge.donors = {{{"lost", "", Quarters(1, 2)}, "", 0}};
  const Task rest = {kTestMigration, 0, kNonce,
                     WarmTask{{{"a", a_.Address(), Quarters(0, 1)}}, {}}};
  recipient_->SetTasks({rest, Prepare(ack), {kTestMigration, 0, kNonce, purge}});
  std::map<PrepareTask::Mode, std::vector<NodeId>> prepared;
  ASSERT_OK(WaitFor("both answers", kDefaultWait, [&] {
    for (const TaskReport& report : recipient_->TakeReports()) {
      const auto* body = std::get_if<PreparedReport>(&report.body);
      if (body != nullptr) prepared[body->mode] = body->donors;
    }
    return prepared.size() == 2;
  }));
  EXPECT_EQ(prepared[PrepareTask::Mode::kChanges], std::vector<NodeId>{"a"});
  EXPECT_EQ(prepared[PrepareTask::Mode::kPurge], std::vector<NodeId>{"lost"});
  for (int i = 0; i < 500; ++i) {
    if (!InQuarters(TestKey(i), 0, 2)) continue;
    EXPECT_EQ(b_.engine().Get(TestKey(i)).has_value(), InQuarters(TestKey(i), 0, 1)) << i;
  }
}

TEST_F(TaskRunnerTest, OneMoreLostDonorIsAnotherAnswer) {
  recipient_->SetTasks({Warm()});
  AwaitCaughtUp();
  PrepareTask purge;
  purge.mode = PrepareTask::Mode::kPurge;
  purge.epoch = Epoch(10);
  purge.donors = {{{"lost", "", Quarters(1, 2)}, "", 0}};
  recipient_->SetTasks({{kTestMigration, 0, kNonce, purge}});
  EXPECT_EQ(Await<PreparedReport>(*recipient_).donors, std::vector<NodeId>{"lost"});
  // Nothing is new about an address, or the same donors again.
  purge.donors[0].source.transfer_address = "127.0.0.1:1";
  recipient_->SetTasks({{kTestMigration, 0, kNonce, purge}});
  EXPECT_TRUE(recipient_->TakeReports().empty());
  purge.donors.push_back({{"too", "", Quarters(0, 1)}, "", 0});
  recipient_->SetTasks({{kTestMigration, 0, kNonce, purge}});
  EXPECT_EQ(Await<PreparedReport>(*recipient_).donors, (std::vector<NodeId>{"lost", "too"}));
  for (int i = 0; i < 500; ++i) {
    if (!InQuarters(TestKey(i), 0, 2)) continue;
    EXPECT_EQ(b_.engine().Get(TestKey(i)), std::nullopt) << i;
  }
}

}  // namespace
}  // namespace warmring
