#include "client/sync/membership_watch.h"

#include <mutex>
#include <thread>

#include "client/base/membership_testing.h"
#include "client/base/scripted_server_testing.h"
#include "client/base/warning.h"
#include "client/sync/last_known_good.h"
#include "client/sync/membership_watch_driver.h"
#include "core/membership/encoding.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait.h"

// The driver around the machine: threads, waiting callers, the file, and an end
// that never hangs.

namespace warmring {
namespace {

using client_testing::kKeyspace;
using client_testing::MakeDelta;
using client_testing::MakeMembership;
using client_testing::NextVersion;
using client_testing::TwoNodes;
using support::kDefaultWait;
using support::WaitFor;

using ScriptedWatch = client_testing::ScriptedServer<WatchStream, WatchRequest, WatchMessage>;

class ScriptedTransport final : public WatchTransport {
 public:
  explicit ScriptedTransport(ScriptedWatch* server) : server_(server) {}
  std::unique_ptr<WatchStream> Open(const std::string& endpoint) override {
    return std::make_unique<ScriptedWatch::StreamImpl>(server_->NewStream(endpoint));
  }

 private:
  ScriptedWatch* const server_;
};

class MembershipWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(dir_, support::TempDir::Create("watch"));
    options_.keyspace = kKeyspace;
    options_.endpoints = {"127.0.0.1:1", "127.0.0.1:2"};
    options_.cache_file = dir_->File("membership");
    options_.backoff_min = absl::Milliseconds(1);
    options_.backoff_max = absl::Milliseconds(5);
  }

  std::unique_ptr<MembershipWatch> Start() {
    WatchSeams seams;
    seams.transport = std::make_unique<ScriptedTransport>(&server_);
    seams.decode = [](std::string_view bytes) { return DecodeMembership(bytes); };
    return client_testing::Must(StartWatch(
        options_,
        [this](const Membership::Ptr& membership) {
          const std::lock_guard<std::mutex> lock(mutex_);
          heard_.push_back(membership->version().value);
        },
        std::move(seams)));
  }
  std::vector<uint64_t> Heard() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return heard_;
  }
  // The newest stream, once the driver has subscribed on it.
  ScriptedWatch::Stream Subscribed(size_t count = 1) {
    EXPECT_OK(WaitFor("a subscription", kDefaultWait, [&] {
      return server_.Opened() >= count && !ScriptedWatch::Sent(server_.Latest()).empty();
    }));
    return server_.Latest();
  }
  static WatchMessage Whole(const Membership& membership) {
    return SnapshotPiece{membership.version(), 0, 1, EncodeMembership(membership.data())};
  }

  std::unique_ptr<support::TempDir> dir_;
  ScriptedWatch server_;
  MembershipWatchOptions options_;
  std::mutex mutex_;
  std::vector<uint64_t> heard_;
};

TEST_F(MembershipWatchTest, FollowsVersionsAcknowledgesAndTellsTheListenerInOrder) {
  const auto watch = Start();
  EXPECT_EQ(watch->Current(), nullptr);
  EXPECT_EQ(watch->Staleness(), absl::InfiniteDuration());
  const auto stream = Subscribed();
  const Membership::Ptr first = MakeMembership(TwoNodes());
  ScriptedWatch::Send(stream, Whole(*first));
  ScriptedWatch::Send(stream, MakeDelta(*first, Update{}));
  ASSERT_OK(watch->WaitForVersion(Version(2), kDefaultWait));
  EXPECT_EQ(watch->Current()->version(), Version(2));
  ScriptedWatch::Send(stream, WatchProgress{Version(2), 9});
  ASSERT_OK(WaitFor("progress", kDefaultWait, [&] { return watch->Watchers() == 9; }));
  EXPECT_OK(watch->ConnectionStatus());
  EXPECT_LT(watch->Staleness(), absl::Minutes(1));
  EXPECT_EQ(Heard(), (std::vector<uint64_t>{1, 2}));
  const std::vector<WatchRequest> want = {WatchSubscribe{}, WatchAcknowledge{Version(1)},
                                          WatchAcknowledge{Version(2)}};
  EXPECT_EQ(ScriptedWatch::Sent(stream), want);
}

