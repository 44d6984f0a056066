#include "client/owner/guard_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "client/base/warning.h"
#include "core/base/status_macros.h"
#include "core/hashing/key_hash.h"

namespace warmring {
namespace {

constexpr absl::Duration kReleaseRetry = absl::Seconds(1);
constexpr absl::Duration kRetryPoll = absl::Milliseconds(100);
constexpr size_t kMaxAnswered = 64;

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

// What can be fetched: of a donor without an acknowledgement (the end of its lease stands in for
// it) nobody knows what it still changes.
HashRangeSet FetchableRanges(const PrepareTask& task) {
  HashRangeSet ranges;
  for (const PrepareTask::Donor& donor : task.donors) {
    if (!donor.log_id.empty()) ranges = ranges.Union(donor.source.ranges);
  }
  return ranges;
}

// Whether what was done for the task `before` is all that `task` asks for. The list of what is to
// be warm shrinks with each wave, and addresses come and go.
bool IsDoneBy(const Task& before, const Task& task) {
  if (before == task) return true;
  const auto* old_warm = std::get_if<WarmTask>(&before.body);
  const auto* warm = std::get_if<WarmTask>(&task.body);
  if (old_warm != nullptr && warm != nullptr) {
    return RangesOf(old_warm->sources).Includes(RangesOf(warm->sources));
  }
  const auto* old_prepare = std::get_if<PrepareTask>(&before.body);
  const auto* prepare = std::get_if<PrepareTask>(&task.body);
  return old_prepare != nullptr && prepare != nullptr && IsSameWork(*old_prepare, *prepare);
}

PreparedReport Prepared(const PrepareTask& task) {
  PreparedReport report;
  report.epoch = task.epoch;
  report.mode = task.mode;
  for (const PrepareTask::Donor& donor : task.donors) {
    report.donors.push_back(donor.source.donor);
    report.log_ids.push_back(donor.log_id);
    report.applied.push_back(donor.watermark);
  }
  return report;
}

bool IsBootClock(const std::function<Instant()>& clock) {
  const auto* const function = clock.target<Instant (*)()>();
  return function != nullptr && *function == &BootNow;
}

KeyPoint PointIn(const Membership* membership, std::string_view key) {
  return membership != nullptr ? membership->PointOf(key) : KeyPoint(HashKey(HashSpec(), key));
}

// Whether `after` lacks the override by which `before` placed the key.
bool HasEnded(const Membership& before, const Membership& after, std::string_view key) {
  const Plane plane = before.PointOf(key).plane;
  return plane != kCommonPlane && after.OverrideOn(plane) == nullptr;
}

absl::Status RefuseKey(const RefusalInfo& info, Verdict verdict, std::string_view key) {
  return RefusalStatus(info, fmt::format("key '{}': {}", Printable(key), TextFor(verdict)));
}

absl::Status NotToBeAcknowledged(const RefusalInfo& info, Verdict verdict) {
  absl::Status status = absl::UnknownError(
      fmt::format("the write may exist, and must not be acknowledged: {}", TextFor(verdict)));
  RefusalStatus(info, "").ForEachPayload(
      [&status](auto url, const absl::Cord& payload) { status.SetPayload(url, payload); });
  return status;
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
    : options_(std::move(options)),
      is_boot_clock_(IsBootClock(options_.clock)),
      incarnation_(RandomIncarnation()) {
  worker_ = std::thread([this] { RunJobs(); });
}

GuardCore::~GuardCore() {
  Stop();
  const std::unique_ptr<Published> owned(published_.load(std::memory_order_acquire));
}

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

RefusalInfo GuardCore::InfoOf(const Admission& admission, const OwnerView* view) {
  RefusalInfo info;
  info.reason = ReasonFor(admission.verdict);
  info.version = admission.version;
  if (view != nullptr && view->membership() != nullptr) {
    info.epoch_word = FormatEpochWord(view->history(), admission.epoch);
    if (admission.owner) info.owner_address = view->membership()->nodes()[*admission.owner].address;
  }
  return info;
}

template <typename Reader>
auto GuardCore::Read(Reader read) const {
  WriteSlot& slot = writes_.Claim();
  const Published* const published = published_.load(std::memory_order_seq_cst);
  auto result = read(published == nullptr ? nullptr : &published->view);
  slot.Abandon();
  return result;
}

absl::StatusOr<WriteGuard> GuardCore::Begin(std::string_view key, std::string_view epoch_word) {
  EpochWord word;
  if (!EpochWord::Read(epoch_word, word)) return EpochWord::Parse(epoch_word).status();
  const Instant now = Now();
  WriteSlot& slot = writes_.Claim();
  const Published* const published = published_.load(std::memory_order_seq_cst);
  const OwnerView* const view = published == nullptr ? nullptr : &published->view;
  Admission admission;
  admission.verdict = Verdict::kNoLease;
  if (view != nullptr && view->membership() != nullptr) {
    admission = view->AdmitWrite(view->membership()->PointOf(key), word, now);
  }
  if (admission.ok()) [[likely]] {
    slot.Admit(key, word, published->generation);
    return WriteGuard(this, &slot);
  }
  const RefusalInfo info = InfoOf(admission, view);
  slot.Abandon();
  return RefuseKey(info, admission.verdict, key);
}

absl::Status GuardCore::BeginRead(std::string_view key, std::string_view epoch_word) const {
  EpochWord word;
  if (!EpochWord::Read(epoch_word, word)) return EpochWord::Parse(epoch_word).status();
  RefusalInfo info;
  const Verdict verdict = Read([&](const OwnerView* view) {
    Admission admission;
    admission.verdict = Verdict::kNoLease;
    if (view != nullptr && view->membership() != nullptr) {
      admission = view->AdmitRead(view->membership()->PointOf(key), word);
    }
    if (!admission.ok()) info = InfoOf(admission, view);
    return admission.verdict;
  });
  return verdict == Verdict::kAdmit ? absl::OkStatus() : RefuseKey(info, verdict, key);
}

absl::Status GuardCore::StillHeld(WriteSlot& slot) {
  for (;;) {
    const Instant now = Now();
    slot.BeginCheck();
    // Not null, since it admitted the write.
    const Published* const published = published_.load(std::memory_order_seq_cst);
    const OwnerView& view = published->view;
    if (published->generation != slot.generation() &&
        !published->settled.load(std::memory_order_acquire)) [[unlikely]] {
      slot.EndCheck(false);
      // The change ends when the lock is free.
      const std::lock_guard<std::mutex> lock(mutex_);
      continue;
    }
    Admission admission;
    admission.verdict = Verdict::kNoLease;
    if (view.membership() != nullptr) {
      admission = view.AdmitWrite(view.membership()->PointOf(slot.key()), slot.word(), now);
    }
    if (admission.ok() && slot.IsLost()) admission.verdict = Verdict::kStaleEpoch;
    if (admission.ok()) [[likely]] {
      slot.EndCheck(true);
      return absl::OkStatus();
    }
    const RefusalInfo info = InfoOf(admission, &view);
    slot.EndCheck(false);
    return NotToBeAcknowledged(info, admission.verdict);
  }
}

void GuardCore::End(WriteSlot& slot) {
  if (slot.TryEnd()) [[likely]] {
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    slot.Free();
    AnswerFences();
  }
  NotifyIfDue();
}

KeyPoint GuardCore::PointOf(std::string_view key) const {
  return Read([&](const OwnerView* view) {
    return PointIn(view == nullptr ? nullptr : view->membership().get(), key);
  });
}

bool GuardCore::HasLease() const {
  const Instant now = Now();
  return Read([&](const OwnerView* view) { return view != nullptr && view->HasLease(now); });
}

Version GuardCore::version() const {
  return Read([](const OwnerView* view) {
    return view != nullptr && view->membership() != nullptr ? view->membership()->version()
                                                            : Version(0);
  });
}

// Publishes view_. Writes that earlier views admitted are lost where `lost_if` says so (null: it
// loses none). A write that is checked meanwhile waits for the marks. Then nobody uses the view of
// before any more.
void GuardCore::Publish(const LostIf& lost_if) {
  const bool marks = lost_if != nullptr;
  auto* const next = new Published(*view_, ++generation_, !marks);
  const std::unique_ptr<Published> before(published_.exchange(next, std::memory_order_seq_cst));
  writes_.Settle();
  if (!marks) return;
  writes_.Visit([&](const WriteTable::Write& write) {
    WriteTable::Marks result;
    result.lose = write.slot.generation() != generation_ && lost_if(write.slot);
    return result;
  });
  next->settled.store(true, std::memory_order_release);
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
  // A fence waits until the keys that it is about can be told.
  for (const auto& [key, live] : tasks_) {
    const auto* fence = std::get_if<FenceTask>(&live.task.body);
    if (fence != nullptr && !live.report) view_->Fence(fence->ranges, fence->floor);
  }
  const bool missed = previous != nullptr && HasMissedOverrides(*previous, *membership);
  Publish([&](const WriteSlot& write) {
    return missed || (previous != nullptr && HasEnded(*previous, *membership, write.key())) ||
           IsLost(write);
  });
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
  AddJob({std::nullopt, 0, left, {}, Instant{}});
}

absl::StatusOr<OwnerPort::Identity> GuardCore::Attach(const HistoryId& history, OnRestart) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!view_ || view_->history() != history) {
    // In another history this is another owner, with nothing admitted yet.
    if (view_) incarnation_ = RandomIncarnation();
    view_.emplace(history, options_.keyspace, options_.node, incarnation_);
    tasks_.clear();
    answered_.clear();
    Publish([](const WriteSlot&) { return true; });
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
    renewal.seq = view_->Renew(Now());
    if (view_->membership() != nullptr) renewal.applied_version = view_->membership()->version();
    AnswerFences();  // their time to drain may be over
  }
  NotifyIfDue();
  return renewal;
}

absl::Status GuardCore::Grant(const LeaseGrant& grant) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!view_) return absl::AbortedError("not attached yet");
  const absl::Status granted = view_->Grant(grant);
  // Its floors hold whatever it says of the lease.
  Publish(grant.floors.empty() ? LostIf()
                               : [this](const WriteSlot& write) { return IsLost(write); });
  return granted;
}

