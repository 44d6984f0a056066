#include <atomic>
#include <set>
#include <thread>

#include "agent/transfer/pair_testing.h"
#include "agent/transfer/preparation.h"

// A recipient must end up with exactly the donor's keys of the ranges that move: nothing older,
// nothing that was deleted, nothing of an earlier life. The engines are in memory, the stream
// between them is real.

namespace warmring {
namespace {

using support::kDefaultWait;
using support::WaitFor;

class TransferTest : public testing::Test {
 protected:
  void SetUp() override { Build({}, {}); }

  void Build(MemoryEngineOptions donor, MemoryEngineOptions recipient) {
    client_.reset();
    a_ = std::make_unique<TestNode>("a", &clock_, std::move(donor));
    b_ = std::make_unique<TestNode>("b", &clock_, std::move(recipient));
    a_->Attach();
    b_->Attach();
    a_->Install(MovingMap(1, 0, 0));
    b_->Install(MovingMap(1, 0, 0));
    a_->Serve();
  }

  void TearDown() override { client_.reset(); }

  void InstallBoth(const Membership::Ptr& map) {
    a_->Install(map);
    b_->Install(map);
    if (client_) client_->MembershipChanged();
  }

  void Fill(int keys) {
    for (int i = 0; i < keys; ++i) ASSERT_OK(a_->engine().Set(TestKey(i), Value(i)));
  }
  static std::string Value(int i) { return "value " + std::to_string(i); }

  WarmTask Task(uint64_t first, uint64_t end, TransferLimits limits = {}) {
    return {{{"a", a_->Address(), Quarters(first, end)}}, limits};
  }

  void StartClient(const WarmTask& task) {
    client_ = std::make_unique<TransferClient>(b_->Context(), kTestMigration, Id128{1, 2},
                                               [this](bool) { ++changes_; });
    client_->SetTask(task);
  }

  void AwaitCaughtUp() {
    ASSERT_OK(WaitFor("caught up", kDefaultWait, [this] { return client_->Warm().caught_up; }));
  }

  // The donor is fenced, and the recipient has everything before the fence.
  PreparedReport Prepare(uint64_t first, uint64_t end, uint64_t epoch) {
    const auto fence = a_->engine().Fence(kTestMigration, Epoch(epoch - 1), Quarters(first, end));
    EXPECT_OK(fence);
    a_->server().Nudge();
    PrepareTask task;
    task.epoch = Epoch(epoch);
    task.donors = {{{"a", a_->Address(), Quarters(first, end)},
                    fence->watermark.log_id,
                    fence->watermark.position}};
    PreparedReport report;
    EXPECT_OK(WaitFor("prepared", kDefaultWait, [&] {
      return client_->TryPrepare(task, &report) == TransferClient::Preparedness::kPrepared;
    }));
    return report;
  }

  void ExpectEqualIn(uint64_t first, uint64_t end, int keys) {
    for (int i = 0; i < keys; ++i) {
      if (!InQuarters(TestKey(i), first, end)) continue;
      EXPECT_EQ(b_->engine().Get(TestKey(i)), a_->engine().Get(TestKey(i))) << TestKey(i);
    }
  }

  support::FakeClock clock_;
  std::unique_ptr<TestNode> a_;
  std::unique_ptr<TestNode> b_;
  std::atomic<int> changes_ = 0;
  std::unique_ptr<TransferClient> client_;
};

TEST_F(TransferTest, CopiesWhatMovesWhileItIsBeingWritten) {
  constexpr int kKeys = 5000;
  Fill(kKeys);
  for (int i = 0; i < 100; ++i) b_->engine().Plant(TestKey(i), "of an earlier life");
  b_->engine().Plant("gone:1", "deleted long ago at the donor");
  InstallBoth(MovingMap(2, 2, 0));
  StartClient(Task(0, 2));

  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int round = 0; !stop; ++round) {
      const int i = (round * 7919) % kKeys;
      if (round % 5 == 0) {
        EXPECT_OK(a_->engine().Delete(TestKey(i)));
      } else {
        EXPECT_OK(a_->engine().Set(TestKey(i), "round " + std::to_string(round)));
      }
      if (round % 50 == 0) std::this_thread::yield();
    }
  });
  AwaitCaughtUp();
  stop = true;
  writer.join();
  ASSERT_OK(a_->engine().Set(TestKey(1), "last write"));
  const PreparedReport report = Prepare(0, 2, 10);
  EXPECT_EQ(report.epoch, Epoch(10));
  ASSERT_EQ(report.log_ids.size(), 1u);

  ExpectEqualIn(0, 2, kKeys);
  for (int i = 0; i < kKeys; ++i) {
    if (!InQuarters(TestKey(i), 0, 2) && i >= 100) {
      EXPECT_EQ(b_->engine().Get(TestKey(i)), std::nullopt) << "not moved: " << TestKey(i);
    }
  }
  EXPECT_EQ(b_->engine().Get("gone:1").has_value(), !InQuarters("gone:1", 0, 2));
}

