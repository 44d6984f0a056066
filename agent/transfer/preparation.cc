#include "agent/transfer/preparation.h"

#include <algorithm>
#include <utility>

#include "client/base/failpoint.h"
#include "core/base/status_macros.h"
#include "fmt/format.h"

namespace warmring {
namespace {

constexpr uint32_t kPurgeCount = 500;

}  // namespace

Preparation::Preparation(TransferContext context, MigrationId migration, Id128 nonce,
                         PrepareTask task, std::function<void()> first,
                         std::function<void()> changed)
    : context_(std::move(context)),
      migration_(std::move(migration)),
      nonce_(nonce),
      first_(std::move(first)),
      changed_(std::move(changed)),
      notice_("preparing to own ranges of " + migration_),
      first_task_(std::move(task)),
      task_(first_task_),
      thread_([this] { Run(); }) {}

Preparation::~Preparation() {
  Abandon();
  Join();
}

void Preparation::Abandon() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    abandoned_ = true;
  }
  Cancel();
}

void Preparation::Join() {
  if (thread_.joinable()) thread_.join();
}

void Preparation::SetTask(const PrepareTask& task) {
  std::lock_guard<std::mutex> lock(mutex_);
  task_ = task;
}

void Preparation::Cancel() {
  std::lock_guard<std::mutex> lock(mutex_);
  cancelled_ = true;
  if (channel_) channel_->Cancel();
  wake_.notify_all();
}

std::optional<PreparedReport> Preparation::Prepared() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return prepared_;
}

std::optional<TaskFailure> Preparation::Failure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

bool Preparation::Cancelled() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return cancelled_;
}

void Preparation::Run() {
  first_();
  const std::optional<Id128> open = Prepare();
  while (open.has_value() && !context_.engine->CloseTransfer(*open).ok()) {
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait_for(lock, absl::ToChronoNanoseconds(context_.retry_min),
                   [this] { return abandoned_; });
    if (abandoned_) return;
  }
}

std::optional<Id128> Preparation::Prepare() {
  absl::Duration delay = context_.retry_min;
  std::optional<Id128> open;  // a nonce that the engine may still accept
  while (!Cancelled()) {
    PrepareTask task;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      task = task_;
    }
    absl::Status status;
    PreparedReport report;
    if (open.has_value()) status = context_.engine->CloseTransfer(*open);
    if (status.ok()) {
      open = RandomIncarnation();
      status = Attempt(task, *open, &report);
      const absl::Status closed = context_.engine->CloseTransfer(*open);
      if (closed.ok()) open.reset();
      if (status.ok()) status = closed;
    }
    std::unique_lock<std::mutex> lock(mutex_);
    if (cancelled_) return open;
    if (status.ok()) {
      prepared_ = report;
    } else if (absl::IsInvalidArgument(status) || absl::IsDataLoss(status) ||
               absl::IsResourceExhausted(status)) {
      failure_ = TaskFailure{std::string(status.message()), absl::IsDataLoss(status)};
    }
    notice_.Report(status);
    if (prepared_.has_value() || failure_.has_value()) {
      lock.unlock();
      changed_();
      return open;
    }
    wake_.wait_for(lock, absl::ToChronoNanoseconds(delay), [this] { return cancelled_; });
    delay = std::min(delay * 2, context_.retry_max);
  }
  return open;
}

absl::Status Preparation::Attempt(const PrepareTask& task, const Id128& nonce,
                                  PreparedReport* report) {
  RETURN_IF_ERROR(context_.engine->OpenTransfer(nonce, migration_, RangesOf(task)));
  report->epoch = task.epoch;
  report->mode = task.mode;
  if (task.mode == PrepareTask::Mode::kPurge) RETURN_IF_ERROR(PurgeRanges(nonce));
  for (const PrepareTask::Donor& donor : task.donors) {
    report->donors.push_back(donor.source.donor);
    LogPosition applied{donor.log_id, donor.watermark};
    if (task.mode == PrepareTask::Mode::kDirty) {
      RETURN_IF_ERROR(PullDirty(donor, nonce, task.limits, &applied));
    }
    report->log_ids.push_back(applied.log_id);
    report->applied.push_back(applied.position);
  }
  return absl::OkStatus();
}

absl::Status Preparation::PurgeRanges(const Id128& nonce) {
  uint64_t cursor = 0;
  do {
    if (Cancelled()) return absl::CancelledError("the task is over");
    ASSIGN_OR_RETURN(const CacheEngine::Purged purged,
                     context_.engine->PurgeTransfer(nonce, cursor, kPurgeCount));
    WARMRING_FP("purge.batch");
    cursor = purged.next;
  } while (cursor != 0);
  return absl::OkStatus();
}

absl::Status Preparation::PullDirty(const PrepareTask::Donor& donor, const Id128& nonce,
                                    const TransferLimits& limits, LogPosition* watermark) {
  const Membership::Ptr membership = context_.membership();
  if (membership == nullptr || donor.source.transfer_address.empty()) {
    return absl::UnavailableError(
        fmt::format("{}: no session of its agent now", donor.source.donor));
  }
  const PullOrder order{context_.keyspace, membership->history(), migration_, nonce_,
                        PullMode::kDirty,  donor.source.ranges,   limits,     context_.node};
  std::shared_ptr<PullChannel> channel = context_.dial(donor.source.transfer_address, order);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    channel_ = channel;
    if (cancelled_) channel->Cancel();
  }
  bool ended = false;
  const absl::Status taken = TakeDirty(donor, nonce, channel.get(), watermark, &ended);
  if (ended) {
    const absl::Status why = channel->Finish();
    return why.ok() ? absl::UnavailableError(donor.source.donor + ": the stream broke") : why;
  }
  channel->Cancel();
  channel->Finish().IgnoreError();  // this side ended it, and knows why
  return taken;
}

absl::Status Preparation::TakeDirty(const PrepareTask::Donor& donor, const Id128& nonce,
                                    PullChannel* channel, LogPosition* watermark, bool* ended) {
  PullItem item;
  while (channel->Read(&item)) {
    if (const auto* batch = std::get_if<EntryBatch>(&item)) {
      WARMRING_FP("apply.batch");
      RETURN_IF_ERROR(context_.engine->Apply(nonce, batch->entries));
    } else if (const auto* end = std::get_if<DirtyEnd>(&item)) {
      if (!end->complete) {
        return absl::ResourceExhaustedError(
            fmt::format("{}: the set of keys written since its activation is not complete",
                        donor.source.donor));
      }
      if (end->watermark.log_id != donor.log_id || end->watermark.position < donor.watermark) {
        return absl::DataLossError(
            fmt::format("{}: it was restarted since its fence", donor.source.donor));
      }
      *watermark = end->watermark;
      return absl::OkStatus();
    } else {
      return absl::InternalError("the donor sent a copy instead of a dirty set");
    }
  }
  *ended = true;
  return absl::OkStatus();
}

}  // namespace warmring
