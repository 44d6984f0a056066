#include "agent/engine/memory_engine.h"

#include <algorithm>
#include <functional>

#include "core/base/status_macros.h"
#include "core/hashing/key_hash.h"
#include "fmt/format.h"

namespace warmring {
namespace {

// A payload begins with the version of its format, as a dump of Redis ends with it.
std::string Pack(uint32_t rdb_version, const std::string& value) {
  return std::string(1, static_cast<char>(rdb_version)) + value;
}

}  // namespace

MemoryEngine::MemoryEngine(MemoryEngineOptions options)
    : options_(std::move(options)), incarnation_(options_.incarnation) {
  log_id_ = incarnation_.ToString();
}

absl::Status MemoryEngine::Usable() const {
  if (down_) return absl::UnavailableError("memory engine: it is down");
  if (!view_) return absl::AbortedError("memory engine: not attached");
  return absl::OkStatus();
}

KeyPoint MemoryEngine::PointOf(const std::string& key) const {
  return view_ && view_->membership() ? view_->membership()->PointOf(key)
                                      : KeyPoint(HashKey(hash_, key));
}

MemoryEngine::Place MemoryEngine::PlaceOf(const std::string& key) const {
  return {HashKey(hash_, key), key};
}

void MemoryEngine::LogChange(const std::string& key) {
  ++position_;
  log_.emplace_back(position_, key);
  while (log_.size() > options_.max_log_entries) {
    trimmed_ = log_.front().first;
    log_.pop_front();
  }
  const KeyPoint point = PointOf(key);
  for (auto& [migration, dirty] : dirty_) {
    if (dirty.ranges.Contains(point)) dirty.keys.insert(key);
  }
}

void MemoryEngine::Remove(const std::string& key) {
  keys_.erase(PlaceOf(key));
  LogChange(key);
}

void MemoryEngine::Expire() {
  const Instant now = options_.clock();
  std::vector<std::string> expired;
  for (const auto& [place, value] : keys_) {
    if (value.expires <= now) expired.push_back(place.second);
  }
  for (const std::string& key : expired) Remove(key);
}

absl::StatusOr<CacheEngine::Attachment> MemoryEngine::Attach(const HistoryId& history,
                                                             const KeyspaceId& keyspace,
                                                             const NodeId& node,
                                                             OnRestart on_restart) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (down_) return absl::UnavailableError("memory engine: it is down");
  if (!view_ || view_->history() != history || view_->keyspace() != keyspace ||
      view_->node() != node) {
    view_.emplace(history, keyspace, node, incarnation_);
  }
  if (fresh_) purge_due_ = on_restart == OnRestart::kPurge && !keys_.empty();
  fresh_ = false;
  return Attachment{incarnation_, keys_.size(), purge_due_, options_.rdb_version};
}

absl::Status MemoryEngine::InstallMap(const Membership& membership) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  ASSIGN_OR_RETURN(Membership::Ptr copy, Membership::Create(membership.data()));
  hash_ = copy->spec().hash;
  const NodeId& node = view_->node();
  const HashRangeSet owned_before =
      view_->membership() == nullptr ? HashRangeSet() : view_->membership()->OwnedBy(node);
  RETURN_IF_ERROR(view_->Install(copy));
  const HashRangeSet owned = copy->OwnedBy(node);
  const HashRangeSet activated = owned.Minus(owned_before);
  const HashRangeSet entitled = view_->EntitledRanges();
  for (auto& [nonce, transfer] : transfers_) {
    transfer.ranges = transfer.ranges.Minus(activated).Intersection(entitled);
  }
  bool giving = false;
  for (const Move& move : copy->moves()) {
    if (move.phase != MovePhase::kGrace) continue;
    giving = giving || move.from == node;
    if (move.to != node) continue;
    Dirty& dirty = dirty_[move.migration];
    dirty.ranges = dirty.ranges.Union(move.ranges);
  }
  if (!giving) forgotten_.clear();
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> MemoryEngine::Renew() {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  return view_->Renew(options_.clock());
}

absl::Status MemoryEngine::Grant(const LeaseGrant& grant) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  if (purge_due_) return absl::FailedPreconditionError("memory engine: a purge is due");
  return view_->Grant(grant);
}

absl::StatusOr<CacheEngine::FenceResult> MemoryEngine::Fence(const MigrationId& migration,
                                                             Epoch floor,
                                                             const HashRangeSet& ranges) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  RETURN_IF_ERROR(view_->CheckPlanes(ranges));
  view_->Fence(ranges, floor);
  const auto dirty = dirty_.find(migration);
  return FenceResult{{log_id_, position_},
                     dirty != dirty_.end() && dirty->second.ranges.Includes(ranges)};
}

absl::StatusOr<LogPosition> MemoryEngine::Track(const Id128& nonce, const HashRangeSet& ranges) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  RETURN_IF_ERROR(view_->CheckPlanes(ranges));
  tracked_[nonce].ranges = ranges;
  return LogPosition{log_id_, position_};
}

absl::Status MemoryEngine::Untrack(const Id128& nonce) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  tracked_.erase(nonce);
  return absl::OkStatus();
}

