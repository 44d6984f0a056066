#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "agent/redis_module/redis_node_testing.h"
#include "tests/support/wait.h"

// The module in the real redis-server, driven as an agent and as clients would (docs/protocol.md,
// section 2). The story of each group is a rule that keeps every value fresh.

namespace warmring {
namespace {

using support::RedisServerOptions;
using testing::ElementsAre;
using testing::HasSubstr;

const RedisReply kNil = RedisReply::Nil();
RedisReply Int(int64_t value) { return RedisReply::Integer(value); }
RedisReply Str(std::string text) { return RedisReply::String(std::move(text)); }

std::string ReadWhole(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST(Closed, AnUnattachedServerRefusesEveryWriteAndCheckedRead) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  const std::string refusal = "WRNOLEASE - 0 - ";
  for (const Words& words : std::vector<Words>{{"SET", "k", "v"},
                                               {"MSET", "k", "v", "l", "w"},
                                               {"incr", "k"},
                                               {"EXPIRE", "k", "10"},
                                               {"LPUSH", "k", "v"},
                                               {"XGROUP", "CREATE", "k", "g", "$", "MKSTREAM"},
                                               {"RENAME", "k", "l"},
                                               {"SORT", "k", "STORE", "l"},
                                               {"WR.WRITE", At(5), "SET", "k", "v"},
                                               {"WR.READ", At(5), "GET", "k"},
                                               {"WR.PEEK", At(5), "GET", "k"},
                                               {"WR.FILL", At(5), "token", "k", "v"},
                                               {"DEL", "k"}}) {
    EXPECT_THAT(node->Do(words), IsError(refusal)) << words[0];
  }
  EXPECT_EQ(node->Do({"DBSIZE"}), Int(0));
  // Plain reads and administration are nobody's business.
  EXPECT_EQ(node->Do({"GET", "k"}), kNil);
  EXPECT_THAT(node->Do({"CONFIG", "SET", "slowlog-max-len", "10"}), IsOkStatus());
  EXPECT_EQ(node->Do({"SCRIPT", "LOAD", "return 1"}).type, RedisReply::Type::kString);
  EXPECT_THAT(node->Do({"FUNCTION", "FLUSH"}), IsOkStatus());
  EXPECT_EQ(node->Do({"CLIENT", "ID"}).type, RedisReply::Type::kInteger);
  EXPECT_EQ(node->Do({"EVAL", "return 7", "0"}), Int(7));
}

TEST(Closed, AttachedIsNotYetOpen) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Attach();
  EXPECT_THAT(node->Do({"SET", KeyIn(0), "v"}), IsError("WRNOLEASE - 0 - "));
  EXPECT_THAT(node->Do({"WR.READ", At(5), "GET", KeyIn(0)}), IsError("WRBEHIND - 0 - "));
  node->Install(SettledMap());
  EXPECT_THAT(node->Do({"SET", KeyIn(0), "v"}), IsError("WRNOLEASE a1b2c3d4:5 1 host-a:6379 "));
  EXPECT_THAT(node->Do({"WR.READ", At(5), "GET", KeyIn(0)}).elements[0], kNil);
  EXPECT_THAT(node->Lease(), IsOkStatus());
  EXPECT_THAT(node->Do({"SET", KeyIn(0), "v"}), IsOkStatus());
}

TEST(Rule, RefusesByWordAndMapAndSaysWhatCures) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Serve(SettledMap(7));
  const std::string mine = KeyIn(0);
  const std::string other = KeyIn(2);
  EXPECT_THAT(node->Do({"WR.WRITE", At(5), "SET", mine, "v"}), IsOkStatus());
  EXPECT_THAT(node->Do({"WR.WRITE", At(4), "SET", mine, "w"}),
              IsError("WRSTALE a1b2c3d4:5 7 host-a:6379 "));
  EXPECT_THAT(node->Do({"WR.WRITE", At(6), "SET", mine, "w"}),
              IsError("WRBEHIND a1b2c3d4:5 7 host-a:6379 "));
  EXPECT_THAT(node->Do({"WR.WRITE", At(UINT64_MAX), "SET", mine, "w"}), IsError("WRBEHIND "));
  EXPECT_THAT(node->Do({"WR.WRITE", "ffffffff:5", "SET", mine, "w"}),
              IsError("WRHISTORY a1b2c3d4:5 7 host-a:6379 "));
  EXPECT_THAT(node->Do({"WR.WRITE", At(5), "SET", other, "w"}),
              IsError("WRMOVED a1b2c3d4:5 7 host-b:6379 "));
  EXPECT_THAT(node->Do({"SET", other, "w"}), IsError("WRMOVED a1b2c3d4:5 7 host-b:6379 "));
  EXPECT_THAT(node->Do({"WR.READ", At(4), "GET", mine}), IsError("WRSTALE "));
  EXPECT_THAT(node->Do({"WR.READ", At(5), "GET", other}), IsError("WRMOVED "));
  EXPECT_THAT(node->Do({"WR.READ", At(5), "GET", mine}).elements,
              ElementsAre(Str("v"), kNil, Int(0)));
  EXPECT_EQ(node->Do({"GET", mine}), Str("v"));
  EXPECT_EQ(node->Stat("refused_stale"), 2);
  EXPECT_EQ(node->Stat("refused_behind"), 2);
  EXPECT_EQ(node->Stat("refused_history"), 1);
  EXPECT_EQ(node->Stat("refused_moved"), 3);
  EXPECT_EQ(node->Stat("version"), 7);
  EXPECT_EQ(node->Stat("keys"), 1);
}

TEST(Rule, AThereAndBackMoveLeavesTheFirstTenuresWritesStale) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Serve(SettledMap(1));
  node->Install(QuarterMap(2, {{{1, 6}, {0, 5}, {1, 5}, {1, 5}}}));
  node->Install(QuarterMap(3, {{{0, 7}, {0, 5}, {1, 5}, {1, 5}}}));
  EXPECT_THAT(node->Do({"WR.WRITE", At(5), "SET", KeyIn(0), "v"}),
              IsError("WRSTALE a1b2c3d4:7 3 host-a:6379 "));
  EXPECT_THAT(node->Do({"WR.WRITE", At(7), "SET", KeyIn(0), "v"}), IsOkStatus());
}

TEST(Lease, ExpiresOnTheOwnersOwnClockAndClosesWritesOnly) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Serve(SettledMap());
  ASSERT_THAT(node->Do({"SET", KeyIn(0), "v"}), IsOkStatus());
  // Another history is another life: its lease is gone with it.
  ASSERT_EQ(node->Do({"WR.ATTACH", std::string(32, '1'), "cache", "a", "trust"}).elements.size(),
            4u);
  node->Attach("trust");
  node->Install(SettledMap());
  node->Lease(absl::Milliseconds(300));
  ASSERT_OK(support::WaitFor("the lease is over", support::kDefaultWait, [&] {
    return node->Do({"WR.WRITE", At(5), "SET", KeyIn(0), "w"}).IsError();
  }));
  EXPECT_THAT(node->Do({"WR.WRITE", At(5), "SET", KeyIn(0), "x"}),
              IsError("WRNOLEASE a1b2c3d4:5 1 host-a:6379 "));
  EXPECT_THAT(node->Do({"SET", KeyIn(0), "x"}), IsError("WRNOLEASE "));
  EXPECT_EQ(node->Do({"WR.READ", At(5), "GET", KeyIn(0)}).type, RedisReply::Type::kArray);
  EXPECT_EQ(node->Stat("lease_ms"), 0);
  node->Lease();
  EXPECT_GT(node->Stat("lease_ms"), 500'000);
  EXPECT_THAT(node->Do({"SET", KeyIn(0), "x"}), IsOkStatus());
}

TEST(Lease, NeedsTheNewestRenewalAndItsVersionAndRaisesFloorsAnyhow) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Attach();
  node->Install(SettledMap(1));
  EXPECT_EQ(node->Agent({"WR.RENEW"}), Int(1));
  EXPECT_EQ(node->Agent({"WR.RENEW"}), Int(2));
  EXPECT_THAT(node->Agent({"WR.GRANT", "1", "1", "60000", "1"}), IsError("ERR seq: 1"));
  EXPECT_THAT(
      node->Agent(Join({{"WR.GRANT", "2", "1", "60000", "2", "FLOOR", "5"}, RangeWords({0})})),
      IsOkStatus());
  EXPECT_THAT(node->Do({"SET", KeyIn(1), "v"}), IsError("WRNOLEASE "));
  node->Install(SettledMap(2));
  EXPECT_THAT(node->Do({"SET", KeyIn(1), "v"}), IsOkStatus());
  EXPECT_THAT(node->Do({"SET", KeyIn(0), "v"}), IsError("WRFENCING a1b2c3d4:5 2 host-a:6379 "));
}

TEST(Plain, UnmodifiedClientsAreFencedTooAlsoInsideMultiAndScripts) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Serve(SettledMap());
  const std::string key = KeyIn(0);
  ASSERT_OK_AND_ASSIGN(const auto client, node->server().Connect());
  ASSERT_OK(client->Command({"MULTI"}));
  ASSERT_OK_AND_ASSIGN(RedisReply reply, client->Command({"SET", key, "late"}));
  EXPECT_EQ(reply, RedisReply::Status("QUEUED"));
  ASSERT_OK(client->Command({"SET", KeyIn(1), "fine"}));

  ASSERT_EQ(node->Fence("grow", 5, {0}).type, RedisReply::Type::kArray);
  // Queued before the fence, executed after it.
  ASSERT_OK_AND_ASSIGN(reply, client->Command({"EXEC"}));
  ASSERT_EQ(reply.elements.size(), 2u);
  EXPECT_THAT(reply.elements[0], IsError("WRFENCING a1b2c3d4:5 1 host-a:6379 "));
  EXPECT_THAT(reply.elements[1], IsOkStatus());

  EXPECT_THAT(node->Do({"SET", key, "v"}), IsError("WRFENCING "));
  EXPECT_THAT(node->Do({"EVAL", "return redis.call('SET', KEYS[1], 'v')", "1", key}),
              IsError("WRFENCING "));
  EXPECT_THAT(node->Do({"EVAL", "return redis.call('SET', KEYS[1], 'v')", "1", KeyIn(1)}),
              IsOkStatus());
  // A key that the script did not declare.
  EXPECT_THAT(node->Do({"EVAL", "return redis.call('INCR', ARGV[1])", "0", key}),
              IsError("WRFENCING "));
  EXPECT_EQ(node->Do({"EXISTS", key}), Int(0));

  node->Install(ReleasedMap(4));
  EXPECT_THAT(node->Do({"SET", key, "v"}), IsError("WRMOVED a1b2c3d4:6 4 host-b:6379 "));
  EXPECT_THAT(node->Do({"EVAL", "return redis.call('SET', KEYS[1], 'v')", "1", key}),
              IsError("WRMOVED a1b2c3d4:6 4 host-b:6379 "));
  EXPECT_EQ(node->Stat("faults"), 0);
}

