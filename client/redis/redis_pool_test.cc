#include "client/redis/redis_pool.h"

#include <atomic>
#include <thread>

#include "gtest/gtest.h"
#include "tests/support/redis_server.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

// Against a real redis-server: bytes go through unchanged, errors of the server
// are replies, broken connections are thrown away, the bound holds, and a dead
// address fails at once.

namespace warmring {
namespace {

using Words = std::vector<std::string_view>;

Instant In(absl::Duration delay) { return BootNow() + delay; }

class RedisPoolTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(server_, support::RedisServer::Start()); }

  std::unique_ptr<support::RedisServer> server_;
};

TEST_F(RedisPoolTest, CommandsAreBinarySafeAndErrorsAreReplies) {
  ASSERT_OK_AND_ASSIGN(auto connection,
                       RedisConnection::Connect(server_->Address(), absl::Seconds(5)));
  const std::string key("k\0\r\n ", 5);
  const std::string value("\0\xff$3\r\n", 6);
  ASSERT_OK_AND_ASSIGN(RedisReply set, connection->Command({"SET", key, value}));
  EXPECT_EQ(set.type, RedisReply::Type::kStatus);
  EXPECT_EQ(set.text, "OK");
  ASSERT_OK_AND_ASSIGN(RedisReply get, connection->Command({"GET", key}));
  EXPECT_EQ(get.type, RedisReply::Type::kString);
  EXPECT_EQ(get.text, value);
  ASSERT_OK_AND_ASSIGN(RedisReply nil, connection->Command({"GET", "absent"}));
  EXPECT_TRUE(nil.IsNil());
  ASSERT_OK_AND_ASSIGN(RedisReply wrong, connection->Command({"LPUSH", key, "x"}));
  EXPECT_TRUE(wrong.IsError());
  EXPECT_TRUE(wrong.text.starts_with("WRONGTYPE")) << wrong.text;
  EXPECT_FALSE(connection->broken());
}

TEST_F(RedisPoolTest, APipelineAnswersInOrder) {
  ASSERT_OK_AND_ASSIGN(auto connection,
                       RedisConnection::Connect(server_->Address(), absl::Seconds(5)));
  const std::vector<Words> commands = {
      {"SET", "n", "41"}, {"INCR", "n"}, {"NOSUCH"}, {"MGET", "n", "absent"}};
  ASSERT_OK_AND_ASSIGN(const auto replies, connection->Pipeline(commands));
  ASSERT_EQ(replies.size(), 4U);
  EXPECT_EQ(replies[1].integer, 42);
  EXPECT_TRUE(replies[2].IsError());
  ASSERT_EQ(replies[3].elements.size(), 2U);
  EXPECT_EQ(replies[3].elements[0].text, "42");
  EXPECT_TRUE(replies[3].elements[1].IsNil());
}

TEST_F(RedisPoolTest, ATimeoutBreaksTheConnection) {
  ASSERT_OK_AND_ASSIGN(auto connection,
                       RedisConnection::Connect(server_->Address(), absl::Seconds(5)));
  ASSERT_OK(connection->SetTimeout(absl::Milliseconds(30)));
  EXPECT_THAT(connection->Command({"BLPOP", "nothing", "0"}),
              StatusIs(absl::StatusCode::kUnavailable, "timed out"));
  EXPECT_TRUE(connection->broken());
  EXPECT_THAT(connection->Command({"PING"}), StatusIs(absl::StatusCode::kUnavailable, "broke"));
}

TEST_F(RedisPoolTest, BadAndDeadAddressesAreNamed) {
  EXPECT_THAT(RedisConnection::Connect("nowhere", absl::Seconds(1)),
              StatusIs(absl::StatusCode::kInvalidArgument, "nowhere"));
  const std::string address = server_->Address();
  ASSERT_OK(server_->Stop());
  EXPECT_THAT(RedisConnection::Connect(address, absl::Seconds(1)),
              StatusIs(absl::StatusCode::kUnavailable, address));
}