TEST_F(TransferTest, TimeToLiveTravelsAsWhatRemains) {
  ASSERT_OK(a_->engine().Set(TestKey(0), "short", absl::Seconds(10)));
  ASSERT_OK(a_->engine().Set(TestKey(1), "long", absl::Seconds(100)));
  clock_.Advance(absl::Seconds(4));
  InstallBoth(MovingMap(2, 4, 0));
  StartClient(Task(0, 4));
  AwaitCaughtUp();
  EXPECT_EQ(b_->engine().Get(TestKey(0)), "short");
  clock_.Advance(absl::Seconds(7));
  EXPECT_EQ(b_->engine().Get(TestKey(0)), std::nullopt);
  EXPECT_EQ(b_->engine().Get(TestKey(1)), "long");
}

TEST_F(TransferTest, ACommittedWaveIsLeftAloneAndTheRestGoesOn) {
  constexpr int kKeys = 1000;
  Fill(kKeys);
  InstallBoth(MovingMap(2, 2, 0));
  StartClient(Task(0, 2));
  AwaitCaughtUp();
  Prepare(0, 1, 10);
  InstallBoth(MovingMap(3, 2, 1));
  client_->SetTask(Task(1, 2));
  int written = 0;
  for (int i = 0; i < kKeys; ++i) {
    if (InQuarters(TestKey(i), 0, 1)) {
      ASSERT_OK(b_->engine().Set(TestKey(i), "the new owner's"));
      // A late delete at the old owner is refused there, and must not reach the new owner this way.
      EXPECT_FALSE(a_->engine().Delete(TestKey(i)).ok());
      ++written;
    } else if (InQuarters(TestKey(i), 1, 2)) {
      ASSERT_OK(a_->engine().Set(TestKey(i), "newer"));
    }
  }
  ASSERT_GT(written, 100);
  Prepare(1, 2, 11);
  for (int i = 0; i < kKeys; ++i) {
    if (InQuarters(TestKey(i), 0, 1)) {
      EXPECT_EQ(b_->engine().Get(TestKey(i)), "the new owner's") << TestKey(i);
    } else if (InQuarters(TestKey(i), 1, 2)) {
      EXPECT_EQ(b_->engine().Get(TestKey(i)), "newer") << TestKey(i);
    }
  }
}

TEST_F(TransferTest, ChangesDoNotWaitForALimitedScan) {
  constexpr int kKeys = 2000;
  Fill(kKeys);
  InstallBoth(MovingMap(2, 4, 0));
  StartClient(Task(0, 4, {.keys_per_second = 20, .bytes_per_second = 0}));
  ASSERT_OK(WaitFor("first keys", kDefaultWait, [this] { return client_->Warm().keys > 0; }));
  ASSERT_OK(a_->engine().Set("fresh", "news"));
  ASSERT_OK(WaitFor("the change", absl::Seconds(10),
                    [this] { return b_->engine().Get("fresh") == "news"; }));
  EXPECT_FALSE(client_->Warm().caught_up);
  EXPECT_LT(client_->Warm().keys, static_cast<uint64_t>(kKeys) / 2);
  EXPECT_EQ(client_->Warm().keys_total, static_cast<uint64_t>(kKeys));
}