TEST(Plain, EveryKeyOfACommandMustBeAdmissible) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Serve(SettledMap());
  EXPECT_THAT(node->Do({"MSET", KeyIn(0), "v", KeyIn(1), "w"}), IsOkStatus());
  EXPECT_THAT(node->Do({"MSET", KeyIn(0), "x", KeyIn(2), "y"}), IsError("WRMOVED "));
  EXPECT_EQ(node->Do({"GET", KeyIn(0)}), Str("v"));
  EXPECT_THAT(node->Do({"RENAME", KeyIn(0), KeyIn(3)}), IsError("WRMOVED "));
  EXPECT_THAT(node->Do({"RENAME", KeyIn(0), KeyIn(1)}), IsOkStatus());
  EXPECT_THAT(node->Do({"COPY", KeyIn(1), KeyIn(2)}), IsError("WRMOVED "));
  EXPECT_EQ(node->Do({"COPY", KeyIn(1), KeyIn(0)}), Int(1));
  EXPECT_THAT(node->Do({"SUNIONSTORE", KeyIn(1), KeyIn(0), KeyIn(2)}), IsError("WRMOVED "));
  EXPECT_EQ(node->Do({"RPUSH", KeyIn(0, 1), "3", "1", "2"}), Int(3));
  EXPECT_EQ(node->Do({"SORT", KeyIn(0, 1), "STORE", KeyIn(1, 1)}), Int(3));
  EXPECT_THAT(node->Do({"SORT", KeyIn(0, 1), "STORE", KeyIn(2)}), IsError("WRMOVED "));
  EXPECT_THAT(node->Do({"XGROUP", "CREATE", KeyIn(1, 2), "g", "$", "MKSTREAM"}), IsOkStatus());
  EXPECT_THAT(node->Do({"XGROUP", "CREATE", KeyIn(2), "g", "$", "MKSTREAM"}), IsError("WRMOVED "));
}

TEST(Plain, WhatReachesPastTheRangesIsRefused) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Serve(SettledMap());
  const std::string key = KeyIn(0);
  ASSERT_THAT(node->Do({"SET", key, "v"}), IsOkStatus());
  for (const Words& words : std::vector<Words>{{"FLUSHALL"},
                                               {"flushdb", "ASYNC"},
                                               {"SWAPDB", "0", "1"},
                                               {"MOVE", key, "1"},
                                               {"COPY", key, KeyIn(1), "DB", "1"},
                                               {"BLPOP", KeyIn(0, 1), "0"},
                                               {"BRPOPLPUSH", KeyIn(0, 1), KeyIn(0, 2), "0"},
                                               {"EVAL", "return redis.call('FLUSHALL')", "0"}}) {
    EXPECT_THAT(node->Do(words), IsError("ERR '")) << words[0];
  }
  ASSERT_OK_AND_ASSIGN(const auto client, node->server().Connect());
  ASSERT_OK(client->Command({"SELECT", "1"}));
  ASSERT_OK_AND_ASSIGN(RedisReply reply, client->Command({"SET", key, "w"}));
  EXPECT_THAT(reply, IsError("ERR the keyspace is database 0"));
  ASSERT_OK_AND_ASSIGN(reply, client->Command({"WR.WRITE", At(5), "SET", key, "w"}));
  EXPECT_THAT(reply, IsError("ERR the keyspace is database 0"));
  ASSERT_OK_AND_ASSIGN(reply, client->Command({"DBSIZE"}));
  EXPECT_EQ(reply, Int(0));
  EXPECT_EQ(node->Do({"GET", key}), Str("v"));
  EXPECT_THAT(node->Do({"MODULE", "UNLOAD", "warmring"}), IsError("ERR"));
}

TEST(Plain, RenamedCommandsAreKnownByWhatTheyDo) {
  RedisServerOptions options;
  options.directives = {{"rename-command", "SET", "PUT"}, {"rename-command", "FLUSHALL", "WIPE"}};
  const auto node = RedisNode::Start("a", options);
  ASSERT_NE(node, nullptr);
  node->Serve(SettledMap());
  EXPECT_THAT(node->Do({"PUT", KeyIn(0), "v"}), IsOkStatus());
  EXPECT_THAT(node->Do({"put", KeyIn(2), "v"}), IsError("WRMOVED "));
  EXPECT_THAT(node->Do({"WIPE"}), IsError("ERR 'WIPE'"));
  EXPECT_THAT(node->Do({"SET", KeyIn(0), "v"}), IsError("ERR unknown command"));
  EXPECT_EQ(node->Do({"GET", KeyIn(0)}), Str("v"));
}

TEST(Plain, ErrorsOfTheCommandItselfComeThrough) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Serve(SettledMap());
  EXPECT_THAT(node->Do({"SET", KeyIn(0)}), IsError("ERR wrong number of arguments"));
  EXPECT_THAT(node->Do({"SET"}), IsError("ERR wrong number of arguments"));
  EXPECT_THAT(node->Do({"MSET"}), IsError("ERR wrong number of arguments"));
  EXPECT_THAT(node->Do({"DEL"}), IsError("ERR wrong number of arguments"));
  EXPECT_THAT(node->Do({"NOSUCH", "x"}), IsError("ERR unknown command"));
  EXPECT_THAT(node->Do({"WR.NOSUCH", "x"}), IsError("ERR unknown command"));
  ASSERT_THAT(node->Do({"SET", KeyIn(0), "v"}), IsOkStatus());
  EXPECT_THAT(node->Do({"LPUSH", KeyIn(0), "v"}), IsError("WRONGTYPE"));
  EXPECT_THAT(node->Do({"WR.WRITE", At(5), "LPUSH", KeyIn(0), "v"}), IsError("WRONGTYPE"));
  EXPECT_THAT(node->Do({"WR.READ", At(5), "LLEN", KeyIn(0)}), IsError("WRONGTYPE"));
  EXPECT_THAT(node->Do({"WR.PLAIN"}), IsError("ERR wrong number of arguments"));
  EXPECT_THAT(node->Do({"WR.PLAIN", "GET", KeyIn(0)}), IsError("ERR 'GET' is not a write"));
  EXPECT_THAT(node->Do({"WR.PLAIN", "WR.PLAIN", "SET", KeyIn(0), "w"}), IsError("ERR"));
}

TEST(Plain, AUserMayDoNoMoreThanBefore) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Serve(SettledMap());
  ASSERT_THAT(node->Do({"ACL", "SETUSER", "app", "on", ">secret", "~" + KeyIn(0), "+set", "+get",
                        "+wr.plain", "+wr.write", "+wr.forget"}),
              IsOkStatus());
  ASSERT_OK_AND_ASSIGN(const auto client, node->server().Connect());
  ASSERT_OK(client->Command({"AUTH", "app", "secret"}));
  const auto run = [&](const Words& words) { return client->Command(words).value(); };
  EXPECT_THAT(run({"SET", KeyIn(0), "v"}), IsOkStatus());
  EXPECT_THAT(run({"WR.WRITE", At(5), "SET", KeyIn(0), "v"}), IsOkStatus());
  EXPECT_TRUE(run({"SET", KeyIn(1), "v"}).IsError());
  EXPECT_TRUE(run({"WR.WRITE", At(5), "SET", KeyIn(1), "v"}).IsError());
  EXPECT_TRUE(run({"WR.WRITE", At(5), "INCR", KeyIn(0)}).IsError());
  EXPECT_TRUE(run({"WR.FORGET", KeyIn(0)}).IsError());
  EXPECT_TRUE(run({"WR.ATTACH", HistoryText(), "cache", "a", "trust"}).IsError());
  EXPECT_EQ(node->Do({"GET", KeyIn(0)}), Str("v"));
  EXPECT_EQ(node->Do({"DBSIZE"}), Int(1));
}

TEST(Fence, AnswersLogAndWatermarkOfOneInstant) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Serve(WarmingMap());
  const std::string nonce(32, '1');
  const RedisReply tracked = node->Agent(Join({{"WR.TRACK", nonce}, RangeWords({0})}));
  ASSERT_EQ(tracked.elements.size(), 2u);
  EXPECT_EQ(tracked.elements[0].text, node->incarnation() + ".0");
  EXPECT_EQ(tracked.elements[1], Int(0));
  ASSERT_THAT(node->Do({"SET", KeyIn(0), "v"}), IsOkStatus());
  ASSERT_THAT(node->Do({"SET", KeyIn(1), "not tracked"}), IsOkStatus());
  ASSERT_THAT(node->Do({"WR.WRITE", At(5), "SET", KeyIn(0, 1), "w"}), IsOkStatus());
  EXPECT_THAT(node->Fence("grow", 5, {0}).elements,
              ElementsAre(tracked.elements[0], Int(2), Int(0)));
  EXPECT_THAT(node->Do({"SET", KeyIn(0), "late"}), IsError("WRFENCING "));
  EXPECT_THAT(node->Do({"WR.READ", At(5), "GET", KeyIn(0)}), IsError("WRFENCING "));
  EXPECT_THAT(node->Do({"SET", KeyIn(1), "goes on"}), IsOkStatus());
  // Repeating it is harmless.
  EXPECT_THAT(node->Fence("grow", 5, {0}).elements,
              ElementsAre(tracked.elements[0], Int(2), Int(0)));
  // After an abort the donor goes on under a fresh epoch.
  node->Install(QuarterMap(3, {{{0, 7}, {0, 5}, {1, 5}, {1, 5}}}));
  EXPECT_THAT(node->Do({"SET", KeyIn(0), "again"}), IsOkStatus());
  EXPECT_THAT(node->Do({"WR.WRITE", At(6), "SET", KeyIn(0), "x"}), IsError("WRSTALE "));
}

