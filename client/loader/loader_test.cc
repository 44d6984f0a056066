#include "warmring/loader.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "client/base/membership_testing.h"
#include "client/loader/loader_core.h"
#include "client/sync/manual_watch_testing.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"
#include "warmring/status.h"

// The rules of the loader, with nodes that say what the test wants. What a real owner does is the
// matter of tests/integration/client_redis_test.cc.

namespace warmring {
namespace {

using client_testing::KeyOwnedBy;
using client_testing::MakeMembership;
using client_testing::ManualWatch;
using client_testing::NextVersion;
using client_testing::TwoNodes;
using support::kDefaultWait;
using support::WaitFor;
using testing::ElementsAre;

constexpr char kAddressA[] = "127.0.0.1:7001";
constexpr char kAddressB[] = "127.0.0.1:7002";
constexpr absl::Duration kLong = absl::Seconds(60);
constexpr absl::Duration kShort = absl::Milliseconds(60);

RedisReply Nil() { return {}; }
RedisReply Text(std::string text) {
  RedisReply reply;
  reply.type = RedisReply::Type::kString;
  reply.text = std::move(text);
  return reply;
}
RedisReply Number(int64_t value) {
  RedisReply reply;
  reply.type = RedisReply::Type::kInteger;
  reply.integer = value;
  return reply;
}
RedisReply Error(std::string text) {
  RedisReply reply;
  reply.type = RedisReply::Type::kError;
  reply.text = std::move(text);
  return reply;
}
RedisReply Array(std::vector<RedisReply> elements) {
  RedisReply reply;
  reply.type = RedisReply::Type::kArray;
  reply.elements = std::move(elements);
  return reply;
}
RedisReply Hit(std::string value) { return Array({Text(std::move(value)), Nil(), Number(0)}); }
RedisReply MissReply(std::string token, bool peek = false) {
  return Array({Nil(), Text(std::move(token)), Number(peek ? 1 : 0)});
}

// Answers by a script: for each command word the replies in order, of which the last one stays.
class FakeNodes final : public NodeTransport {
 public:
  using Answer = absl::StatusOr<RedisReply>;

  absl::StatusOr<RedisReply> Command(std::string_view address,
                                     const std::vector<std::string_view>& argv, Instant) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::string line(address);
    for (const std::string_view word : argv) line += ' ' + std::string(word);
    log_.push_back(line);
    std::deque<Answer>& answers = script_[std::string(argv[0])];
    if (answers.empty()) return Error("ERR not in the script: " + line);
    Answer answer = answers.front();
    if (answers.size() > 1) answers.pop_front();
    return answer;
  }

  void Script(const std::string& command, std::vector<Answer> answers) {
    const std::lock_guard<std::mutex> lock(mutex_);
    script_[command].assign(answers.begin(), answers.end());
  }
  std::vector<std::string> Log() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return log_;
  }
  size_t Count(std::string_view part) const {
    const std::vector<std::string> log = Log();
    return static_cast<size_t>(std::count_if(log.begin(), log.end(), [&](const std::string& line) {
      return line.find(part) != std::string::npos;
    }));
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::deque<Answer>> script_;
  std::vector<std::string> log_;
};

class LoaderTest : public testing::Test {
 protected:
  LoaderTest()
      : watch_([this](const Membership::Ptr& membership) { router_.Install(membership); }),
        membership_(MakeMembership(TwoNodes())),
        key_(KeyOwnedBy(*membership_, "a")) {
    watch_.Publish(membership_);
    Make();
  }

  void Make(LoaderOptions options = {}) {
    LoaderSeams seams;
    seams.router = &router_;
    seams.watch = &watch_;
    seams.nodes = &nodes_;
    loader_ = client_testing::Must(MakeLoader(
        std::move(seams),
        [this](std::string_view key, absl::Duration left) { return origin_(key, left); }, options));
  }
  // The word of `membership` for the test's key, with `epoch`.
  std::string Word(uint64_t epoch = 1) const {
    return membership_->history().Tag() + ":" + std::to_string(epoch);
  }
  std::string Refused(const std::string& code, uint64_t version, uint64_t epoch = 2) const {
    return code + " " + Word(epoch) + " " + std::to_string(version) + " " + kAddressB + " text";
  }

