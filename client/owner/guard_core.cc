#include "client/owner/guard_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "client/base/warning.h"
#include "core/base/status_macros.h"
#include "core/hashing/key_hash.h"

namespace warmring {
namespace {

constexpr absl::Duration kReleaseRetry = absl::Seconds(1);
constexpr absl::Duration kRetryPoll = absl::Milliseconds(100);

RefusalReason ReasonFor(Verdict verdict) {
  switch (verdict) {
    case Verdict::kAdmit:
    case Verdict::kNoLease:
      return RefusalReason::kNoLease;
    case Verdict::kWrongHistory:
      return RefusalReason::kWrongHistory;
    case Verdict::kNotOwner:
      return RefusalReason::kNotOwner;
    case Verdict::kStaleEpoch:
      return RefusalReason::kStaleEpoch;
    case Verdict::kOwnerBehind:
      return RefusalReason::kOwnerBehind;
    case Verdict::kFencing:
      return RefusalReason::kFencing;
  }
  return RefusalReason::kNoLease;
}

std::string_view TextFor(Verdict verdict) {
  switch (verdict) {
    case Verdict::kAdmit:
      return "admitted";
    case Verdict::kNoLease:
      return "this owner holds no lease now: retry later";
    case Verdict::kWrongHistory:
      return "the epoch is of another history: refresh";
    case Verdict::kNotOwner:
      return "another node owns this key: refresh";
    case Verdict::kStaleEpoch:
      return "the range has a newer epoch: refresh";
    case Verdict::kOwnerBehind:
      return "this owner has not seen that epoch yet: retry later";
    case Verdict::kFencing:
      return "the range is changing hands: retry later";
  }
  return "refused";
}

HashRangeSet RangesOf(const std::vector<TransferSource>& sources) {
  HashRangeSet ranges;
  for (const TransferSource& source : sources) ranges = ranges.Union(source.ranges);
  return ranges;
}

HashRangeSet RangesOf(const PrepareTask& task) {
  HashRangeSet ranges;
  for (const PrepareTask::Donor& donor : task.donors) ranges = ranges.Union(donor.source.ranges);
  return ranges;
}

// An expired lease stands in for the acknowledgement of a donor that cannot be reached.
bool EveryDonorIsFenced(const PrepareTask& task) {
  return std::all_of(task.donors.begin(), task.donors.end(),
                     [](const PrepareTask::Donor& donor) { return !donor.log_id.empty(); });
}

PreparedReport Prepared(const PrepareTask& task) {
  PreparedReport report;
  report.epoch = task.epoch;
  report.mode = task.mode;
  for (const PrepareTask::Donor& donor : task.donors) {
    report.log_ids.push_back(donor.log_id);
    report.applied.push_back(donor.watermark);
  }
  return report;
}

HashRangeSet AllPlanes(const Membership& membership) {
  std::vector<HashRange> planes = {HashRange::Whole()};
  for (const Override& item : membership.overrides()) {
    planes.push_back(HashRange::Whole(item.plane));
  }
  return HashRangeSet(planes);
}

}  // namespace

GuardCore::GuardCore(OwnerOptions options)
    : options_(std::move(options)), incarnation_(RandomIncarnation()) {
  worker_ = std::thread([this] { RunJobs(); });
}

GuardCore::~GuardCore() { Stop(); }

void GuardCore::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    job_added_.notify_all();
  }
  if (worker_.joinable()) worker_.join();
}

void GuardCore::SetNotify(std::function<void()> notify) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    notify_ = std::move(notify);
    notify_due_ = true;
  }
  NotifyIfDue();
}

absl::Status GuardCore::Refuse(const Admission& admission, std::string_view key) const {
  RefusalInfo info;
  info.reason = ReasonFor(admission.verdict);
  info.version = admission.version;
  if (view_ && view_->membership() != nullptr) {
    info.epoch_word = FormatEpochWord(view_->history(), admission.epoch);
    if (admission.owner) {
      info.owner_address = view_->membership()->nodes()[*admission.owner].address;
    }
  }
  return RefusalStatus(info,
                       fmt::format("key '{}': {}", Printable(key), TextFor(admission.verdict)));
}