TEST(Changes, TellEveryKindOfChangeInOrder) {
  RedisServerOptions options;
  options.enable_debug_command = true;
  const auto node = RedisNode::Start("a", options);
  ASSERT_NE(node, nullptr);
  node->Serve(WarmingMap());
  ASSERT_THAT(node->Do({"SET", KeyIn(0, 5), "v", "PX", "50"}), IsOkStatus());
  const std::string nonce(32, '1');
  const std::string log =
      node->Agent(Join({{"WR.TRACK", nonce}, RangeWords({0})})).elements[0].text;
  const auto changes = [&](int64_t cursor, int64_t ack) {
    return node->Agent(
        {"WR.CHANGES", nonce, log, std::to_string(cursor), std::to_string(ack), "100"});
  };
  const std::string key = KeyIn(0);
  ASSERT_THAT(node->Do({"SET", key, "v"}), IsOkStatus());
  EXPECT_THAT(changes(0, 0).elements[1].elements, ElementsAre(Str(key)));
  int64_t at = changes(0, 0).elements[0].integer;
  const auto changed = [&](const Words& words) {
    node->Do(words);
    const RedisReply page = changes(at, at);
    at = page.elements[0].integer;
    return page.elements[1].elements;
  };
  EXPECT_THAT(changed({"EXPIRE", key, "1000"}), ElementsAre(Str(key)));
  EXPECT_THAT(changed({"PERSIST", key}), ElementsAre(Str(key)));
  EXPECT_THAT(changed({"DEL", key}), ElementsAre(Str(key)));
  // A delete of an absent key: a stale copy may lie at the recipient.
  EXPECT_THAT(changed({"DEL", key}), ElementsAre(Str(key)));
  EXPECT_THAT(changed({"WR.WRITE", At(5), "UNLINK", key}), ElementsAre(Str(key)));
  EXPECT_THAT(changed({"WR.FORGET", key}), ElementsAre(Str(key)));
  EXPECT_THAT(changed({"RPUSH", key, "a", "b"}), ElementsAre(Str(key)));
  EXPECT_THAT(changed({"RENAME", key, KeyIn(0, 1)}), ElementsAre(Str(key), Str(KeyIn(0, 1))));
  EXPECT_THAT(changed({"XGROUP", "CREATE", KeyIn(0, 2), "g", "$", "MKSTREAM"}),
              ElementsAre(Str(KeyIn(0, 2))));
  EXPECT_THAT(changed({"XADD", KeyIn(0, 2), "1-1", "f", "v"}), ElementsAre(Str(KeyIn(0, 2))));
  // The server reports no event for it.
  EXPECT_THAT(changed({"XREADGROUP", "GROUP", "g", "c", "STREAMS", KeyIn(0, 2), ">"}),
              ElementsAre(Str(KeyIn(0, 2))));
  EXPECT_THAT(changed({"EVAL", "redis.call('SET', KEYS[1], '1')", "1", KeyIn(0, 3)}),
              ElementsAre(Str(KeyIn(0, 3))));
  EXPECT_THAT(changed({"SET", KeyIn(1), "elsewhere"}), ElementsAre());
  ASSERT_OK(support::WaitFor("the key expires and is logged", support::kDefaultWait, [&] {
    const RedisReply page = changes(at, at);
    at = page.elements[0].integer;
    return page.elements[1].elements == std::vector<RedisReply>{Str(KeyIn(0, 5))};
  }));
}

TEST(Changes, EvictionsAreLogged) {
  RedisServerOptions options;
  options.maxmemory = "100mb";
  options.maxmemory_policy = "allkeys-random";
  const auto node = RedisNode::Start("a", options);
  ASSERT_NE(node, nullptr);
  node->Serve(WarmingMap());
  ASSERT_THAT(node->Do({"SET", KeyIn(0), "v"}), IsOkStatus());
  const std::string nonce(32, '1');
  const std::string log =
      node->Agent(Join({{"WR.TRACK", nonce}, RangeWords({0})})).elements[0].text;
  ASSERT_THAT(node->Do({"CONFIG", "SET", "maxmemory", "1"}), IsOkStatus());
  ASSERT_OK(support::WaitFor("eviction", support::kDefaultWait,
                             [&] { return node->Do({"DBSIZE"}) == Int(0); }));
  EXPECT_THAT(node->Agent({"WR.CHANGES", nonce, log, "0", "0", "10"}).elements[1].elements,
              ElementsAre(Str(KeyIn(0))));
  EXPECT_EQ(node->Stat("faults"), 0);
}

TEST(Changes, AreTrimmedAtTheAcknowledgementAndNeverSilentlyLost) {
  const auto node = RedisNode::Start("a", {}, {"changes-max-bytes", "1000"});
  ASSERT_NE(node, nullptr);
  node->Serve(WarmingMap());
  const std::string nonce(32, '1');
  const std::string log =
      node->Agent(Join({{"WR.TRACK", nonce}, RangeWords({0})})).elements[0].text;
  for (int round = 0; round < 20; ++round) {
    node->Do({"SET", KeyIn(0), std::to_string(round)});
    const std::string at = std::to_string(round);
    EXPECT_EQ(node->Agent({"WR.CHANGES", nonce, log, at, at, "10"}).elements[0], Int(round + 1));
  }
  EXPECT_LT(node->Stat("log_bytes"), 200);
  EXPECT_EQ(node->Stat("tracked"), 1);
  EXPECT_THAT(node->Agent({"WR.CHANGES", nonce, log, "3", "3", "10"}), IsError("WRSUSPECT cursor"));
  EXPECT_THAT(node->Agent({"WR.CHANGES", nonce, log, "99", "3", "10"}), IsError("WRSUSPECT "));
  EXPECT_THAT(node->Agent({"WR.CHANGES", std::string(32, '2'), log, "20", "3", "10"}),
              IsError("WRSUSPECT "));
  EXPECT_THAT(node->Agent({"WR.CHANGES", nonce, log, "20", "21", "10"}), IsError("ERR ack: 21"));
  for (int i = 0; i < 20; ++i) node->Do({"SET", KeyIn(0), "v"});
  EXPECT_THAT(node->Agent({"WR.CHANGES", nonce, log, "20", "20", "10"}),
              IsError("WRSUSPECT the log is " + node->incarnation() +
                      ".1 now: the change log is "
                      "over its 1000 bytes"));
  EXPECT_EQ(node->Fence("grow", 5, {0}).elements[0].text, node->incarnation() + ".1");
  EXPECT_EQ(node->Stat("tracked"), 0);
  EXPECT_THAT(node->Agent({"WR.SCAN", nonce, "0", "10"}), IsError("WRSUSPECT "));
}

TEST(Changes, EndWithTheirMoveWhenTheAgentIsGone) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Serve(WarmingMap(2));
  node->Agent(Join({{"WR.TRACK", std::string(32, '1')}, RangeWords({0})}));
  node->Install(WarmingMap(3));
  EXPECT_EQ(node->Stat("tracked"), 1);
  node->Install(SettledMap(4));
  EXPECT_EQ(node->Stat("tracked"), 0);
}

// Donor a and recipient b of quarter 0, both attached, with the same map.
class TransferTest : public testing::Test {
 protected:
  void SetUp() override {
    donor_ = RedisNode::Start("a");
    recipient_ = RedisNode::Start("b");
    ASSERT_NE(donor_, nullptr);
    ASSERT_NE(recipient_, nullptr);
    ShowBoth(WarmingMap());
    ASSERT_THAT(donor_->Lease(), IsOkStatus());
    ASSERT_THAT(recipient_->Lease(), IsOkStatus());
  }
  void ShowBoth(const Membership::Ptr& map) {
    for (RedisNode* node : {donor_.get(), recipient_.get()}) {
      if (node->generation() == 0) node->Attach();
      ASSERT_THAT(node->Install(map), IsOkStatus());
    }
  }
  RedisReply Open() {
    return recipient_->Agent(Join({{"WR.OPEN", nonce_, "grow"}, RangeWords({0})}));
  }
  // Copies keys as the two agents would.
  RedisReply Copy(const Words& keys) {
    const RedisReply dump = donor_->Agent(Join({{"WR.DUMP"}, keys}));
    EXPECT_EQ(dump.elements.size(), 3u) << dump;
    Words apply = {"WR.APPLY", nonce_};
    for (size_t i = 0; i < keys.size(); ++i) {
      const RedisReply& entry = dump.elements[2].elements[i];
      apply.push_back(keys[i]);
      if (entry.IsNil()) {
        apply.push_back("DEL");
        continue;
      }
      apply.insert(apply.end(),
                   {"SET", entry.elements[0].text, std::to_string(entry.elements[1].integer),
                    std::to_string(entry.elements[2].integer)});
    }
    return recipient_->Agent(apply);
  }

  std::unique_ptr<RedisNode> donor_;
  std::unique_ptr<RedisNode> recipient_;
  const std::string nonce_ = std::string(32, '7');
};

