#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <vector>

#include "agent/engine/cache_engine.h"
#include "agent/notice.h"
#include "agent/transfer/preparation.h"
#include "agent/transfer/transfer_client.h"
#include "migrations/task.h"

namespace warmring {

// Does the tasks of a node's session. Level-triggered: SetTasks gives the complete present list;
// what is new is begun, what is gone is cancelled, what is there already goes on. Work happens on
// threads of its own: one for fences, which therefore wait for nothing else, and those of the
// transfers. Thread-safe; no call blocks on an engine or another node.
class TaskRunner {
 public:
  // `due` is called without a lock when TakeReports has something new; `fenced` after each fence.
  TaskRunner(TransferContext context, std::function<void()> due, std::function<void()> fenced);
  ~TaskRunner();

  // Cancels everything and waits for it. Only Fenced may be called afterwards.
  void Stop();

  void SetTasks(const std::vector<Task>& tasks);
  // The installed membership is another one.
  void MembershipChanged();
  // The engine is this incarnation now. Everything that an earlier one did is void: transfers and
  // fences begin anew with the next list.
  void SetIncarnation(const Incarnation& incarnation);

  // Reports that are new since the last call, oldest first.
  std::vector<TaskReport> TakeReports();
  // The newest report of every live task is due again: the server is a new listener.
  void RepeatReports();

  // Where the log stood when all of `ranges` were fenced by one task; empty if they are not.
  std::optional<LogPosition> Fenced(const MigrationId& migration, const HashRangeSet& ranges) const;

 private:
  enum class Kind : uint8_t { kWarm, kVerify, kFence, kPrepare };
  struct Key {
    MigrationId migration;
    uint32_t wave = 0;
    Id128 nonce;
    Kind kind = Kind::kWarm;
    uint64_t epoch = 0;                                    // of a fence or a preparation
    PrepareTask::Mode mode = PrepareTask::Mode::kChanges;  // of a preparation
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Entry {
    Task task;
    std::optional<TaskReport> report;  // newest
    uint64_t due = 0;                  // order in which it became due; 0 = not due
    bool answered = false;             // fence acknowledged, or prepared, or given up
    std::shared_ptr<Preparation> preparation;
  };
  using TransferKey = std::pair<MigrationId, Id128>;
  // What is cancelled and not at its end yet. Nothing else is begun before: what is late of it must
  // not land in what comes after it.
  struct Retired {
    std::shared_ptr<TransferClient> transfer;
    std::shared_ptr<Preparation> preparation;
  };

  static Key KeyOf(const Task& task);

  void RunFences();
  void RunReaper();

  // REQUIRES (all below): mutex_ is held.
  void Begin(const Key& key, Entry& entry);
  void BeginWarm(const Key& key, const WarmTask& task);
  void BeginPreparation(const Key& key, Entry& entry, const PrepareTask& task);
  void BeginAll();
  void RetirePreparation(Entry& entry);
  void RetireTransfer(std::shared_ptr<TransferClient> transfer);
  std::shared_ptr<TransferClient> TransferOf(const Key& key) const;
  bool IsPreparing(const Key& warm) const;
  // Looks at the transfers and makes the reports that follow. True if one became due.
  bool Refresh(bool report);
  bool RefreshWarm(const Key& key, Entry& entry, bool report);
  bool RefreshVerify(const Key& key, Entry& entry);
  bool RefreshPrepare(const Key& key, Entry& entry);
  bool Put(const Key& key, Entry& entry, decltype(TaskReport::body) body);

  void OnTransferChanged(bool report);

  const TransferContext context_;
  const std::function<void()> due_;
  const std::function<void()> fenced_;
  Notice fence_notice_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  std::map<Key, Entry> tasks_;
  std::map<TransferKey, std::shared_ptr<TransferClient>> transfers_;
  std::deque<Key> fences_;       // to be done
  std::deque<Retired> retired_;  // the front one is being waited for
  std::optional<Incarnation> incarnation_;
  uint64_t generation_ = 0;  // grows with the incarnation
  uint64_t next_due_ = 1;
  bool stopping_ = false;

  std::thread fence_thread_;
  std::thread reaper_thread_;
};

}  // namespace warmring