GuardCore::TaskKey GuardCore::KeyOf(const Task& task) {
  const auto* prepare = std::get_if<PrepareTask>(&task.body);
  return {task.migration, task.wave, task.nonce, task.body.index(),
          prepare == nullptr ? PrepareTask::Mode::kChanges : prepare->mode};
}

void GuardCore::SetTasks(const std::vector<Task>& tasks) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!view_) return;
    KeepAnswers(tasks);
    std::map<TaskKey, LiveTask> live;
    for (const Task& task : tasks) {
      const TaskKey key = KeyOf(task);
      live[key] = Taken(key, task);
    }
    tasks_ = std::move(live);
    for (auto& [key, task] : tasks_) {
      if (task.serial == 0) StartTask(key, task);
    }
    AnswerFences();
  }
  NotifyIfDue();
}

GuardCore::LiveTask GuardCore::Taken(const TaskKey& key, const Task& task) {
  const LiveTask* known = nullptr;
  const auto found = tasks_.find(key);
  if (found != tasks_.end()) known = &found->second;
  const auto answered = std::find_if(answered_.rbegin(), answered_.rend(), [&](const auto& before) {
    return KeyOf(before.task) == key && IsDoneBy(before.task, task);
  });
  if (known == nullptr && answered != answered_.rend()) known = &*answered;
  if (known == nullptr || !IsDoneBy(known->task, task)) return {task, Now(), 0, std::nullopt};
  LiveTask live = *known;
  live.task = task;
  const auto* prepare = std::get_if<PrepareTask>(&task.body);
  if (live.report && prepare != nullptr) {
    auto* prepared = std::get_if<PreparedReport>(&live.report->body);
    const bool told =
        found != tasks_.end() && (prepared == nullptr || *prepared == Prepared(*prepare));
    // The donor may have been asked again, and its log gone on, since.
    if (prepared != nullptr) *prepared = Prepared(*prepare);
    if (!told) {
      due_.push_back(*live.report);
      notify_due_ = true;
    }
  }
  return live;
}