TEST_F(TransferTest, ABrokenStreamBeginsAgainWithAPurge) {
  Fill(1000);
  InstallBoth(MovingMap(2, 4, 0));
  const std::string address = a_->Address();
  StartClient(Task(0, 4));
  AwaitCaughtUp();
  a_->StopServing();
  ASSERT_OK(WaitFor("it notices", kDefaultWait, [this] { return !client_->Warm().caught_up; }));
  // Nobody tracks this: neither a scan nor a log will ever tell the recipient.
  ASSERT_OK(a_->engine().Delete(TestKey(7)));
  a_->Serve(address);
  AwaitCaughtUp();
  EXPECT_EQ(b_->engine().Get(TestKey(7)), std::nullopt);
  ExpectEqualIn(0, 4, 1000);
  EXPECT_FALSE(client_->Failure().has_value());
}

TEST_F(TransferTest, WhatWasPromisedIsNotPurgedWhenTheStreamBreaks) {
  Fill(1000);
  InstallBoth(MovingMap(2, 2, 0));
  const std::string address = a_->Address();
  StartClient(Task(0, 2));
  AwaitCaughtUp();
  const PreparedReport promise = Prepare(0, 1, 10);
  const size_t before = b_->engine().KeyCount();
  a_->StopServing();
  ASSERT_OK(WaitFor("it notices", kDefaultWait, [this] { return !client_->Warm().caught_up; }));
  a_->Serve(address);
  AwaitCaughtUp();
  EXPECT_EQ(b_->engine().KeyCount(), before);
  ExpectEqualIn(0, 2, 1000);
  // A server that was restarted asks again. What the donor logged later cannot be promised any
  // more.
  PrepareTask task;
  task.epoch = Epoch(10);
  task.donors = {{{"a", address, Quarters(0, 1)}, promise.log_ids[0], promise.applied[0]}};
  PreparedReport again;
  ASSERT_EQ(client_->TryPrepare(task, &again), TransferClient::Preparedness::kPrepared);
  EXPECT_EQ(again, promise);
  ++task.donors[0].watermark;
  EXPECT_EQ(client_->TryPrepare(task, &again), TransferClient::Preparedness::kTooLate);
  // It can still be committed, and no second promise is made on a transfer that has left it out.
  InstallBoth(MovingMap(3, 2, 1));
  ExpectEqualIn(0, 1, 1000);
}

TEST_F(TransferTest, ADonorThatWasRestartedIsAFailureWithAWayOut) {
  Fill(100);
  InstallBoth(MovingMap(2, 4, 0));
  StartClient(Task(0, 4));
  AwaitCaughtUp();
  a_->engine().Restart();
  a_->Attach();
  a_->Install(MovingMap(2, 4, 0));
  ASSERT_OK(WaitFor("failure", kDefaultWait, [this] { return client_->Failure().has_value(); }));
  EXPECT_TRUE(client_->Failure()->restart);
  EXPECT_THAT(client_->Failure()->reason, testing::HasSubstr("transfer from a"));
}

TEST_F(TransferTest, AnOverflowingLogIsSuspect) {
  MemoryEngineOptions small;
  small.max_log_entries = 50;
  Build(small, {});
  Fill(100);
  InstallBoth(MovingMap(2, 4, 0));
  StartClient(Task(0, 4));
  AwaitCaughtUp();
  ASSERT_OK(WaitFor("suspect", kDefaultWait, [this] {
    for (int i = 0; i < 500; ++i) EXPECT_OK(a_->engine().Set(TestKey(i), "again"));
    return client_->Failure().has_value();
  }));
  EXPECT_TRUE(client_->Failure()->restart);
  EXPECT_THAT(client_->Failure()->reason, testing::HasSubstr("overflowed"));
}

TEST_F(TransferTest, APayloadThatTheEngineRefusesIsHopeless) {
  MemoryEngineOptions old;
  old.rdb_version = 9;
  Build({}, old);
  Fill(100);
  InstallBoth(MovingMap(2, 4, 0));
  StartClient(Task(0, 4));
  ASSERT_OK(WaitFor("failure", kDefaultWait, [this] { return client_->Failure().has_value(); }));
  EXPECT_FALSE(client_->Failure()->restart);
}

