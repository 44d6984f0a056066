// At no time may two incarnations of an owner hold a lease that the server granted, whatever order
// their streams come in and whenever the server restarts; and the server never believes too little.

#include "server/sessions/sessions.h"

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "server/executor/manual_executor_testing.h"
#include "server/store/memory/memory_store.h"
#include "server/store/schema/key.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

constexpr absl::Duration kLease = absl::Seconds(10);
constexpr absl::Duration kBelief = absl::Milliseconds(10'200);

class FakeLink final : public SessionLink {
 public:
  void Send(SessionMessage message) override { sent.push_back(std::move(message)); }
  void Close(absl::Status status) override { closed = std::move(status); }

  template <typename T>
  std::vector<T> All() const {
    std::vector<T> all;
    for (const SessionMessage& message : sent) {
      if (const T* one = std::get_if<T>(&message)) all.push_back(*one);
    }
    return all;
  }
  size_t Grants() const { return All<LeaseGrant>().size(); }

  std::vector<SessionMessage> sent;
  std::optional<absl::Status> closed;
};

SessionHello Hello(const NodeId& node, uint64_t incarnation) {
  SessionHello hello;
  hello.node = node;
  hello.incarnation.low = incarnation;
  hello.transfer_address = "127.0.0.1:1";
  return hello;
}

class SessionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    KeyspaceSpec spec;
    spec.id = "sessions";
    Node node;
    node.id = "a";
    node.address = "10.0.0.1:6379";
    auto change = Keyspace::Create(HistoryId(), spec, {node}, {}, clock_.Wall());
    ASSERT_OK(change);
    keyspace_ = std::make_unique<Keyspace>(change->next);
    Start();
  }

  // A (re)start of the server: memory is gone, the store and the owners' leases are not.
  void Start() {
    ASSERT_OK_AND_ASSIGN(StoreIdentity identity, BeginTerm(store_, HistoryId()));
    strand_ = std::make_unique<ManualExecutor>(&clock_);
    committer_ = std::make_unique<Committer>(&store_, strand_.get(),
                                             [this](const absl::Status& s) { lost_ = s; });
    Sessions::Environment env;
    env.clock = &clock_;
    env.strand = strand_.get();
    env.committer = committer_.get();
    env.keyspace = keyspace_.get();
    env.identity = identity;
    env.lease = lease_;
    env.on_change = [this] { ++changes_; };
    env.on_report = [this](const TaskReport& report) { reports_.push_back(report); };
    sessions_ = std::make_unique<Sessions>(env);
    ASSERT_OK_AND_ASSIGN(const auto stored, ScanPrefix(store_, schema::SessionsPrefix("sessions")));
    for (const KeyValue& entry : stored) {
      ASSERT_OK_AND_ASSIGN(const schema::SessionRecord record, schema::DecodeSession(entry.value));
      sessions_->Restore(entry.key.substr(schema::SessionsPrefix("sessions").size()), record);
    }
  }

  std::shared_ptr<FakeLink> Open(StreamId stream, uint64_t incarnation) {
    auto link = std::make_shared<FakeLink>();
    sessions_->Open(stream, Hello("a", incarnation), link);
    return link;
  }
  void Renew(StreamId stream, uint64_t seq) {
    SessionRenewal renewal;
    renewal.seq = seq;
    renewal.applied_version = Version(1);
    sessions_->Renew(stream, renewal);
    strand_->RunUntilIdle();
  }
  Instant Belief() { return sessions_->Facts().at("a").belief_until; }

  ManualClock clock_;
  MemoryStore store_;
  std::unique_ptr<Keyspace> keyspace_;
  std::unique_ptr<ManualExecutor> strand_;
  std::unique_ptr<Committer> committer_;
  std::unique_ptr<Sessions> sessions_;
  absl::Duration lease_ = kLease;
  int changes_ = 0;
  std::vector<TaskReport> reports_;
  std::optional<absl::Status> lost_;
};

