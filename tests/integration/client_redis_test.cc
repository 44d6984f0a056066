#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/base/membership_testing.h"
#include "client/loader/loader_core.h"
#include "client/redis/redis_pool.h"
#include "client/sync/manual_watch_testing.h"
#include "gtest/gtest.h"
#include "tests/integration/checked_redis_testing.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"
#include "warmring/loader.h"
#include "warmring/status.h"

// The loader against real Redis servers that refuse by themselves: refusals cure the client, writes
// land on the present owner, and no reader ever sees a value older than an acknowledged write.

namespace warmring {
namespace {

using client_testing::KeyOwnedBy;
using client_testing::MakeMembership;
using client_testing::MakeNode;
using client_testing::ManualWatch;
using client_testing::RangeOfKey;
using support::kDefaultWait;
using support::WaitFor;
using testing::Optional;

constexpr absl::Duration kLong = absl::Seconds(30);
constexpr absl::Duration kShort = absl::Milliseconds(200);

// The database behind the cache.
class TestOrigin {
 public:
  absl::StatusOr<std::optional<std::string>> Read(std::string_view key) {
    std::function<void()> during;
    std::optional<std::string> value;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++reads_;
      if (down_) return absl::UnavailableError("the database is down");
      const auto found = values_.find(std::string(key));
      if (found != values_.end()) value = found->second;
      during = std::exchange(during_, nullptr);
    }
    if (during != nullptr) during();
    return value;
  }
  void Write(const std::string& key, const std::string& value) {
    const std::lock_guard<std::mutex> lock(mutex_);
    values_[key] = value;
  }
  void SetDown(bool down) {
    const std::lock_guard<std::mutex> lock(mutex_);
    down_ = down;
  }
  // Runs once, after the next read has seen its value and before it returns.
  void DuringNextRead(std::function<void()> what) {
    const std::lock_guard<std::mutex> lock(mutex_);
    during_ = std::move(what);
  }
  int Reads() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return reads_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> values_;
  std::function<void()> during_;
  bool down_ = false;
  int reads_ = 0;
};

// One application process: its own membership, connections and loader.
class Process {
 public:
  explicit Process(TestOrigin* origin, LoaderOptions options = {})
      : watch_([this](const Membership::Ptr& membership) { router_.Install(membership); }),
        pool_(RedisPoolOptions{}) {
    LoaderSeams seams;
    seams.router = &router_;
    seams.watch = &watch_;
    seams.owned_nodes = std::make_unique<PooledNodes>(&pool_);
    loader_ = client_testing::Must(MakeLoader(
        std::move(seams),
        [origin](std::string_view key, absl::Duration) { return origin->Read(key); }, options));
  }
  Loader* operator->() { return loader_.get(); }
  ManualWatch& watch() { return watch_; }

 private:
  Router router_;
  ManualWatch watch_;
  RedisPool pool_;
  std::unique_ptr<Loader> loader_;
};

class ClientRedisTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(a_.ok() && b_.ok());
    membership_ = MakeMembership({MakeNode("a", a_.address()), MakeNode("b", b_.address())});
    key_ = KeyOwnedBy(*membership_, "a");
    for (CheckedRedis* owner : {&a_, &b_}) {
      owner->Attach(*membership_);
      owner->Install(*membership_);
      owner->Grant();
    }
    process_.watch().Publish(membership_);
  }

  // Both owners have `next`; the clients do not yet.
  void Install(const Membership::Ptr& next) {
    membership_ = next;
    a_.Install(*next);
    b_.Install(*next);
    a_.Grant();
    b_.Grant();
  }
  // The key's range goes from a to b under `epoch`, in grace.
  void MoveToB(Epoch epoch) {
    a_.Fence(RangeOfKey(*membership_, key_), Epoch(epoch.value - 1));
    Install(client_testing::WithGrace(*membership_, key_, "a", "b", epoch));
  }
  // Publishes to the process once it waits for a version.
  std::thread PublishWhenAsked() {
    return std::thread([this, before = process_.watch().Waits(), next = membership_] {
      EXPECT_OK(WaitFor("a waiting client", kDefaultWait,
                        [&] { return process_.watch().Waits() > before; }));
      process_.watch().Publish(next);
    });
  }

  CheckedRedis a_{"a"};
  CheckedRedis b_{"b"};
  TestOrigin origin_;
  Process process_{&origin_};
  Membership::Ptr membership_;
  std::string key_;
};