TEST_F(TransferTest, AKeyTooLargeForAMessageIsHopelessAndNamed) {
  a_->StopServing();
  DonorStreamOptions stream;
  stream.max_entry_bytes = 1000;
  a_->Serve("127.0.0.1:0", stream);
  ASSERT_OK(a_->engine().Set("whale", std::string(2000, 'x')));
  InstallBoth(MovingMap(2, 4, 0));
  StartClient(Task(0, 4));
  ASSERT_OK(WaitFor("failure", kDefaultWait, [this] { return client_->Failure().has_value(); }));
  EXPECT_FALSE(client_->Failure()->restart);
  EXPECT_THAT(client_->Failure()->reason, testing::HasSubstr("'whale'"));
}

TEST_F(TransferTest, VerifyCountsAndFindsWhatDiffers) {
  Fill(3000);
  InstallBoth(MovingMap(2, 4, 0));
  StartClient(Task(0, 4));
  AwaitCaughtUp();
  client_->Verify(500);
  ASSERT_OK(WaitFor("verified", kDefaultWait, [this] { return client_->Verified()->done; }));
  EXPECT_EQ(client_->Verified()->compared, 500u);
  EXPECT_EQ(client_->Verified()->mismatched, 0u);
}

TEST_F(TransferTest, VerifyOfEverythingFindsEachWrongAndEachMissingKey) {
  Fill(1000);
  InstallBoth(MovingMap(2, 4, 0));
  StartClient(Task(0, 4));
  AwaitCaughtUp();
  b_->engine().Plant(TestKey(3), "wrong");
  b_->engine().Plant(TestKey(4), "wrong too");
  client_->Verify(5000);
  ASSERT_OK(WaitFor("verified", kDefaultWait, [this] { return client_->Verified()->done; }));
  EXPECT_EQ(client_->Verified()->compared, 1000u);
  EXPECT_EQ(client_->Verified()->mismatched, 2u);
}

TEST_F(TransferTest, VerifyDoesNotMistakeWritesInFlightForDifferences) {
  constexpr int kKeys = 500;
  Fill(kKeys);
  InstallBoth(MovingMap(2, 4, 0));
  StartClient(Task(0, 4));
  AwaitCaughtUp();
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int round = 0; !stop; ++round) {
      EXPECT_OK(a_->engine().Set(TestKey(round % kKeys), std::to_string(round)));
      std::this_thread::yield();
    }
  });
  client_->Verify(kKeys);
  EXPECT_OK(WaitFor("verified", kDefaultWait, [this] { return client_->Verified()->done; }));
  stop = true;
  writer.join();
  EXPECT_EQ(client_->Verified()->mismatched, 0u);
}

TEST_F(TransferTest, AnEndedStreamIsNotTrackedAnyMore) {
  Fill(100);
  InstallBoth(MovingMap(2, 4, 0));
  StartClient(Task(0, 4));
  AwaitCaughtUp();
  EXPECT_EQ(a_->engine().TrackCount(), 1u);
  client_.reset();
  EXPECT_OK(WaitFor("untracked", kDefaultWait, [this] { return a_->engine().TrackCount() == 0; }));
}

TEST_F(TransferTest, ItWaitsForTheMembershipThatNamesTheMove) {
  Fill(100);
  StartClient(Task(0, 4));
  EXPECT_FALSE(client_->Warm().purged);
  InstallBoth(MovingMap(2, 4, 0));
  AwaitCaughtUp();
  ExpectEqualIn(0, 4, 100);
}