TEST_F(SessionsTest, NothingIsGrantedBeforeTheSessionIsDurable) {
  const auto link = Open(1, 7);
  SessionRenewal renewal;
  renewal.seq = 1;
  sessions_->Renew(1, renewal);
  EXPECT_TRUE(link->sent.empty());
  ASSERT_OK_AND_ASSIGN(auto stored, store_.Get(schema::SessionKey("sessions", "a")));
  EXPECT_EQ(stored, std::nullopt);
  strand_->RunUntilIdle();
  ASSERT_OK_AND_ASSIGN(stored, store_.Get(schema::SessionKey("sessions", "a")));
  EXPECT_TRUE(stored.has_value());
  ASSERT_EQ(link->sent.size(), 3u);
  EXPECT_EQ(std::get<SessionWelcome>(link->sent[0]).lease, kLease);
  EXPECT_TRUE(std::get<SessionTasks>(link->sent[1]).tasks.empty());
  const auto& grant = std::get<LeaseGrant>(link->sent[2]);
  EXPECT_EQ(grant.seq, 1u);
  EXPECT_EQ(grant.version, Version(1));
  EXPECT_EQ(grant.term, Term(1));
  EXPECT_EQ(Belief(), clock_.Boot() + kBelief);
  EXPECT_GT(changes_, 0);
}

// A server that grants shorter leases believes in the longer ones of its predecessors for as long
// as those said.
TEST_F(SessionsTest, LongerLeasesOfAnEarlierServerAreBelievedIn) {
  lease_ = absl::Minutes(1);
  Start();
  Open(1, 7);
  Renew(1, 1);
  const Instant long_belief = Belief();
  for (int restarts = 0; restarts < 3; ++restarts) {
    lease_ = kLease;
    strand_->Advance(absl::Seconds(1));
    Start();
    EXPECT_GE(Belief(), long_belief);
    EXPECT_EQ(Belief(), clock_.Boot() + SessionTable::Belief(absl::Minutes(1)));
    Open(1, 7);  // written anew in this term
    strand_->RunUntilIdle();
  }
  // Nobody can hold one any more.
  strand_->Advance(SessionTable::Belief(absl::Minutes(1)));
  Start();
  Open(1, 7);
  strand_->RunUntilIdle();
  strand_->Advance(SessionTable::Belief(absl::Minutes(1)));
  Open(2, 8);  // the record says the present lease now
  strand_->RunUntilIdle();
  Start();
  EXPECT_EQ(Belief(), clock_.Boot() + kBelief);
}

TEST_F(SessionsTest, ANewIncarnationWaitsForTheOldOnesLease) {
  Open(1, 7);
  Renew(1, 1);
  const Instant old_belief = Belief();
  strand_->Advance(absl::Seconds(2));
  sessions_->Closed(1);
  const auto link = Open(2, 8);
  Renew(2, 1);
  EXPECT_EQ(link->Grants(), 0u);
  strand_->Advance(absl::Seconds(5));
  Renew(2, 2);
  EXPECT_EQ(link->Grants(), 0u);
  EXPECT_EQ(Belief(), old_belief);
  strand_->Advance(old_belief - clock_.Boot());
  // Without another renewal: the newest one is answered as soon as it may be, once.
  ASSERT_EQ(link->Grants(), 1u);
  EXPECT_EQ(link->All<LeaseGrant>()[0].seq, 2u);
  EXPECT_EQ(Belief(), old_belief + kBelief);
}

TEST_F(SessionsTest, TheSameIncarnationDoesNotWait) {
  Open(1, 7);
  Renew(1, 1);
  sessions_->Closed(1);
  const auto link = Open(2, 7);
  Renew(2, 2);
  EXPECT_EQ(link->Grants(), 1u);
}

TEST_F(SessionsTest, ASecondStreamReplacesTheFirst) {
  const auto first = Open(1, 7);
  Renew(1, 1);
  const auto second = Open(2, 7);
  strand_->RunUntilIdle();
  ASSERT_TRUE(first->closed.has_value());
  EXPECT_THAT(*first->closed, StatusIs(absl::StatusCode::kAborted, "another session of node a"));
  Renew(1, 2);
  EXPECT_EQ(first->Grants(), 1u);
  Renew(2, 3);
  EXPECT_EQ(second->Grants(), 1u);
  // The end of the replaced stream is not the end of the session.
  sessions_->Closed(1);
  EXPECT_TRUE(sessions_->Facts().at("a").connected);
  sessions_->Closed(2);
  EXPECT_FALSE(sessions_->Facts().at("a").connected);
}

