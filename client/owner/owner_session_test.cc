#include "client/owner/owner_session.h"

#include <mutex>

#include "client/base/membership_testing.h"
#include "client/base/scripted_server_testing.h"
#include "client/owner/owner_session_driver.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

// An owner's session: attach before hello, renewals with one answer due at a time, grants, tasks
// and reports to the right side, and a new start whenever one side is another one.

namespace warmring {
namespace {

using client_testing::History;
using client_testing::kKeyspace;
using support::kDefaultWait;
using support::WaitFor;
using ScriptedSession =
    client_testing::ScriptedServer<SessionStream, SessionRequest, SessionResponse>;

class ScriptedTransport final : public SessionTransport {
 public:
  ScriptedTransport(ScriptedSession* server, HistoryId* history)
      : server_(server), history_(history) {}

  std::unique_ptr<SessionStream> Open(const std::string& endpoint) override {
    return std::make_unique<Stream>(server_->NewStream(endpoint), *history_);
  }

 private:
  class Stream final : public ScriptedSession::StreamImpl {
   public:
    Stream(ScriptedSession::Stream state, HistoryId history)
        : StreamImpl(std::move(state)), history_(history) {}
    absl::StatusOr<ServedKeyspace> Discover() override {
      return ServedKeyspace{history_, OnRestart::kTrust};
    }

   private:
    const HistoryId history_;
  };

  ScriptedSession* const server_;
  HistoryId* const history_;
};

class FakePort final : public OwnerPort {
 public:
  absl::StatusOr<Identity> Attach(const HistoryId& history, OnRestart on_restart) override {
    const std::lock_guard<std::mutex> lock(mutex);
    attached.push_back(history);
    EXPECT_EQ(on_restart, OnRestart::kTrust);
    if (!attach_status.ok()) return attach_status;
    return Identity{incarnation, "127.0.0.1:9", 10, "127.0.0.1:7001"};
  }
  absl::StatusOr<Renewal> Renew() override {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!renew_status.ok()) {
      if (absl::IsAborted(renew_status)) return std::exchange(renew_status, absl::OkStatus());
      return renew_status;
    }
    return Renewal{++seq, Version(3), 40, 500};
  }
  absl::Status Grant(const LeaseGrant& grant) override {
    const std::lock_guard<std::mutex> lock(mutex);
    grants.push_back(grant);
    return absl::OkStatus();
  }
  void SetTasks(const std::vector<Task>& list) override {
    const std::lock_guard<std::mutex> lock(mutex);
    tasks.push_back(list);
  }
  std::vector<TaskReport> TakeReports() override {
    const std::lock_guard<std::mutex> lock(mutex);
    return std::exchange(reports, {});
  }

  std::mutex mutex;
  Incarnation incarnation{{1, 2}};
  absl::Status attach_status;
  absl::Status renew_status;
  uint64_t seq = 0;
  std::vector<HistoryId> attached;
  std::vector<LeaseGrant> grants;
  std::vector<std::vector<Task>> tasks;
  std::vector<TaskReport> reports;
};

TaskReport Report(uint64_t keys) {
  TaskReport report;
  report.migration = "m1";
  report.body = WarmReport{true, false, keys, 0, 0};
  return report;
}

class OwnerSessionTest : public testing::Test {
 protected:
  OwnerSessionTest() {
    options_.endpoints = {"127.0.0.1:1"};
    options_.keyspace = kKeyspace;
    options_.node = "a";
    options_.backoff_min = absl::Milliseconds(1);
    options_.backoff_max = absl::Milliseconds(5);
  }

  std::unique_ptr<OwnerSession> Start() {
    SessionSeams seams;
    seams.transport = std::make_unique<ScriptedTransport>(&server_, &history_);
    return client_testing::Must(StartSession(options_, &port_, std::move(seams)));
  }
  // The stream number `count`, once its hello has come.
  ScriptedSession::Stream Greeted(size_t count = 1) {
    EXPECT_OK(WaitFor("a hello", kDefaultWait, [&] {
      return server_.Opened() >= count && !ScriptedSession::Sent(server_.Latest()).empty();
    }));
    const auto sent = ScriptedSession::Sent(server_.Latest());
    EXPECT_TRUE(std::holds_alternative<OwnerPort::Identity>(sent[0]));
    return server_.Latest();
  }
  void Welcome(const ScriptedSession::Stream& stream, absl::Duration lease, Term term = Term(1)) {
    ScriptedSession::Send(stream, SessionWelcome{history_, term, lease});
  }
  static std::vector<uint64_t> Renewals(const ScriptedSession::Stream& stream) {
    std::vector<uint64_t> seqs;
    for (const SessionRequest& request : ScriptedSession::Sent(stream)) {
      if (const auto* renewal = std::get_if<OwnerPort::Renewal>(&request)) {
        seqs.push_back(renewal->seq);
      }
    }
    return seqs;
  }
  static std::vector<uint64_t> Reported(const ScriptedSession::Stream& stream) {
    std::vector<uint64_t> keys;
    for (const SessionRequest& request : ScriptedSession::Sent(stream)) {
      if (const auto* report = std::get_if<TaskReport>(&request)) {
        keys.push_back(std::get<WarmReport>(report->body).keys);
      }
    }
    return keys;
  }
  void Grant(const ScriptedSession::Stream& stream, uint64_t seq, Term term = Term(1)) {
    LeaseGrant grant;
    grant.seq = seq;
    grant.term = term;
    grant.ttl = absl::Seconds(1);
    ScriptedSession::Send(stream, grant);
  }
  template <typename Read>
  auto Port(Read read) {
    const std::lock_guard<std::mutex> lock(port_.mutex);
    return read(port_);
  }