  Router router_;
  ManualWatch watch_;
  FakeNodes nodes_;
  std::atomic<int> origin_calls_ = 0;
  Origin origin_ = [this](std::string_view, absl::Duration) {
    ++origin_calls_;
    return std::optional<std::string>("from origin");
  };
  Membership::Ptr membership_;
  std::string key_;
  std::unique_ptr<Loader> loader_;
};

TEST_F(LoaderTest, AHitIsOneCheckedRead) {
  nodes_.Script("WR.READ", {Hit("v")});
  EXPECT_THAT(loader_->Get(key_, kLong).value(), testing::Optional(std::string("v")));
  EXPECT_THAT(nodes_.Log(),
              ElementsAre(std::string(kAddressA) + " WR.READ " + Word() + " GET " + key_));
  EXPECT_EQ(loader_->Stats().hits, 1U);
  EXPECT_EQ(origin_calls_, 0);
}

TEST_F(LoaderTest, AMissIsReadFromTheOriginAndFilledWithItsTokenAndTtl) {
  LoaderOptions options;
  options.ttl = absl::Seconds(9);
  Make(options);
  nodes_.Script("WR.READ", {MissReply("tok")});
  nodes_.Script("WR.FILL", {Number(1)});
  EXPECT_THAT(loader_->Get(key_, kLong).value(), testing::Optional(std::string("from origin")));
  EXPECT_EQ(nodes_.Log()[1], std::string(kAddressA) + " WR.FILL " + Word() + " tok " + key_ +
                                 " from origin PX 9000");
  const LoaderStats stats = loader_->Stats();
  EXPECT_EQ(stats.misses, 1U);
  EXPECT_EQ(stats.origin_fills, 1U);
  EXPECT_EQ(stats.fills_void, 0U);
}

TEST_F(LoaderTest, AVoidFillIsDroppedAndTheValueStillServed) {
  nodes_.Script("WR.READ", {MissReply("tok")});
  for (const RedisReply& answer : {Number(0), Error(Refused("WRSTALE", 9))}) {
    nodes_.Script("WR.FILL", {answer});
    EXPECT_THAT(loader_->Get(key_, kLong).value(), testing::Optional(std::string("from origin")));
  }
  EXPECT_EQ(nodes_.Count("WR.FILL"), 2U);
  EXPECT_EQ(loader_->Stats().fills_void, 2U);
}

TEST_F(LoaderTest, AnOriginErrorIsReturnedAndNeverStored) {
  origin_ = [](std::string_view, absl::Duration) { return absl::InternalError("database down"); };
  nodes_.Script("WR.READ", {MissReply("tok")});
  EXPECT_THAT(loader_->Get(key_, kLong), StatusIs(absl::StatusCode::kInternal, "database down"));
  EXPECT_EQ(nodes_.Count("WR.FILL"), 0U);
  EXPECT_EQ(loader_->Stats().errors, 1U);
}

TEST_F(LoaderTest, AnAbsentValueIsStoredOnlyWithANegativeTtl) {
  origin_ = [](std::string_view, absl::Duration) { return std::optional<std::string>(); };
  nodes_.Script("WR.READ", {MissReply("tok")});
  nodes_.Script("WR.FILL", {Number(1)});
  EXPECT_EQ(loader_->Get(key_, kLong).value(), std::nullopt);
  EXPECT_EQ(nodes_.Count("WR.FILL"), 0U);

  LoaderOptions options;
  options.negative_ttl = absl::Seconds(1);
  options.absent_marker = "NONE";
  Make(options);
  EXPECT_EQ(loader_->Get(key_, kLong).value(), std::nullopt);
  EXPECT_EQ(nodes_.Count("NONE PX 1000"), 1U);
  nodes_.Script("WR.READ", {Hit("NONE")});
  EXPECT_EQ(loader_->Get(key_, kLong).value(), std::nullopt);
}

TEST_F(LoaderTest, InGraceAMissIsPeekedAndFilledWithTheRestOfItsLife) {
  watch_.Publish(client_testing::WithGrace(*membership_, key_, "a", "b", Epoch(2)));
  nodes_.Script("WR.READ", {MissReply("tok", true)});
  nodes_.Script("WR.PEEK", {Array({Text("old"), Number(1234)})});
  nodes_.Script("WR.FILL", {Number(1)});
  EXPECT_THAT(loader_->Get(key_, kLong).value(), testing::Optional(std::string("old")));
  EXPECT_THAT(nodes_.Log(),
              ElementsAre(std::string(kAddressB) + " WR.READ " + Word(2) + " GET " + key_,
                          std::string(kAddressA) + " WR.PEEK " + Word(2) + " GET " + key_,
                          std::string(kAddressB) + " WR.FILL " + Word(2) + " tok " + key_ +
                              " old PX 1234"));
  EXPECT_EQ(loader_->Stats().grace_hits, 1U);
  EXPECT_EQ(origin_calls_, 0);
}

TEST_F(LoaderTest, APeekThatFindsNothingGoesOnToTheOrigin) {
  watch_.Publish(client_testing::WithGrace(*membership_, key_, "a", "b", Epoch(2)));
  nodes_.Script("WR.FILL", {Number(1)});
  nodes_.Script("WR.READ", {MissReply("tok", true)});
  for (const FakeNodes::Answer& answer : {FakeNodes::Answer(Array({Nil(), Number(-2)})),
                                          FakeNodes::Answer(Error(Refused("WRMOVED", 2))),
                                          FakeNodes::Answer(absl::UnavailableError("gone"))}) {
    nodes_.Script("WR.PEEK", {answer});
    EXPECT_THAT(loader_->Get(key_, kLong).value(), testing::Optional(std::string("from origin")));
  }
  // Without the owner's word nobody is peeked at.
  nodes_.Script("WR.READ", {MissReply("tok", false)});
  loader_->Get(key_, kLong).value();
  EXPECT_EQ(nodes_.Count("WR.PEEK"), 3U);
  EXPECT_EQ(origin_calls_, 4);
}

TEST_F(LoaderTest, AMovedRangeWaitsForTheNamedVersionAndGoesToTheNewOwner) {
  const Membership::Ptr next = client_testing::WithOwner(*membership_, key_, "b", Epoch(2));
  nodes_.Script("WR.READ", {Error(Refused("WRMOVED", 2)), Hit("v")});
  std::thread publisher([&] {
    EXPECT_OK(WaitFor("the wait", kDefaultWait, [&] { return watch_.Waits() > 0; }));
    watch_.Publish(next);
  });
  EXPECT_THAT(loader_->Get(key_, kLong).value(), testing::Optional(std::string("v")));
  publisher.join();
  EXPECT_THAT(nodes_.Log(),
              ElementsAre(std::string(kAddressA) + " WR.READ " + Word() + " GET " + key_,
                          std::string(kAddressB) + " WR.READ " + Word(2) + " GET " + key_));
  EXPECT_EQ(loader_->Stats().refused_moved, 1U);
  EXPECT_EQ(loader_->Stats().retries, 1U);
}

TEST_F(LoaderTest, EveryRefusalIsCountedAndCured) {
  for (const auto& [code, counter] :
       std::vector<std::pair<std::string, std::function<uint64_t(const LoaderStats&)>>>{
           {"WRMOVED", [](const LoaderStats& s) { return s.refused_moved; }},
           {"WRSTALE", [](const LoaderStats& s) { return s.refused_stale; }},
           {"WRHISTORY", [](const LoaderStats& s) { return s.refused_stale; }},
           {"WRBEHIND", [](const LoaderStats& s) { return s.refused_behind; }},
           {"WRFENCING", [](const LoaderStats& s) { return s.refused_fencing; }},
           {"WRBUSY", [](const LoaderStats& s) { return s.refused_fencing; }},
           {"WRNOLEASE", [](const LoaderStats& s) { return s.refused_no_lease; }}}) {
    Make();
    // The owner is not ahead of this client, so nothing but time can help.
    nodes_.Script("WR.WRITE", {Error(Refused(code, 1)), Error(Refused(code, 1)), Text("OK")});
    EXPECT_OK(loader_->Set(key_, "v", absl::ZeroDuration(), kLong)) << code;
    EXPECT_EQ(counter(loader_->Stats()), 2U) << code;
    EXPECT_EQ(loader_->Stats().retries, 2U) << code;
  }
}

TEST_F(LoaderTest, AWriteThatIsRefusedToTheEndSaysByWhomAndWhy) {
  nodes_.Script("WR.WRITE", {Error(Refused("WRFENCING", 1, 5))});
  const absl::Status status = loader_->Set(key_, "v", absl::ZeroDuration(), kShort);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, "node a (127.0.0.1:7001)"));
  const auto refusal = RefusalOf(status);
  ASSERT_TRUE(refusal.has_value()) << status;
  EXPECT_EQ(refusal->reason, RefusalReason::kFencing);
  EXPECT_EQ(refusal->epoch_word, Word(5));
  EXPECT_EQ(refusal->version, Version(1));
  EXPECT_EQ(loader_->Stats().errors, 1U);
}