TEST_F(TransferTest, CarriesEveryTypeWithItsTimeToLive) {
  Words keys;
  for (int i = 0; i < 7; ++i) keys.push_back(KeyIn(0, i));
  const std::string big(8 << 20, 'x');
  donor_->Do({"SET", keys[0], big});
  donor_->Do({"HSET", keys[1], "f", "1", "g", std::string("\0\r\n", 3)});
  donor_->Do({"RPUSH", keys[2], "c", "a", "b"});
  donor_->Do({"SADD", keys[3], "1", "2", "three"});
  donor_->Do({"ZADD", keys[4], "1.5", "m", "-inf", "n"});
  donor_->Do({"XADD", keys[5], "7-1", "f", "v"});
  donor_->Do({"XGROUP", "CREATE", keys[5], "g", "0"});
  donor_->Do({"PEXPIRE", keys[1], "500000"});
  ASSERT_THAT(Open(), IsOkStatus());
  EXPECT_EQ(Copy(keys), Int(7));  // the last one is absent at the donor

  const RedisReply here = donor_->Agent(Join({{"WR.DIGEST"}, keys}));
  const RedisReply there = recipient_->Agent(Join({{"WR.DIGEST"}, keys}));
  EXPECT_EQ(here.elements[2], there.elements[2]);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(here.elements[2].elements[static_cast<size_t>(i)].text.size(), 16u);
  }
  EXPECT_EQ(here.elements[2].elements[6], kNil);
  EXPECT_EQ(recipient_->Do({"GET", keys[0]}), Str(big));
  EXPECT_EQ(recipient_->Do({"HGET", keys[1], "g"}), Str(std::string("\0\r\n", 3)));
  EXPECT_EQ(recipient_->Do({"PTTL", keys[0]}), Int(-1));
  const int64_t remaining = recipient_->Do({"PTTL", keys[1]}).integer;
  EXPECT_GT(remaining, 400'000);
  EXPECT_LE(remaining, 500'000);
  EXPECT_EQ(recipient_->Stat("faults"), 0);
}

TEST_F(TransferTest, DigestsKnowNeitherEncodingNorOrderButEveryDifference) {
  const std::string key = KeyIn(0);
  const auto digest = [&](RedisNode& node) {
    return node.Agent({"WR.DIGEST", key}).elements[2].elements[0].text;
  };
  donor_->Do({"SADD", key, "1", "2", "3"});  // an intset
  const std::string small = digest(*donor_);
  donor_->Do({"SADD", key, "word"});
  EXPECT_NE(digest(*donor_), small);
  donor_->Do({"SREM", key, "word"});  // stays a hash table
  EXPECT_EQ(digest(*donor_), small);
  donor_->Do({"DEL", key});
  donor_->Do({"SADD", key, "3", "2", "1"});
  EXPECT_EQ(digest(*donor_), small);
  donor_->Do({"DEL", key});
  donor_->Do({"RPUSH", key, "1", "2", "3"});
  const std::string list = digest(*donor_);
  EXPECT_NE(list, small);
  donor_->Do({"DEL", key});
  donor_->Do({"RPUSH", key, "3", "2", "1"});
  EXPECT_NE(digest(*donor_), list);
  donor_->Do({"DEL", key});
  donor_->Do({"HSET", key, "a", "b"});
  const std::string hash = digest(*donor_);
  donor_->Do({"DEL", key});
  donor_->Do({"HSET", key, "b", "a"});
  EXPECT_NE(digest(*donor_), hash);
}

TEST_F(TransferTest, BinaryKeysComeThroughEverywhere) {
  std::string key;
  for (int i = 0; key.empty(); ++i) {
    const std::string candidate = std::string("\0\r\n\xff $*", 7) + std::to_string(i);
    if (Quarter(0).Contains(HashKey(HashSpec(), candidate))) key = candidate;
  }
  ASSERT_THAT(Open(), IsOkStatus());
  const std::string track(32, '1');
  const std::string log =
      donor_->Agent(Join({{"WR.TRACK", track}, RangeWords({0})})).elements[0].text;
  ASSERT_THAT(donor_->Do({"WR.WRITE", At(5), "SET", key, "v"}), IsOkStatus());
  EXPECT_THAT(donor_->Agent({"WR.CHANGES", track, log, "0", "0", "10"}).elements[1].elements,
              ElementsAre(Str(key)));
  EXPECT_THAT(donor_->Agent({"WR.SCAN", track, "0", "1000"}).elements[1].elements,
              ElementsAre(Str(key)));
  EXPECT_EQ(Copy({key}), Int(1));
  EXPECT_EQ(recipient_->Do({"GET", key}), Str("v"));
  EXPECT_EQ(recipient_->Do({"WR.FORGET", key}), Int(1));
  EXPECT_EQ(recipient_->Do({"GET", key}), kNil);
}

TEST_F(TransferTest, ScanFindsTheTrackedRangesOnly) {
  Words expected;
  for (int i = 0; i < 50; ++i) {
    donor_->Do({"SET", KeyIn(0, i), "v"});
    donor_->Do({"SET", KeyIn(1, i), "v"});
    expected.push_back(KeyIn(0, i));
  }
  const std::string track(32, '1');
  donor_->Agent(Join({{"WR.TRACK", track}, RangeWords({0})}));
  Words found;
  std::string cursor = "0";
  do {
    const RedisReply page = donor_->Agent({"WR.SCAN", track, cursor, "10"});
    ASSERT_EQ(page.elements.size(), 2u) << page;
    cursor = page.elements[0].text;
    for (const RedisReply& key : page.elements[1].elements) found.push_back(key.text);
  } while (cursor != "0");
  EXPECT_THAT(found, testing::UnorderedElementsAreArray(expected));
}

TEST_F(TransferTest, LfuFrequencyTravels) {
  for (RedisNode* node : {donor_.get(), recipient_.get()}) {
    node->Do({"CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"});
  }
  donor_->Do({"SET", KeyIn(0), "v"});
  for (int i = 0; i < 300; ++i) donor_->Do({"GET", KeyIn(0)});
  ASSERT_THAT(Open(), IsOkStatus());
  const int64_t frequency =
      donor_->Agent({"WR.DUMP", KeyIn(0)}).elements[2].elements[0].elements[2].integer;
  EXPECT_GT(frequency, 5);  // where a new key begins
  EXPECT_EQ(Copy({KeyIn(0)}), Int(1));
  EXPECT_GE(recipient_->Do({"OBJECT", "FREQ", KeyIn(0)}).integer, frequency - 1);
}

// Entries land only while their transfer's nonce holds.
TEST_F(TransferTest, EntriesAreVoidOnceTheNonceIsClosed) {
  donor_->Do({"SET", KeyIn(0), "v"});
  EXPECT_THAT(Copy({KeyIn(0)}), IsError("WRVOID "));
  ASSERT_THAT(Open(), IsOkStatus());
  EXPECT_EQ(Copy({KeyIn(0)}), Int(1));
  EXPECT_THAT(recipient_->Agent({"WR.CLOSE", nonce_}), IsOkStatus());
  EXPECT_THAT(Copy({KeyIn(0)}), IsError("WRVOID "));
  EXPECT_THAT(recipient_->Agent({"WR.PURGE", nonce_, "0", "100"}), IsError("WRVOID "));
}

TEST_F(TransferTest, EntriesAreVoidOnceTheirRangeIsActivated) {
  donor_->Do({"SET", KeyIn(0), "old"});
  ASSERT_THAT(Open(), IsOkStatus());
  ShowBoth(GraceMap());
  ASSERT_THAT(recipient_->Do({"SET", KeyIn(0), "new"}), IsOkStatus());
  EXPECT_THAT(Copy({KeyIn(0)}), IsError("WRVOID "));
  EXPECT_EQ(recipient_->Do({"GET", KeyIn(0)}), Str("new"));
}

TEST_F(TransferTest, EntriesAreVoidOnceTheMigrationIsAborted) {
  donor_->Do({"SET", KeyIn(0), "v"});
  ASSERT_THAT(Open(), IsOkStatus());
  ShowBoth(SettledMap(3));
  EXPECT_THAT(Copy({KeyIn(0)}), IsError("WRVOID "));
  EXPECT_THAT(Open(), IsError("ERR ranges: version 3 "));
}

TEST_F(TransferTest, ACommittedWaveLeavesTheTransferOfTheOthersOpen) {
  const std::array<QuarterOwner, 4> before = {{{0, 5}, {0, 5}, {1, 5}, {1, 5}}};
  const std::array<QuarterOwner, 4> after = {{{1, 6}, {0, 5}, {1, 5}, {1, 5}}};
  ShowBoth(QuarterMap(3, before,
                      {GrowMove(0, MovePhase::kWarming, 0), GrowMove(1, MovePhase::kWarming, 1)}));
  donor_->Do({"MSET", KeyIn(0), "old", KeyIn(1), "v"});
  ASSERT_THAT(recipient_->Agent(Join({{"WR.OPEN", nonce_, "grow"}, RangeWords({0, 1})})),
              IsOkStatus());
  EXPECT_EQ(Copy({KeyIn(0), KeyIn(1)}), Int(2));
  ShowBoth(QuarterMap(4, after,
                      {GrowMove(0, MovePhase::kGrace, 0), GrowMove(1, MovePhase::kWarming, 1)}));
  ASSERT_THAT(recipient_->Do({"SET", KeyIn(0), "new"}), IsOkStatus());
  // The stream still carries late changes of the first wave.
  EXPECT_EQ(Copy({KeyIn(0), KeyIn(1)}), Int(1));
  EXPECT_EQ(recipient_->Do({"GET", KeyIn(0)}), Str("new"));
}

TEST_F(TransferTest, OnlyAMapMakesARecipient) {
  EXPECT_THAT(recipient_->Agent(Join({{"WR.OPEN", nonce_, "shrink"}, RangeWords({0})})),
              IsError("ERR ranges: "));
  EXPECT_THAT(recipient_->Agent(Join({{"WR.OPEN", nonce_, "grow"}, RangeWords({0, 1})})),
              IsError("ERR ranges: "));
  EXPECT_THAT(donor_->Agent(Join({{"WR.OPEN", nonce_, "grow"}, RangeWords({0})})),
              IsError("ERR ranges: "));
  ASSERT_THAT(Open(), IsOkStatus());
  EXPECT_THAT(Open(), IsOkStatus());
  EXPECT_THAT(recipient_->Agent({"WR.APPLY", nonce_, KeyIn(1), "DEL"}),
              IsError("ERR key: '" + KeyIn(1) + "' is outside"));
  EXPECT_THAT(recipient_->Agent({"WR.APPLY", nonce_, KeyIn(0), "SET", "no payload", "-1", "-1"}),
              IsError("WRPAYLOAD "));
  EXPECT_EQ(recipient_->Do({"DBSIZE"}), Int(0));
}

TEST_F(TransferTest, ReplacesDeletesAndSkipsWhatIsOver) {
  donor_->Do({"SET", KeyIn(0), "v2"});
  ASSERT_THAT(Open(), IsOkStatus());
  Copy({KeyIn(0)});
  donor_->Do({"SET", KeyIn(0), "v3"});
  EXPECT_EQ(Copy({KeyIn(0)}), Int(1));
  EXPECT_EQ(recipient_->Do({"GET", KeyIn(0)}), Str("v3"));
  const std::string payload =
      donor_->Agent({"WR.DUMP", KeyIn(0)}).elements[2].elements[0].elements[0].text;
  for (const char* gone : {"0", "-2"}) {
    EXPECT_EQ(recipient_->Agent({"WR.APPLY", nonce_, KeyIn(0), "SET", payload, gone, "-1"}),
              Int(1));
    EXPECT_EQ(recipient_->Do({"EXISTS", KeyIn(0)}), Int(0));
  }
  Copy({KeyIn(0)});
  donor_->Do({"DEL", KeyIn(0)});
  EXPECT_EQ(Copy({KeyIn(0)}), Int(1));
  EXPECT_EQ(recipient_->Do({"EXISTS", KeyIn(0)}), Int(0));
}

TEST_F(TransferTest, APurgeChecksEachKeyAgainstThePresentMap) {
  // Leftovers of an earlier life in quarter 0, which is not b's yet, and keys of its own.
  const auto fill = [&](RedisNode& node) {
    for (int i = 0; i < 20; ++i) node.Do({"SET", KeyIn(2, i), "mine"});
  };
  fill(*recipient_);
  donor_->Do({"SET", KeyIn(0), "v"});
  ASSERT_THAT(Open(), IsOkStatus());
  Copy({KeyIn(0)});
  const auto purge = [&](RedisNode& node, const std::string& scope) {
    int64_t deleted = 0;
    std::string cursor = "0";
    do {
      const RedisReply page = node.Agent({"WR.PURGE", scope, cursor, "5"});
      EXPECT_EQ(page.elements.size(), 2u) << page;
      if (page.elements.size() != 2) return int64_t{-1};
      cursor = page.elements[0].text;
      deleted += page.elements[1].integer;
    } while (cursor != "0");
    return deleted;
  };
  EXPECT_EQ(purge(*recipient_, "LEFT"), 0);  // it is warming the quarter
  EXPECT_EQ(purge(*recipient_, nonce_), 1);
  EXPECT_EQ(recipient_->Do({"DBSIZE"}), Int(20));
  EXPECT_THAT(recipient_->Agent({"WR.PURGE", "ALL", "0", "5"}), IsError("ERR ALL: "));

  // After the release the donor drops what it gave, and only that.
  donor_->Do({"SET", KeyIn(1), "stays"});
  ShowBoth(GraceMap());
  EXPECT_EQ(purge(*donor_, "LEFT"), 0);
  ShowBoth(ReleasedMap());
  EXPECT_EQ(purge(*donor_, "LEFT"), 1);
  EXPECT_EQ(donor_->Do({"EXISTS", KeyIn(0)}), Int(0));
  EXPECT_EQ(donor_->Do({"GET", KeyIn(1)}), Str("stays"));
  EXPECT_EQ(donor_->Stat("faults"), 0);
}

// What the watermark covers is what the recipient applied.
TEST_F(TransferTest, NothingThatWasAcknowledgedIsMissingUpToTheWatermark) {
  const std::string track(32, '1');
  const std::string log =
      donor_->Agent(Join({{"WR.TRACK", track}, RangeWords({0})})).elements[0].text;
  ASSERT_THAT(Open(), IsOkStatus());
  donor_->Do({"SET", KeyIn(0), "v1"});
  Copy({KeyIn(0)});
  donor_->Do({"SET", KeyIn(0), "v2"});
  donor_->Do({"DEL", KeyIn(0, 1)});
  const RedisReply fence = donor_->Fence("grow", 5, {0});
  EXPECT_EQ(fence.elements[0].text, log);
  const RedisReply page = donor_->Agent({"WR.CHANGES", track, log, "0", "0", "100"});
  EXPECT_EQ(page.elements[0], fence.elements[1]);
  for (const RedisReply& key : page.elements[1].elements) Copy({key.text});
  ShowBoth(GraceMap());
  EXPECT_EQ(recipient_->Do({"WR.READ", At(6), "GET", KeyIn(0)}).elements[0], Str("v2"));
}

// A grace read never brings back what was written over.
class GraceTest : public TransferTest {
 protected:
  void EnterGrace(uint32_t grace_ms = 60'000) {
    donor_->Do({"MSET", KeyIn(0), "old", KeyIn(0, 1), "old1"});
    donor_->Fence("grow", 5, {0});
    ShowBoth(GraceMap(3, grace_ms));
    if (HasFailure()) return;
    ASSERT_THAT(recipient_->Lease(), IsOkStatus());
  }
  bool MayPeek(const std::string& key) {
    const RedisReply reply = recipient_->Do({"WR.READ", At(6), "GET", key});
    EXPECT_EQ(reply.elements.size(), 3u) << reply;
    return reply.elements.size() == 3 && reply.elements[2] == Int(1);
  }
  RedisReply Peek(const std::string& key) { return donor_->Do({"WR.PEEK", At(6), "GET", key}); }
};

TEST_F(GraceTest, AMissMayBePeekedAtThePreviousOwner) {
  EXPECT_THAT(donor_->Do({"WR.PEEK", At(5), "GET", KeyIn(0)}), IsError("WRMOVED "));
  EnterGrace();
  donor_->Agent({"WR.RENEW"});
  EXPECT_TRUE(MayPeek(KeyIn(0)));
  EXPECT_THAT(Peek(KeyIn(0)).elements, ElementsAre(Str("old"), Int(-1)));
  EXPECT_THAT(Peek(KeyIn(0, 2)).elements, ElementsAre(kNil, Int(-2)));
  EXPECT_THAT(donor_->Do({"WR.PEEK", At(5), "GET", KeyIn(0)}),
              IsError("WRMOVED a1b2c3d4:6 3 host-b:6379 "));
  EXPECT_THAT(recipient_->Do({"WR.PEEK", At(6), "GET", KeyIn(0)}), IsError("WRMOVED "));
  EXPECT_THAT(donor_->Do({"WR.READ", At(6), "GET", KeyIn(0)}), IsError("WRMOVED "));
  // It is present now: no need to look elsewhere.
  const RedisReply miss = recipient_->Do({"WR.READ", At(6), "GET", KeyIn(0)});
  EXPECT_EQ(recipient_->Do({"WR.FILL", At(6), miss.elements[1].text, KeyIn(0), "old"}), Int(1));
  EXPECT_FALSE(MayPeek(KeyIn(0)));
  // Not in the other ranges of the node, and not after the release.
  EXPECT_EQ(recipient_->Do({"WR.READ", At(5), "GET", KeyIn(2)}).elements[2], Int(0));
  ShowBoth(ReleasedMap());
  EXPECT_FALSE(MayPeek(KeyIn(0, 1)));
  EXPECT_THAT(Peek(KeyIn(0, 1)), IsError("WRMOVED "));
}

TEST_F(GraceTest, DirtyKeysAreNeverPeeked) {
  EnterGrace();
  const std::vector<Words> changes = {
      {"DEL", KeyIn(0)},
      {"WR.WRITE", At(6), "DEL", KeyIn(0, 1)},
      {"WR.FORGET", KeyIn(0, 2)},
      {"WR.WRITE", At(4), "DEL", KeyIn(0, 3)},  // stale: applied and refused
      {"SET", KeyIn(0, 4), "v", "PX", "1"},
      {"EVAL", "redis.call('SET', KEYS[1], 1) redis.call('DEL', KEYS[1])", "1", KeyIn(0, 5)}};
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(MayPeek(KeyIn(0, i))) << i;
    recipient_->Do(changes[static_cast<size_t>(i)]);
  }
  ASSERT_OK(support::WaitFor("the key expires", support::kDefaultWait, [&] {
    return recipient_->Do({"EXISTS", KeyIn(0, 4)}) == Int(0);
  }));
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(MayPeek(KeyIn(0, i))) << i;
  EXPECT_TRUE(MayPeek(KeyIn(0, 6)));
  EXPECT_EQ(recipient_->Stat("dirty_keys"), 6);
  const RedisReply dirty = recipient_->Agent({"WR.DIRTY", "grow", "0", "100"});
  EXPECT_EQ(dirty.elements[0], Int(1));
  EXPECT_EQ(dirty.elements[1], Int(0));
  EXPECT_EQ(dirty.elements[2].elements.size(), 6u);
}

