#include "agent/transfer/transfer_client.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "client/base/failpoint.h"
#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "spdlog/spdlog.h"

namespace warmring {
namespace {

constexpr uint32_t kPurgeCount = 500;
constexpr absl::Duration kAcknowledgePeriod = absl::Milliseconds(50);
constexpr uint64_t kAcknowledgeEvery = 1000;
constexpr size_t kMaxSuspects = 1000;  // keys that get a second look

}  // namespace

TransferClient::TransferClient(TransferContext context, MigrationId migration, Id128 nonce,
                               std::function<void(bool report)> changed)
    : context_(std::move(context)),
      migration_(std::move(migration)),
      nonce_(nonce),
      changed_(std::move(changed)) {}

TransferClient::~TransferClient() {
  Abandon();
  Join();
}

void TransferClient::Abandon() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    abandoned_ = true;
  }
  Cancel();
}

void TransferClient::Join() {
  for (auto& [donor, source] : sources_) {
    if (source->thread.joinable()) source->thread.join();
  }
}

void TransferClient::SetTask(const WarmTask& task) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (cancelled_) return;
  limits_ = task.limits;
  for (const TransferSource& wanted : task.sources) {
    std::unique_ptr<Source>& source = sources_[wanted.donor];
    const bool is_new = source == nullptr;
    if (is_new) source = std::make_unique<Source>(wanted.donor);
    source->wanted = wanted;
    if (is_new) source->thread = std::thread([this, s = source.get()] { RunSource(s); });
  }
  for (auto& [donor, source] : sources_) {
    const bool listed = std::any_of(task.sources.begin(), task.sources.end(),
                                    [&](const TransferSource& s) { return s.donor == donor; });
    if (!listed) source->wanted.ranges = HashRangeSet();
  }
  wake_.notify_all();
}

void TransferClient::Verify(uint32_t sample) {
  std::vector<std::pair<Source*, std::shared_ptr<PullChannel>>> ready;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (verify_sample_.has_value()) return;
    verify_sample_ = sample;
    for (auto& [donor, source] : sources_) {
      if (source->caught_up && source->channel) ready.emplace_back(source.get(), source->channel);
    }
  }
  for (auto& [source, channel] : ready) AskVerify(source, channel.get());
}

void TransferClient::MembershipChanged() {
  std::lock_guard<std::mutex> lock(mutex_);
  wake_.notify_all();
}

TransferClient::Preparedness TransferClient::TryPrepare(const PrepareTask& task,
                                                        PreparedReport* report) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (Over()) return Preparedness::kNotYet;
  PreparedReport prepared;
  prepared.epoch = task.epoch;
  prepared.mode = task.mode;
  for (const PrepareTask::Donor& donor : task.donors) {
    const auto found = sources_.find(donor.source.donor);
    if (found == sources_.end()) return Preparedness::kNotYet;
    const Source& source = *found->second;
    const HashRangeSet& ranges = donor.source.ranges;
    const bool streams = source.running && !source.restart && source.log_id == donor.log_id &&
                         source.ranges.Includes(ranges);
    const bool applied = streams && source.scan_done && source.applied >= donor.watermark;
    const bool promised = source.promised_log_id == donor.log_id &&
                          source.promised >= donor.watermark &&
                          source.promised_ranges.Includes(ranges);
    if (!applied && !promised) {
      const bool too_late = !streams && excluded_.Intersects(ranges);
      return too_late ? Preparedness::kTooLate : Preparedness::kNotYet;
    }
    prepared.donors.push_back(donor.source.donor);
    prepared.log_ids.push_back(donor.log_id);
    prepared.applied.push_back(applied ? source.applied : source.promised);
  }
  for (size_t i = 0; i < task.donors.size(); ++i) {
    const TransferSource& from = task.donors[i].source;
    Source& source = *sources_[from.donor];
    source.promised_log_id = prepared.log_ids[i];
    source.promised = prepared.applied[i];
    source.promised_ranges = from.ranges;
    excluded_ = excluded_.Union(from.ranges);
  }
  *report = std::move(prepared);
  return Preparedness::kPrepared;
}

