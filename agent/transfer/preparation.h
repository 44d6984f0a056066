#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "agent/notice.h"
#include "agent/transfer/transfer_client.h"
#include "migrations/task.h"

namespace warmring {

// Makes this node ready to own ranges without a running transfer: by the present owner's dirty set
// (undo), or by dropping everything in them. Tries until it succeeds, is hopeless, or is cancelled.
// Owns a thread. Thread-safe.
class Preparation {
 public:
  // REQUIRES: task.mode is kDirty or kPurge. `first` is called once on the preparation's thread
  // before anything else; `changed` when there is a result.
  Preparation(TransferContext context, MigrationId migration, Id128 nonce, PrepareTask task,
              std::function<void()> first, std::function<void()> changed);
  ~Preparation();  // abandons and waits

  // What it was made for.
  const PrepareTask& FirstTask() const { return first_task_; }
  // Addresses come and go. REQUIRES: it is the same work as FirstTask().
  void SetTask(const PrepareTask& task);
  // As of TransferClient.
  void Cancel();
  void Abandon();
  void Join();

  std::optional<PreparedReport> Prepared() const;
  std::optional<TaskFailure> Failure() const;

 private:
  void Run();
  // Until there is a result, or it is cancelled. The nonce that the engine may still accept, if
  // any.
  std::optional<Id128> Prepare();
  absl::Status Attempt(const PrepareTask& task, const Id128& nonce, PreparedReport* report);
  absl::Status PurgeRanges(const Id128& nonce);
  absl::Status PullDirty(const PrepareTask::Donor& donor, const Id128& nonce,
                         const TransferLimits& limits, LogPosition* watermark);
  // Until the set is complete, an error, or the stream is over (`ended`).
  absl::Status TakeDirty(const PrepareTask::Donor& donor, const Id128& nonce, PullChannel* channel,
                         LogPosition* watermark, bool* ended);
  bool Cancelled() const;

  const TransferContext context_;
  const MigrationId migration_;
  const Id128 nonce_;
  const std::function<void()> first_;
  const std::function<void()> changed_;
  Notice notice_;
  const PrepareTask first_task_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  PrepareTask task_;
  std::shared_ptr<PullChannel> channel_;
  std::optional<PreparedReport> prepared_;
  std::optional<TaskFailure> failure_;
  bool cancelled_ = false;
  bool abandoned_ = false;

  std::thread thread_;
};

}  // namespace warmring