TEST_F(GraceTest, EndsByTheOwnersOwnClock) {
  EnterGrace(200);
  ASSERT_OK(
      support::WaitFor("grace is over", support::kDefaultWait, [&] { return !MayPeek(KeyIn(0)); }));
}

TEST_F(GraceTest, ARestartDuringGraceClosesIt) {
  EnterGrace();
  ASSERT_OK(recipient_->server().Restart());
  recipient_->Attach();
  recipient_->Install(GraceMap());
  EXPECT_FALSE(MayPeek(KeyIn(0)));
  EXPECT_EQ(recipient_->Agent({"WR.DIRTY", "grow", "0", "10"}).elements[0], Int(0));
  EXPECT_EQ(recipient_->Fence("grow", 6, {0}).elements[2], Int(0));
}

TEST_F(GraceTest, AnOverflowOfTheDirtySetClosesIt) {
  recipient_ = RedisNode::Start("b", {}, {"dirty-max-keys", "3"});
  ASSERT_NE(recipient_, nullptr);
  recipient_->Serve(WarmingMap());
  EnterGrace();
  for (int i = 0; i < 3; ++i) recipient_->Do({"DEL", KeyIn(0, i)});
  EXPECT_TRUE(MayPeek(KeyIn(0, 9)));
  EXPECT_EQ(recipient_->Fence("none", 1, {3}).elements[2], Int(0));
  recipient_->Do({"DEL", KeyIn(0, 3)});
  EXPECT_FALSE(MayPeek(KeyIn(0, 9)));
  EXPECT_THAT(recipient_->Agent({"WR.DIRTY", "grow", "0", "10"}).elements,
              ElementsAre(Int(0), Int(0), RedisReply{RedisReply::Type::kArray, "", 0, {}}));
}

