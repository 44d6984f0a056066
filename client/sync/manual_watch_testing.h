#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#include "client/base/boot_clock.h"
#include "client/sync/membership_watch.h"

namespace warmring::client_testing {

// A watch whose memberships the test publishes. Thread-safe.
class ManualWatch final : public MembershipWatch {
 public:
  explicit ManualWatch(Listener listener) : listener_(std::move(listener)) {}

  void Publish(const Membership::Ptr& membership) {
    listener_(membership);
    const std::lock_guard<std::mutex> lock(mutex_);
    current_ = membership;
    changed_.notify_all();
  }
  // How often somebody has begun to wait for a version.
  int Waits() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return waits_;
  }
  void SetWatchers(uint32_t watchers) {
    const std::lock_guard<std::mutex> lock(mutex_);
    watchers_ = watchers;
  }

  Membership::Ptr Current() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return current_;
  }
  absl::Status WaitForVersion(Version version, absl::Duration timeout) override {
    std::unique_lock<std::mutex> lock(mutex_);
    ++waits_;
    const bool there = changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout), [&] {
      return current_ != nullptr && current_->version() >= version;
    });
    return there ? absl::OkStatus() : absl::DeadlineExceededError("no such version");
  }
  absl::Duration Staleness() const override { return absl::ZeroDuration(); }
  uint32_t Watchers() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return watchers_;
  }
  absl::Status ConnectionStatus() const override { return absl::OkStatus(); }

 private:
  const Listener listener_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Membership::Ptr current_;  // guarded by mutex_, like the rest
  uint32_t watchers_ = 1;
  int waits_ = 0;
};

}  // namespace warmring::client_testing