TEST_F(TransferTest, AnUndoBringsBackExactlyWhatTheNewOwnerWrote) {
  constexpr int kKeys = 1000;
  Fill(kKeys);
  InstallBoth(MovingMap(2, 4, 0));
  StartClient(Task(0, 4));
  AwaitCaughtUp();
  Prepare(0, 4, 10);
  client_.reset();
  InstallBoth(MovingMap(3, 4, 4));
  b_->Serve();
  ASSERT_OK(b_->engine().Set(TestKey(1), "written during the soak"));
  ASSERT_OK(b_->engine().Delete(TestKey(2)));
  ASSERT_OK(b_->engine().Set("new", "born during the soak"));
  // The old owner's copy of a key that nobody wrote is not touched: it is marked to see that.
  a_->engine().Plant(TestKey(3), "untouched");

  ASSERT_OK_AND_ASSIGN(const auto fence,
                       b_->engine().Fence(kTestMigration, Epoch(19), Quarters(0, 4)));
  EXPECT_TRUE(fence.dirty_complete);
  b_->fence = fence.watermark;
  PrepareTask task;
  task.mode = PrepareTask::Mode::kDirty;
  task.epoch = Epoch(20);
  task.donors = {
      {{"b", b_->Address(), Quarters(0, 4)}, fence.watermark.log_id, fence.watermark.position}};
  Preparation preparation(
      a_->Context(), kTestMigration, Id128{3, 4}, task, [] {}, [] {});
  ASSERT_OK(WaitFor("prepared", kDefaultWait, [&] { return preparation.Prepared().has_value(); }));
  EXPECT_EQ(preparation.Prepared()->epoch, Epoch(20));
  EXPECT_EQ(preparation.Prepared()->mode, PrepareTask::Mode::kDirty);
  EXPECT_EQ(preparation.Prepared()->applied, std::vector<uint64_t>{fence.watermark.position});
  EXPECT_EQ(a_->engine().Get(TestKey(1)), "written during the soak");
  EXPECT_EQ(a_->engine().Get(TestKey(2)), std::nullopt);
  EXPECT_EQ(a_->engine().Get("new"), "born during the soak");
  EXPECT_EQ(a_->engine().Get(TestKey(3)), "untouched");
  EXPECT_EQ(a_->engine().Get(TestKey(4)), Value(4));
}

TEST_F(TransferTest, APreparationByPurgeStopsTheTransferThere) {
  constexpr int kKeys = 1000;
  Fill(kKeys);
  InstallBoth(MovingMap(2, 2, 0));
  StartClient(Task(0, 2));
  AwaitCaughtUp();
  PrepareTask task;
  task.mode = PrepareTask::Mode::kPurge;
  task.epoch = Epoch(10);
  task.donors = {{{"a", a_->Address(), Quarters(0, 1)}, "", 0}};
  Preparation preparation(
      b_->Context(), kTestMigration, Id128{5, 6}, task,
      [this] { client_->Exclude(Quarters(0, 1)); }, [] {});
  ASSERT_OK(WaitFor("prepared", kDefaultWait, [&] { return preparation.Prepared().has_value(); }));
  // The donor, which may not know that it has lost the range, goes on writing.
  for (int i = 0; i < kKeys; ++i) ASSERT_OK(a_->engine().Set(TestKey(i), "later"));
  AwaitCaughtUp();
  Prepare(1, 2, 11);
  for (int i = 0; i < kKeys; ++i) {
    if (InQuarters(TestKey(i), 0, 1)) {
      EXPECT_EQ(b_->engine().Get(TestKey(i)), std::nullopt) << TestKey(i);
    }
  }
  ExpectEqualIn(1, 2, kKeys);
}

TEST_F(TransferTest, AnOrderThatTheMembershipDoesNotBackIsRefused) {
  InstallBoth(MovingMap(2, 2, 0));
  PullOrder order;
  order.keyspace = "cache";
  order.history = kQuarterHistory;
  order.migration = kTestMigration;
  order.nonce = {1, 1};
  order.ranges = Quarters(0, 3);  // the third does not move
  order.recipient = "b";
  const auto refusal = [&](const PullOrder& wanted) {
    const auto channel = GrpcPullDialer()(a_->Address(), wanted);
    PullItem item;
    EXPECT_FALSE(channel->Read(&item));
    return channel->Finish();
  };
  EXPECT_THAT(refusal(order), StatusIs(absl::StatusCode::kFailedPrecondition, "does not move"));
  order.ranges = Quarters(0, 2);
  PullOrder other = order;
  other.keyspace = "another";
  EXPECT_THAT(refusal(other), StatusIs(absl::StatusCode::kInvalidArgument, "start.keyspace"));
  other = order;
  other.recipient = "c";
  EXPECT_THAT(refusal(other), StatusIs(absl::StatusCode::kFailedPrecondition, "to c"));
  other = order;
  other.mode = PullMode::kDirty;
  EXPECT_THAT(refusal(other), StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace warmring
