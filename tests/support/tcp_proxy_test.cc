#include "tests/support/tcp_proxy.h"

#include <future>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/redis_server.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

// A fault that the proxy does not make is a test that proves nothing.

namespace warmring::support {
namespace {

using Direction = TcpProxy::Direction;

class TcpProxyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(redis_, RedisServer::Start());
    ASSERT_OK_AND_ASSIGN(proxy_, TcpProxy::Start(redis_->Port()));
    ASSERT_OK_AND_ASSIGN(connection_, RedisConnection::Connect(proxy_->Port()));
    ASSERT_OK_AND_ASSIGN(const RedisReply reply, connection_->Command({"SET", "k", "before"}));
    EXPECT_EQ(reply, RedisReply::Status("OK"));
  }

  std::future<absl::StatusOr<RedisReply>> InBackground(std::vector<std::string> words) {
    return std::async(std::launch::async,
                      [this, words = std::move(words)] { return connection_->Command(words); });
  }
  std::string Stored() { return redis_->Command({"GET", "k"})->text; }

  std::unique_ptr<RedisServer> redis_;
  std::unique_ptr<TcpProxy> proxy_;
  std::unique_ptr<RedisConnection> connection_;
};

TEST_F(TcpProxyTest, WhatIsHeldArrivesLate) {
  proxy_->Hold(Direction::kToServer, true);
  const uint64_t before = proxy_->Passed(Direction::kToServer);
  auto reply = InBackground({"SET", "k", "after"});
  EXPECT_EQ(reply.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  EXPECT_EQ(Stored(), "before");
  EXPECT_EQ(proxy_->Passed(Direction::kToServer), before);
  proxy_->Heal();
  EXPECT_OK(reply.get());
  EXPECT_EQ(Stored(), "after");
}

TEST_F(TcpProxyTest, HoldsOneDirectionOnly) {
  proxy_->Hold(Direction::kToClient, true);
  auto reply = InBackground({"SET", "k", "after"});
  EXPECT_OK(WaitFor("the command to run", kDefaultWait, [this] { return Stored() == "after"; }));
  EXPECT_EQ(reply.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  proxy_->Heal();
  EXPECT_OK(reply.get());
}

TEST_F(TcpProxyTest, ResetsAndRefuses) {
  proxy_->Refuse(true);
  proxy_->ResetAll();
  EXPECT_THAT(connection_->Command({"PING"}), StatusIs(absl::StatusCode::kUnavailable));
  const auto refused = RedisConnection::Connect(proxy_->Port());
  EXPECT_FALSE(refused.ok() && (*refused)->Command({"PING"}).ok());
  proxy_->Heal();
  ASSERT_OK_AND_ASSIGN(connection_, RedisConnection::Connect(proxy_->Port()));
  EXPECT_OK(connection_->Command({"PING"}));
}

TEST_F(TcpProxyTest, DelaysAndLimitsTheRate) {
  proxy_->Delay(Direction::kToServer, absl::Milliseconds(60));
  const absl::Time begin = absl::Now();
  EXPECT_OK(connection_->Command({"PING"}));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(60));
  proxy_->Heal();
  proxy_->LimitRate(Direction::kToServer, 100'000);
  const absl::Time slow = absl::Now();
  EXPECT_OK(connection_->Command({"SET", "k", std::string(10'000, 'x')}));
  EXPECT_GE(absl::Now() - slow, absl::Milliseconds(80));
}

TEST_F(TcpProxyTest, CutsAfterSoManyBytes) {
  proxy_->CutAfter(Direction::kToServer, proxy_->Passed(Direction::kToServer) + 1000);
  EXPECT_THAT(connection_->Command({"SET", "k", std::string(10'000, 'x')}),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(Stored(), "before");
}

TEST_F(TcpProxyTest, HalfCloses) {
  proxy_->HalfCloseAll(Direction::kToServer);
  // Redis ends a connection whose other side has nothing more to say.
  EXPECT_OK(WaitFor("the end of the connection", kDefaultWait,
                    [this] { return proxy_->Connections() == 0; }));
}

}  // namespace
}  // namespace warmring::support