absl::StatusOr<WriteGuard> GuardCore::Begin(std::string_view key, std::string_view epoch_word) {
  ASSIGN_OR_RETURN(const EpochWord word, EpochWord::Parse(epoch_word));
  const std::lock_guard<std::mutex> lock(mutex_);
  Admission admission;
  admission.verdict = Verdict::kNoLease;
  if (view_ && view_->membership() != nullptr) {
    admission = view_->AdmitWrite(PointOfLocked(key), word, options_.clock());
  }
  if (!admission.ok()) return Refuse(admission, key);
  const uint64_t id = next_id_++;
  in_flight_[id] = {std::string(key), std::string(epoch_word), word.epoch, false, false};
  return WriteGuard(this, id);
}

absl::Status GuardCore::BeginRead(std::string_view key, std::string_view epoch_word) const {
  ASSIGN_OR_RETURN(const EpochWord word, EpochWord::Parse(epoch_word));
  const std::lock_guard<std::mutex> lock(mutex_);
  Admission admission;
  admission.verdict = Verdict::kNoLease;
  if (view_ && view_->membership() != nullptr) {
    admission = view_->AdmitRead(PointOfLocked(key), word);
  }
  return admission.ok() ? absl::OkStatus() : Refuse(admission, key);
}

absl::Status GuardCore::StillHeld(uint64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  InFlight& write = in_flight_.at(id);
  const absl::StatusOr<EpochWord> word = EpochWord::Parse(write.word);
  Admission admission = view_->AdmitWrite(PointOfLocked(write.key), *word, options_.clock());
  if (admission.ok() && !write.lost) {
    write.passed = true;
    return absl::OkStatus();
  }
  if (admission.ok()) admission.verdict = Verdict::kStaleEpoch;
  const absl::Status refusal = Refuse(admission, "");
  absl::Status status = absl::UnknownError(fmt::format(
      "the write may exist, and must not be acknowledged: {}", TextFor(admission.verdict)));
  refusal.ForEachPayload(
      [&status](auto url, const absl::Cord& payload) { status.SetPayload(url, payload); });
  return status;
}

void GuardCore::End(uint64_t id) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    in_flight_.erase(id);
    AnswerFences();
  }
  NotifyIfDue();
}

bool GuardCore::HasLease() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return view_ && view_->HasLease(options_.clock());
}

Version GuardCore::version() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return view_ && view_->membership() != nullptr ? view_->membership()->version() : Version(0);
}

void GuardCore::OnMembership(const Membership::Ptr& membership) {
  const std::lock_guard<std::mutex> lock(mutex_);
  newest_ = membership;
  if (view_) Install(membership);
}

// What the node is no longer entitled to is released, in the background.
void GuardCore::Install(const Membership::Ptr& membership) {
  if (membership == nullptr || membership->history() != view_->history()) return;
  const Membership::Ptr previous = view_->membership();
  const absl::Status installed = view_->Install(membership);
  if (!installed.ok()) {
    Warn(fmt::format("membership {}: {}", membership->version().value, installed.ToString()));
    return;
  }
  NoteEndedOverrides(previous.get());
  NoteLost();
  // A fence waits until the keys that it is about can be told.
  for (const auto& [key, live] : tasks_) {
    const auto* fence = std::get_if<FenceTask>(&live.task.body);
    if (fence != nullptr && !live.report) Fence(*fence);
  }
  AnswerFences();
  const HashRangeSet before = std::exchange(entitled_, EntitledLocked());
  HashRangeSet left = before.Minus(entitled_);
  // When rules come or go, keys change planes, and what was held on one cannot be told from the
  // ranges of before: then everything goes that is not to be here.
  const bool planes_changed =
      previous != nullptr && (HasEndedOverrides(*previous, *membership) ||
                              previous->data().next_plane != membership->data().next_plane);
  if (planes_changed) left = AllPlanes(*membership).Minus(entitled_);
  if (left.empty() || options_.on_release == nullptr) return;
  AddJob({std::nullopt, left, true, false, Instant{}});
}

absl::StatusOr<OwnerPort::Identity> GuardCore::Attach(const HistoryId& history, OnRestart) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!view_ || view_->history() != history) {
    // In another history this is another owner, with nothing admitted yet.
    if (view_) incarnation_ = RandomIncarnation();
    view_.emplace(history, options_.keyspace, options_.node, incarnation_);
    tasks_.clear();
    Install(newest_);
  }
  due_.clear();
  for (const auto& [key, live] : tasks_) {
    if (live.report) due_.push_back(*live.report);
  }
  return Identity{incarnation_, "", 0, options_.data_address};
}

