#include <optional>
#include <utility>

#include "client/owner/guard_core.h"
#include "gtest/gtest.h"
#include "tests/conformance/tested_owner.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

class HeldGuard final : public TestedOwner::Held {
 public:
  explicit HeldGuard(WriteGuard guard) : guard_(std::move(guard)) {}
  bool Finish() override {
    const bool held = guard_->StillHeld().ok();
    guard_.reset();
    return held;
  }

 private:
  std::optional<WriteGuard> guard_;
};

// OwnerGuard without its connections, driven as its session and its watch would.
class GuardOwner final : public TestedOwner {
 public:
  GuardOwner() { Restart(); }

  void Attach(const HistoryId& history) override {
    EXPECT_OK(core_->Attach(history, OnRestart::kPurge));
  }
  void Offer(const Membership::Ptr& membership) override { core_->OnMembership(membership); }
  Version version() override { return core_->version(); }

  uint64_t Renew() override {
    const auto renewal = core_->Renew();
    EXPECT_OK(renewal);
    return renewal.ok() ? renewal->seq : 0;
  }
  absl::Status Grant(const LeaseGrant& grant) override { return core_->Grant(grant); }
  void Outlive(absl::Duration ttl) override { clock_.Advance(ttl); }

  void Fence(const HashRangeSet& ranges, Epoch epoch) override {
    Task task;
    task.migration = "m1";
    task.nonce = Id128{0, ++fences_};
    task.body = FenceTask{ranges, epoch};
    acknowledged_ = false;
    core_->SetTasks({task});
  }
  bool Acknowledged() override {
    for (const TaskReport& report : core_->TakeReports()) {
      if (report.nonce.low == fences_ && std::holds_alternative<FenceAck>(report.body)) {
        acknowledged_ = true;
      }
    }
    return acknowledged_;
  }

  Answer Write(const std::string& key, const std::string& word) override {
    const absl::StatusOr<WriteGuard> guard = core_->Begin(key, word);
    return AnswerOf(guard.status());
  }
  Answer Read(const std::string& key, const std::string& word) override {
    return AnswerOf(core_->BeginRead(key, word));
  }
  std::unique_ptr<Held> Begin(const std::string& key, const std::string& word) override {
    absl::StatusOr<WriteGuard> guard = core_->Begin(key, word);
    EXPECT_OK(guard);
    return std::make_unique<HeldGuard>(*std::move(guard));
  }

  void Restart() override {
    core_.reset();
    OwnerOptions options;
    options.keyspace = "cache";
    options.node = "a";
    options.clock = [this] { return clock_.Boot(); };
    core_ = std::make_unique<GuardCore>(std::move(options));
  }

 private:
  static Answer AnswerOf(const absl::Status& status) {
    if (status.ok()) return {};
    const std::optional<RefusalInfo> refusal = RefusalOf(status);
    return {refusal, !refusal && absl::IsInvalidArgument(status)};
  }

  support::FakeClock clock_;
  std::unique_ptr<GuardCore> core_;
  uint64_t fences_ = 0;
  bool acknowledged_ = false;
};

}  // namespace

std::unique_ptr<TestedOwner> MakeGuardOwner() { return std::make_unique<GuardOwner>(); }

}  // namespace warmring