// An undo sends back exactly the dirty set, while the owner is fenced.
TEST_F(GraceTest, AnUndoBringsBackExactlyWhatChanged) {
  donor_->Do({"SET", KeyIn(0, 7), "untouched"});
  EnterGrace();
  recipient_->Do({"SET", KeyIn(0), "new", "PX", "400000"});
  recipient_->Do({"DEL", KeyIn(0, 1)});
  const RedisReply fence = recipient_->Fence("grow", 6, {0});
  EXPECT_EQ(fence.elements[2], Int(1));
  EXPECT_THAT(recipient_->Do({"SET", KeyIn(0), "late"}), IsError("WRFENCING "));
  // The roles are swapped now: a is the recipient of what it gave away.
  ASSERT_THAT(donor_->Agent(Join({{"WR.OPEN", nonce_, "grow"}, RangeWords({0})})), IsOkStatus());
  const RedisReply dirty = recipient_->Agent({"WR.DIRTY", "grow", "0", "100"});
  ASSERT_THAT(dirty.elements[2].elements, ElementsAre(Str(KeyIn(0)), Str(KeyIn(0, 1))));
  std::swap(donor_, recipient_);
  EXPECT_EQ(Copy({KeyIn(0), KeyIn(0, 1)}), Int(2));
  std::swap(donor_, recipient_);
  ShowBoth(QuarterMap(4, {{{0, 7}, {0, 5}, {1, 5}, {1, 5}}}));
  EXPECT_EQ(donor_->Do({"WR.READ", At(7), "GET", KeyIn(0)}).elements[0], Str("new"));
  EXPECT_GT(donor_->Do({"PTTL", KeyIn(0)}).integer, 300'000);
  EXPECT_EQ(donor_->Do({"GET", KeyIn(0, 1)}), kNil);
  EXPECT_EQ(donor_->Do({"GET", KeyIn(0, 7)}), Str("untouched"));
  EXPECT_THAT(donor_->Do({"WR.WRITE", At(7), "SET", KeyIn(0), "on"}), IsOkStatus());
  EXPECT_THAT(recipient_->Do({"SET", KeyIn(0), "x"}), IsError("WRMOVED a1b2c3d4:7 4 "));
  EXPECT_EQ(recipient_->Stat("dirty_keys"), 0);
}

// A slow fill of an old value must not land after an invalidation.
class FillTest : public testing::Test {
 protected:
  void SetUp() override {
    node_ = RedisNode::Start("a");
    ASSERT_NE(node_, nullptr);
    node_->Serve(SettledMap());
  }
  std::string Miss(const std::string& key, uint64_t epoch = 5) {
    const RedisReply reply = node_->Do({"WR.READ", At(epoch), "GET", key});
    EXPECT_EQ(reply.elements.size(), 3u) << reply;
    EXPECT_EQ(reply.elements[0], kNil);
    return reply.elements[1].text;
  }
  RedisReply Fill(const std::string& token, const std::string& key, uint64_t epoch = 5) {
    return node_->Do({"WR.FILL", At(epoch), token, key, "v1"});
  }
  std::unique_ptr<RedisNode> node_;
  const std::string key_ = KeyIn(0);
};

TEST_F(FillTest, LandsWhenNobodyTouchedTheKey) {
  const std::string token = Miss(key_);
  EXPECT_EQ(node_->Do({"WR.FILL", At(5), token, key_, "v1", "PX", "100000"}), Int(1));
  EXPECT_EQ(node_->Do({"GET", key_}), Str("v1"));
  EXPECT_GT(node_->Do({"PTTL", key_}).integer, 50'000);
  EXPECT_EQ(node_->Do({"WR.READ", At(5), "GET", key_}).elements[1], kNil);
  // A token answers one miss.
  node_->Do({"DEL", key_});
  EXPECT_EQ(Fill(token, key_), Int(0));
  EXPECT_EQ(node_->Stat("fills_stored"), 1);
  EXPECT_EQ(node_->Stat("fills_void"), 1);
}

TEST_F(FillTest, IsVoidAfterAnyTouch) {
  const std::vector<Words> touches = {
      {"SET", key_, "v2"},
      {"DEL", key_},  // of an absent key: the application wrote the origin and deletes to be sure
      {"UNLINK", key_},
      {"WR.FORGET", key_},
      {"WR.WRITE", At(5), "DEL", key_},
      {"WR.WRITE", At(4), "DEL", key_},  // refused as stale, and still an invalidation
      {"EVAL", "redis.call('DEL', KEYS[1])", "1", key_},
      {"EXPIRE", key_, "10"},
  };
  for (const Words& touch : touches) {
    const std::string token = Miss(key_);
    node_->Do(touch);
    EXPECT_EQ(Fill(token, key_), Int(0)) << touch[0];
    node_->Do({"DEL", key_});
  }
  EXPECT_EQ(node_->Do({"EXISTS", key_}), Int(0));
}

TEST_F(FillTest, IsVoidUnderAnotherEpochHistoryOrKey) {
  const std::string token = Miss(key_);
  EXPECT_EQ(Fill(token, KeyIn(0, 1)), Int(0));
  EXPECT_EQ(Fill(token, key_, 4), Int(0));
  EXPECT_EQ(node_->Do({"WR.FILL", "ffffffff:5", token, key_, "v1"}), Int(0));
  EXPECT_EQ(Fill("", key_), Int(0));
  node_->Fence("grow", 5, {0});
  EXPECT_EQ(Fill(token, key_), Int(0));
  // There and back: the same owner, no touch here, and still another tenure.
  node_->Install(QuarterMap(2, {{{1, 6}, {0, 5}, {1, 5}, {1, 5}}}));
  EXPECT_EQ(Fill(token, key_, 6), Int(0));
  node_->Install(QuarterMap(3, {{{0, 7}, {0, 5}, {1, 5}, {1, 5}}}));
  EXPECT_EQ(Fill(token, key_, 7), Int(0));
  EXPECT_EQ(Fill(Miss(key_, 7), key_, 7), Int(1));
}

TEST_F(FillTest, NeverReplacesAndNeverOutlivesItsIncarnation) {
  const std::string token = Miss(key_);
  const std::string second = Miss(key_);
  EXPECT_EQ(Fill(token, key_), Int(1));
  EXPECT_EQ(node_->Do({"WR.FILL", At(5), second, key_, "other"}), Int(0));
  EXPECT_EQ(node_->Do({"GET", key_}), Str("v1"));
  ASSERT_OK(node_->server().Restart());
  node_->Serve(SettledMap());
  EXPECT_EQ(Fill(token, key_), Int(0));
  EXPECT_EQ(Fill(second, key_), Int(0));
}

TEST_F(FillTest, AMissOfAFieldIsNoMissOfTheKey) {
  node_->Do({"HSET", key_, "f", "v"});
  EXPECT_THAT(node_->Do({"WR.READ", At(5), "HGET", key_, "g"}).elements,
              ElementsAre(kNil, kNil, Int(0)));
  EXPECT_EQ(node_->Do({"WR.READ", At(5), "EXISTS", KeyIn(0, 1)}).elements[0], Int(0));
  EXPECT_NE(node_->Do({"WR.READ", At(5), "EXISTS", KeyIn(0, 1)}).elements[1], kNil);
}

// Pending recipients take forgets, never values.
TEST_F(TransferTest, APendingRecipientTakesForgetsAndRefusesValues) {
  ASSERT_THAT(Open(), IsOkStatus());
  donor_->Do({"SET", KeyIn(0), "v"});
  Copy({KeyIn(0)});
  EXPECT_THAT(recipient_->Do({"WR.WRITE", At(5), "SET", KeyIn(0), "w"}), IsError("WRMOVED "));
  EXPECT_THAT(recipient_->Do({"INCR", KeyIn(0, 1)}), IsError("WRMOVED "));
  EXPECT_EQ(recipient_->Do({"WR.FORGET", KeyIn(0)}), Int(1));
  EXPECT_EQ(recipient_->Do({"WR.FORGET", KeyIn(0)}), Int(0));
  EXPECT_EQ(recipient_->Do({"DBSIZE"}), Int(0));
  EXPECT_EQ(recipient_->Stat("forgets"), 2);
  EXPECT_EQ(recipient_->Stat("faults"), 0);
}

// A delete takes effect before it is refused, and reaches the present owner.
TEST_F(TransferTest, ADeleteIsAppliedAndRefusedAndForwarded) {
  const auto forgotten = [&](int64_t cursor) {
    return donor_->Agent({"WR.FORGOTTEN", std::to_string(cursor), "10"});
  };
  for (int i = 0; i < 4; ++i) donor_->Do({"SET", KeyIn(0, i), "v"});
  EXPECT_THAT(donor_->Do({"WR.WRITE", At(4), "DEL", KeyIn(0)}), IsError("WRSTALE "));
  EXPECT_EQ(donor_->Do({"EXISTS", KeyIn(0)}), Int(0));
  donor_->Fence("grow", 5, {0});
  EXPECT_THAT(donor_->Do({"DEL", KeyIn(0, 1), KeyIn(1)}), IsError("WRFENCING "));
  EXPECT_EQ(donor_->Do({"EXISTS", KeyIn(0, 1)}), Int(0));
  // The watermark has passed: it goes to the next owner once there is one.
  EXPECT_THAT(forgotten(0).elements[1].elements, ElementsAre());
  ShowBoth(GraceMap());
  EXPECT_THAT(forgotten(0).elements[1].elements, ElementsAre(Str(KeyIn(0, 1))));
  EXPECT_THAT(donor_->Do({"WR.WRITE", At(5), "UNLINK", KeyIn(0, 2)}),
              IsError("WRMOVED a1b2c3d4:6 3 host-b:6379 "));
  EXPECT_EQ(donor_->Do({"EXISTS", KeyIn(0, 2)}), Int(0));
  EXPECT_THAT(donor_->Do({"DEL", KeyIn(0, 9)}), IsError("WRMOVED "));  // absent here
  const RedisReply rest = forgotten(1);
  EXPECT_EQ(rest.elements[0], Int(3));
  EXPECT_THAT(rest.elements[1].elements, ElementsAre(Str(KeyIn(0, 2)), Str(KeyIn(0, 9))));
  EXPECT_THAT(forgotten(3).elements[1].elements, ElementsAre());
  // Where the key never was this node's, the client's own retry is enough.
  EXPECT_THAT(donor_->Do({"DEL", KeyIn(3)}), IsError("WRMOVED "));
  EXPECT_THAT(forgotten(3).elements[1].elements, ElementsAre());
  EXPECT_EQ(donor_->Do({"GET", KeyIn(0, 3)}), Str("v"));
  EXPECT_EQ(donor_->Stat("faults"), 0);
}

TEST(Deletes, TakeEffectWithoutALeaseAndWithoutMemory) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Serve(SettledMap());
  node->Do({"SET", KeyIn(0), "v"});
  node->Do({"SET", KeyIn(1), std::string(1000, 'v')});
  node->Do({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_THAT(node->Do({"SET", KeyIn(0), "w"}), IsError("OOM"));
  EXPECT_THAT(node->Do({"WR.WRITE", At(5), "SET", KeyIn(0), "w"}), IsError("OOM"));
  const std::string token = node->Do({"WR.READ", At(5), "GET", KeyIn(0, 1)}).elements[1].text;
  EXPECT_THAT(node->Do({"WR.FILL", At(5), token, KeyIn(0, 1), "w"}), IsError("OOM"));
  EXPECT_EQ(node->Do({"DEL", KeyIn(0)}), Int(1));
  node->Fence("grow", 5, {1});
  EXPECT_THAT(node->Do({"WR.WRITE", At(5), "DEL", KeyIn(1)}), IsError("WRFENCING "));
  EXPECT_EQ(node->Do({"DBSIZE"}), Int(0));

  node->Do({"CONFIG", "SET", "maxmemory", "0"});
  node->Do({"SET", KeyIn(0), "v"});
  node->Do({"WR.ATTACH", std::string(32, '1'), "cache", "a", "trust"});  // the lease is gone
  EXPECT_THAT(node->Do({"DEL", KeyIn(0)}), IsError("WRNOLEASE "));
  EXPECT_EQ(node->Do({"DBSIZE"}), Int(0));
}

// A new incarnation trusts nothing that it did not see.
TEST(Restart, LosesEverythingAndFailsClosed) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Serve(SettledMap());
  ASSERT_THAT(node->Do({"SET", KeyIn(0), "v"}), IsOkStatus());
  const std::string before = node->incarnation();
  node->server().Kill9();
  ASSERT_OK(node->server().Restart());
  EXPECT_THAT(node->Do({"SET", KeyIn(0), "v"}), IsError("WRNOLEASE - 0 - "));
  // The agent does not know yet that its owner is another one.
  EXPECT_THAT(node->Agent({"WR.RENEW"}), IsError("WRGENERATION "));
  EXPECT_THAT(node->Agent({"WR.GRANT", "1", "1", "60000", "1"}), IsError("WRGENERATION "));
  const RedisReply attached = node->Attach();
  EXPECT_NE(node->incarnation(), before);
  EXPECT_EQ(attached.elements[2], Int(0));
  EXPECT_EQ(attached.elements[3], Int(0));
}

TEST(Restart, ADatasetFromDiskIsPurgedBeforeTheFirstLease) {
  RedisServerOptions options;
  options.save = "3600 1";
  const auto node = RedisNode::Start("a", options);
  ASSERT_NE(node, nullptr);
  node->Serve(SettledMap());
  for (int i = 0; i < 300; ++i) node->Do({"SET", KeyIn(0, i), "old"});
  ASSERT_OK(node->server().Restart());
  RedisReply attached = node->Attach();
  EXPECT_EQ(attached.elements[2], Int(300));
  EXPECT_EQ(attached.elements[3], Int(1));
  node->Install(SettledMap());
  EXPECT_THAT(node->Lease(), IsError("WRPURGE "));
  EXPECT_THAT(node->Do({"WR.READ", At(5), "GET", KeyIn(0)}), IsError("WRNOLEASE "));
  EXPECT_THAT(node->Do({"WR.PEEK", At(5), "GET", KeyIn(0)}), IsError("WRNOLEASE "));
  EXPECT_THAT(node->Do({"SET", KeyIn(0), "new"}), IsError("WRNOLEASE "));
  // Another agent does not change that.
  attached = node->Attach();
  EXPECT_EQ(attached.elements[3], Int(1));
  node->Install(SettledMap());
  std::string cursor = "0";
  int64_t deleted = 0;
  do {
    EXPECT_THAT(node->Lease(), IsError("WRPURGE "));
    const RedisReply page = node->Agent({"WR.PURGE", "ALL", cursor, "50"});
    ASSERT_EQ(page.elements.size(), 2u) << page;
    cursor = page.elements[0].text;
    deleted += page.elements[1].integer;
  } while (cursor != "0");
  EXPECT_EQ(deleted, 300);
  EXPECT_THAT(node->Lease(), IsOkStatus());
  EXPECT_THAT(node->Do({"SET", KeyIn(0), "new"}), IsOkStatus());
  EXPECT_EQ(node->Attach().elements[3], Int(0));
}

TEST(Restart, ADatasetFromDiskIsKeptWhereThePolicyTrustsIt) {
  RedisServerOptions options;
  options.appendonly = true;
  options.appendfsync = "always";
  const auto node = RedisNode::Start("a", options);
  ASSERT_NE(node, nullptr);
  node->Serve(SettledMap());
  ASSERT_THAT(node->Do({"WR.WRITE", At(5), "SET", KeyIn(0), "v", "EX", "5000"}), IsOkStatus());
  ASSERT_THAT(node->Do({"SET", KeyIn(0, 1), "w"}), IsOkStatus());
  node->Do({"EVAL", "redis.call('SET', KEYS[1], '1')", "1", KeyIn(0, 2)});
  node->Do({"SET", KeyIn(0, 3), "gone"});
  node->Do({"WR.FORGET", KeyIn(0, 3)});
  node->server().Kill9();
  const std::string log =
      ReadWhole(node->server().Dir() + "/appendonlydir/appendonly.aof.1.incr.aof");
  EXPECT_THAT(log, HasSubstr("SET"));
  EXPECT_THAT(log, testing::Not(HasSubstr("WR.")));
  ASSERT_OK(node->server().Restart());
  const RedisReply attached = node->Attach("trust");
  EXPECT_EQ(attached.elements[2], Int(3));
  EXPECT_EQ(attached.elements[3], Int(0));
  node->Install(SettledMap());
  EXPECT_THAT(node->Lease(), IsOkStatus());
  EXPECT_EQ(node->Do({"WR.READ", At(5), "GET", KeyIn(0)}).elements[0], Str("v"));
  EXPECT_GT(node->Do({"TTL", KeyIn(0)}).integer, 4000);
}

TEST(Restart, AReloadOfTheDatasetIsANewIncarnation) {
  RedisServerOptions options;
  options.enable_debug_command = true;
  const auto node = RedisNode::Start("a", options);
  ASSERT_NE(node, nullptr);
  node->Serve(SettledMap());
  node->Do({"SET", KeyIn(0), "v"});
  const std::string before = node->incarnation();
  ASSERT_THAT(node->Do({"DEBUG", "RELOAD"}), IsOkStatus());
  EXPECT_THAT(node->Do({"SET", KeyIn(0), "v"}), IsError("WRNOLEASE "));
  EXPECT_EQ(node->Attach().elements[3], Int(1));
  EXPECT_NE(node->incarnation(), before);
}

TEST(Replica, FollowsItsMasterAndOwnsNothing) {
  const auto master = RedisNode::Start("a");
  ASSERT_NE(master, nullptr);
  RedisServerOptions options;
  options.directives = {{"replicaof", "127.0.0.1", std::to_string(master->server().Port())}};
  const auto replica = RedisNode::Start("a", options);
  ASSERT_NE(replica, nullptr);
  master->Serve(SettledMap());
  const std::string key = KeyIn(0);
  ASSERT_THAT(master->Do({"WR.WRITE", At(5), "SET", key, "v"}), IsOkStatus());
  ASSERT_THAT(master->Do({"SET", KeyIn(1), "w"}), IsOkStatus());
  ASSERT_OK(support::WaitFor("replication", support::kDefaultWait,
                             [&] { return replica->Do({"DBSIZE"}) == Int(2); }));
  EXPECT_EQ(replica->Do({"GET", key}), Str("v"));
  EXPECT_THAT(replica->Do({"SET", key, "x"}), IsError("READONLY"));
  EXPECT_THAT(replica->Do({"WR.WRITE", At(5), "SET", key, "x"}), IsError("READONLY"));
  EXPECT_THAT(replica->Do({"WR.READ", At(5), "GET", key}), IsError("WRNOLEASE "));
  EXPECT_THAT(replica->Attach(), IsError("READONLY "));

  ASSERT_THAT(replica->Do({"REPLICAOF", "NO", "ONE"}), IsOkStatus());
  EXPECT_THAT(replica->Do({"SET", key, "x"}), IsError("WRNOLEASE - 0 - "));
  EXPECT_EQ(replica->Attach().elements[3], Int(1));

  // A master that is demoted forgets that it was one.
  const std::string before = master->incarnation();
  master->Do({"REPLICAOF", "127.0.0.1", "1"});
  master->Do({"REPLICAOF", "NO", "ONE"});
  EXPECT_THAT(master->Do({"SET", key, "x"}), IsError("WRNOLEASE - 0 - "));
  EXPECT_THAT(master->Agent({"WR.RENEW"}), IsError("WRGENERATION "));
  master->Attach();
  EXPECT_NE(master->incarnation(), before);
}

TEST(Agents, TwoOfThemCannotDriveOneOwner) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Serve(SettledMap());
  const std::string incarnation = node->incarnation();
  const std::string first = std::to_string(node->generation());
  node->Attach();
  EXPECT_EQ(node->incarnation(), incarnation);
  EXPECT_EQ(std::to_string(node->generation()), std::to_string(std::stoll(first) + 1));
  EXPECT_THAT(node->Do({"WR.RENEW", first}), IsError("WRGENERATION " + first + " is not"));
  EXPECT_EQ(node->Agent({"WR.RENEW"}).type, RedisReply::Type::kInteger);
  // The lease and the map outlive the agent.
  EXPECT_THAT(node->Do({"SET", KeyIn(0), "v"}), IsOkStatus());

  // Another history, keyspace or node is another owner.
  ASSERT_EQ(node->Do({"WR.ATTACH", HistoryText(), "other", "a", "purge"}).elements.size(), 4u);
  EXPECT_THAT(node->Do({"SET", KeyIn(0), "v"}), IsError("WRNOLEASE - 0 - "));
  EXPECT_EQ(node->Attach().elements[3], Int(1));
  EXPECT_NE(node->incarnation(), incarnation);
}

TEST(Maps, OfAnotherHistoryKeyspaceOrAgeAreRefused) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Serve(SettledMap(5));
  EXPECT_THAT(node->Install(SettledMap(4)), IsError("ERR version: 4 is older than 5"));
  MembershipData data = QuarterData(6, {{{0, 5}, {0, 5}, {1, 5}, {1, 5}}});
  data.history.low = 99;
  EXPECT_THAT(node->Install(MustCreate(data)), IsError("ERR history: "));
  data = QuarterData(6, {{{0, 5}, {0, 5}, {1, 5}, {1, 5}}});
  data.spec.id = "sessions";
  EXPECT_THAT(node->Install(MustCreate(data)), IsError("ERR keyspace: "));
  EXPECT_THAT(node->Install(SettledMap(5)), IsOkStatus());
  EXPECT_EQ(node->Stat("version"), 5);
}