TEST_F(LoaderTest, AnUnreachableOwnerOfAReadFallsThroughToTheOriginWithoutAFill) {
  nodes_.Script("WR.READ", {absl::UnavailableError("refused")});
  EXPECT_THAT(loader_->Get(key_, kLong).value(), testing::Optional(std::string("from origin")));
  EXPECT_EQ(nodes_.Count("WR.FILL"), 0U);
  EXPECT_EQ(loader_->Stats().origin_direct, 1U);

  LoaderOptions options;
  options.origin_when_unreachable = false;
  Make(options);
  EXPECT_THAT(loader_->Get(key_, kLong), StatusIs(absl::StatusCode::kUnavailable, "node a"));
  EXPECT_EQ(origin_calls_, 1);
}

TEST_F(LoaderTest, AReadOnABrokenConnectionIsTriedOnceMore) {
  nodes_.Script("WR.READ", {absl::UnknownError("reset"), Hit("v")});
  EXPECT_THAT(loader_->Get(key_, kLong).value(), testing::Optional(std::string("v")));
  EXPECT_EQ(origin_calls_, 0);
}

TEST_F(LoaderTest, ReadsThatStayRefusedFallThroughAtHalfTime) {
  nodes_.Script("WR.READ", {Error(Refused("WRBEHIND", 1))});
  EXPECT_THAT(loader_->Get(key_, kShort).value(), testing::Optional(std::string("from origin")));
  EXPECT_EQ(loader_->Stats().origin_direct, 1U);
}

