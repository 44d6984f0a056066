#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "client/base/boot_clock.h"
#include "client/owner/owner_port.h"
#include "core/ownership/owner_view.h"
#include "warmring/owner.h"

namespace warmring {

// OwnerGuard without its connections: admits, counts what is in flight, answers tasks. Calls of the
// application's callbacks are made one after the other on a thread of its own, since they may take
// long; everything else is quick. Thread-safe.
class GuardCore final : public OwnerPort {
 public:
  // REQUIRES: options.clock is set.
  explicit GuardCore(OwnerOptions options);
  ~GuardCore() override;

  // Ends the thread of the callbacks; nobody is notified by it any more.
  void Stop();

  // Called, without a lock, whenever TakeReports has something. Before: nobody is told.
  void SetNotify(std::function<void()> notify);

  absl::StatusOr<WriteGuard> Begin(std::string_view key, std::string_view epoch_word);
  absl::Status BeginRead(std::string_view key, std::string_view epoch_word) const;
  absl::Status StillHeld(uint64_t id);
  void End(uint64_t id);

  KeyPoint PointOf(std::string_view key) const;
  bool HasLease() const;
  Version version() const;

  // The watch has a newer membership.
  void OnMembership(const Membership::Ptr& membership);

  absl::StatusOr<Identity> Attach(const HistoryId& history, OnRestart on_restart) override;
  absl::StatusOr<Renewal> Renew() override;
  absl::Status Grant(const LeaseGrant& grant) override;
  void SetTasks(const std::vector<Task>& tasks) override;
  std::vector<TaskReport> TakeReports() override;

 private:
  // A task by what it is, whatever its details.
  using TaskKey = std::tuple<MigrationId, uint32_t, Id128, size_t>;
  struct LiveTask {
    Task task;
    Instant since;
    std::optional<TaskReport> report;  // the newest
  };
  struct InFlight {
    std::string key;  // its point may change while it is in flight: an override comes or goes
    std::string word;
    Epoch epoch;
    bool passed = false;  // StillHeld said yes
    bool lost = false;    // at some moment since it began its epoch was not the one held here
  };
  // Callbacks of the application that are due: drop, then fetch.
  struct Job {
    std::optional<TaskKey> task;  // whose answer it is; none: the ranges have left
    HashRangeSet ranges;
    bool drop = false;
    bool fetch = false;
    Instant not_before;
  };

  static TaskKey KeyOf(const Task& task);
  absl::Status Refuse(const Admission& admission, std::string_view key) const;
  void Install(const Membership::Ptr& membership);
  void StartTask(const TaskKey& key, const LiveTask& live);
  void Fence(const FenceTask& fence);
  HashRangeSet EntitledLocked() const;
  KeyPoint PointOfLocked(std::string_view key) const;
  void NoteLost();
  void NoteEndedOverrides(const Membership* before);
  bool IsDrained(const FenceTask& fence, Instant since) const;
  void AnswerFences();
  void Report(const TaskKey& key, decltype(TaskReport::body) body);
  void AddJob(Job job);
  void RunJobs();
  absl::Status Call(const Job& job) const;
  void Finish(const Job& job, const absl::Status& status);
  void NotifyIfDue();

  const OwnerOptions options_;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  Incarnation incarnation_;
  std::optional<OwnerView> view_;  // none before the first Attach
  Membership::Ptr newest_;         // of the watch, perhaps of another history than the view's
  HashRangeSet entitled_;
  std::map<uint64_t, InFlight> in_flight_;
  uint64_t next_id_ = 1;
  std::map<TaskKey, LiveTask> tasks_;
  std::vector<TaskReport> due_;
  std::function<void()> notify_;
  bool notify_due_ = false;
  std::deque<Job> jobs_;
  std::condition_variable job_added_;
  bool stopping_ = false;

  std::thread worker_;
};

}  // namespace warmring