TEST(HostileInput, GetsAClearErrorAndChangesNothing) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Serve(WarmingMap());
  const std::string gen = std::to_string(node->generation());
  const std::string nonce(32, '1');
  const std::string key = KeyIn(0);
  const std::string zeros(16, '0');
  node->Do({"SET", key, "v"});
  const std::string map = EncodeMembership(SettledMap(9)->data());
  const std::vector<Words> bad = {
      {"WR.WRITE"},
      {"WR.WRITE", At(5)},
      {"WR.WRITE", At(5), "SET"},
      {"WR.WRITE", "5", "SET", key, "w"},
      {"WR.WRITE", "A1B2C3D4:5", "SET", key, "w"},
      {"WR.WRITE", "a1b2c3d4:99999999999999999999", "SET", key, "w"},
      {"WR.WRITE", std::string("a1b2c3d4:5\0", 11), "SET", key, "w"},
      {"WR.WRITE", At(5), "GET", key},
      {"WR.WRITE", At(5), "MSET", key, "w"},
      {"WR.WRITE", At(5), "DEL", key, KeyIn(2)},
      {"WR.WRITE", At(5), "EVAL", "return 1", "0"},
      {"WR.WRITE", At(5), "FLUSHALL", key},
      {"WR.WRITE", At(5), std::string("SET\0", 4), key, "w"},
      {"WR.WRITE", At(5), "WR.WRITE", At(5), "SET", key, "w"},
      {"WR.READ", At(5), "SET", key, "w"},
      {"WR.READ", At(5), "GET"},
      {"WR.READ", At(5), "EXISTS", key, key},
      {"WR.READ", "", "GET", key},
      {"WR.PEEK", At(5), "DEL", key},
      {"WR.FILL", At(5), "t", key},
      {"WR.FILL", At(5), "t", key, "w", "PX"},
      {"WR.FILL", At(5), "t", key, "w", "PX", "0"},
      {"WR.FILL", At(5), "t", key, "w", "PX", "-1"},
      {"WR.FILL", At(5), "t", key, "w", "PX", "1x"},
      {"WR.FILL", At(5), "t", key, "w", "EX", "10"},
      {"WR.FORGET"},
      {"WR.FORGET", key, key},
      {"WR.ATTACH"},
      {"WR.ATTACH", "xyz", "cache", "a", "purge"},
      {"WR.ATTACH", HistoryText(), "Cache", "a", "purge"},
      {"WR.ATTACH", HistoryText(), "cache", "a\nb", "purge"},
      {"WR.ATTACH", HistoryText(), "cache", "a", "keep"},
      {"WR.ATTACH", HistoryText(), "cache", "a", "purge", "more"},
      {"WR.MAP", gen},
      {"WR.MAP", gen, ""},
      {"WR.MAP", gen, "garbage"},
      {"WR.MAP", gen, map.substr(0, map.size() / 2)},
      {"WR.MAP", gen, map + "x"},
      {"WR.RENEW", gen, "x"},
      {"WR.GRANT", gen, "1", "1", "0", "1"},
      {"WR.GRANT", gen, "1", "1", "-5", "1"},
      {"WR.GRANT", gen, "1", "1", "99999999999", "1"},
      {"WR.GRANT", gen, "1", "1", "1000"},
      {"WR.GRANT", gen, "1", "1", "1000", "1", "CEILING"},
      {"WR.GRANT", gen, "1", "1", "1000", "1", "FLOOR", "5"},
      {"WR.GRANT", gen, "1", "1", "1000", "1", "FLOOR", "5", "2", zeros, zeros},
      {"WR.FENCE", gen, "grow", "5"},
      {"WR.FENCE", gen, "grow", "5", "0"},
      {"WR.FENCE", gen, "grow", "x", "1", zeros, zeros},
      {"WR.FENCE", gen, "No Id", "5", "1", zeros, zeros},
      {"WR.FENCE", gen, "grow", "5", "1", "0", zeros},
      {"WR.FENCE", gen, "grow", "5", "1", "000000000000000g", zeros},
      {"WR.FENCE", gen, "grow", "5", "1", zeros},
      {"WR.FENCE", gen, "grow", "5", "18446744073709551615", zeros, zeros},
      {"WR.FENCE", gen, "grow", "5", "1", zeros, zeros, "more"},
      {"WR.TRACK", gen, "short", "1", zeros, zeros},
      {"WR.TRACK", gen, nonce, "1"},
      {"WR.CHANGES", gen, nonce, "log", "0", "0", "0"},
      {"WR.CHANGES", gen, nonce, "log", "-1", "0", "10"},
      {"WR.CHANGES", gen, nonce, "log", "0", "0", "99999999999"},
      {"WR.SCAN", gen, nonce, "x", "10"},
      {"WR.DUMP", gen},
      {"WR.DIGEST", gen},
      {"WR.DIRTY", gen, "grow", "0"},
      {"WR.OPEN", gen, nonce, "grow", "1", zeros, zeros},
      {"WR.PURGE", gen, "SOME", "0", "10"},
      {"WR.PURGE", gen, "LEFT", "0", "0"},
      {"WR.PURGE", gen, "ALL", "0", "10"},
      {"WR.FORGOTTEN", gen, "0"},
      {"WR.STAT", gen, "x"},
      {"WR.STAT"},
      {"WR.STAT", "x"},
  };
  for (const Words& words : bad) {
    const RedisReply reply = node->Do(words);
    EXPECT_THAT(reply, IsError("ERR ")) << testing::PrintToString(words);
  }
  EXPECT_THAT(node->Do({"WR.STAT", "0"}), IsError("WRGENERATION "));
  EXPECT_THAT(node->Do({"WR.STAT", std::to_string(node->generation() + 1)}),
              IsError("WRGENERATION "));
  EXPECT_THAT(node->Agent({"WR.CHANGES", nonce, "log", "0", "0", "10"}), IsError("WRSUSPECT "));
  EXPECT_THAT(node->Agent({"WR.APPLY", nonce, key, "DEL"}), IsError("WRVOID "));
  EXPECT_EQ(node->Do({"GET", key}), Str("v"));
  EXPECT_EQ(node->Stat("version"), 2);
  EXPECT_THAT(node->Do({"SET", key, "still open"}), IsOkStatus());
}