absl::StatusOr<CacheEngine::Changes> MemoryEngine::ReadChanges(const Id128& nonce,
                                                               const LogPosition& cursor,
                                                               uint64_t /*ack*/, uint32_t count) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  Expire();
  const auto tracked = tracked_.find(nonce);
  if (tracked == tracked_.end() || cursor.log_id != log_id_) {
    return absl::DataLossError("the log is another one");
  }
  if (cursor.position < trimmed_) return absl::DataLossError("the log overflowed");
  Changes changes;
  changes.next = cursor.position;
  for (const auto& [position, key] : log_) {
    if (position <= cursor.position) continue;
    if (changes.keys.size() >= count) {
      changes.more = true;
      break;
    }
    changes.next = position;
    if (tracked->second.ranges.Contains(PointOf(key))) changes.keys.push_back(key);
  }
  return changes;
}

template <typename Fits>
KeyPage MemoryEngine::Walk(uint64_t cursor, uint32_t count, Fits fits) const {
  KeyPage page;
  auto at = keys_.lower_bound({cursor, std::string()});
  for (uint32_t seen = 0; at != keys_.end() && seen < count; ++seen) {
    // Keys of one hash stay on one page, as the cursor cannot part them.
    for (const HashPoint hash = at->first.first; at != keys_.end() && at->first.first == hash;
         ++at) {
      if (fits(at->first)) page.keys.push_back(at->first.second);
    }
  }
  page.next = at == keys_.end() ? 0 : at->first.first;
  return page;
}

absl::StatusOr<KeyPage> MemoryEngine::Scan(const Id128& nonce, uint64_t cursor, uint32_t count) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  const auto tracked = tracked_.find(nonce);
  if (tracked == tracked_.end()) return absl::DataLossError("the transfer is not tracked");
  return Walk(cursor, count, [&](const Place& place) {
    return tracked->second.ranges.Contains(PointOf(place.second));
  });
}

absl::StatusOr<CacheEngine::Dump> MemoryEngine::DumpKeys(const std::vector<std::string>& keys) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  Expire();
  Dump dump;
  dump.position = {log_id_, position_};
  for (const std::string& key : keys) {
    EngineEntry entry;
    entry.key = key;
    const auto found = keys_.find(PlaceOf(key));
    entry.absent = found == keys_.end();
    if (!entry.absent) {
      entry.payload = Pack(options_.rdb_version, found->second.bytes);
      if (found->second.expires != Instant::Never()) {
        entry.ttl_ms = absl::ToInt64Milliseconds(found->second.expires - options_.clock());
      }
    }
    dump.entries.push_back(std::move(entry));
  }
  return dump;
}

absl::StatusOr<CacheEngine::Digests> MemoryEngine::DigestKeys(
    const std::vector<std::string>& keys) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  Expire();
  Digests digests;
  digests.position = {log_id_, position_};
  for (const std::string& key : keys) {
    const auto found = keys_.find(PlaceOf(key));
    digests.digests.push_back(
        found == keys_.end()
            ? std::nullopt
            : std::optional<uint64_t>(std::hash<std::string>()(found->second.bytes)));
  }
  return digests;
}

absl::StatusOr<CacheEngine::DirtyPage> MemoryEngine::ReadDirty(const MigrationId& migration,
                                                               uint64_t /*cursor*/,
                                                               uint32_t /*count*/) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  DirtyPage dirty;
  const auto found = dirty_.find(migration);
  dirty.complete = found != dirty_.end();
  if (dirty.complete) dirty.page.keys.assign(found->second.keys.begin(), found->second.keys.end());
  return dirty;
}

absl::StatusOr<KeyPage> MemoryEngine::ReadForgotten(uint64_t cursor, uint32_t count) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  forgotten_read_ = cursor;
  KeyPage page;
  const size_t first = std::min<size_t>(cursor, forgotten_.size());
  const size_t last = std::min<size_t>(first + count, forgotten_.size());
  for (size_t i = first; i < last; ++i) page.keys.push_back(forgotten_[i]);
  page.next = last;
  return page;
}

absl::Status MemoryEngine::ForgetAt(const std::string& address,
                                    const std::vector<std::string>& keys) {
  if (options_.forget == nullptr) return absl::UnavailableError(address + ": nobody there");
  for (const std::string& key : keys) RETURN_IF_ERROR(options_.forget(address, key));
  return absl::OkStatus();
}

absl::Status MemoryEngine::OpenTransfer(const Id128& nonce, const MigrationId& migration,
                                        const HashRangeSet& ranges) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  HashRangeSet allowed;
  if (view_->membership() != nullptr) {
    for (const Move& move : view_->membership()->moves()) {
      const bool pending = move.phase == MovePhase::kWarming && move.to == view_->node();
      const bool previous = move.phase == MovePhase::kGrace && move.from == view_->node();
      if (move.migration == migration && (pending || previous)) {
        allowed = allowed.Union(move.ranges);
      }
    }
  }
  if (!allowed.Includes(ranges)) {
    return absl::FailedPreconditionError("memory engine: not pending for these ranges");
  }
  transfers_[nonce] = {migration, ranges};
  return absl::OkStatus();
}

