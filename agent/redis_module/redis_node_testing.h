#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "core/hashing/key_hash.h"
#include "core/membership/encoding.h"
#include "core/ownership/quarter_ring_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/binary.h"
#include "tests/support/redis_server.h"
#include "tests/support/status_matchers.h"

namespace warmring {

using support::RedisReply;
using Words = std::vector<std::string>;

// The n-th key whose hash lies in the quarter.
inline std::string KeyIn(uint64_t quarter, int n = 0) {
  for (int i = 0;; ++i) {
    std::string key = "key:" + std::to_string(i);
    if (Quarter(quarter).Contains(HashKey(HashSpec(), key)) && n-- == 0) return key;
  }
}

inline Words RangeWords(std::initializer_list<uint64_t> quarters) {
  Words words = {std::to_string(quarters.size())};
  for (const uint64_t quarter : quarters) {
    for (const HashPoint point : {Quarter(quarter).start, Quarter(quarter).end}) {
      std::string hex(16, '0');
      for (size_t i = 0; i < 16; ++i) {
        hex[15 - i] = "0123456789abcdef"[(point >> (4 * i)) & 0xf];
      }
      words.push_back(hex);
    }
  }
  return words;
}

inline Words Join(std::initializer_list<Words> parts) {
  Words joined;
  for (const Words& part : parts) joined.insert(joined.end(), part.begin(), part.end());
  return joined;
}

inline const std::string& HistoryText() {
  static const std::string text = kQuarterHistory.ToString();
  return text;
}
// The epoch word of the test's history.
inline std::string At(uint64_t epoch) { return "a1b2c3d4:" + std::to_string(epoch); }

MATCHER_P(IsError, prefix, "is an error that begins with " + std::string(prefix)) {
  return arg.IsError() && arg.text.rfind(std::string(prefix), 0) == 0;
}
MATCHER(IsOkStatus, "is the status OK") { return arg == RedisReply::Status("OK"); }

// A real redis-server with the module, and what an agent would say to it.
class RedisNode {
 public:
  static std::unique_ptr<RedisNode> Start(const std::string& node,
                                          support::RedisServerOptions options = {},
                                          Words module_args = {}) {
    absl::StatusOr<std::string> path = support::BinaryPath("warmring-redis.so");
    EXPECT_OK(path);
    options.modules.push_back({path.value_or(""), std::move(module_args)});
    auto server = support::RedisServer::Start(std::move(options));
    EXPECT_OK(server);
    if (!server.ok()) return nullptr;
    return std::unique_ptr<RedisNode>(new RedisNode(node, *std::move(server)));
  }

  RedisReply Do(const Words& words) {
    auto reply = server_->Command(words);
    EXPECT_OK(reply);
    return reply.ok() ? *reply : RedisReply::Nil();
  }
  // An agent's command: the generation goes behind the name.
  RedisReply Agent(const Words& words) {
    return Do(
        Join({{words.front(), std::to_string(generation_)}, {words.begin() + 1, words.end()}}));
  }

  RedisReply Attach(const std::string& policy = "purge") {
    const RedisReply reply = Do({"WR.ATTACH", HistoryText(), "cache", node_, policy});
    if (reply.elements.size() == 4) {
      incarnation_ = reply.elements[0].text;
      generation_ = reply.elements[1].integer;
    }
    return reply;
  }
  RedisReply Install(const Membership::Ptr& map) {
    version_ = map->version();
    return Agent({"WR.MAP", EncodeMembership(map->data())});
  }
  RedisReply Lease(absl::Duration ttl = absl::Minutes(10)) {
    const RedisReply seq = Agent({"WR.RENEW"});
    return Agent({"WR.GRANT", std::to_string(seq.integer), "1",
                  std::to_string(absl::ToInt64Milliseconds(ttl)), std::to_string(version_.value)});
  }
  // Attached, with this map and a long lease.
  void Serve(const Membership::Ptr& map) {
    ASSERT_EQ(Attach().elements.size(), 4u);
    ASSERT_THAT(Install(map), IsOkStatus());
    ASSERT_THAT(Lease(), IsOkStatus());
  }

  RedisReply Fence(const std::string& migration, uint64_t epoch,
                   std::initializer_list<uint64_t> quarters) {
    return Agent(Join({{"WR.FENCE", migration, std::to_string(epoch)}, RangeWords(quarters)}));
  }

  int64_t Stat(const std::string& name) {
    const RedisReply stat = Agent({"WR.STAT"});
    for (size_t i = 0; i + 1 < stat.elements.size(); i += 2) {
      if (stat.elements[i].text == name) return stat.elements[i + 1].integer;
    }
    ADD_FAILURE() << "WR.STAT has no " << name << ": " << stat;
    return -1;
  }

  support::RedisServer& server() { return *server_; }
  const std::string& incarnation() const { return incarnation_; }
  int64_t generation() const { return generation_; }

 private:
  RedisNode(std::string node, std::unique_ptr<support::RedisServer> server)
      : node_(std::move(node)), server_(std::move(server)) {}

  const std::string node_;
  const std::unique_ptr<support::RedisServer> server_;
  std::string incarnation_;
  int64_t generation_ = 0;
  Version version_;
};

// Maps of the tests: node a has quarters 0 and 1 under epoch 5, b has the others.
inline Membership::Ptr SettledMap(uint64_t version = 1) {
  return QuarterMap(version, {{{0, 5}, {0, 5}, {1, 5}, {1, 5}}});
}
inline Move GrowMove(uint64_t quarter, MovePhase phase, uint32_t wave = 0) {
  return {"grow", wave, "a", "b", phase, HashRangeSet({Quarter(quarter)})};
}
// Quarter 0 is being warmed for b.
inline Membership::Ptr WarmingMap(uint64_t version = 2) {
  return QuarterMap(version, {{{0, 5}, {0, 5}, {1, 5}, {1, 5}}},
                    {GrowMove(0, MovePhase::kWarming)});
}
// Quarter 0 belongs to b under epoch 6; a is the previous owner.
inline Membership::Ptr GraceMap(uint64_t version = 3, uint32_t grace_ms = 60'000) {
  MembershipData data = QuarterData(version, {{{1, 6}, {0, 5}, {1, 5}, {1, 5}}});
  data.moves = {GrowMove(0, MovePhase::kGrace)};
  data.spec.grace_ms = grace_ms;
  return MustCreate(std::move(data));
}
inline Membership::Ptr ReleasedMap(uint64_t version = 4) {
  return QuarterMap(version, {{{1, 6}, {0, 5}, {1, 5}, {1, 5}}});
}

}  // namespace warmring