TEST_F(TransferTest, ABadEntryAppliesNothingOfItsCall) {
  ASSERT_THAT(Open(), IsOkStatus());
  donor_->Do({"SET", KeyIn(0), "v"});
  const std::string payload =
      donor_->Agent({"WR.DUMP", KeyIn(0)}).elements[2].elements[0].elements[0].text;
  const Words good = {"WR.APPLY", nonce_, KeyIn(0), "SET", payload, "-1", "-1"};
  for (const Words& rest : std::vector<Words>{{KeyIn(0, 1)},
                                              {KeyIn(0, 1), "PUT"},
                                              {KeyIn(0, 1), "SET"},
                                              {KeyIn(0, 1), "SET", payload, "-1"},
                                              {KeyIn(0, 1), "SET", payload, "-3", "-1"},
                                              {KeyIn(0, 1), "SET", payload, "-1", "256"},
                                              {KeyIn(0, 1), "SET", payload, "x", "-1"},
                                              {KeyIn(2), "SET", payload, "-1", "-1"}}) {
    EXPECT_THAT(recipient_->Agent(Join({good, rest})), IsError("ERR "));
    EXPECT_EQ(recipient_->Do({"DBSIZE"}), Int(0));
  }
  EXPECT_EQ(recipient_->Agent(good), Int(1));
}

TEST(Loading, RefusesArgumentsAndServersItCannotServe) {
  ASSERT_OK_AND_ASSIGN(const std::string path, support::BinaryPath("warmring-redis.so"));
  RedisServerOptions options;
  options.enable_module_command = true;
  ASSERT_OK_AND_ASSIGN(const auto server, support::RedisServer::Start(options));
  for (const Words& args : std::vector<Words>{{"nonsense"},
                                              {"changes-max-bytes"},
                                              {"changes-max-bytes", "0"},
                                              {"dirty-max-keys", "many"},
                                              {"dirty-max-keys", "-1"}}) {
    ASSERT_OK_AND_ASSIGN(const RedisReply reply,
                         server->Command(Join({{"MODULE", "LOAD", path}, args})));
    EXPECT_THAT(reply, IsError("ERR"));
  }
  RedisServerOptions cluster;
  cluster.directives = {{"cluster-enabled", "yes"}};
  cluster.modules = {{path, {}}};
  EXPECT_THAT(support::RedisServer::Start(cluster),
              StatusIs(absl::StatusCode::kAborted, "set cluster-enabled no"));
  RedisServerOptions blind;
  blind.directives = {{"rename-command", "COMMAND", ""}};
  blind.modules = {{path, {}}};
  EXPECT_THAT(support::RedisServer::Start(blind),
              StatusIs(absl::StatusCode::kAborted, "do not rename COMMAND"));
  EXPECT_THAT(server->LogText(), HasSubstr("unknown argument 'nonsense'"));
  EXPECT_THAT(server->LogText(), HasSubstr("dirty-max-keys: 'many' is not a number above 0"));
  ASSERT_OK_AND_ASSIGN(RedisReply reply, server->Command({"MODULE", "LOAD", path}));
  EXPECT_THAT(reply, IsOkStatus());
  ASSERT_OK_AND_ASSIGN(reply, server->Command({"SET", "k", "v"}));
  EXPECT_THAT(reply, IsError("WRNOLEASE "));
}

// Keys that begin with "t:" have an override, here as hashed or on b.
Membership::Ptr TenantMap(uint64_t version, bool on_b, uint64_t epoch,
                          std::vector<Move> moves = {}) {
  MembershipData data = QuarterData(version, {{{0, 5}, {0, 5}, {0, 5}, {0, 5}}});
  data.overrides = {{1, {OverrideRule::Match::kPrefix, "t:"}, {}, Epoch(epoch)}};
  if (on_b) data.overrides[0].ranges = {{UINT64_MAX, 1}};
  data.next_plane = 2;
  data.moves = std::move(moves);
  return MustCreate(std::move(data));
}
const Words kPlaneWords = {"1", "1:ffffffffffffffff", "ffffffffffffffff"};

TEST(Override, ItsKeysAreFencedTrackedAndPurgedApart) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Serve(QuarterMap(1, {{{0, 5}, {0, 5}, {0, 5}, {0, 5}}}));
  const std::string nonce(32, '1');
  // Not before the map that knows the rule.
  EXPECT_THAT(node->Agent(Join({{"WR.TRACK", nonce}, kPlaneWords})),
              IsError("ERR version 1 of the membership does not know the override on plane 1"));
  EXPECT_THAT(node->Agent(Join({{"WR.FENCE", "grow", "6"}, kPlaneWords})),
              IsError("ERR version 1 of the membership does not know the override on plane 1"));
  const Move move{"grow", 0, "a", "b", MovePhase::kWarming, HashRangeSet::Whole(1)};
  ASSERT_THAT(node->Install(TenantMap(2, false, 0, {move})), IsOkStatus());
  ASSERT_THAT(node->Do({"SET", "t:1", "v"}), IsOkStatus());
  ASSERT_THAT(node->Do({"SET", "other", "v"}), IsOkStatus());
  const RedisReply tracked = node->Agent(Join({{"WR.TRACK", nonce}, kPlaneWords}));
  ASSERT_EQ(tracked.elements.size(), 2u) << tracked;
  EXPECT_THAT(node->Agent({"WR.SCAN", nonce, "0", "100"}).elements[1].elements,
              ElementsAre(Str("t:1")));
  ASSERT_THAT(node->Do({"SET", "t:2", "v"}), IsOkStatus());
  ASSERT_THAT(node->Do({"SET", "other", "w"}), IsOkStatus());
  EXPECT_THAT(node->Agent({"WR.CHANGES", nonce, tracked.elements[0].text, "0", "0", "10"})
                  .elements[1]
                  .elements,
              ElementsAre(Str("t:2")));
  EXPECT_EQ(node->Agent(Join({{"WR.FENCE", "grow", "6"}, kPlaneWords})).elements.size(), 3u);
  EXPECT_THAT(node->Do({"SET", "t:1", "late"}), IsError("WRFENCING "));
  EXPECT_THAT(node->Do({"WR.WRITE", At(5), "SET", "t:1", "late"}), IsError("WRFENCING "));
  EXPECT_THAT(node->Do({"SET", "other", "x"}), IsOkStatus());
  ASSERT_THAT(node->Install(TenantMap(3, true, 7)), IsOkStatus());
  EXPECT_THAT(node->Do({"SET", "t:1", "late"}), IsError("WRMOVED "));
  EXPECT_THAT(node->Do({"WR.WRITE", At(5), "SET", "other", "y"}), IsOkStatus());
  EXPECT_EQ(node->Agent({"WR.PURGE", "LEFT", "0", "1000"}).elements[1], Int(2));
  EXPECT_EQ(node->Do({"GET", "other"}), Str("y"));
  EXPECT_TRUE(node->Do({"GET", "t:1"}).IsNil());
}

TEST(Override, ATokenFromBeforeItIsVoidAfterIt) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Serve(QuarterMap(1, {{{0, 5}, {0, 5}, {0, 5}, {0, 5}}}));
  const std::string token = node->Do({"WR.READ", At(5), "GET", "t:1"}).elements[1].text;
  const std::string other = node->Do({"WR.READ", At(5), "GET", "other"}).elements[1].text;
  ASSERT_THAT(node->Install(TenantMap(2, false, 0)), IsOkStatus());
  EXPECT_EQ(node->Do({"WR.FILL", At(5), other, "other", "v"}), Int(1))
      << "a new rule voids nothing";
  // It comes to b and back, and is gone: the key has epoch 5 again.
  ASSERT_THAT(node->Install(TenantMap(3, true, 7)), IsOkStatus());
  MembershipData last = QuarterData(5, {{{0, 5}, {0, 5}, {0, 5}, {0, 5}}});
  last.next_plane = 2;
  ASSERT_THAT(node->Install(MustCreate(last)), IsOkStatus());
  EXPECT_EQ(node->Do({"WR.FILL", At(5), token, "t:1", "old"}), Int(0));
  EXPECT_TRUE(node->Do({"GET", "t:1"}).IsNil());
}

TEST(Override, RangesOfAPlaneAreWrittenInOneWay) {
  const auto node = RedisNode::Start("a");
  ASSERT_NE(node, nullptr);
  node->Serve(TenantMap(1, false, 0));
  for (const char* start : {"0:ffffffffffffffff", ":ffffffffffffffff", "-1:ffffffffffffffff",
                            "4294967296:ffffffffffffffff", "1:fffffffffffffff",
                            "1:1:ffffffffffffffff", "x:ffffffffffffffff", "1:"}) {
    EXPECT_THAT(node->Agent({"WR.FENCE", "grow", "6", "1", start, "ffffffffffffffff"}),
                IsError("ERR ranges: "))
        << start;
  }
  EXPECT_THAT(
      node->Agent({"WR.FENCE", "grow", "6", "1", "1:ffffffffffffffff", "1:ffffffffffffffff"}),
      IsError("ERR ranges: "));
}

}  // namespace
}  // namespace warmring
