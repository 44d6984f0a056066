#pragma once

#include <atomic>
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
#include "client/owner/write_table.h"
#include "core/ownership/owner_view.h"
#include "warmring/owner.h"

namespace warmring {

// OwnerGuard without its connections: admits, counts what is in flight, answers tasks. Calls of the
// application's callbacks are made one after the other on a thread of its own, since they may take
// long; everything else is quick. Thread-safe.
//
// Requests take no lock: they decide by an immutable copy of the OwnerView, and who changes the
// view publishes a new copy and looks at what is in flight then (WriteTable proves the order).
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
  absl::Status StillHeld(WriteSlot& slot);
  void End(WriteSlot& slot);

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
  using TaskKey = std::tuple<MigrationId, uint32_t, Id128, size_t, PrepareTask::Mode>;
  struct LiveTask {
    Task task;
    Instant since;
    uint64_t serial = 0;               // another one for each beginning
    std::optional<TaskReport> report;  // the newest
  };
  // What requests decide by. Immutable, but for the flag.
  struct Published {
    Published(const OwnerView& copy, uint64_t number, bool marked)
        : view(copy), generation(number), settled(marked) {}
    const OwnerView view;
    const uint64_t generation;  // grows with each publication
    // The writes that earlier views admitted have been marked as lost where they are. Until then
    // none is checked by this view alone.
    std::atomic<bool> settled;
  };
  // Which of the writes in flight are lost by a change.
  using LostIf = std::function<bool(const WriteSlot&)>;
  // Callbacks of the application that are due: drop, then fetch.
  struct Job {
    std::optional<TaskKey> task;  // whose answer it is; none: the ranges have left
    uint64_t serial = 0;          // of the task as it was begun
    HashRangeSet drop;
    HashRangeSet fetch;
    Instant not_before;
  };

  static TaskKey KeyOf(const Task& task);
  // The lease's clock.
  Instant Now() const { return is_boot_clock_ ? BootNow() : options_.clock(); }
  // Calls `read` (anything but void (const OwnerView*)) with what is published, null before the
  // first Attach. It must be quick and take no lock: a change waits for it.
  template <typename Reader>
  auto Read(Reader read) const;
  static RefusalInfo InfoOf(const Admission& admission, const OwnerView* view);
  void Publish(const LostIf& lost_if);
  void Install(const Membership::Ptr& membership);
  // What is known of `task` from before, or its beginning.
  LiveTask Taken(const TaskKey& key, const Task& task);
  void KeepAnswers(const std::vector<Task>& tasks);
  void StartTask(const TaskKey& key, LiveTask& live);
  bool IsLost(const WriteSlot& write) const;
  bool IsDrained(const FenceTask& fence, Instant since);
  HashRangeSet EntitledLocked() const;
  HashRangeSet OwnedLocked() const;
  void AnswerFences();
  void Report(const TaskKey& key, decltype(TaskReport::body) body);
  void AddJob(Job job);
  bool IsLive(const Job& job) const;
  void RunJobs();
  absl::Status Call(const Job& job) const;
  void Finish(const Job& job, const absl::Status& status);
  void NotifyIfDue();

  const OwnerOptions options_;
  const bool is_boot_clock_;  // it is the default one: no need to go through the function

  std::atomic<Published*> published_ = nullptr;  // owned; of view_; null before the first Attach
  mutable WriteTable writes_;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  Incarnation incarnation_;
  std::optional<OwnerView> view_;  // none before the first Attach
  Membership::Ptr newest_;         // of the watch, perhaps of another history than the view's
  HashRangeSet entitled_;
  uint64_t generation_ = 0;  // of what is published
  std::map<TaskKey, LiveTask> tasks_;
  // Preparations that were answered and have left the list. The server may act on the answer at any
  // moment, so none of them is done again.
  std::deque<LiveTask> answered_;
  uint64_t next_serial_ = 1;
  std::vector<TaskReport> due_;
  std::function<void()> notify_;
  bool notify_due_ = false;
  std::deque<Job> jobs_;
  std::condition_variable job_added_;
  bool stopping_ = false;

  std::thread worker_;
};

}  // namespace warmring
