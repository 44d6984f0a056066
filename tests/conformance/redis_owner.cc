#include <fmt/format.h>

#include <map>
#include <utility>
#include <vector>

#include "client/redis/refusal.h"
#include "core/membership/encoding.h"
#include "gtest/gtest.h"
#include "tests/conformance/tested_owner.h"
#include "tests/support/binary.h"
#include "tests/support/redis_server.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

namespace warmring {
namespace {

using support::RedisReply;
using Words = std::vector<std::string>;

Words Join(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Words RangeWords(const HashRangeSet& set) {
  const std::vector<HashRange> ranges = set.Ranges();
  Words words = {std::to_string(ranges.size())};
  for (const HashRange& range : ranges) {
    words.push_back(range.plane == kCommonPlane
                        ? fmt::format("{:016x}", range.start)
                        : fmt::format("{}:{:016x}", range.plane, range.start));
    words.push_back(fmt::format("{:016x}", range.end));
  }
  return words;
}

std::optional<RefusalInfo> InfoOf(const RedisReply& reply) {
  static const std::map<RefusalCode, RefusalReason> reasons = {
      {RefusalCode::kMoved, RefusalReason::kNotOwner},
      {RefusalCode::kStale, RefusalReason::kStaleEpoch},
      {RefusalCode::kHistory, RefusalReason::kWrongHistory},
      {RefusalCode::kBehind, RefusalReason::kOwnerBehind},
      {RefusalCode::kFencing, RefusalReason::kFencing},
      {RefusalCode::kNoLease, RefusalReason::kNoLease},
  };
  const std::optional<Refusal> refusal = ParseRefusal(reply.text);
  if (!reply.IsError() || !refusal || !reasons.contains(refusal->code)) return std::nullopt;
  return RefusalInfo{reasons.at(refusal->code), refusal->word, refusal->version,
                     refusal->owner_address};
}

// A real redis-server with the module, driven as its agent would.
class RedisOwner final : public TestedOwner {
 public:
  RedisOwner() {
    support::RedisServerOptions options;
    const auto module = support::BinaryPath("warmring-redis.so");
    EXPECT_OK(module);
    options.modules = {{module.value_or(""), {}}};
    auto server = support::RedisServer::Start(std::move(options));
    EXPECT_OK(server);
    if (server.ok()) server_ = *std::move(server);
  }

  void Attach(const HistoryId& history) override {
    const RedisReply reply = Do({"WR.ATTACH", history.ToString(), "cache", "a", "trust"});
    ASSERT_EQ(reply.elements.size(), 4U) << reply;
    generation_ = reply.elements[1].integer;
    version_ = Version(0);
  }
  void Offer(const Membership::Ptr& membership) override {
    const RedisReply reply = Agent("WR.MAP", {EncodeMembership(membership->data())});
    if (!reply.IsError()) version_ = membership->version();
  }
  Version version() override { return version_; }

  uint64_t Renew() override { return static_cast<uint64_t>(Agent("WR.RENEW", {}).integer); }
  absl::Status Grant(const LeaseGrant& grant) override {
    Words words = {std::to_string(grant.seq), std::to_string(grant.term.value),
                   std::to_string(absl::ToInt64Milliseconds(grant.ttl)),
                   std::to_string(grant.version.value)};
    for (const Floor& floor : grant.floors) {
      words = Join(words, {"FLOOR", std::to_string(floor.epoch.value)});
      words = Join(words, RangeWords(floor.ranges));
    }
    const RedisReply reply = Agent("WR.GRANT", words);
    return reply.IsError() ? absl::FailedPreconditionError(reply.text) : absl::OkStatus();
  }
  void Outlive(absl::Duration ttl) override {
    EXPECT_OK(support::WaitFor("the end of the lease", ttl + support::kDefaultWait, [&] {
      const Answer answer = Write("any", "00000000:1");
      return answer.refusal && answer.refusal->reason == RefusalReason::kNoLease;
    }));
  }

  void Fence(const HashRangeSet& ranges, Epoch epoch) override {
    fence_ = Join({"m1", std::to_string(epoch.value)}, RangeWords(ranges));
    acknowledged_ = false;
    Acknowledged();
  }
  // Its answer to the fence is the acknowledgement; an agent asks again while it is refused.
  bool Acknowledged() override {
    acknowledged_ = acknowledged_ || Agent("WR.FENCE", fence_).elements.size() == 3;
    return acknowledged_;
  }

  Answer Write(const std::string& key, const std::string& word) override {
    return AnswerOf(Do({"WR.WRITE", word, "SET", key, "v"}));
  }
  Answer Read(const std::string& key, const std::string& word) override {
    return AnswerOf(Do({"WR.READ", word, "GET", key}));
  }
  std::unique_ptr<Held> Begin(const std::string&, const std::string&) override { return nullptr; }

  void Restart() override {
    EXPECT_OK(server_->Restart());
    version_ = Version(0);
  }

 private:
  static Answer AnswerOf(const RedisReply& reply) {
    Answer answer{InfoOf(reply), false};
    answer.malformed = reply.IsError() && !answer.refusal;
    if (answer.malformed) {
      EXPECT_NE(reply.text.find("epoch word"), std::string::npos) << reply.text;
    }
    return answer;
  }
  RedisReply Do(const Words& words) {
    auto reply = server_->Command(words);
    EXPECT_OK(reply);
    return reply.ok() ? *reply : RedisReply::Nil();
  }
  RedisReply Agent(const std::string& command, const Words& words) {
    return Do(Join({command, std::to_string(generation_)}, words));
  }

  std::unique_ptr<support::RedisServer> server_;
  int64_t generation_ = 0;
  Version version_;
  Words fence_;
  bool acknowledged_ = false;
};

}  // namespace

std::unique_ptr<TestedOwner> MakeRedisOwner() { return std::make_unique<RedisOwner>(); }

}  // namespace warmring