TEST_F(RedisPoolTest, IdleConnectionsAreUsedAgainAndBrokenOnesThrownAway) {
  RedisPool pool({});
  {
    ASSERT_OK_AND_ASSIGN(auto lease, pool.Acquire(server_->Address(), In(absl::Seconds(5))));
    EXPECT_FALSE(lease.reused());
    ASSERT_OK(lease->Command({"CLIENT", "SETNAME", "first"}));
  }
  EXPECT_EQ(pool.IdleCount(server_->Address()), 1U);
  {
    ASSERT_OK_AND_ASSIGN(auto lease, pool.Acquire(server_->Address(), In(absl::Seconds(5))));
    EXPECT_TRUE(lease.reused());
    ASSERT_OK_AND_ASSIGN(const RedisReply name, lease->Command({"CLIENT", "GETNAME"}));
    EXPECT_EQ(name.text, "first");
    ASSERT_OK(server_->Restart());
    EXPECT_THAT(lease->Command({"PING"}), StatusIs(absl::StatusCode::kUnavailable));
  }
  EXPECT_EQ(pool.IdleCount(server_->Address()), 0U);
  ASSERT_OK_AND_ASSIGN(auto lease, pool.Acquire(server_->Address(), In(absl::Seconds(5))));
  EXPECT_FALSE(lease.reused());
  EXPECT_OK(lease->Command({"PING"}));
}

TEST_F(RedisPoolTest, AnIdleConnectionThatTheServerClosedIsReplacedBeforeItIsUsed) {
  RedisPool pool({});
  {
    ASSERT_OK_AND_ASSIGN(auto lease, pool.Acquire(server_->Address(), In(absl::Seconds(5))));
    ASSERT_OK(lease->Command({"PING"}));
  }
  ASSERT_OK(server_->Restart());
  ASSERT_OK_AND_ASSIGN(auto lease, pool.Acquire(server_->Address(), In(absl::Seconds(5))));
  EXPECT_FALSE(lease.reused());
  EXPECT_OK(lease->Command({"INCR", "n"}));
}

TEST_F(RedisPoolTest, TheBoundHoldsAndAReturnedConnectionWakesAWaiter) {
  RedisPoolOptions options;
  options.max_connections = 1;
  RedisPool pool(options);
  std::atomic<bool> waiting = false;
  std::thread waiter;
  {
    ASSERT_OK_AND_ASSIGN(auto lease, pool.Acquire(server_->Address(), In(absl::Seconds(5))));
    EXPECT_THAT(pool.Acquire(server_->Address(), In(absl::Milliseconds(10))),
                StatusIs(absl::StatusCode::kDeadlineExceeded, "max_connections"));
    waiter = std::thread([&] {
      waiting = true;
      EXPECT_OK(pool.Acquire(server_->Address(), In(absl::Seconds(20))));
    });
    ASSERT_OK(support::WaitFor("the waiter", absl::Seconds(20), [&] { return waiting.load(); }));
  }
  waiter.join();
}

TEST_F(RedisPoolTest, ADeadAddressFailsAtOnceUntilItsDownTimeIsOver) {
  Instant now{1'000'000'000};
  RedisPoolOptions options;
  options.clock = [&now] { return now; };
  RedisPool pool(options);
  const Instant deadline = now + absl::Hours(1);
  ASSERT_OK(server_->Stop());
  EXPECT_THAT(pool.Acquire(server_->Address(), deadline),
              StatusIs(absl::StatusCode::kUnavailable, "refused"));
  ASSERT_OK(server_->Restart());
  EXPECT_THAT(pool.Acquire(server_->Address(), deadline),
              StatusIs(absl::StatusCode::kUnavailable, "refused"));
  now = now + options.down_time;
  EXPECT_OK(pool.Acquire(server_->Address(), deadline));
}

}  // namespace
}  // namespace warmring