TEST_F(SessionsTest, AfterARestartEveryStoredSessionMayHoldALease) {
  Open(1, 7);
  Renew(1, 1);
  strand_->Advance(absl::Seconds(1));
  Start();
  EXPECT_EQ(Belief(), clock_.Boot() + kBelief);
  EXPECT_FALSE(sessions_->Facts().at("a").connected);
  const Instant start_belief = Belief();
  // The same incarnation goes on at once, and its fresh grant never shortens the belief.
  const auto same = Open(2, 7);
  Renew(2, 1);
  EXPECT_EQ(same->Grants(), 1u);
  EXPECT_GE(Belief(), start_belief);
  EXPECT_EQ(same->All<SessionWelcome>()[0].term, Term(2));
}

TEST_F(SessionsTest, AfterARestartANewIncarnationWaitsFromTheStart) {
  Open(1, 7);
  Renew(1, 1);
  Start();
  const auto link = Open(2, 8);
  Renew(2, 1);
  EXPECT_EQ(link->Grants(), 0u);
  strand_->Advance(kBelief);
  EXPECT_EQ(link->Grants(), 1u);
}

// 8 is persisted while 7 may hold a lease. Were the wait forgotten at the restart, 8 would be "the
// same incarnation" and be granted a lease beside 7's.
TEST_F(SessionsTest, ARestartDoesNotForgetThatAnIncarnationWaits) {
  Open(1, 7);
  Renew(1, 1);
  sessions_->Closed(1);
  Open(2, 8);
  Renew(2, 1);
  Start();
  const auto link = Open(3, 8);
  Renew(3, 1);
  EXPECT_EQ(link->Grants(), 0u);
  strand_->Advance(kBelief);
  EXPECT_EQ(link->Grants(), 1u);
  // Once it was granted a lease it is settled, and the next restart does not make it wait again.
  Start();
  const auto again = Open(4, 8);
  Renew(4, 1);
  EXPECT_EQ(again->Grants(), 1u);
}

TEST_F(SessionsTest, AnOldIncarnationThatComesBackIsANewOne) {
  Open(1, 7);
  Renew(1, 1);
  Open(2, 8);
  strand_->Advance(kBelief);
  Renew(2, 1);
  const Instant belief = Belief();
  const auto back = Open(3, 7);
  Renew(3, 5);
  EXPECT_EQ(back->Grants(), 0u);
  strand_->Advance(belief - clock_.Boot());
  EXPECT_EQ(back->Grants(), 1u);
}

TEST_F(SessionsTest, AStreamThatEndsWhileItIsPersistedLeavesAClosedSession) {
  const auto link = Open(1, 7);
  sessions_->Closed(1);
  strand_->RunUntilIdle();
  EXPECT_TRUE(link->sent.empty());
  EXPECT_FALSE(sessions_->Facts().at("a").connected);
  const auto second = Open(2, 7);
  Renew(2, 1);
  EXPECT_EQ(second->Grants(), 1u);
}

TEST_F(SessionsTest, TasksAreSentWhenTheyChangeAndAfterHello) {
  const auto link = Open(1, 7);
  strand_->RunUntilIdle();
  const Task task{"mig-1", 0, Id128{1, 1}, FenceTask{HashRangeSet::Whole(), Epoch(4)}};
  const Floor floor{HashRangeSet::Whole(), Epoch(4)};
  sessions_->SetWork({{"a", {task}}, {"b", {task}}}, {{"a", {floor}}});
  ASSERT_EQ(link->All<SessionTasks>().size(), 2u);
  EXPECT_EQ(link->All<SessionTasks>()[1].tasks, std::vector<Task>{task});
  sessions_->SetWork({{"a", {task}}}, {{"a", {floor}}});
  EXPECT_EQ(link->All<SessionTasks>().size(), 2u);
  Renew(1, 1);
  EXPECT_EQ(link->All<LeaseGrant>()[0].floors, std::vector<Floor>{floor});

  sessions_->Closed(1);
  const auto second = Open(2, 7);
  EXPECT_EQ(second->All<SessionTasks>()[0].tasks, std::vector<Task>{task});
  sessions_->SetWork({}, {});
  EXPECT_TRUE(second->All<SessionTasks>()[1].tasks.empty());
  Renew(2, 2);
  EXPECT_TRUE(second->All<LeaseGrant>()[0].floors.empty());
}