absl::Status MemoryEngine::Apply(const Id128& nonce, const std::vector<EngineEntry>& entries) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  const auto transfer = transfers_.find(nonce);
  if (transfer == transfers_.end()) return absl::CancelledError("the transfer is closed");
  for (const EngineEntry& entry : entries) {
    const Place place = PlaceOf(entry.key);
    if (!transfer->second.ranges.Contains(PointOf(entry.key))) continue;
    if (entry.absent) {
      keys_.erase(place);
      continue;
    }
    if (entry.payload.empty() || static_cast<uint32_t>(entry.payload[0]) > options_.rdb_version) {
      return absl::InvalidArgumentError(fmt::format("payload of '{}' refused", entry.key));
    }
    Value value;
    value.bytes = entry.payload.substr(1);
    if (entry.ttl_ms >= 0) value.expires = options_.clock() + absl::Milliseconds(entry.ttl_ms);
    keys_[place] = std::move(value);
  }
  return absl::OkStatus();
}

absl::Status MemoryEngine::CloseTransfer(const Id128& nonce) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  transfers_.erase(nonce);
  return absl::OkStatus();
}

CacheEngine::Purged MemoryEngine::Purge(uint64_t cursor, uint32_t count,
                                        const std::function<bool(KeyPoint)>& goes) {
  const KeyPage page =
      Walk(cursor, count, [&](const Place& place) { return goes(PointOf(place.second)); });
  for (const std::string& key : page.keys) keys_.erase(PlaceOf(key));
  return {page.next, page.keys.size()};
}

absl::StatusOr<CacheEngine::Purged> MemoryEngine::PurgeTransfer(const Id128& nonce, uint64_t cursor,
                                                                uint32_t count) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  const auto transfer = transfers_.find(nonce);
  if (transfer == transfers_.end()) return absl::CancelledError("the transfer is closed");
  return Purge(cursor, count,
               [&](KeyPoint point) { return transfer->second.ranges.Contains(point); });
}

absl::StatusOr<CacheEngine::Purged> MemoryEngine::PurgeLeft(uint64_t cursor, uint32_t count) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  return Purge(cursor, count, [&](KeyPoint point) { return !view_->IsEntitled(point); });
}

absl::StatusOr<CacheEngine::Purged> MemoryEngine::PurgeAll(uint64_t cursor, uint32_t count) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  if (!purge_due_) return absl::FailedPreconditionError("memory engine: no purge is due");
  const Purged purged = Purge(cursor, count, [](KeyPoint) { return true; });
  if (purged.next == 0) purge_due_ = false;
  return purged;
}

absl::StatusOr<CacheEngine::Stat> MemoryEngine::ReadStat() {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  Stat stat;
  stat.incarnation = incarnation_;
  stat.version = view_->membership() == nullptr ? Version() : view_->membership()->version();
  stat.keys = keys_.size();
  return stat;
}

absl::Status MemoryEngine::Set(const std::string& key, const std::string& value,
                               absl::Duration ttl) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  const Admission admission = view_->AdmitPlain(PointOf(key), options_.clock());
  if (!admission.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("refused: verdict {}", static_cast<int>(admission.verdict)));
  }
  keys_[PlaceOf(key)] = {
      value, ttl == absl::InfiniteDuration() ? Instant::Never() : options_.clock() + ttl};
  LogChange(key);
  return absl::OkStatus();
}

absl::Status MemoryEngine::Delete(const std::string& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Usable());
  Remove(key);
  const Admission admission = view_->AdmitPlain(PointOf(key), options_.clock());
  if (admission.ok()) return absl::OkStatus();
  forgotten_.push_back(key);
  return absl::FailedPreconditionError(
      fmt::format("refused: verdict {}", static_cast<int>(admission.verdict)));
}

std::optional<std::string> MemoryEngine::Get(const std::string& key) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = keys_.find(PlaceOf(key));
  if (found == keys_.end() || found->second.expires <= options_.clock()) return std::nullopt;
  return found->second.bytes;
}

void MemoryEngine::Plant(const std::string& key, const std::string& value) {
  std::lock_guard<std::mutex> lock(mutex_);
  keys_[PlaceOf(key)] = {value, Instant::Never()};
}

size_t MemoryEngine::KeyCount() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return keys_.size();
}

size_t MemoryEngine::TrackCount() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return tracked_.size();
}

size_t MemoryEngine::OpenTransferCount() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return transfers_.size();
}

uint64_t MemoryEngine::ForgottenRead() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return forgotten_read_;
}

void MemoryEngine::Restart() {
  std::lock_guard<std::mutex> lock(mutex_);
  ++incarnation_.low;
  log_id_ = incarnation_.ToString();
  view_.reset();
  fresh_ = true;
  purge_due_ = false;
  position_ = trimmed_ = 0;
  log_.clear();
  tracked_.clear();
  transfers_.clear();
  dirty_.clear();
  forgotten_.clear();
}

void MemoryEngine::SetDown(bool down) {
  std::lock_guard<std::mutex> lock(mutex_);
  down_ = down;
}

}  // namespace warmring