TEST_F(MembershipWatchTest, ReconnectsInTurnAndResumes) {
  const auto watch = Start();
  const Membership::Ptr first = MakeMembership(TwoNodes());
  const auto stream = Subscribed();
  ScriptedWatch::Send(stream, Whole(*first));
  ASSERT_OK(watch->WaitForVersion(Version(1), kDefaultWait));
  server_.Refuse(true);
  ScriptedWatch::End(stream, absl::UnavailableError("going down"));
  ASSERT_OK(WaitFor("two failures", kDefaultWait, [&] { return server_.Opened() >= 3; }));
  EXPECT_EQ(watch->Current()->version(), Version(1));
  server_.Refuse(false);
  const size_t before = server_.Opened();
  const auto again = Subscribed(before + 1);
  const std::vector<WatchRequest> resumes = {WatchSubscribe{first->history(), Version(1)}};
  EXPECT_EQ(ScriptedWatch::Sent(again), resumes);
  const std::vector<std::string> endpoints = server_.Endpoints();
  EXPECT_EQ(endpoints[0], "127.0.0.1:1");
  EXPECT_EQ(endpoints[1], "127.0.0.1:2");
  EXPECT_EQ(endpoints[2], "127.0.0.1:1");
}

TEST_F(MembershipWatchTest, WaitingForAVersionThatDoesNotComeSaysWhy) {
  server_.Refuse(true);
  const auto watch = Start();
  ASSERT_OK(WaitFor("a refusal", kDefaultWait, [&] { return server_.Opened() >= 2; }));
  EXPECT_THAT(watch->WaitForVersion(Version(7), absl::Milliseconds(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, "connection refused"));
}

TEST_F(MembershipWatchTest, StartsFromTheFileWhileEveryServerIsDown) {
  const Membership::Ptr third = NextVersion(*NextVersion(*MakeMembership(TwoNodes())));
  ASSERT_OK(LastKnownGood(options_.cache_file).Write(*third));
  server_.Refuse(true);
  const auto watch = Start();
  ASSERT_OK(watch->WaitForVersion(Version(3), kDefaultWait));
  EXPECT_EQ(watch->Current()->digest(), third->digest());
  EXPECT_EQ(watch->Staleness(), absl::InfiniteDuration());
}

TEST_F(MembershipWatchTest, WritesTheFileAtANewVersion) {
  const auto watch = Start();
  ScriptedWatch::Send(Subscribed(), Whole(*MakeMembership(TwoNodes(), Version(5))));
  ASSERT_OK(WaitFor("the file", kDefaultWait, [&] {
    const auto read = LastKnownGood(options_.cache_file).Read(kKeyspace);
    return read.ok() && (*read)->version() == Version(5);
  }));
}

TEST_F(MembershipWatchTest, ACorruptFileIsWarnedAboutAndAForeignOneIsRefused) {
  std::string warning;
  SetWarningSink([&](std::string_view text) { warning = text; });
  MembershipData foreign = client_testing::MakeData(TwoNodes());
  foreign.spec.id = "carts";
  ASSERT_OK(
      LastKnownGood(options_.cache_file).Write(*client_testing::Must(Membership::Create(foreign))));
  EXPECT_THAT(MembershipWatch::Start(options_),
              StatusIs(absl::StatusCode::kInvalidArgument, "carts"));
  options_.cache_file = dir_->Path();
  EXPECT_EQ(Start()->Current(), nullptr);
  EXPECT_NE(warning.find("ignored"), std::string::npos) << warning;
  SetWarningSink(nullptr);
}

TEST_F(MembershipWatchTest, BadOptionsAreNamed) {
  options_.keyspace = "Bad Name";
  EXPECT_THAT(MembershipWatch::Start(options_),
              StatusIs(absl::StatusCode::kInvalidArgument, "keyspace"));
  options_.keyspace = kKeyspace;
  options_.endpoints = {"no-port"};
  EXPECT_THAT(MembershipWatch::Start(options_),
              StatusIs(absl::StatusCode::kInvalidArgument, "no-port"));
  options_.endpoints.clear();
  EXPECT_THAT(MembershipWatch::Start(options_),
              StatusIs(absl::StatusCode::kInvalidArgument, "endpoints"));
}

TEST_F(MembershipWatchTest, EndsAtAnyMomentAlsoUnderAFlood) {
  const Membership::Ptr first = MakeMembership(TwoNodes());
  for (int round = 0; round < 20; ++round) {
    const size_t before = server_.Opened();
    const auto watch = Start();
    if (round % 2 == 0) {
      const auto stream = Subscribed(before + 1);
      for (int i = 0; i < 100; ++i) ScriptedWatch::Send(stream, WatchProgress{Version(1), 1});
    }
  }
}

// Over gRPC, at an address where nobody listens: the trouble is told, and
// ending does not hang.
TEST_F(MembershipWatchTest, TheRealTransportReportsADeadServer) {
  ASSERT_OK_AND_ASSIGN(const auto watch, MembershipWatch::Start(options_));
  ASSERT_OK(WaitFor("the trouble", kDefaultWait, [&] {
    const absl::Status status = watch->ConnectionStatus();
    return absl::IsUnavailable(status) && status.message() != "not connected yet";
  }));
}

}  // namespace
}  // namespace warmring
