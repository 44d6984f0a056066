// A real redis-server starts with the options it was given, keeps or loses its data over a restart
// as told, and its death is seen as an error, not as a crash of the test.

#include "tests/support/redis_server.h"

#include <signal.h>

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace warmring::support {
namespace {

TEST(RedisServerTest, AnswersEveryKindOfReply) {
  ASSERT_OK_AND_ASSIGN(const auto redis, RedisServer::Start());
  const std::string bytes("a\0b\r\n\"c", 7);
  ASSERT_OK_AND_ASSIGN(RedisReply reply, redis->Command({"SET", "key", bytes}));
  EXPECT_EQ(reply, RedisReply::Status("OK"));
  ASSERT_OK_AND_ASSIGN(reply, redis->Command({"GET", "key"}));
  EXPECT_EQ(reply, RedisReply::String(bytes));
  ASSERT_OK_AND_ASSIGN(reply, redis->Command({"GET", "absent"}));
  EXPECT_EQ(reply, RedisReply::Nil());
  ASSERT_OK_AND_ASSIGN(reply, redis->Command({"STRLEN", "key"}));
  EXPECT_EQ(reply, RedisReply::Integer(7));
  ASSERT_OK_AND_ASSIGN(reply, redis->Command({"INCR", "key"}));
  EXPECT_TRUE(reply.IsError());
  EXPECT_EQ(reply.text, "ERR value is not an integer or out of range");
  ASSERT_OK_AND_ASSIGN(reply, redis->Command({"MGET", "key", "absent"}));
  EXPECT_EQ(reply.Describe(), "[\"" + bytes + "\", (nil)]");
}

TEST(RedisServerTest, TakesItsOptions) {
  RedisServerOptions options;
  options.maxmemory = "8mb";
  options.maxmemory_policy = "allkeys-lfu";
  options.enable_debug_command = true;
  options.directives = {{"lfu-decay-time", "7"}};
  ASSERT_OK_AND_ASSIGN(const auto redis, RedisServer::Start(options));
  ASSERT_OK_AND_ASSIGN(RedisReply reply, redis->Command({"CONFIG", "GET", "maxmemory"}));
  EXPECT_EQ(reply.Describe(), "[\"maxmemory\", \"8388608\"]");
  ASSERT_OK_AND_ASSIGN(reply, redis->Command({"CONFIG", "GET", "maxmemory-policy"}));
  EXPECT_EQ(reply.Describe(), "[\"maxmemory-policy\", \"allkeys-lfu\"]");
  ASSERT_OK_AND_ASSIGN(reply, redis->Command({"CONFIG", "GET", "lfu-decay-time"}));
  EXPECT_EQ(reply.Describe(), "[\"lfu-decay-time\", \"7\"]");
  ASSERT_OK_AND_ASSIGN(reply, redis->Command({"DEBUG", "SLEEP", "0"}));
  EXPECT_EQ(reply, RedisReply::Status("OK"));
  ASSERT_OK_AND_ASSIGN(reply, redis->Command({"CONFIG", "GET", "save"}));
  EXPECT_EQ(reply.Describe(), "[\"save\", \"\"]");
}

TEST(RedisServerTest, ForgetsWithoutPersistence) {
  ASSERT_OK_AND_ASSIGN(const auto redis, RedisServer::Start());
  const uint16_t port = redis->Port();
  const pid_t pid = redis->Server().Latest().Pid();
  ASSERT_OK(redis->Command({"SET", "key", "value"}));
  ASSERT_OK(redis->Restart());
  EXPECT_EQ(redis->Port(), port);
  EXPECT_NE(redis->Server().Latest().Pid(), pid);
  ASSERT_OK_AND_ASSIGN(const RedisReply reply, redis->Command({"GET", "key"}));
  EXPECT_EQ(reply, RedisReply::Nil());
}

TEST(RedisServerTest, KeepsASnapshotOverAPoliteRestart) {
  RedisServerOptions options;
  options.save = "3600 1";
  ASSERT_OK_AND_ASSIGN(const auto redis, RedisServer::Start(options));
  ASSERT_OK(redis->Command({"SET", "key", "value"}));
  ASSERT_OK(redis->Restart());
  ASSERT_OK_AND_ASSIGN(RedisReply reply, redis->Command({"GET", "key"}));
  EXPECT_EQ(reply, RedisReply::String("value"));
  ASSERT_OK(redis->Restart(RedisServer::Data::kWipe));
  ASSERT_OK_AND_ASSIGN(reply, redis->Command({"GET", "key"}));
  EXPECT_EQ(reply, RedisReply::Nil());
}

TEST(RedisServerTest, KeepsItsAppendOnlyFileOverAKill) {
  RedisServerOptions options;
  options.appendonly = true;
  options.appendfsync = "always";
  ASSERT_OK_AND_ASSIGN(const auto redis, RedisServer::Start(options));
  ASSERT_OK(redis->Command({"SET", "key", "value"}));
  redis->Kill9();
  EXPECT_FALSE(redis->Server().Running());
  ASSERT_OK_AND_ASSIGN(const ExitStatus status, redis->Server().WaitForExit());
  EXPECT_EQ(status.signal, SIGKILL);
  EXPECT_THAT(redis->Command({"PING"}), StatusIs(absl::StatusCode::kUnavailable, "refused"));
  ASSERT_OK(redis->Restart());
  ASSERT_OK_AND_ASSIGN(const RedisReply reply, redis->Command({"GET", "key"}));
  EXPECT_EQ(reply, RedisReply::String("value"));
}

TEST(RedisServerTest, DeathBehindAConnectionIsAnError) {
  ASSERT_OK_AND_ASSIGN(const auto redis, RedisServer::Start());
  ASSERT_OK_AND_ASSIGN(const auto connection, redis->Connect());
  ASSERT_OK(connection->Command({"PING"}));
  redis->Kill9();
  EXPECT_THAT(connection->Command({"PING"}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(connection->Command({"PING"}), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(RedisServerTest, SaysWhyItDoesNotStart) {
  RedisServerOptions options;
  options.modules = {{.path = "/no/such/module.so", .args = {"name", "two words"}}};
  EXPECT_THAT(RedisServer::Start(options),
              StatusIs(absl::StatusCode::kAborted, "/no/such/module.so"));
  options.binary = "no-such-redis-server";
  EXPECT_THAT(RedisServer::Start(options),
              StatusIs(absl::StatusCode::kNotFound, "apt-get install redis-server"));
}

}  // namespace
}  // namespace warmring::support