void GuardCore::KeepAnswers(const std::vector<Task>& tasks) {
  std::set<TaskKey> listed;
  for (const Task& task : tasks) listed.insert(KeyOf(task));
  for (const auto& [key, live] : tasks_) {
    if (listed.contains(key) || !live.report) continue;
    if (std::holds_alternative<PreparedReport>(live.report->body)) answered_.push_back(live);
  }
  while (answered_.size() > kMaxAnswered) answered_.pop_front();
}

void GuardCore::StartTask(const TaskKey& key, LiveTask& live) {
  live.serial = next_serial_++;
  if (const auto* warm = std::get_if<WarmTask>(&live.task.body)) {
    // Old copies may have survived from an earlier ownership, and would be served.
    const HashRangeSet ranges = RangesOf(warm->sources);
    AddJob({key, live.serial, ranges, ranges, Instant{}});
  } else if (std::get_if<VerifyTask>(&live.task.body) != nullptr) {
    // What was fetched is the application's to judge: on_warm returns Ok when it is right.
    Report(key, VerifyReport{0, 0, true});
  } else if (const auto* fence = std::get_if<FenceTask>(&live.task.body)) {
    view_->Fence(fence->ranges, fence->floor);
    Publish([this](const WriteSlot& write) { return IsLost(write); });
  } else {
    const auto& prepare = std::get<PrepareTask>(live.task.body);
    // There is no change log here. What was fetched while warming is made complete by fetching
    // again, now that the donors are fenced; in the other modes it may be wrong and is dropped
    // first.
    HashRangeSet drop;
    HashRangeSet fetch;
    // A follower that takes over keeps the copy that it has.
    if (prepare.mode != PrepareTask::Mode::kChanges) drop = RangesOf(prepare).Minus(prepare.kept);
    if (options_.on_warm != nullptr) fetch = FetchableRanges(prepare).Minus(prepare.kept);
    if (drop.empty() && fetch.empty()) {
      Report(key, Prepared(prepare));
    } else {
      AddJob({key, live.serial, std::move(drop), std::move(fetch), Instant{}});
    }
  }
}