TEST_F(SessionsTest, AnOwnerSpeaksForItselfAlone) {
  Open(1, 7);
  strand_->RunUntilIdle();
  TaskReport report;
  report.node = "a";
  report.incarnation.low = 7;
  sessions_->Report(1, report);
  EXPECT_EQ(reports_.size(), 1u);
  report.node = "b";
  sessions_->Report(1, report);
  report.node = "a";
  report.incarnation.low = 8;
  sessions_->Report(1, report);
  report.incarnation.low = 7;
  sessions_->Report(9, report);
  EXPECT_EQ(reports_.size(), 1u);
}

// While 8 waits, 7 may be alive and write under its lease: that 8 refuses writes says nothing about
// 7, so it must not let a wave be committed.
TEST_F(SessionsTest, AFenceAckOfAnIncarnationThatWaitsCountsOnceItsPredecessorsLeaseIsOver) {
  Open(1, 7);
  Renew(1, 1);
  const Instant old_belief = Belief();
  Open(2, 8);
  strand_->RunUntilIdle();
  TaskReport ack;
  ack.node = "a";
  ack.incarnation.low = 8;
  ack.body = FenceAck{Epoch(4), "log", 10, false};
  TaskReport warm = ack;
  warm.body = WarmReport();
  sessions_->Report(2, ack);
  sessions_->Report(2, warm);
  ASSERT_EQ(reports_.size(), 1u) << "what is no evidence of a fence does not wait";
  EXPECT_TRUE(std::holds_alternative<WarmReport>(reports_[0].body));
  strand_->Advance(old_belief - clock_.Boot() + absl::Nanoseconds(-1));
  EXPECT_EQ(reports_.size(), 1u);
  strand_->Advance(absl::Nanoseconds(1));
  ASSERT_EQ(reports_.size(), 2u);
  EXPECT_EQ(std::get<FenceAck>(reports_[1].body).watermark, 10u);
  sessions_->Report(2, ack);
  EXPECT_EQ(reports_.size(), 3u);
}

TEST_F(SessionsTest, AFenceAckThatWaitsIsTakenBeforeALaterOneAndDiesWithItsStream) {
  Open(1, 7);
  Renew(1, 1);
  Open(2, 8);
  strand_->RunUntilIdle();
  TaskReport ack;
  ack.node = "a";
  ack.incarnation.low = 8;
  ack.body = FenceAck{Epoch(4), "log", 10, false};
  sessions_->Report(2, ack);
  // The clock is past the wait, and the timer has not run yet.
  clock_.Advance(kBelief);
  ack.body = FenceAck{Epoch(6), "log", 20, false};
  sessions_->Report(2, ack);
  ASSERT_EQ(reports_.size(), 2u);
  EXPECT_EQ(std::get<FenceAck>(reports_[0].body).floor, Epoch(4));
  EXPECT_EQ(std::get<FenceAck>(reports_[1].body).floor, Epoch(6));
  strand_->RunUntilIdle();
  EXPECT_EQ(reports_.size(), 2u);

  Renew(2, 1);
  Open(3, 9);
  strand_->RunUntilIdle();
  ack.incarnation.low = 9;
  sessions_->Report(3, ack);
  sessions_->Closed(3);
  strand_->Advance(kBelief);
  EXPECT_EQ(reports_.size(), 2u);
}

TEST_F(SessionsTest, AServerThatLostItsTermGrantsNothing) {
  ASSERT_OK(BeginTerm(store_, HistoryId()));
  const auto link = Open(1, 7);
  Renew(1, 1);
  EXPECT_TRUE(link->sent.empty());
  ASSERT_TRUE(lost_.has_value());
  EXPECT_THAT(*lost_, StatusIs(absl::StatusCode::kAborted, "another warmringd"));
}

}  // namespace
}  // namespace warmring
