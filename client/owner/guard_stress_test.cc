// Threads write while the range is fenced again and again. Once the acknowledgement of a fence has
// been given, no write under its epoch passes any more, and none that had passed is still there.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/base/boot_clock.h"
#include "client/base/membership_testing.h"
#include "client/owner/guard_core.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

namespace warmring {
namespace {

using client_testing::History;
using client_testing::KeyOwnedBy;
using client_testing::MakeMembership;
using client_testing::RangeOfKey;
using client_testing::TwoNodes;

constexpr uint64_t kRounds = 80;
constexpr int kWriters = 2;

class GuardStressTest : public testing::Test {
 protected:
  GuardStressTest()
      : membership_(MakeMembership(TwoNodes())),
        moving_(KeyOwnedBy(*membership_, "a")),
        staying_(AnotherKey()) {
    OwnerOptions options;
    options.keyspace = client_testing::kKeyspace;
    options.node = "a";
    options.clock = BootNow;
    options.drain_timeout = absl::ZeroDuration();
    core_ = std::make_unique<GuardCore>(std::move(options));
    core_->OnMembership(membership_);
    EXPECT_OK(core_->Attach(History(), OnRestart::kPurge));
    Grant({});
  }

  std::string AnotherKey() const {
    for (int i = 0;; ++i) {
      std::string key = KeyOwnedBy(*membership_, "a", "s" + std::to_string(i) + "-");
      if (RangeOfKey(*membership_, key) != RangeOfKey(*membership_, moving_)) return key;
    }
  }

  void Grant(std::vector<Floor> floors) {
    ASSERT_OK_AND_ASSIGN(const OwnerPort::Renewal renewal, core_->Renew());
    LeaseGrant grant;
    grant.seq = renewal.seq;
    grant.term = Term(1);
    grant.ttl = absl::Hours(1);
    grant.version = membership_->version();
    grant.floors = std::move(floors);
    ASSERT_OK(core_->Grant(grant));
  }

  static std::string Word(uint64_t epoch) { return History().Tag() + ":" + std::to_string(epoch); }

  // Writes under the newest epoch, as a client does that has the newest map, until `stop_`.
  void Write() {
    const std::string kept = Word(1);
    while (!stop_) {
      const uint64_t epoch = epoch_;
      const std::string word = Word(epoch);
      const absl::StatusOr<WriteGuard> stays = core_->Begin(staying_, kept);
      if (!stays.ok()) ++wrong_refusals_;
      absl::StatusOr<WriteGuard> write = core_->Begin(moving_, word);
      if (!write.ok()) {
        ++refused_;
        continue;
      }
      bool passed = false;
      for (int i = 0; i < 3; ++i) {
        const bool was_acknowledged = acknowledged_[epoch];
        const bool held = write->StillHeld().ok();
        if (held && was_acknowledged) ++passed_late_;
        passed = passed || held;
      }
      // It is counted until here, so nobody may have said that it has ended.
      if (passed && acknowledged_[epoch]) ++acknowledged_early_;
      ++(passed ? passed_ : not_passed_);
    }
  }

  void RunRound(uint64_t epoch) {
    Task task;
    task.migration = "m1";
    task.nonce = Id128{0, epoch};
    const HashRangeSet ranges = RangeOfKey(*membership_, moving_);
    task.body = FenceTask{ranges, Epoch(epoch)};
    if (epoch % 3 == 0) Grant({Floor{ranges, Epoch(epoch)}});
    core_->SetTasks({task});
    std::vector<TaskReport> reports;
    const Instant deadline = BootNow() + support::kDefaultWait;
    while (reports.empty() && BootNow() < deadline) {
      reports = core_->TakeReports();
      if (reports.empty()) std::this_thread::yield();
    }
    ASSERT_EQ(reports.size(), 1U);
    ASSERT_TRUE(std::holds_alternative<FenceAck>(reports[0].body));
    acknowledged_[epoch] = true;
    // An abort: the same owner goes on under a fresh epoch.
    membership_ = client_testing::WithOwner(*membership_, moving_, "a", Epoch(epoch + 1));
    core_->OnMembership(membership_);
    epoch_ = epoch + 1;
    Grant({});
    // Somebody writes under it.
    const uint64_t before = passed_ + not_passed_;
    while (passed_ + not_passed_ == before && BootNow() < deadline) std::this_thread::yield();
  }

  Membership::Ptr membership_;
  const std::string moving_;   // its range is fenced
  const std::string staying_;  // of another range of this owner
  std::unique_ptr<GuardCore> core_;
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> epoch_ = 1;
  std::array<std::atomic<bool>, kRounds + 2> acknowledged_{};
  std::atomic<uint64_t> refused_ = 0;
  std::atomic<uint64_t> wrong_refusals_ = 0;
  std::atomic<uint64_t> passed_ = 0;
  std::atomic<uint64_t> not_passed_ = 0;
  std::atomic<uint64_t> passed_late_ = 0;
  std::atomic<uint64_t> acknowledged_early_ = 0;
};

TEST_F(GuardStressTest, NothingPassesAfterTheAcknowledgement) {
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i) writers.emplace_back([this] { Write(); });
  for (uint64_t epoch = 1; epoch <= kRounds && !HasFatalFailure(); ++epoch) RunRound(epoch);
  stop_ = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(passed_late_, 0U);
  EXPECT_EQ(acknowledged_early_, 0U);
  EXPECT_EQ(wrong_refusals_, 0U) << "the other range never changed";
  EXPECT_GT(passed_, kRounds / 2);
  RecordProperty("passed", std::to_string(passed_));
  RecordProperty("refused", std::to_string(refused_));
  RecordProperty("not passed", std::to_string(not_passed_));
}

}  // namespace
}  // namespace warmring