TEST_F(ClientRedisTest, ReadsThroughThenHits) {
  LoaderOptions options;
  options.ttl = absl::Seconds(100);
  Process process(&origin_, options);
  process.watch().Publish(membership_);
  const std::string value("v\0\r\n\xff", 5);
  origin_.Write(key_, value);
  EXPECT_THAT(process->Get(key_, kLong).value(), Optional(value));
  EXPECT_THAT(process->Get(key_, kLong).value(), Optional(value));
  EXPECT_EQ(origin_.Reads(), 1);
  const int64_t ttl = a_.Command({"PTTL", key_}).integer;
  EXPECT_GT(ttl, 50'000);
  EXPECT_LE(ttl, 100'000);
  const LoaderStats stats = process->Stats();
  EXPECT_EQ(stats.misses, 1U);
  EXPECT_EQ(stats.hits, 1U);
  EXPECT_EQ(stats.fills_void, 0U);
}

TEST_F(ClientRedisTest, AnAbsentValueIsRememberedForItsTtl) {
  LoaderOptions options;
  options.negative_ttl = absl::Seconds(100);
  Process process(&origin_, options);
  process.watch().Publish(membership_);
  EXPECT_EQ(process->Get(key_, kLong).value(), std::nullopt);
  EXPECT_EQ(process->Get(key_, kLong).value(), std::nullopt);
  EXPECT_EQ(origin_.Reads(), 1);
  // The row is made, the negative entry is deleted.
  origin_.Write(key_, "now there");
  EXPECT_OK(process->Delete(key_, kLong));
  EXPECT_THAT(process->Get(key_, kLong).value(), Optional(std::string("now there")));
}

TEST_F(ClientRedisTest, AnOriginThatIsDownIsToldAndNotStored) {
  origin_.Write(key_, "v");
  origin_.SetDown(true);
  EXPECT_THAT(process_->Get(key_, kLong),
              StatusIs(absl::StatusCode::kUnavailable, "the database is down"));
  EXPECT_EQ(a_.Command({"EXISTS", key_}).integer, 0);
  origin_.SetDown(false);
  EXPECT_THAT(process_->Get(key_, kLong).value(), Optional(std::string("v")));
}

TEST_F(ClientRedisTest, WritesReadsAndOtherCommands) {
  EXPECT_OK(process_->Set(key_, "v", absl::Seconds(100), kLong));
  EXPECT_GT(a_.Command({"PTTL", key_}).integer, 50'000);
  EXPECT_THAT(process_->Get(key_, kLong).value(), Optional(std::string("v")));
  EXPECT_OK(process_->Delete(key_, kLong));
  EXPECT_EQ(process_->Get(key_, kLong).value(), std::nullopt);
  EXPECT_EQ(process_->Write("INCRBY", key_, {"41"}, kLong).value().integer, 41);
  EXPECT_EQ(process_->Write("INCR", key_, {}, kLong).value().integer, 42);
  EXPECT_EQ(process_->Read("GET", key_, {}, kLong).value().text, "42");
  EXPECT_THAT(process_->Write("LPUSH", key_, {"x"}, kLong),
              StatusIs(absl::StatusCode::kFailedPrecondition, "WRONGTYPE"));
  EXPECT_THAT(process_->Write("FLUSHALL", key_, {}, kLong),
              StatusIs(absl::StatusCode::kFailedPrecondition, "FLUSHALL"));
}

TEST_F(ClientRedisTest, AStaleEpochIsRefusedAndTheRetrySucceeds) {
  Install(client_testing::WithOwner(*membership_, key_, "a", Epoch(2)));
  std::thread publisher = PublishWhenAsked();
  EXPECT_OK(process_->Set(key_, "v", absl::ZeroDuration(), kLong));
  publisher.join();
  EXPECT_EQ(process_->Stats().refused_stale, 1U);
  EXPECT_EQ(a_.Stat("refused_stale"), 1);
  EXPECT_EQ(a_.Command({"GET", key_}).text, "v");
}

TEST_F(ClientRedisTest, AWriteToAFormerOwnerIsRefusedAndLandsOnTheNewOne) {
  MoveToB(Epoch(2));
  // So is the plain command of an unmodified client.
  const support::RedisReply plain = a_.Command({"SET", key_, "plain"});
  ASSERT_TRUE(plain.IsError());
  const auto refusal = ParseRefusal(plain.text);
  ASSERT_TRUE(refusal.has_value()) << plain.Describe();
  EXPECT_EQ(refusal->owner_address, b_.address());

  std::thread publisher = PublishWhenAsked();
  EXPECT_OK(process_->Set(key_, "v", absl::ZeroDuration(), kLong));
  publisher.join();
  EXPECT_EQ(process_->Stats().refused_moved, 1U);
  EXPECT_EQ(a_.Command({"EXISTS", key_}).integer, 0);
  EXPECT_EQ(b_.Command({"GET", key_}).text, "v");
}

TEST_F(ClientRedisTest, ACheckedReadAtAFormerOwnerIsRefusedToo) {
  ASSERT_OK(process_->Set(key_, "old", absl::ZeroDuration(), kLong));
  origin_.Write(key_, "new");
  MoveToB(Epoch(2));
  ASSERT_FALSE(
      b_.Command({"WR.WRITE", membership_->history().Tag() + ":2", "SET", key_, "new"}).IsError());
  std::thread publisher = PublishWhenAsked();
  EXPECT_THAT(process_->Get(key_, kLong).value(), Optional(std::string("new")));
  publisher.join();
  EXPECT_EQ(process_->Stats().refused_moved, 1U);
}

TEST_F(ClientRedisTest, AClientAheadOfTheOwnerWaitsForIt) {
  const Membership::Ptr next = client_testing::WithOwner(*membership_, key_, "b", Epoch(2));
  process_.watch().Publish(next);
  std::thread installer([&] {
    EXPECT_OK(WaitFor("a waiting client", kDefaultWait,
                      [&] { return process_->Stats().refused_behind > 0; }));
    Install(next);
  });
  EXPECT_OK(process_->Set(key_, "v", absl::ZeroDuration(), kLong));
  installer.join();
  EXPECT_EQ(b_.Command({"GET", key_}).text, "v");
}

TEST_F(ClientRedisTest, AWriteWaitsForALease) {
  a_.server().Kill9();
  ASSERT_OK(a_.server().Restart());
  a_.Attach(*membership_);
  a_.Install(*membership_);
  const absl::Status status = process_->Set(key_, "v", absl::ZeroDuration(), kShort);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, "WRNOLEASE"));
  EXPECT_EQ(RefusalOf(status)->reason, RefusalReason::kNoLease);
  std::thread granter([&] {
    const uint64_t before = process_->Stats().refused_no_lease;
    EXPECT_OK(WaitFor("another refusal", kDefaultWait,
                      [&] { return process_->Stats().refused_no_lease > before; }));
    a_.Grant();
  });
  EXPECT_OK(process_->Set(key_, "v", absl::ZeroDuration(), kLong));
  granter.join();
}

TEST_F(ClientRedisTest, ADeleteInAFenceTakesEffectAndIsRepeatedAtTheNewOwner) {
  ASSERT_OK(process_->Set(key_, "old", absl::ZeroDuration(), kLong));
  const HashRangeSet range = RangeOfKey(*membership_, key_);
  a_.Fence(range, Epoch(1));
  std::thread commit([&] {
    EXPECT_OK(WaitFor("a refused delete", kDefaultWait,
                      [&] { return process_->Stats().refused_fencing > 0; }));
    EXPECT_EQ(a_.Command({"EXISTS", key_}).integer, 0);
    Install(client_testing::WithGrace(*membership_, key_, "a", "b", Epoch(2)));
    process_.watch().Publish(membership_);
  });
  EXPECT_OK(process_->Delete(key_, kLong));
  commit.join();
  origin_.Write(key_, "new");
  EXPECT_THAT(process_->Get(key_, kLong).value(), Optional(std::string("new")));
  EXPECT_EQ(process_->Stats().grace_hits, 0U);
}

TEST_F(ClientRedisTest, ASlowFillDoesNotLandAfterADelete) {
  Process other(&origin_);
  other.watch().Publish(membership_);
  origin_.Write(key_, "old");
  origin_.DuringNextRead([&] {
    origin_.Write(key_, "new");
    EXPECT_OK(other->Delete(key_, kLong));
  });
  EXPECT_THAT(process_->Get(key_, kLong).value(), Optional(std::string("old")));
  EXPECT_EQ(process_->Stats().fills_void, 1U);
  EXPECT_EQ(a_.Command({"EXISTS", key_}).integer, 0);
  EXPECT_THAT(process_->Get(key_, kLong).value(), Optional(std::string("new")));
}

TEST_F(ClientRedisTest, ASlowFillDoesNotLandInAnotherTenure) {
  origin_.Write(key_, "v");
  origin_.DuringNextRead([&] { MoveToB(Epoch(2)); });
  EXPECT_THAT(process_->Get(key_, kLong).value(), Optional(std::string("v")));
  EXPECT_EQ(process_->Stats().fills_void, 1U);
  EXPECT_EQ(a_.Command({"EXISTS", key_}).integer, 0);
}

TEST_F(ClientRedisTest, GraceReadsThePreviousOwnerOnceAndNeverADirtyKey) {
  ASSERT_OK(process_->Set(key_, "old", absl::Seconds(100), kLong));
  MoveToB(Epoch(2));
  process_.watch().Publish(membership_);
  EXPECT_THAT(process_->Get(key_, kLong).value(), Optional(std::string("old")));
  EXPECT_EQ(process_->Stats().grace_hits, 1U);
  EXPECT_EQ(origin_.Reads(), 0);
  EXPECT_EQ(b_.Command({"GET", key_}).text, "old");
  const int64_t ttl = b_.Command({"PTTL", key_}).integer;
  EXPECT_GT(ttl, 50'000);
  EXPECT_LE(ttl, 100'000);

  origin_.Write(key_, "new");
  EXPECT_OK(process_->Delete(key_, kLong));
  EXPECT_THAT(process_->Get(key_, kLong).value(), Optional(std::string("new")));
  EXPECT_EQ(process_->Stats().grace_hits, 1U);
  EXPECT_EQ(origin_.Reads(), 1);
}

TEST_F(ClientRedisTest, ADeleteReachesThePendingRecipientAndValuesDoNot) {
  ASSERT_OK(process_->Set(key_, "old", absl::ZeroDuration(), kLong));
  const HashRangeSet range = RangeOfKey(*membership_, key_);
  Install(client_testing::WithPending(*membership_, key_, "a", "b"));
  process_.watch().Publish(membership_);
  // The transfer brings the key to the recipient.
  const std::string nonce = Id128{1, 1}.ToString();
  std::vector<std::string> open = {nonce, "m1"};
  CheckedRedis::Append(range, open);
  b_.Agent("WR.OPEN", std::move(open));
  const support::RedisReply dump = a_.Agent("WR.DUMP", {key_});
  ASSERT_EQ(dump.elements.size(), 3U) << dump.Describe();
  const std::string payload = dump.elements[2].elements[0].elements[0].text;
  b_.Agent("WR.APPLY", {nonce, key_, "SET", payload, "-1", "-1"});
  ASSERT_EQ(b_.Command({"EXISTS", key_}).integer, 1);

  ASSERT_OK(process_->Set(key_, "newer", absl::ZeroDuration(), kLong));
  EXPECT_EQ(b_.Command({"GET", key_}).text, "old");
  EXPECT_EQ(b_.Stat("forgets"), 0);
  ASSERT_OK(process_->Delete(key_, kLong));
  EXPECT_EQ(a_.Command({"EXISTS", key_}).integer, 0);
  EXPECT_EQ(b_.Command({"EXISTS", key_}).integer, 0);
  EXPECT_EQ(b_.Stat("forgets"), 1);
}

TEST_F(ClientRedisTest, ADeadNodeCostsHitsButNoReads) {
  origin_.Write(key_, "v");
  ASSERT_OK(process_->Get(key_, kLong));
  a_.server().Kill9();
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(process_->Get(key_, kLong).value(), Optional(std::string("v")));
  }
  EXPECT_EQ(process_->Stats().origin_direct, 3U);
  EXPECT_THAT(process_->Set(key_, "w", absl::ZeroDuration(), kShort),
              StatusIs(absl::StatusCode::kUnavailable, "cannot be reached"));
  EXPECT_THAT(process_->Delete(key_, kShort), StatusIs(absl::StatusCode::kUnavailable));
  ASSERT_OK(a_.server().Restart());
  a_.Attach(*membership_);
  a_.Install(*membership_);
  a_.Grant();
  EXPECT_OK(process_->Set(key_, "w", absl::ZeroDuration(), kLong));
  EXPECT_THAT(process_->Get(key_, kLong).value(), Optional(std::string("w")));
}

TEST_F(ClientRedisTest, ANodeWithoutTheModuleIsNamed) {
  ASSERT_OK_AND_ASSIGN(const auto bare, support::RedisServer::Start());
  process_.watch().Publish(MakeMembership({MakeNode("bare", bare->Address())}, Version(2)));
  EXPECT_THAT(process_->Get(key_, kLong),
              StatusIs(absl::StatusCode::kFailedPrecondition, "warmring-redis.so"));
}

// Writers and readers in two processes while the keys' ranges go back and forth between the nodes,
// with grace and release. The rule: a read that begins after a write was acknowledged sees that
// write or a later one.
TEST_F(ClientRedisTest, NoReadIsOlderThanAnAcknowledgedWriteWhileRangesMove) {
  constexpr int kKeys = 8;
  constexpr int kMoves = 6;
  Process other(&origin_);
  other.watch().Publish(membership_);
  std::vector<std::string> keys;
  HashRangeSet ranges;
  for (int i = 0; i < kKeys; ++i) {
    keys.push_back(KeyOwnedBy(*membership_, "a", "hot" + std::to_string(i) + "-"));
    origin_.Write(keys.back(), "0");
    ranges = ranges.Union(RangeOfKey(*membership_, keys.back()));
  }
  std::vector<std::atomic<int>> acknowledged(kKeys);
  std::atomic<bool> stop = false;
  std::atomic<int> stale = 0;
  std::atomic<int> failed = 0;
  std::atomic<int> reads = 0;
  std::atomic<int> writes = 0;

  const auto write = [&](Process& process, int first) {
    for (int round = 1; !stop; ++round) {
      for (int i = first; i < kKeys; i += 2) {
        const std::string& key = keys[static_cast<size_t>(i)];
        origin_.Write(key, std::to_string(round));
        const absl::Status status =
            round % 3 == 0 ? process->Set(key, std::to_string(round), absl::ZeroDuration(), kLong)
                           : process->Delete(key, kLong);
        if (!status.ok()) {
          ++failed;
          ADD_FAILURE() << status;
          return;
        }
        acknowledged[static_cast<size_t>(i)] = round;
        ++writes;
      }
    }
  };
  const auto read = [&](Process& process, size_t start) {
    for (size_t i = start; !stop; ++i) {
      const int least = acknowledged[i % kKeys];
      const auto value = process->Get(keys[i % kKeys], kLong);
      if (!value.ok() || !value->has_value()) {
        ++failed;
        ADD_FAILURE() << value.status();
        return;
      }
      if (std::stoi(**value) < least) ++stale;
      ++reads;
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back(write, std::ref(process_), 0);
  threads.emplace_back(write, std::ref(other), 1);
  for (size_t i = 0; i < 2; ++i) {
    threads.emplace_back(read, std::ref(process_), i);
    threads.emplace_back(read, std::ref(other), i + 4);
  }

  CheckedRedis* from = &a_;
  CheckedRedis* to = &b_;
  for (int move = 0; move < kMoves && failed == 0; ++move) {
    const Epoch epoch(static_cast<uint64_t>(move) + 2);
    const int seen = writes + reads;
    EXPECT_OK(WaitFor("some traffic", kDefaultWait,
                      [&] { return writes + reads > seen + 300 || failed > 0; }));
    to->PurgeLeft();
    from->Fence(ranges, Epoch(epoch.value - 1));
    Update commit;
    commit.assignments.push_back({ranges, to->node(), epoch});
    commit.put_moves.push_back({"m1", 0, from->node(), to->node(), MovePhase::kGrace, ranges});
    membership_ = client_testing::Must(Apply(*membership_, commit));
    to->Install(*membership_);
    to->Grant();
    from->Install(*membership_);
    from->Grant();
    // One process learns of it late.
    process_.watch().Publish(membership_);
    const int moved = writes + reads;
    EXPECT_OK(WaitFor("traffic in grace", kDefaultWait,
                      [&] { return writes + reads > moved + 100 || failed > 0; }));
    other.watch().Publish(membership_);
    EXPECT_OK(WaitFor("traffic in grace", kDefaultWait,
                      [&] { return writes + reads > moved + 400 || failed > 0; }));
    Update release;
    release.remove_moves = {"m1"};
    membership_ = client_testing::Must(Apply(*membership_, release));
    for (CheckedRedis* owner : {to, from}) {
      owner->Install(*membership_);
      owner->Grant();
    }
    process_.watch().Publish(membership_);
    other.watch().Publish(membership_);
    std::swap(from, to);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stale, 0);
  EXPECT_EQ(failed, 0);
  EXPECT_GT(process_->Stats().refused_moved + other->Stats().refused_moved, 0U);
}

}  // namespace
}  // namespace warmring