absl::StatusOr<OwnerPort::Renewal> GuardCore::Renew() {
  Renewal renewal;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!view_) return absl::AbortedError("not attached yet");
    renewal.seq = view_->Renew(options_.clock());
    if (view_->membership() != nullptr) renewal.applied_version = view_->membership()->version();
    AnswerFences();  // their time to drain may be over
  }
  NotifyIfDue();
  return renewal;
}

absl::Status GuardCore::Grant(const LeaseGrant& grant) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!view_) return absl::AbortedError("not attached yet");
  return view_->Grant(grant);
}

GuardCore::TaskKey GuardCore::KeyOf(const Task& task) {
  return {task.migration, task.wave, task.nonce, task.body.index()};
}

void GuardCore::SetTasks(const std::vector<Task>& tasks) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!view_) return;
    std::map<TaskKey, LiveTask> live;
    for (const Task& task : tasks) {
      const TaskKey key = KeyOf(task);
      const auto found = tasks_.find(key);
      // A task whose details changed (a donor came back, say) is begun again.
      if (found != tasks_.end() && found->second.task == task) {
        live[key] = std::move(found->second);
      } else {
        live[key] = {task, options_.clock(), std::nullopt};
      }
    }
    tasks_ = std::move(live);
    for (auto& [key, task] : tasks_) {
      if (!task.report) StartTask(key, task);
    }
    AnswerFences();
  }
  NotifyIfDue();
}

void GuardCore::StartTask(const TaskKey& key, const LiveTask& live) {
  if (const auto* warm = std::get_if<WarmTask>(&live.task.body)) {
    // Old copies may have survived from an earlier ownership, and would be served.
    AddJob({key, RangesOf(warm->sources), true, true, Instant{}});
  } else if (std::get_if<VerifyTask>(&live.task.body) != nullptr) {
    // What was fetched is the application's to judge: on_warm returns Ok when it is right.
    Report(key, VerifyReport{0, 0, true});
  } else if (const auto* fence = std::get_if<FenceTask>(&live.task.body)) {
    Fence(*fence);
  } else {
    const auto& prepare = std::get<PrepareTask>(live.task.body);
    // There is no change log here. What was fetched while warming is made complete by fetching
    // again, now that the donors are fenced; in the other modes it may be wrong and is dropped
    // first.
    const bool drop = prepare.mode != PrepareTask::Mode::kChanges;
    const bool fetch = options_.on_warm != nullptr && EveryDonorIsFenced(prepare);
    // Nothing is to be dropped where a follower takes over with the copy that it has.
    const bool nothing = prepare.donors.empty();
    if (nothing || (!drop && !fetch)) {
      Report(key, Prepared(prepare));
    } else {
      AddJob({key, RangesOf(prepare), drop, fetch, Instant{}});
    }
  }
}

void GuardCore::Fence(const FenceTask& fence) {
  view_->Fence(fence.ranges, fence.floor);
  NoteLost();
}

// What a service has as a follower it keeps by itself, whatever becomes of what it owned.
HashRangeSet GuardCore::EntitledLocked() const {
  const HashRangeSet ranges = view_->EntitledRanges();
  const Membership::Ptr& membership = view_->membership();
  return membership == nullptr ? ranges : ranges.Union(membership->FollowedBy(options_.node));
}

KeyPoint GuardCore::PointOfLocked(std::string_view key) const {
  return view_ && view_->membership() ? view_->membership()->PointOf(key)
                                      : KeyPoint(HashKey(HashSpec(), key));
}

KeyPoint GuardCore::PointOf(std::string_view key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return PointOfLocked(key);
}

// The epoch of a key says who held it when, but for an override that comes and goes: then a key has
// its old epoch again after it was elsewhere. So what happens to a write in flight is noted when it
// happens.
void GuardCore::NoteEndedOverrides(const Membership* before) {
  if (before == nullptr) return;
  const bool missed = HasMissedOverrides(*before, *view_->membership());
  for (auto& [id, write] : in_flight_) {
    const Plane plane = before->PointOf(write.key).plane;
    const bool ended = plane != kCommonPlane && view_->membership()->OverrideOn(plane) == nullptr;
    write.lost = write.lost || missed || ended;
  }
}

