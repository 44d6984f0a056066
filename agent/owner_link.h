#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/engine/cache_engine.h"
#include "agent/notice.h"
#include "agent/task_runner.h"
#include "client/base/boot_clock.h"
#include "client/owner/owner_port.h"

namespace warmring {

struct OwnerLinkOptions {
  KeyspaceId keyspace;
  NodeId node;
  std::string data_address;
  // For how long one Attach may purge before it asks to be called again.
  absl::Duration purge_span = absl::Seconds(2);
  absl::Duration stat_period = absl::Seconds(1);
  InstantClock clock = BootNow;
};

// The engine as an OwnerPort: between the session with the server and the watch of memberships on
// one side, engine and tasks on the other. Installs the newest membership in the engine on a thread
// of its own, again after the engine was restarted. Thread-safe.
class OwnerLink : public OwnerPort {
 public:
  // `installed` is called, without a lock, after each membership that the engine has taken.
  OwnerLink(OwnerLinkOptions options, CacheEngine* engine,
            std::function<void(const Membership::Ptr&)> installed);
  ~OwnerLink() override;

  // REQUIRES (both): before the session starts. The runner must outlive the session.
  void SetRunner(TaskRunner* runner) { runner_ = runner; }
  void SetTransferAddress(std::string address) { transfer_address_ = std::move(address); }

  // Installs nothing more; `installed` is not called any more.
  void Stop();

  absl::StatusOr<Identity> Attach(const HistoryId& history, OnRestart on_restart) override;
  absl::StatusOr<Renewal> Renew() override;
  absl::Status Grant(const LeaseGrant& grant) override;
  void SetTasks(const std::vector<Task>& tasks) override;
  std::vector<TaskReport> TakeReports() override;

  // The watch has a newer membership.
  void OnMembership(const Membership::Ptr& membership);
  // What the engine has installed, or null.
  Membership::Ptr Installed() const;

 private:
  void RunInstaller();
  absl::Status PurgeAll();
  void RefreshStat();

  const OwnerLinkOptions options_;
  CacheEngine* const engine_;
  const std::function<void(const Membership::Ptr&)> installed_;
  TaskRunner* runner_ = nullptr;
  std::string transfer_address_;
  Notice attach_notice_;
  Notice install_notice_;
  Notice grant_notice_;
  bool reported_ = false;  // of the session's thread

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  std::optional<Incarnation> incarnation_;
  uint64_t attachments_ = 0;
  Membership::Ptr newest_;
  Membership::Ptr installed_map_;
  CacheEngine::Stat stat_;
  Instant stat_at_;
  bool stat_known_ = false;
  bool stopping_ = false;

  std::thread installer_;
};

}  // namespace warmring
