#include "agent/task_runner.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "client/base/failpoint.h"
#include "fmt/format.h"
#include "spdlog/spdlog.h"

namespace warmring {
namespace {

constexpr std::chrono::milliseconds kFenceRetry(20);

}  // namespace

TaskRunner::TaskRunner(TransferContext context, std::function<void()> due,
                       std::function<void()> fenced)
    : context_(std::move(context)),
      due_(std::move(due)),
      fenced_(std::move(fenced)),
      fence_notice_("fence"),
      fence_thread_([this] { RunFences(); }),
      reaper_thread_([this] { RunReaper(); }) {}

TaskRunner::~TaskRunner() { Stop(); }

void TaskRunner::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto& [key, entry] : tasks_) RetirePreparation(entry);
    for (auto& [key, transfer] : transfers_) RetireTransfer(std::move(transfer));
    transfers_.clear();
    tasks_.clear();
    for (const Retired& retired : retired_) {
      if (retired.transfer) retired.transfer->Abandon();
      if (retired.preparation) retired.preparation->Abandon();
    }
    stopping_ = true;
    wake_.notify_all();
  }
  if (fence_thread_.joinable()) fence_thread_.join();
  if (reaper_thread_.joinable()) reaper_thread_.join();
}

TaskRunner::Key TaskRunner::KeyOf(const Task& task) {
  Key key{task.migration, task.wave, task.nonce, Kind::kWarm, 0};
  if (std::holds_alternative<VerifyTask>(task.body)) key.kind = Kind::kVerify;
  if (const auto* fence = std::get_if<FenceTask>(&task.body)) {
    key.kind = Kind::kFence;
    key.epoch = fence->floor.value;
  }
  if (const auto* prepare = std::get_if<PrepareTask>(&task.body)) {
    key.kind = Kind::kPrepare;
    key.epoch = prepare->epoch.value;
    key.mode = prepare->mode;
  }
  return key;
}

void TaskRunner::SetTasks(const std::vector<Task>& tasks) {
  bool due = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::set<Key> listed;
    std::set<TransferKey> needed;
    for (const Task& task : tasks) {
      listed.insert(KeyOf(task));
      if (NeedsTransfer(task)) needed.insert({task.migration, task.nonce});
    }
    for (auto at = tasks_.begin(); at != tasks_.end();) {
      if (listed.contains(at->first)) {
        ++at;
        continue;
      }
      RetirePreparation(at->second);
      at = tasks_.erase(at);
    }
    for (auto at = transfers_.begin(); at != transfers_.end();) {
      if (needed.contains(at->first)) {
        ++at;
        continue;
      }
      RetireTransfer(std::move(at->second));
      at = transfers_.erase(at);
    }
    for (const Task& task : tasks) {
      Entry& entry = tasks_[KeyOf(task)];
      // A donor that was asked again may have logged more since.
      if (ChangesTaskOf(task) != nullptr && entry.task != task) entry.answered = false;
      entry.task = task;
    }
    const uint64_t first_due = next_due_;
    BeginAll();
    Refresh(/*report=*/true);
    // A task may fail as it begins, too.
    due = next_due_ != first_due;
    wake_.notify_all();
  }
  if (due) due_();
}

void TaskRunner::BeginAll() {
  // Transfers before what asks something of them.
  for (const Kind kind : {Kind::kFence, Kind::kWarm, Kind::kVerify, Kind::kPrepare}) {
    for (auto& [key, entry] : tasks_) {
      if (key.kind != kind) continue;
      // To begin may itself end something.
      if (kind != Kind::kFence && !retired_.empty()) return;  // the reaper comes back to it
      Begin(key, entry);
    }
  }
}

void TaskRunner::Begin(const Key& key, Entry& entry) {
  if (const auto* warm = std::get_if<WarmTask>(&entry.task.body)) {
    BeginWarm(key, *warm);
  } else if (const auto* verify = std::get_if<VerifyTask>(&entry.task.body)) {
    if (const auto transfer = TransferOf(key)) transfer->Verify(verify->sample);
  } else if (const auto* prepare = std::get_if<PrepareTask>(&entry.task.body)) {
    BeginPreparation(key, entry, *prepare);
  } else if (!entry.answered && std::find(fences_.begin(), fences_.end(), key) == fences_.end()) {
    fences_.push_back(key);
  }
}