// What a service has as a follower it keeps by itself, whatever becomes of what it owned.
HashRangeSet GuardCore::EntitledLocked() const {
  const HashRangeSet ranges = view_->EntitledRanges();
  const Membership::Ptr& membership = view_->membership();
  return membership == nullptr ? ranges : ranges.Union(membership->FollowedBy(options_.node));
}

HashRangeSet GuardCore::OwnedLocked() const {
  const Membership::Ptr& membership = view_->membership();
  return membership == nullptr ? HashRangeSet() : membership->OwnedBy(options_.node);
}

// The epoch of a key says who held it when, but for an override that comes and goes: then a key has
// its old epoch again after it was elsewhere. So what happens to a write in flight is noted when it
// happens.
bool GuardCore::IsLost(const WriteSlot& write) const {
  const Membership* const membership = view_->membership().get();
  if (membership == nullptr) return true;
  const KeyPoint point = membership->PointOf(write.key());
  const Epoch epoch = write.word().epoch;
  return !view_->Owns(point) || epoch <= view_->FloorOf(point) ||
         epoch != membership->RangeOf(point).epoch;
}

bool GuardCore::IsDrained(const FenceTask& fence, Instant since) {
  if (!view_->CheckPlanes(fence.ranges).ok()) return false;
  const Membership* const membership = view_->membership().get();
  const bool patience_is_over = Now() >= since + options_.drain_timeout;
  bool drained = true;
  writes_.Visit([&](const WriteTable::Write& write) {
    const KeyPoint point = PointIn(membership, write.slot.key());
    WriteTable::Marks marks;
    // StillHeld refuses the writes that have not passed.
    marks.hold = write.slot.word().epoch <= fence.floor && fence.ranges.Contains(point) &&
                 (write.passed || !patience_is_over);
    drained = drained && !marks.hold;
    return marks;
  });
  return drained;
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

bool GuardCore::IsLive(const Job& job) const {
  if (!job.task) return true;
  const auto found = tasks_.find(*job.task);
  return found != tasks_.end() && found->second.serial == job.serial;
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
    if (!IsLive(job)) continue;
    // By a map that lacks their override, keys could not be found.
    if (job.task && view_ && !view_->CheckPlanes(job.drop.Union(job.fetch)).ok()) {
      job.not_before = BootNow() + kRetryPoll;
    }
    const absl::Duration early = job.not_before - BootNow();
    if (early > absl::ZeroDuration()) {
      // Those of tasks keep their order: to be complete is asked for after to be warm.
      if (job.task) {
        job.not_before = Instant{};
        jobs_.push_front(std::move(job));
      } else {
        jobs_.push_back(std::move(job));
      }
      job_added_.wait_for(lock, absl::ToChronoNanoseconds(std::min(early, kRetryPoll)));
      continue;
    }
    if (view_) {
      // What has come back, or has become its own, meanwhile is not dropped, and not written over.
      const HashRangeSet mine = job.task ? OwnedLocked() : EntitledLocked();
      job.drop = job.drop.Minus(mine);
      job.fetch = job.fetch.Minus(mine);
    }
    if (!job.task && job.drop.empty()) continue;
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
  if (!job.drop.empty() && options_.on_release != nullptr) {
    RETURN_IF_ERROR(options_.on_release(job.drop));
  }
  if (!job.fetch.empty() && options_.on_warm != nullptr) return options_.on_warm(job.fetch);
  return absl::OkStatus();
}

void GuardCore::Finish(const Job& job, const absl::Status& status) {
  if (!status.ok()) {
    Warn(fmt::format("{} failed: {}", job.fetch.empty() ? "on_release" : "on_warm",
                     status.ToString()));
  }
  if (!job.task) {
    if (!status.ok()) AddJob({std::nullopt, 0, job.drop, {}, BootNow() + kReleaseRetry});
    return;
  }
  if (!IsLive(job)) return;  // the task was begun anew, or is over
  const LiveTask& live = tasks_.at(*job.task);
  if (live.report) return;
  if (!status.ok()) {
    Report(*job.task, TaskFailure{status.ToString(), true});
  } else if (std::holds_alternative<WarmTask>(live.task.body)) {
    Report(*job.task, WarmReport{true, true, 0, 0, 0});
  } else {
    Report(*job.task, Prepared(std::get<PrepareTask>(live.task.body)));
  }
}

}  // namespace warmring