TEST_F(LoaderTest, AnIdempotentWriteIsSentAgainAndAnotherIsUnknown) {
  nodes_.Script("WR.WRITE", {absl::UnknownError("reset"), Text("OK")});
  EXPECT_OK(loader_->Set(key_, "v", absl::ZeroDuration(), kLong));
  EXPECT_EQ(nodes_.Count("WR.WRITE"), 2U);
  nodes_.Script("WR.WRITE", {absl::UnknownError("reset"), Number(1)});
  EXPECT_THAT(loader_->Write("INCR", key_, {}, kLong),
              StatusIs(absl::StatusCode::kUnknown, "may or may not have run"));
  // Never sent is never run.
  nodes_.Script("WR.WRITE", {absl::UnavailableError("refused"), Number(1)});
  EXPECT_EQ(loader_->Write("INCR", key_, {}, kLong).value().integer, 1);
}

TEST_F(LoaderTest, AnErrorOfTheCommandIsNotRetried) {
  nodes_.Script("WR.WRITE", {Error("WRONGTYPE Operation against a key")});
  EXPECT_THAT(loader_->Write("INCR", key_, {}, kLong),
              StatusIs(absl::StatusCode::kFailedPrecondition, "WRONGTYPE"));
  nodes_.Script("WR.WRITE", {Error("OOM command not allowed")});
  EXPECT_THAT(loader_->Set(key_, "v", absl::ZeroDuration(), kLong),
              StatusIs(absl::StatusCode::kResourceExhausted, "OOM"));
  nodes_.Script("WR.READ", {Error("ERR unknown command 'WR.READ', with args")});
  EXPECT_THAT(loader_->Get(key_, kLong),
              StatusIs(absl::StatusCode::kFailedPrecondition, "warmring-redis.so"));
  nodes_.Script("WR.READ", {Text("PONG")});
  EXPECT_THAT(loader_->Get(key_, kLong), StatusIs(absl::StatusCode::kInternal, "node a"));
}