void GuardCore::NoteLost() {
  for (auto& [id, write] : in_flight_) {
    if (view_->membership() == nullptr) {
      write.lost = true;
      continue;
    }
    const KeyPoint point = PointOfLocked(write.key);
    write.lost = write.lost || !view_->Owns(point) || write.epoch <= view_->FloorOf(point) ||
                 write.epoch != view_->membership()->RangeOf(point).epoch;
  }
}

bool GuardCore::IsDrained(const FenceTask& fence, Instant since) const {
  if (!view_->CheckPlanes(fence.ranges).ok()) return false;
  const bool patience_is_over = options_.clock() >= since + options_.drain_timeout;
  for (const auto& [id, write] : in_flight_) {
    const KeyPoint point = PointOfLocked(write.key);
    if (write.epoch > fence.floor || !fence.ranges.Contains(point)) continue;
    // StillHeld will refuse the others.
    if (write.passed || !patience_is_over) return false;
  }
  return true;
}

void GuardCore::AnswerFences() {
  for (auto& [key, live] : tasks_) {
    const auto* fence = std::get_if<FenceTask>(&live.task.body);
    if (fence == nullptr || live.report || !IsDrained(*fence, live.since)) continue;
    Report(key, FenceAck{fence->floor, incarnation_.ToString(), 0, false});
  }
}

void GuardCore::Report(const TaskKey& key, decltype(TaskReport::body) body) {
  LiveTask& live = tasks_.at(key);
  TaskReport report;
  report.migration = live.task.migration;
  report.wave = live.task.wave;
  report.nonce = live.task.nonce;
  report.node = options_.node;
  report.incarnation = incarnation_;
  report.body = std::move(body);
  live.report = report;
  due_.push_back(std::move(report));
  notify_due_ = true;
}

std::vector<TaskReport> GuardCore::TakeReports() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(due_, {});
}

void GuardCore::NotifyIfDue() {
  std::function<void()> notify;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!notify_due_ || notify_ == nullptr) return;
    notify_due_ = false;
    notify = notify_;
  }
  notify();
}

void GuardCore::AddJob(Job job) {
  jobs_.push_back(std::move(job));
  job_added_.notify_all();
}

void GuardCore::RunJobs() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    if (jobs_.empty()) {
      job_added_.wait(lock);
      continue;
    }
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    const absl::Duration early = job.not_before - BootNow();
    if (early > absl::ZeroDuration()) {
      jobs_.push_back(std::move(job));
      job_added_.wait_for(lock, absl::ToChronoNanoseconds(std::min(early, kRetryPoll)));
      continue;
    }
    if (job.task && !tasks_.contains(*job.task)) continue;  // it is over
    // By a map that lacks their override, keys could not be found.
    if (job.task && view_ && !view_->CheckPlanes(job.ranges).ok()) {
      job.not_before = BootNow() + kRetryPoll;
      jobs_.push_back(std::move(job));
      continue;
    }
    // What has come back meanwhile is not dropped.
    if (!job.task && view_) job.ranges = job.ranges.Minus(EntitledLocked());
    if (job.ranges.empty()) continue;
    lock.unlock();
    const absl::Status status = Call(job);
    lock.lock();
    Finish(job, status);
    lock.unlock();
    NotifyIfDue();
    lock.lock();
  }
}

absl::Status GuardCore::Call(const Job& job) const {
  if (job.drop && options_.on_release != nullptr) {
    RETURN_IF_ERROR(options_.on_release(job.ranges));
  }
  if (job.fetch && options_.on_warm != nullptr) return options_.on_warm(job.ranges);
  return absl::OkStatus();
}

void GuardCore::Finish(const Job& job, const absl::Status& status) {
  if (!status.ok()) {
    Warn(fmt::format("{} failed: {}", job.fetch ? "on_warm" : "on_release", status.ToString()));
  }
  if (!job.task) {
    if (!status.ok()) AddJob({std::nullopt, job.ranges, true, false, BootNow() + kReleaseRetry});
    return;
  }
  const auto found = tasks_.find(*job.task);
  if (found == tasks_.end() || found->second.report) return;
  if (!status.ok()) {
    Report(*job.task, TaskFailure{status.ToString(), true});
  } else if (std::holds_alternative<WarmTask>(found->second.task.body)) {
    Report(*job.task, WarmReport{true, true, 0, 0, 0});
  } else {
    Report(*job.task, Prepared(std::get<PrepareTask>(found->second.task.body)));
  }
}

}  // namespace warmring