void TaskRunner::BeginWarm(const Key& key, const WarmTask& task) {
  std::shared_ptr<TransferClient>& transfer = transfers_[{key.migration, key.nonce}];
  if (transfer == nullptr) {
    // A wave may be committed on what an earlier agent said, or may not: what it left must neither
    // be purged nor be vouched for.
    if (IsPreparing(key)) {
      transfers_.erase({key.migration, key.nonce});
      Put(key, tasks_[key],
          TaskFailure{"this agent or its engine was restarted while a wave was being fenced",
                      /*restart=*/true});
      return;
    }
    spdlog::info("migration {}: transfer {} begins from {} source(s)", key.migration,
                 key.nonce.ToString(), task.sources.size());
    transfer = std::make_shared<TransferClient>(context_, key.migration, key.nonce,
                                                [this](bool report) { OnTransferChanged(report); });
  }
  transfer->SetTask(task);
}

bool TaskRunner::IsPreparing(const Key& warm) const {
  return std::any_of(tasks_.begin(), tasks_.end(), [&](const auto& item) {
    return item.first.migration == warm.migration && item.first.nonce == warm.nonce &&
           ChangesTaskOf(item.second.task) != nullptr;
  });
}

void TaskRunner::BeginPreparation(const Key& key, Entry& entry, const PrepareTask& task) {
  if (task.mode == PrepareTask::Mode::kChanges) return;  // the warm transfer does it
  if (entry.preparation && IsSameWork(entry.preparation->FirstTask(), task)) {
    entry.preparation->SetTask(task);
    return;
  }
  if (entry.preparation) {
    RetirePreparation(entry);
    return;
  }
  entry.answered = false;
  // Whatever the warm transfer still carries must not land in these ranges any more.
  std::shared_ptr<TransferClient> transfer = TransferOf(key);
  auto exclude = [transfer, ranges = RangesOf(task)] {
    if (transfer) transfer->Exclude(ranges);
  };
  entry.preparation =
      std::make_shared<Preparation>(context_, key.migration, key.nonce, task, std::move(exclude),
                                    [this] { OnTransferChanged(true); });
}

void TaskRunner::RetirePreparation(Entry& entry) {
  if (!entry.preparation) return;
  entry.preparation->Cancel();
  retired_.push_back({nullptr, std::move(entry.preparation)});
  wake_.notify_all();
}

void TaskRunner::RetireTransfer(std::shared_ptr<TransferClient> transfer) {
  transfer->Cancel();
  retired_.push_back({std::move(transfer), nullptr});
  wake_.notify_all();
}

std::shared_ptr<TransferClient> TaskRunner::TransferOf(const Key& key) const {
  const auto found = transfers_.find({key.migration, key.nonce});
  return found == transfers_.end() ? nullptr : found->second;
}

void TaskRunner::MembershipChanged() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [key, transfer] : transfers_) transfer->MembershipChanged();
}

void TaskRunner::SetIncarnation(const Incarnation& incarnation) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (incarnation_ == incarnation) return;
  incarnation_ = incarnation;
  ++generation_;
  for (auto& [key, entry] : tasks_) RetirePreparation(entry);
  for (auto& [key, transfer] : transfers_) RetireTransfer(std::move(transfer));
  transfers_.clear();
  tasks_.clear();
  fences_.clear();
  wake_.notify_all();
}

void TaskRunner::OnTransferChanged(bool report) {
  bool due = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    due = Refresh(report);
  }
  if (due) due_();
}

bool TaskRunner::Refresh(bool report) {
  bool due = false;
  for (auto& [key, entry] : tasks_) {
    switch (key.kind) {
      case Kind::kWarm:
        due = RefreshWarm(key, entry, report) || due;
        break;
      case Kind::kVerify:
        due = (report && RefreshVerify(key, entry)) || due;
        break;
      case Kind::kPrepare:
        due = RefreshPrepare(key, entry) || due;
        break;
      case Kind::kFence:
        break;
    }
  }
  return due;
}

bool TaskRunner::RefreshWarm(const Key& key, Entry& entry, bool report) {
  const auto transfer = TransferOf(key);
  if (transfer == nullptr || !report) return false;
  if (const auto failure = transfer->Failure()) return Put(key, entry, *failure);
  return Put(key, entry, transfer->Warm());
}

bool TaskRunner::RefreshVerify(const Key& key, Entry& entry) {
  const auto transfer = TransferOf(key);
  if (transfer == nullptr || transfer->Failure().has_value()) return false;
  const auto verified = transfer->Verified();
  return verified.has_value() && Put(key, entry, *verified);
}