TEST_F(LoaderTest, ADeleteIsToldToThePendingRecipientAfterTheOwnersAcknowledgement) {
  watch_.Publish(client_testing::WithPending(*membership_, key_, "a", "b"));
  nodes_.Script("WR.WRITE", {Error(Refused("WRNOLEASE", 2)), Number(1)});
  nodes_.Script("WR.FORGET", {absl::UnavailableError("refused"), Number(0)});
  EXPECT_OK(loader_->Delete(key_, kLong));
  const std::string deletes = std::string(kAddressA) + " WR.WRITE " + Word() + " UNLINK " + key_;
  const std::string forgets = std::string(kAddressB) + " WR.FORGET " + key_;
  EXPECT_THAT(nodes_.Log(), ElementsAre(deletes, deletes, forgets, forgets));
  EXPECT_EQ(loader_->Stats().forgets_failed, 0U);
  // Values never go there.
  EXPECT_OK(loader_->Set(key_, "v", absl::ZeroDuration(), kLong));
  EXPECT_EQ(nodes_.Count(kAddressB), 2U);
}

TEST_F(LoaderTest, ARecipientThatCannotBeToldDoesNotFailTheDelete) {
  watch_.Publish(client_testing::WithPending(*membership_, key_, "a", "b"));
  nodes_.Script("WR.WRITE", {Number(1)});
  nodes_.Script("WR.FORGET", {absl::UnavailableError("refused")});
  EXPECT_OK(loader_->Delete(key_, kShort));
  EXPECT_EQ(loader_->Stats().forgets_failed, 1U);
}

TEST_F(LoaderTest, CallersOfOneKeyShareOneOriginRead) {
  std::atomic<bool> release = false;
  origin_ = [&](std::string_view, absl::Duration) {
    ++origin_calls_;
    EXPECT_OK(WaitFor("the release", kDefaultWait, [&] { return release.load(); }));
    return std::optional<std::string>("once");
  };
  nodes_.Script("WR.READ", {MissReply("tok")});
  nodes_.Script("WR.FILL", {Number(1)});
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      EXPECT_THAT(loader_->Get(key_, kLong).value(), testing::Optional(std::string("once")));
    });
  }
  EXPECT_OK(WaitFor("everybody", kDefaultWait, [&] { return loader_->Stats().coalesced == 7; }));
  release = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(origin_calls_, 1);
  EXPECT_EQ(nodes_.Count("WR.FILL"), 1U);
}

// A reader whose miss comes after somebody's delete must not get what was read before it.
TEST_F(LoaderTest, NobodySharesALookThatBeganBeforeAWrite) {
  std::atomic<bool> release = false;
  origin_ = [&](std::string_view, absl::Duration) {
    const int call = ++origin_calls_;
    if (call == 1) {
      EXPECT_OK(WaitFor("the release", kDefaultWait, [&] { return release.load(); }));
      return std::optional<std::string>("old");
    }
    return std::optional<std::string>("new");
  };
  nodes_.Script("WR.FILL", {Number(1)});
  nodes_.Script("WR.WRITE", {Number(1)});
  nodes_.Script("WR.READ", {MissReply("tok1")});
  std::thread first([&] {
    EXPECT_THAT(loader_->Get(key_, kLong).value(), testing::Optional(std::string("old")));
  });
  EXPECT_OK(WaitFor("the first look", kDefaultWait, [&] { return origin_calls_ == 1; }));
  // Somebody else deleted the key: the owner gives another token.
  nodes_.Script("WR.READ", {MissReply("tok2")});
  EXPECT_THAT(loader_->Get(key_, kLong).value(), testing::Optional(std::string("new")));
  // This process deletes it: the token alone would still fit the first look.
  nodes_.Script("WR.READ", {MissReply("tok1")});
  EXPECT_OK(loader_->Delete(key_, kLong));
  EXPECT_THAT(loader_->Get(key_, kLong).value(), testing::Optional(std::string("new")));
  release = true;
  first.join();
  EXPECT_EQ(origin_calls_, 3);
}

