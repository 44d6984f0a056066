#include "agent/transfer/donor_stream.h"

#include <algorithm>
#include <chrono>
#include <unordered_set>
#include <utility>

#include "core/base/status_macros.h"
#include "fmt/format.h"

namespace warmring {
namespace {

constexpr uint32_t kScanCount = 1000;     // keys that the engine looks at in one step of a walk
constexpr uint32_t kChangesCount = 512;   // keys of one look at the log
constexpr int kMaxRounds = 64;            // looks at the log before the scan gets its turn
constexpr size_t kDumpBytes = 256 << 10;  // aimed at in one dump, so that the engine is not held up
constexpr size_t kMaxDumpKeys = 64;
constexpr size_t kDigestKeys = 128;
constexpr absl::Duration kActiveSpan = absl::Seconds(1);

uint64_t NextRandom(uint64_t* state) {  // splitmix64
  uint64_t z = (*state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

void DonorPace::SetLimits(const TransferLimits& limits) {
  std::lock_guard<std::mutex> lock(mutex_);
  limiter_.SetRates(limits.keys_per_second, limits.bytes_per_second);
}

absl::Duration DonorPace::Wait() {
  std::lock_guard<std::mutex> lock(mutex_);
  return limiter_.Wait(clock_());
}

void DonorPace::Charge(uint64_t keys, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  limiter_.Charge(clock_(), keys, bytes);
}

uint32_t DonorPace::ReadSize(uint32_t max) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return limiter_.ReadSize(max);
}

DonorStream::DonorStream(DonorStreamOptions options, PullOrder order, DonorFacts facts,
                         CacheEngine* engine, DonorPace* pace, PullSink* sink)
    : options_(std::move(options)),
      order_(std::move(order)),
      facts_(std::move(facts)),
      engine_(engine),
      pace_(pace),
      sink_(sink),
      track_(RandomIncarnation()),
      random_(RandomSeed()) {}

absl::Status DonorStream::Run() { return order_.mode == PullMode::kCopy ? RunCopy() : RunDirty(); }

absl::Status DonorStream::RunCopy() {
  pace_->SetLimits(order_.limits);
  ASSIGN_OR_RETURN(cursor_, engine_->Track(track_, order_.ranges));
  {
    std::lock_guard<std::mutex> lock(mutex_);
    acknowledged_ = cursor_.position;
  }
  keys_total_ = EstimateKeys();
  poll_ = options_.poll_min;
  absl::Status status;
  // The first position names the log, so that a recipient notices a donor that was restarted.
  Flow flow = SendCursor();
  while (flow == Flow::kGoOn && !Stopped()) {
    absl::StatusOr<Flow> step = PumpChangesIfDue();
    absl::Duration pace_wait = absl::InfiniteDuration();
    if (step.ok() && *step == Flow::kGoOn && !scan_done_) {
      pace_wait = pace_->Wait();
      if (pace_wait <= absl::ZeroDuration()) step = ScanStep();
    }
    VerifyRequest request;
    if (step.ok() && *step == Flow::kGoOn && scan_done_ && TakeVerify(&request)) {
      step = AnswerVerify(request);
    }
    if (!step.ok()) {
      status = step.status();
      break;
    }
    flow = *step;
    if (flow == Flow::kGoOn) WaitForWork(pace_wait);
  }
  // Best effort: an engine that cannot be reached has a bounded log.
  engine_->Untrack(track_).IgnoreError();
  return status;
}

absl::Status DonorStream::RunDirty() {
  uint64_t next = 0;
  DirtyEnd end;
  do {
    ASSIGN_OR_RETURN(const CacheEngine::DirtyPage dirty,
                     engine_->ReadDirty(order_.migration, next, kScanCount));
    end.complete = dirty.complete;
    if (!dirty.complete) break;
    std::vector<std::string> keys;
    for (const std::string& key : dirty.page.keys) {
      if (order_.ranges.Contains(facts_.membership->PointOf(key))) keys.push_back(key);
    }
    end.keys += keys.size();
    ASSIGN_OR_RETURN(const Flow flow, SendKeys(keys, /*scan=*/false));
    if (flow == Flow::kOver || Stopped()) return absl::OkStatus();
    next = dirty.page.next;
  } while (next != 0);
  // Nothing was written since the fence, so the dumps are those of that position.
  end.watermark = facts_.fence;
  Send(end);
  return absl::OkStatus();
}

absl::StatusOr<DonorStream::Flow> DonorStream::PumpChangesIfDue() {
  const Instant now = options_.clock();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (nudged_) {
      nudged_ = false;
      active_until_ = now + kActiveSpan;
      poll_ = options_.poll_min;
    } else if (now - polled_at_ < poll_) {
      return Flow::kGoOn;
    }
  }
  return PumpChanges(nullptr);
}

absl::StatusOr<DonorStream::Flow> DonorStream::PumpChanges(std::set<std::string>* changed) {
  bool busy = false;
  for (int round = 0; round < kMaxRounds; ++round) {
    absl::StatusOr<CacheEngine::Changes> changes =
        engine_->ReadChanges(track_, cursor_, Acknowledged(), kChangesCount);
    if (absl::IsDataLoss(changes.status())) {
      Send(SuspectNote{std::string(changes.status().message())});
      return Flow::kOver;
    }
    if (!changes.ok()) return changes.status();
    // A key written many times in a row is sent once: its value is read now.
    std::vector<std::string> keys;
    std::unordered_set<std::string_view> seen;
    for (const std::string& key : changes->keys) {
      if (seen.insert(key).second) keys.push_back(key);
    }
    busy = busy || !keys.empty();
    ASSIGN_OR_RETURN(const Flow sent, SendKeys(keys, /*scan=*/false));
    if (sent == Flow::kOver) return Flow::kOver;
    if (changed != nullptr) changed->insert(keys.begin(), keys.end());
    cursor_sent_ = cursor_sent_ && changes->next == cursor_.position;
    cursor_.position = changes->next;
    if (!cursor_sent_ && SendCursor() == Flow::kOver) return Flow::kOver;
    if (!changes->more) break;
  }
  polled_at_ = options_.clock();
  if (busy) active_until_ = polled_at_ + kActiveSpan;
  poll_ = polled_at_ < active_until_ ? options_.poll_min : std::min(poll_ * 2, options_.poll_max);
  return Flow::kGoOn;
}

absl::StatusOr<DonorStream::Flow> DonorStream::ScanStep() {
  const size_t want = pace_->ReadSize(static_cast<uint32_t>(options_.max_batch_keys));
  while (found_.size() < want && !walk_done_) {
    ASSIGN_OR_RETURN(KeyPage page, engine_->Scan(track_, scan_cursor_, kScanCount));
    scan_cursor_ = page.next;
    walk_done_ = page.next == 0;
    found_.insert(found_.end(), std::make_move_iterator(page.keys.begin()),
                  std::make_move_iterator(page.keys.end()));
    if (page.keys.empty()) {  // a long way between keys of the ranges: let changes through
      ASSIGN_OR_RETURN(const Flow flow, PumpChangesIfDue());
      if (flow == Flow::kOver || Stopped()) return Flow::kOver;
    }
  }
  const size_t take = std::min(want, found_.size());
  const auto end = found_.begin() + static_cast<std::ptrdiff_t>(take);
  const std::vector<std::string> keys(std::make_move_iterator(found_.begin()),
                                      std::make_move_iterator(end));
  found_.erase(found_.begin(), end);
  ASSIGN_OR_RETURN(const Flow flow, SendKeys(keys, /*scan=*/true));
  if (flow == Flow::kOver || !walk_done_ || !found_.empty()) return flow;

  scan_done_ = true;
  if (Send(ScanEnd{scanned_}) == Flow::kOver) return Flow::kOver;
  cursor_sent_ = false;  // a position after the end of the scan tells that changes have caught up
  return PumpChanges(nullptr);
}

absl::StatusOr<DonorStream::Flow> DonorStream::SendKeys(const std::vector<std::string>& keys,
                                                        bool scan) {
  EntryBatch batch;
  size_t batch_bytes = 0;
  const auto flush = [&] {
    if (batch.entries.empty()) return Flow::kGoOn;
    batch.scan = scan;
    batch.keys_total = scan ? std::max(keys_total_, scanned_) : 0;
    batch_bytes = 0;
    return Send(std::exchange(batch, EntryBatch()));
  };
  size_t at = 0;
  while (at < keys.size()) {
    const size_t fit = static_cast<size_t>(static_cast<double>(kDumpBytes) / mean_bytes_);
    const size_t take = std::min({keys.size() - at, std::clamp<size_t>(fit, 1, kMaxDumpKeys)});
    const auto first = keys.begin() + static_cast<std::ptrdiff_t>(at);
    ASSIGN_OR_RETURN(CacheEngine::Dump dump,
                     engine_->DumpKeys({first, first + static_cast<std::ptrdiff_t>(take)}));
    at += take;
    size_t dump_bytes = 0;
    for (EngineEntry& entry : dump.entries) {
      const size_t bytes = entry.Bytes();
      dump_bytes += bytes;
      if (bytes > options_.max_entry_bytes) {
        return absl::ResourceExhaustedError(fmt::format(
            "key '{}' takes {} bytes, and more than {} cannot be transferred: shrink or delete it",
            Printable(entry.key), bytes, options_.max_entry_bytes));
      }
      if (scan && entry.absent) continue;  // its deletion is in the log
      if (batch.entries.size() >= options_.max_batch_keys ||
          (batch_bytes > 0 && batch_bytes + bytes > options_.max_batch_bytes)) {
        if (flush() == Flow::kOver) return Flow::kOver;
      }
      if (scan) ++scanned_;
      batch_bytes += bytes;
      batch.entries.push_back(std::move(entry));
    }
    if (scan) pace_->Charge(take, dump_bytes);
    mean_bytes_ =
        0.5 * mean_bytes_ + 0.5 * static_cast<double>(dump_bytes + 1) / static_cast<double>(take);
  }
  return flush();
}

absl::StatusOr<DonorStream::Flow> DonorStream::AnswerVerify(const VerifyRequest& request) {
  std::vector<std::string> keys = request.keys;
  if (keys.empty()) {
    ASSIGN_OR_RETURN(keys, SampleKeys(request.sample));
  }
  for (size_t at = 0; at < keys.size(); at += kDigestKeys) {
    const size_t end = std::min(at + kDigestKeys, keys.size());
    ASSIGN_OR_RETURN(const Flow flow,
                     SendDigests({keys.begin() + static_cast<std::ptrdiff_t>(at),
                                  keys.begin() + static_cast<std::ptrdiff_t>(end)}));
    if (flow == Flow::kOver || Stopped()) return Flow::kOver;
  }
  DigestBatch last;
  last.done = true;
  return Send(std::move(last));
}

// A digest is sent only when the recipient, at that point of the stream, must have the same value:
// all changes before the digest are sent first, and a key that changed meanwhile gets another turn.
absl::StatusOr<DonorStream::Flow> DonorStream::SendDigests(std::vector<std::string> keys) {
  constexpr int kTurns = 3;
  for (int turn = 0; turn < kTurns && !keys.empty(); ++turn) {
    ASSIGN_OR_RETURN(const CacheEngine::Digests digests, engine_->DigestKeys(keys));
    std::set<std::string> changed;
    do {
      ASSIGN_OR_RETURN(const Flow flow, PumpChanges(&changed));
      if (flow == Flow::kOver || Stopped()) return Flow::kOver;
    } while (cursor_.position < digests.position.position);
    DigestBatch batch;
    std::vector<std::string> again;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (changed.contains(keys[i])) {
        again.push_back(keys[i]);
        continue;
      }
      batch.digests.push_back(
          {keys[i], !digests.digests[i].has_value(), digests.digests[i].value_or(0)});
    }
    if (!batch.digests.empty() && Send(std::move(batch)) == Flow::kOver) return Flow::kOver;
    keys = std::move(again);
  }
  return Flow::kGoOn;  // what never stood still is passed over
}

absl::StatusOr<std::vector<std::string>> DonorStream::SampleKeys(uint32_t sample) {
  std::vector<std::string> keys;  // a reservoir: each key has the same chance
  uint64_t seen = 0;
  uint64_t cursor = 0;
  if (sample == 0) return keys;
  do {
    ASSIGN_OR_RETURN(KeyPage page, engine_->Scan(track_, cursor, kScanCount));
    cursor = page.next;
    for (std::string& key : page.keys) {
      ++seen;
      if (keys.size() < sample) {
        keys.push_back(std::move(key));
        continue;
      }
      const uint64_t slot = NextRandom(&random_) % seen;
      if (slot < sample) keys[slot] = std::move(key);
    }
    ASSIGN_OR_RETURN(const Flow flow, PumpChangesIfDue());
    if (flow == Flow::kOver || Stopped()) break;
  } while (cursor != 0);
  return keys;
}

DonorStream::Flow DonorStream::Send(PullItem item) {
  return sink_->Send(std::move(item)) ? Flow::kGoOn : Flow::kOver;
}

DonorStream::Flow DonorStream::SendCursor() {
  cursor_sent_ = true;
  return Send(cursor_);
}

uint64_t DonorStream::EstimateKeys() {
  const absl::StatusOr<CacheEngine::Stat> stat = engine_->ReadStat();
  if (!stat.ok() || facts_.owned_share <= 0) return 0;
  const double part = std::min(1.0, order_.ranges.Share() / facts_.owned_share);
  return static_cast<uint64_t>(static_cast<double>(stat->keys) * part);
}

uint64_t DonorStream::Acknowledged() {
  std::lock_guard<std::mutex> lock(mutex_);
  return acknowledged_;
}

bool DonorStream::Stopped() {
  std::lock_guard<std::mutex> lock(mutex_);
  return stopped_;
}

bool DonorStream::TakeVerify(VerifyRequest* request) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (verifies_.empty()) return false;
  *request = std::move(verifies_.front());
  verifies_.pop_front();
  return true;
}

void DonorStream::WaitForWork(absl::Duration pace_wait) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (pace_wait <= absl::ZeroDuration()) return;  // the scan goes on at once
  const absl::Duration until_poll = polled_at_ + poll_ - options_.clock();
  const absl::Duration wait =
      std::max(std::min(pace_wait, until_poll), absl::Duration(absl::Microseconds(100)));
  work_.wait_for(lock, absl::ToChronoNanoseconds(wait),
                 [this] { return stopped_ || nudged_ || (scan_done_ && !verifies_.empty()); });
}

void DonorStream::Acknowledge(uint64_t position) {
  std::lock_guard<std::mutex> lock(mutex_);
  acknowledged_ = std::max(acknowledged_, position);
}

void DonorStream::Verify(VerifyRequest request) {
  std::lock_guard<std::mutex> lock(mutex_);
  verifies_.push_back(std::move(request));
  work_.notify_all();
}

void DonorStream::Nudge() {
  std::lock_guard<std::mutex> lock(mutex_);
  nudged_ = true;
  work_.notify_all();
}

void DonorStream::Stop() {
  std::lock_guard<std::mutex> lock(mutex_);
  stopped_ = true;
  work_.notify_all();
}

}  // namespace warmring
