#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/redis/refusal.h"
#include "core/base/hash_range.h"
#include "core/membership/encoding.h"
#include "core/membership/membership.h"
#include "core/ownership/owner_view.h"
#include "gtest/gtest.h"
#include "tests/support/binary.h"
#include "tests/support/redis_server.h"
#include "tests/support/status_matchers.h"

namespace warmring {

// A real redis-server with the module, and the test in the place of its agent: it attaches,
// installs memberships, grants leases and fences. One thread at a time.
class CheckedRedis {
 public:
  explicit CheckedRedis(NodeId node) : node_(std::move(node)) {
    const auto module = support::BinaryPath("warmring-redis.so");
    EXPECT_OK(module);
    if (!module.ok()) return;
    support::RedisServerOptions options;
    options.modules = {{*module, {}}};
    auto server = support::RedisServer::Start(options);
    EXPECT_OK(server);
    if (server.ok()) server_ = *std::move(server);
  }

  bool ok() const { return server_ != nullptr; }
  const NodeId& node() const { return node_; }
  std::string address() const { return server_->Address(); }
  support::RedisServer& server() { return *server_; }

  support::RedisReply Command(const std::vector<std::string>& words) {
    auto reply = server_->Command(words);
    EXPECT_OK(reply);
    return reply.ok() ? *std::move(reply) : support::RedisReply::Nil();
  }
  // A command of the agent: the generation goes behind its name. Must not be refused.
  support::RedisReply Agent(const std::string& command, std::vector<std::string> words) {
    std::vector<std::string> all = {command, generation_};
    for (std::string& word : words) all.push_back(std::move(word));
    support::RedisReply reply = Command(all);
    EXPECT_FALSE(reply.IsError()) << command << ": " << reply.Describe();
    return reply;
  }

  void Attach(const Membership& membership) {
    const support::RedisReply reply = Command(
        {"WR.ATTACH", membership.history().ToString(), membership.spec().id, node_, "trust"});
    ASSERT_EQ(reply.elements.size(), 4U) << reply.Describe();
    generation_ = std::to_string(reply.elements[1].integer);
  }
  void Install(const Membership& membership) {
    Agent("WR.MAP", {EncodeMembership(membership.data())});
    version_ = membership.version();
  }
  void Grant(absl::Duration ttl = absl::Hours(1)) {
    const support::RedisReply seq = Agent("WR.RENEW", {});
    Agent("WR.GRANT",
          {std::to_string(seq.integer), "1", std::to_string(absl::ToInt64Milliseconds(ttl)),
           std::to_string(version_.value)});
  }
  void Fence(const HashRangeSet& ranges, Epoch epoch) {
    std::vector<std::string> words = {"m1", std::to_string(epoch.value)};
    Append(ranges, words);
    Agent("WR.FENCE", std::move(words));
  }
  // Drops everything that the installed membership does not entitle this node to.
  void PurgeLeft() {
    int64_t cursor = 0;
    do {
      const support::RedisReply reply = Agent("WR.PURGE", {"LEFT", std::to_string(cursor), "1000"});
      ASSERT_EQ(reply.elements.size(), 2U) << reply.Describe();
      cursor = Number(reply.elements[0]);
    } while (cursor != 0);
  }
  // One figure of WR.STAT.
  int64_t Stat(const std::string& name) {
    const support::RedisReply reply = Agent("WR.STAT", {});
    for (size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
      if (reply.elements[i].text == name) return Number(reply.elements[i + 1]);
    }
    ADD_FAILURE() << "WR.STAT has no " << name << ": " << reply.Describe();
    return -1;
  }

  static void Append(const HashRangeSet& ranges, std::vector<std::string>& words) {
    const std::vector<HashRange> list = ranges.Ranges();
    words.push_back(std::to_string(list.size()));
    for (const HashRange& range : list) {
      words.push_back(Hex(range.start));
      words.push_back(Hex(range.end));
    }
  }

 private:
  static int64_t Number(const support::RedisReply& reply) {
    return reply.type == support::RedisReply::Type::kInteger ? reply.integer
                                                             : std::stoll(reply.text);
  }
  static std::string Hex(HashPoint point) {
    std::string text = Id128{0, point}.ToString();
    return text.substr(16);
  }

  const NodeId node_;
  std::unique_ptr<support::RedisServer> server_;
  std::string generation_;
  Version version_;
};

}  // namespace warmring