  OwnerSessionOptions options_;
  ScriptedSession server_;
  HistoryId history_ = History();
  FakePort port_;
};

TEST_F(OwnerSessionTest, AttachesGreetsRenewsAndPassesGrants) {
  const auto session = Start();
  const auto stream = Greeted();
  EXPECT_EQ(Port([](FakePort& port) { return port.attached; }), std::vector<HistoryId>{history_});
  const auto hello = std::get<OwnerPort::Identity>(ScriptedSession::Sent(stream)[0]);
  EXPECT_EQ(hello.incarnation, (Incarnation{{1, 2}}));
  EXPECT_EQ(hello.transfer_address, "127.0.0.1:9");
  EXPECT_FALSE(session->Connected());

  Welcome(stream, absl::Milliseconds(400));
  for (uint64_t seq = 1; seq <= 3; ++seq) {
    ASSERT_OK(WaitFor("a renewal", kDefaultWait, [&] { return Renewals(stream).size() >= seq; }));
    EXPECT_EQ(Renewals(stream).back(), seq);
    Grant(stream, seq);
    ASSERT_OK(WaitFor("the grant", kDefaultWait, [&] {
      return Port([](FakePort& port) { return port.grants.size(); }) >= seq;
    }));
  }
  EXPECT_TRUE(session->Connected());
  EXPECT_EQ(server_.Opened(), 1U);
}

TEST_F(OwnerSessionTest, AStreamWithoutGrantsIsGivenUpAfterALease) {
  const auto session = Start();
  const auto stream = Greeted();
  Welcome(stream, absl::Milliseconds(100));
  ASSERT_OK(WaitFor("a renewal", kDefaultWait, [&] { return !Renewals(stream).empty(); }));
  Grant(stream, 1);
  Greeted(2);
  EXPECT_GE(Port([](FakePort& port) { return port.attached.size(); }), 2U);
}

TEST_F(OwnerSessionTest, ARestartedOwnerIsAttachedAndGreetedAgain) {
  const auto session = Start();
  const auto stream = Greeted();
  Welcome(stream, absl::Milliseconds(200));
  ASSERT_OK(WaitFor("a renewal", kDefaultWait, [&] { return !Renewals(stream).empty(); }));
  {
    const std::lock_guard<std::mutex> lock(port_.mutex);
    port_.renew_status = absl::AbortedError("another incarnation");
    port_.incarnation = Incarnation{{3, 4}};
  }
  Grant(stream, 1);
  const auto again = Greeted(2);
  EXPECT_EQ(std::get<OwnerPort::Identity>(ScriptedSession::Sent(again)[0]).incarnation,
            (Incarnation{{3, 4}}));
}

TEST_F(OwnerSessionTest, AnOwnerThatCannotBeReachedKeepsItsSession) {
  const auto session = Start();
  const auto stream = Greeted();
  {
    const std::lock_guard<std::mutex> lock(port_.mutex);
    port_.renew_status = absl::UnavailableError("redis is away");
  }
  Welcome(stream, absl::Seconds(20));
  ASSERT_OK(WaitFor("the trouble", kDefaultWait,
                    [&] { return session->LastStatus().message() == "redis is away"; }));
  EXPECT_TRUE(session->Connected());
  EXPECT_TRUE(Renewals(stream).empty());
}

TEST_F(OwnerSessionTest, AnAttachThatFailsIsTriedAgain) {
  {
    const std::lock_guard<std::mutex> lock(port_.mutex);
    port_.attach_status = absl::UnavailableError("redis is away");
  }
  const auto session = Start();
  ASSERT_OK(WaitFor("three tries", kDefaultWait, [&] {
    return Port([](FakePort& port) { return port.attached.size(); }) >= 3;
  }));
  EXPECT_THAT(session->LastStatus(), StatusIs(absl::StatusCode::kUnavailable, "redis is away"));
  {
    const std::lock_guard<std::mutex> lock(port_.mutex);
    port_.attach_status = absl::OkStatus();
  }
  EXPECT_OK(WaitFor("a hello", kDefaultWait,
                    [&] { return !ScriptedSession::Sent(server_.Latest()).empty(); }));
}

TEST_F(OwnerSessionTest, TasksComeDownAndReportsGoUpInOrder) {
  const auto session = Start();
  const auto stream = Greeted();
  {
    const std::lock_guard<std::mutex> lock(port_.mutex);
    port_.reports = {Report(1)};
  }
  session->Notify();
  Welcome(stream, absl::Seconds(20));
  Task task;
  task.migration = "m1";
  task.body = VerifyTask{7};
  ScriptedSession::Send(stream, SessionTasks{Term(1), {task}});
  ASSERT_OK(WaitFor("tasks", kDefaultWait,
                    [&] { return Port([](FakePort& port) { return !port.tasks.empty(); }); }));
  EXPECT_EQ(Port([](FakePort& port) { return port.tasks[0]; }), std::vector<Task>{task});
  ASSERT_OK(WaitFor("a report", kDefaultWait, [&] { return Reported(stream).size() == 1; }));
  {
    const std::lock_guard<std::mutex> lock(port_.mutex);
    port_.reports = {Report(2), Report(3)};
  }
  session->Notify();
  ASSERT_OK(WaitFor("reports", kDefaultWait, [&] { return Reported(stream).size() == 3; }));
  EXPECT_EQ(Reported(stream), (std::vector<uint64_t>{1, 2, 3}));
}

TEST_F(OwnerSessionTest, WordsOfAnOlderTermAreNotFollowed) {
  const auto session = Start();
  auto stream = Greeted();
  Welcome(stream, absl::Seconds(20), Term(5));
  ScriptedSession::Send(stream, SessionTasks{Term(4), {}});
  Grant(stream, 1, Term(4));
  ScriptedSession::Send(stream, SessionTasks{Term(5), {Task{}}});
  ASSERT_OK(WaitFor("tasks", kDefaultWait,
                    [&] { return Port([](FakePort& port) { return !port.tasks.empty(); }); }));
  EXPECT_EQ(Port([](FakePort& port) { return port.tasks.size(); }), 1U);
  EXPECT_EQ(Port([](FakePort& port) { return port.grants.size(); }), 0U);
  // Nor its welcome, on another stream.
  ScriptedSession::End(stream, absl::UnavailableError("bye"));
  stream = Greeted(2);
  Welcome(stream, absl::Seconds(20), Term(4));
  Greeted(3);
}

TEST_F(OwnerSessionTest, AnotherHistoryInTheWelcomeStartsAnew) {
  const auto session = Start();
  const auto stream = Greeted();
  ScriptedSession::Send(stream, SessionWelcome{History(9), Term(1), absl::Seconds(1)});
  Greeted(2);
}

TEST_F(OwnerSessionTest, GarbageEndsTheStreamAndIsTold) {
  const auto session = Start();
  const auto stream = Greeted();
  ScriptedSession::Send(stream, SessionGarbage{absl::InvalidArgumentError("no content")});
  Greeted(2);
}

TEST_F(OwnerSessionTest, EndsAtAnyMoment) {
  for (int round = 0; round < 30; ++round) {
    const size_t before = server_.Opened();
    const auto session = Start();
    if (round % 3 == 1) Greeted(before + 1);
    if (round % 3 == 2) Welcome(Greeted(before + 1), absl::Milliseconds(20));
  }
}

TEST_F(OwnerSessionTest, BadOptionsAreNamed) {
  options_.node = "Bad Node";
  EXPECT_THAT(OwnerSession::Start(options_, &port_),
              StatusIs(absl::StatusCode::kInvalidArgument, "node"));
  options_.node = "a";
  EXPECT_THAT(OwnerSession::Start(options_, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, "port"));
  options_.endpoints.clear();
  EXPECT_THAT(OwnerSession::Start(options_, &port_),
              StatusIs(absl::StatusCode::kInvalidArgument, "endpoints"));
}

// Over gRPC, at an address where nobody listens.
TEST_F(OwnerSessionTest, TheRealTransportReportsADeadServer) {
  ASSERT_OK_AND_ASSIGN(const auto session, OwnerSession::Start(options_, &port_));
  ASSERT_OK(WaitFor("the trouble", kDefaultWait, [&] {
    const absl::Status status = session->LastStatus();
    return absl::IsUnavailable(status) && status.message() != "not connected yet";
  }));
}

}  // namespace
}  // namespace warmring