bool TaskRunner::RefreshPrepare(const Key& key, Entry& entry) {
  if (entry.answered) return false;
  if (entry.preparation) {
    if (const auto failure = entry.preparation->Failure()) {
      entry.answered = true;
      return Put(key, entry, *failure);
    }
    const auto prepared = entry.preparation->Prepared();
    if (!prepared.has_value()) return false;
    WARMRING_FP("prepared.before");
    entry.answered = true;
    return Put(key, entry, *prepared);
  }
  const auto transfer = TransferOf(key);
  const PrepareTask* task = ChangesTaskOf(entry.task);
  if (transfer == nullptr || task == nullptr) return false;
  PreparedReport prepared;
  switch (transfer->TryPrepare(*task, &prepared)) {
    case TransferClient::Preparedness::kNotYet:
      return false;
    case TransferClient::Preparedness::kPrepared:
      WARMRING_FP("prepared.before");
      entry.answered = true;
      return Put(key, entry, std::move(prepared));
    case TransferClient::Preparedness::kTooLate:
      entry.answered = true;
      return Put(key, entry,
                 TaskFailure{"the streams of what was reported to be complete have ended, and the "
                             "donors have logged more since",
                             /*restart=*/true});
  }
  return false;
}

bool TaskRunner::Put(const Key& key, Entry& entry, decltype(TaskReport::body) body) {
  if (!incarnation_.has_value()) return false;
  TaskReport report{key.migration, key.wave,      key.nonce,
                    context_.node, *incarnation_, std::move(body)};
  if (entry.report == report) return false;
  entry.report = std::move(report);
  entry.due = next_due_++;
  return true;
}

std::vector<TaskReport> TaskRunner::TakeReports() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Entry*> due;
  for (auto& [key, entry] : tasks_) {
    if (entry.due != 0) due.push_back(&entry);
  }
  std::sort(due.begin(), due.end(), [](Entry* a, Entry* b) { return a->due < b->due; });
  std::vector<TaskReport> reports;
  for (Entry* entry : due) {
    reports.push_back(*entry->report);
    entry->due = 0;
  }
  return reports;
}

void TaskRunner::RepeatReports() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [key, entry] : tasks_) {
    if (entry.report.has_value()) entry.due = next_due_++;
  }
}

std::optional<LogPosition> TaskRunner::Fenced(const MigrationId& migration,
                                              const HashRangeSet& ranges) const {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [key, entry] : tasks_) {
    const auto* fence = std::get_if<FenceTask>(&entry.task.body);
    if (fence == nullptr || key.migration != migration || !entry.report.has_value()) continue;
    const auto* ack = std::get_if<FenceAck>(&entry.report->body);
    if (ack != nullptr && fence->ranges.Includes(ranges)) {
      return LogPosition{ack->log_id, ack->watermark};
    }
  }
  return std::nullopt;
}

void TaskRunner::RunFences() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !fences_.empty(); });
    if (stopping_) return;
    const Key key = fences_.front();
    fences_.pop_front();
    const auto found = tasks_.find(key);
    if (found == tasks_.end() || found->second.answered) continue;
    const Task task = found->second.task;
    const uint64_t generation = generation_;
    lock.unlock();
    WARMRING_FP("fence.before");
    const auto& body = std::get<FenceTask>(task.body);
    const auto result = context_.engine->Fence(key.migration, body.floor, body.ranges);
    WARMRING_FP("fence.after");
    fence_notice_.Report(result.status());
    bool due = false;
    lock.lock();
    const auto still = tasks_.find(key);
    if (still == tasks_.end() || generation != generation_) continue;
    if (result.ok()) {
      still->second.answered = true;
      due = Put(key, still->second,
                FenceAck{body.floor, result->watermark.log_id, result->watermark.position,
                         result->dirty_complete});
    } else {
      wake_.wait_for(lock, kFenceRetry, [this] { return stopping_; });
      if (generation == generation_) fences_.push_back(key);
    }
    lock.unlock();
    if (result.ok()) fenced_();
    if (due) due_();
    lock.lock();
  }
}

void TaskRunner::RunReaper() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !retired_.empty(); });
    if (retired_.empty()) return;
    Retired retired = retired_.front();
    lock.unlock();
    if (retired.transfer) retired.transfer->Join();
    if (retired.preparation) retired.preparation->Join();
    retired = Retired();
    lock.lock();
    retired_.pop_front();
    if (!retired_.empty() || stopping_) continue;
    const uint64_t first_due = next_due_;
    BeginAll();
    Refresh(/*report=*/true);
    if (next_due_ == first_due) continue;
    lock.unlock();
    due_();
    lock.lock();
  }
}

}  // namespace warmring