TEST_F(LoaderTest, ALeaderThatRunsOutOfTimeDoesNotTakeTheOthersWithIt) {
  origin_ = [&](std::string_view, absl::Duration) -> absl::StatusOr<std::optional<std::string>> {
    if (++origin_calls_ == 1) {
      EXPECT_OK(
          WaitFor("a follower", kDefaultWait, [&] { return loader_->Stats().coalesced == 1; }));
      return absl::DeadlineExceededError("too slow");
    }
    return std::optional<std::string>("in time");
  };
  nodes_.Script("WR.READ", {MissReply("tok")});
  nodes_.Script("WR.FILL", {Number(1)});
  std::thread leader([&] {
    EXPECT_THAT(loader_->Get(key_, kLong), StatusIs(absl::StatusCode::kDeadlineExceeded));
  });
  EXPECT_OK(WaitFor("the leader", kDefaultWait, [&] { return origin_calls_ == 1; }));
  EXPECT_THAT(loader_->Get(key_, kLong).value(), testing::Optional(std::string("in time")));
  leader.join();
}

TEST_F(LoaderTest, FillsKeepToThisClientsPartOfTheBudget) {
  MembershipData data = membership_->data();
  data.version = Version(2);
  data.spec.origin_fill_qps = 1;
  watch_.Publish(client_testing::Must(Membership::Create(data)));
  watch_.SetWatchers(1000);
  nodes_.Script("WR.READ", {MissReply("tok")});
  nodes_.Script("WR.FILL", {Number(1)});
  EXPECT_OK(loader_->Get(key_, kLong));
  EXPECT_THAT(loader_->Get(key_, kLong),
              StatusIs(absl::StatusCode::kResourceExhausted, "origin_fill_qps"));
  EXPECT_EQ(origin_calls_, 1);
}

TEST_F(LoaderTest, AnyCheckedReadCommand) {
  nodes_.Script("WR.READ", {Array({Array({Text("f"), Number(3)}), Nil(), Number(0)})});
  const CacheReply reply = loader_->Read("HGETALL", key_, {"x"}, kLong).value();
  ASSERT_EQ(reply.elements.size(), 2U);
  EXPECT_EQ(reply.elements[0].text, "f");
  EXPECT_EQ(reply.elements[1].integer, 3);
  EXPECT_EQ(nodes_.Count("HGETALL " + key_ + " x"), 1U);
}

TEST_F(LoaderTest, WaitsForTheFirstMembership) {
  Router empty;
  ManualWatch late([&](const Membership::Ptr& membership) { empty.Install(membership); });
  LoaderSeams seams;
  seams.router = &empty;
  seams.watch = &late;
  seams.nodes = &nodes_;
  const auto loader = client_testing::Must(MakeLoader(std::move(seams), origin_, {}));
  nodes_.Script("WR.WRITE", {Text("OK")});
  EXPECT_THAT(loader->Set(key_, "v", absl::ZeroDuration(), kShort),
              StatusIs(absl::StatusCode::kUnavailable, "no membership"));
  late.Publish(membership_);
  EXPECT_OK(loader->Set(key_, "v", absl::ZeroDuration(), kShort));
}

TEST_F(LoaderTest, BadOptionsAreNamed) {
  EXPECT_THAT(MakeLoader({}, nullptr, {}), StatusIs(absl::StatusCode::kInvalidArgument, "origin"));
  LoaderOptions options;
  options.negative_ttl = absl::Seconds(-1);
  EXPECT_THAT(MakeLoader({}, origin_, options),
              StatusIs(absl::StatusCode::kInvalidArgument, "negative_ttl"));
  EXPECT_THAT(Loader::Create(nullptr, origin_),
              StatusIs(absl::StatusCode::kInvalidArgument, "client"));
}

}  // namespace
}  // namespace warmring