void TransferClient::Exclude(const HashRangeSet& ranges) {
  std::unique_lock<std::mutex> lock(mutex_);
  excluded_ = excluded_.Union(ranges);
  std::vector<Source*> affected;
  for (auto& [donor, source] : sources_) {
    if (!source->running || !source->ranges.Intersects(ranges)) continue;
    source->restart = true;
    if (source->channel) source->channel->Cancel();
    affected.push_back(source.get());
  }
  wake_.notify_all();
  wake_.wait(lock, [&] {
    return std::none_of(affected.begin(), affected.end(),
                        [](const Source* source) { return source->restart; });
  });
}

void TransferClient::Cancel() {
  std::lock_guard<std::mutex> lock(mutex_);
  cancelled_ = true;
  for (auto& [donor, source] : sources_) {
    if (source->channel) source->channel->Cancel();
  }
  wake_.notify_all();
}

WarmReport TransferClient::Warm() const {
  std::lock_guard<std::mutex> lock(mutex_);
  WarmReport report;
  report.purged = true;
  report.caught_up = true;
  for (const auto& [donor, source] : sources_) {
    report.purged = report.purged && (source->purged || source->idle);
    report.caught_up = report.caught_up && (source->caught_up || source->idle);
    report.keys += source->keys;
    report.bytes += source->bytes;
    report.keys_total += std::max(source->keys_total, source->keys);
  }
  return report;
}

std::optional<VerifyReport> TransferClient::Verified() const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!verify_sample_.has_value()) return std::nullopt;
  VerifyReport report;
  report.done = true;
  for (const auto& [donor, source] : sources_) {
    report.compared += source->compared;
    report.mismatched += source->mismatched;
    report.done = report.done && (source->verified || source->idle);
  }
  return report;
}

std::optional<TaskFailure> TransferClient::Failure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

void TransferClient::Report(bool now) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const Instant time = context_.clock();
    if (!now && time - reported_at_ < context_.report_period) return;
    reported_at_ = time;
  }
  changed_(true);
}

bool TransferClient::MustStop(Source* source) {
  std::lock_guard<std::mutex> lock(mutex_);
  return Over() || source->restart;
}

HashRangeSet TransferClient::Wanted(Source* source) const {
  source->idle = false;
  const Membership::Ptr membership = context_.membership();
  if (membership == nullptr) return {};
  const NodeId& self = context_.node;
  const HashRangeSet left = source->wanted.ranges.Minus(excluded_).Minus(
      MovingRanges(*membership, migration_, MovePhase::kGrace, source->donor, self));
  source->idle = left.empty();
  const HashRangeSet pending =
      MovingRanges(*membership, migration_, MovePhase::kWarming, source->donor, self);
  // A part of it is not enough: a purge that knows only a part would be taken for the whole.
  return pending.Includes(left) ? left : HashRangeSet();
}

TransferClient::Next TransferClient::NextAttempt(Source* source, PullOrder* order,
                                                 std::string* address) {
  std::unique_lock<std::mutex> lock(mutex_);
  bool was_idle = source->idle;
  while (!Over()) {
    HashRangeSet ranges = Wanted(source);
    if (source->idle && !was_idle) {
      was_idle = true;
      lock.unlock();
      Report(true);
      lock.lock();
      continue;
    }
    if (!ranges.empty() && !source->wanted.transfer_address.empty()) {
      const Membership::Ptr membership = context_.membership();
      if (membership == nullptr) continue;
      *order = PullOrder{
          context_.keyspace, membership->history(), migration_, nonce_, PullMode::kCopy, ranges,
          limits_,           context_.node};
      *address = source->wanted.transfer_address;
      source->ranges = std::move(ranges);
      source->running = true;
      source->purged = source->scan_done = source->caught_up = false;
      source->applied = source->acknowledged = 0;
      source->keys = source->bytes = source->keys_total = 0;
      source->verify_sent = source->verified = source->second_look = false;
      source->compared = source->mismatched = 0;
      source->suspects.clear();
      return Next::kAttempt;
    }
    wake_.wait(lock);
  }
  return Next::kOver;
}

void TransferClient::RunSource(Source* source) {
  PullOrder order;
  std::string address;
  absl::Duration delay = absl::ZeroDuration();
  std::optional<Id128> open;  // a nonce that the engine may still accept
  while (NextAttempt(source, &order, &address) == Next::kAttempt) {
    absl::Status status;
    if (open.has_value()) status = context_.engine->CloseTransfer(*open);
    if (status.ok()) {
      open = RandomIncarnation();
      status = Attempt(source, *open, order, address);
      if (context_.engine->CloseTransfer(*open).ok()) open.reset();
    }
    delay = Judge(source, status, delay);
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait_for(lock, absl::ToChronoNanoseconds(delay), [this] { return Over(); });
  }
  while (open.has_value() && !context_.engine->CloseTransfer(*open).ok()) {
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait_for(lock, absl::ToChronoNanoseconds(context_.retry_min),
                   [this] { return abandoned_; });
    if (abandoned_) return;
  }
}

absl::Duration TransferClient::Judge(Source* source, const absl::Status& ended,
                                     absl::Duration last_delay) {
  const absl::Status status =
      ended.ok() ? absl::UnavailableError("the donor ended the stream") : ended;
  bool was_caught_up = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const bool asked = source->restart || Over();
    was_caught_up = source->caught_up;
    source->running = source->restart = false;
    source->purged = source->scan_done = source->caught_up = false;
    source->channel.reset();
    wake_.notify_all();
    if (asked) return absl::ZeroDuration();
    const bool hopeless = absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status);
    if (hopeless || absl::IsDataLoss(status)) {
      failure_ = TaskFailure{
          fmt::format("transfer from {}: {}", source->donor, std::string(status.message())),
          /*restart=*/!hopeless};
      for (auto& [donor, other] : sources_) {
        if (other->channel) other->channel->Cancel();
      }
    }
  }
  source->notice.Report(status);
  Report(true);
  if (was_caught_up) return context_.retry_min;
  return std::clamp(last_delay * 2, context_.retry_min, context_.retry_max);
}

absl::Status TransferClient::Attempt(Source* source, const Id128& nonce, const PullOrder& order,
                                     const std::string& address) {
  RETURN_IF_ERROR(context_.engine->OpenTransfer(nonce, migration_, order.ranges));
  RETURN_IF_ERROR(PurgeRanges(source, nonce));
  std::shared_ptr<PullChannel> channel = context_.dial(address, order);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (Over() || source->restart) channel->Cancel();
    source->channel = channel;
  }
  bool ended = false;
  const absl::Status pulled = Pull(source, nonce, channel.get(), &ended);
  if (ended) return channel->Finish();
  channel->Cancel();
  channel->Finish().IgnoreError();  // this side ended it, and knows why
  return pulled;
}

absl::Status TransferClient::PurgeRanges(Source* source, const Id128& nonce) {
  uint64_t cursor = 0;
  do {
    if (MustStop(source)) return absl::OkStatus();
    ASSIGN_OR_RETURN(const CacheEngine::Purged purged,
                     context_.engine->PurgeTransfer(nonce, cursor, kPurgeCount));
    WARMRING_FP("purge.batch");
    cursor = purged.next;
  } while (cursor != 0);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    source->purged = true;
  }
  Report(true);
  return absl::OkStatus();
}

absl::Status TransferClient::Pull(Source* source, const Id128& nonce, PullChannel* channel,
                                  bool* ended) {
  PullItem item;
  while (!MustStop(source)) {
    if (!channel->Read(&item)) {
      *ended = true;
      return absl::OkStatus();
    }
    if (const auto* batch = std::get_if<EntryBatch>(&item)) {
      RETURN_IF_ERROR(TakeBatch(source, nonce, *batch));
    } else if (const auto* position = std::get_if<LogPosition>(&item)) {
      RETURN_IF_ERROR(TakePosition(source, channel, *position));
    } else if (std::holds_alternative<ScanEnd>(item)) {
      std::lock_guard<std::mutex> lock(mutex_);
      source->scan_done = true;
    } else if (const auto* digests = std::get_if<DigestBatch>(&item)) {
      RETURN_IF_ERROR(TakeDigests(source, channel, *digests));
    } else if (const auto* suspect = std::get_if<SuspectNote>(&item)) {
      return absl::DataLossError("the donor cannot vouch for it any more: " + suspect->reason);
    } else {
      return absl::InternalError("the donor sent the end of a dirty set into a copy");
    }
  }
  return absl::OkStatus();
}

absl::Status TransferClient::TakeBatch(Source* source, const Id128& nonce,
                                       const EntryBatch& batch) {
  WARMRING_FP("apply.batch");
  RETURN_IF_ERROR(context_.engine->Apply(nonce, batch.entries));
  uint64_t bytes = 0;
  for (const EngineEntry& entry : batch.entries) bytes += entry.Bytes();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (batch.scan) source->keys += batch.entries.size();
    source->bytes += bytes;
    source->keys_total = std::max(source->keys_total, batch.keys_total);
  }
  Report(false);
  return absl::OkStatus();
}

absl::Status TransferClient::TakePosition(Source* source, PullChannel* channel,
                                          const LogPosition& position) {
  bool caught_up_now = false;
  bool acknowledge = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!source->log_id.empty() && source->log_id != position.log_id) {
      return absl::DataLossError(
          fmt::format("the donor was restarted or lost its change log (it was {}, now {})",
                      source->log_id, position.log_id));
    }
    source->log_id = position.log_id;
    source->applied = position.position;
    caught_up_now = source->scan_done && !source->caught_up;
    source->caught_up = source->scan_done;
    const Instant now = context_.clock();
    acknowledge = position.position - source->acknowledged >= kAcknowledgeEvery ||
                  now - source->acknowledged_at >= kAcknowledgePeriod;
    if (acknowledge) {
      source->acknowledged = position.position;
      source->acknowledged_at = now;
    }
  }
  if (acknowledge) channel->Acknowledge(position.position);
  if (caught_up_now) {
    source->notice.Report(absl::OkStatus());
    AskVerify(source, channel);
    Report(true);
  }
  changed_(false);
  return absl::OkStatus();
}

void TransferClient::AskVerify(Source* source, PullChannel* channel) {
  VerifyRequest request;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!verify_sample_.has_value() || source->verify_sent) return;
    source->verify_sent = true;
    request.sample = *verify_sample_;
  }
  channel->Verify(request);
}

// A key that differs is asked for once more before it counts: it may just have expired on one side.
absl::Status TransferClient::TakeDigests(Source* source, PullChannel* channel,
                                         const DigestBatch& batch) {
  WARMRING_FP("verify.batch");
  std::vector<std::string> keys;
  for (const DigestBatch::Digest& digest : batch.digests) keys.push_back(digest.key);
  CacheEngine::Digests own;
  if (!keys.empty()) {
    ASSIGN_OR_RETURN(own, context_.engine->DigestKeys(keys));
  }
  VerifyRequest again;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < batch.digests.size(); ++i) {
      const DigestBatch::Digest& theirs = batch.digests[i];
      const std::optional<uint64_t>& ours = own.digests[i];
      if (theirs.absent && !ours.has_value()) continue;
      const bool same = !theirs.absent && ours == theirs.digest;
      if (!source->second_look) ++source->compared;
      if (same) continue;
      if (!source->second_look && source->suspects.size() < kMaxSuspects) {
        source->suspects.push_back(theirs.key);
      } else {
        ++source->mismatched;
        spdlog::warn("verify: key '{}' differs from {}", Printable(theirs.key), source->donor);
      }
    }
    if (!batch.done) return absl::OkStatus();
    if (!source->second_look && !source->suspects.empty()) {
      source->second_look = true;
      again.keys = std::move(source->suspects);
    } else {
      source->verified = true;
    }
  }
  if (!again.keys.empty()) channel->Verify(again);
  Report(true);
  return absl::OkStatus();
}

}  // namespace warmring
