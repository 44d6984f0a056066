#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/engine/cache_engine.h"
#include "core/base/instant.h"
#include "core/ownership/owner_view.h"

namespace warmring {

struct MemoryEngineOptions {
  std::function<Instant()> clock;  // required
  Incarnation incarnation;         // of the first run; each Restart adds one
  size_t max_log_entries = 100'000;
  uint32_t rdb_version = 10;
  // How ForgetAt reaches another engine. Null: it is Unavailable.
  std::function<absl::Status(const std::string& address, const std::string& key)> forget;
};

// Keys in the memory of this process behind the rules of an owner: what the Redis module does, in
// the fewest words, for tests of everything around it. Thread-safe.
class MemoryEngine : public CacheEngine {
 public:
  explicit MemoryEngine(MemoryEngineOptions options);

  absl::StatusOr<Attachment> Attach(const HistoryId& history, const KeyspaceId& keyspace,
                                    const NodeId& node, OnRestart on_restart) override;
  absl::Status InstallMap(const Membership& membership) override;
  absl::StatusOr<uint64_t> Renew() override;
  absl::Status Grant(const LeaseGrant& grant) override;
  absl::StatusOr<FenceResult> Fence(const MigrationId& migration, Epoch floor,
                                    const HashRangeSet& ranges) override;
  absl::StatusOr<LogPosition> Track(const Id128& nonce, const HashRangeSet& ranges) override;
  absl::Status Untrack(const Id128& nonce) override;
  absl::StatusOr<Changes> ReadChanges(const Id128& nonce, const LogPosition& cursor, uint64_t ack,
                                      uint32_t count) override;
  absl::StatusOr<KeyPage> Scan(const Id128& nonce, uint64_t cursor, uint32_t count) override;
  absl::StatusOr<Dump> DumpKeys(const std::vector<std::string>& keys) override;
  absl::StatusOr<Digests> DigestKeys(const std::vector<std::string>& keys) override;
  absl::StatusOr<DirtyPage> ReadDirty(const MigrationId& migration, uint64_t cursor,
                                      uint32_t count) override;
  absl::StatusOr<KeyPage> ReadForgotten(uint64_t cursor, uint32_t count) override;
  absl::Status ForgetAt(const std::string& address, const std::vector<std::string>& keys) override;
  absl::Status OpenTransfer(const Id128& nonce, const MigrationId& migration,
                            const HashRangeSet& ranges) override;
  absl::Status Apply(const Id128& nonce, const std::vector<EngineEntry>& entries) override;
  absl::Status CloseTransfer(const Id128& nonce) override;
  absl::StatusOr<Purged> PurgeTransfer(const Id128& nonce, uint64_t cursor,
                                       uint32_t count) override;
  absl::StatusOr<Purged> PurgeLeft(uint64_t cursor, uint32_t count) override;
  absl::StatusOr<Purged> PurgeAll(uint64_t cursor, uint32_t count) override;
  absl::StatusOr<Stat> ReadStat() override;

  // What clients and tests do.

  // A plain write: refused like any other by lease, ownership and floor.
  // Error: FailedPrecondition naming the verdict.
  absl::Status Set(const std::string& key, const std::string& value,
                   absl::Duration ttl = absl::InfiniteDuration());
  // A delete is applied even where it is refused.
  absl::Status Delete(const std::string& key);
  // The value, whoever owns the key.
  std::optional<std::string> Get(const std::string& key) const;
  // Puts a value there without asking or logging.
  void Plant(const std::string& key, const std::string& value);
  size_t KeyCount() const;
  size_t TrackCount() const;
  size_t OpenTransferCount() const;
  // How far ReadForgotten was asked to read on: what was before has been taken care of.
  uint64_t ForgottenRead() const;
  // A new incarnation: forgets everything but the keys.
  void Restart();
  // Every call fails as if the engine were gone, until it is set back.
  void SetDown(bool down);

 private:
  using Place = std::pair<HashPoint, std::string>;  // keys in the order of a walk
  struct Value {
    std::string bytes;
    Instant expires = Instant::Never();
  };
  struct Tracked {
    HashRangeSet ranges;
  };
  struct Transfer {
    MigrationId migration;
    HashRangeSet ranges;
  };
  struct Dirty {
    HashRangeSet ranges;
    std::set<std::string> keys;
  };

  absl::Status Usable() const;
  KeyPoint PointOf(const std::string& key) const;
  Place PlaceOf(const std::string& key) const;
  void LogChange(const std::string& key);
  void Remove(const std::string& key);
  void Expire();
  template <typename Fits>
  KeyPage Walk(uint64_t cursor, uint32_t count, Fits fits) const;
  Purged Purge(uint64_t cursor, uint32_t count, const std::function<bool(KeyPoint)>& goes);

  const MemoryEngineOptions options_;
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  bool down_ = false;
  Incarnation incarnation_;
  std::optional<OwnerView> view_;
  HashSpec hash_;
  bool purge_due_ = false;
  bool fresh_ = true;  // not attached since it started
  std::map<Place, Value> keys_;
  std::string log_id_;
  uint64_t position_ = 0;
  uint64_t trimmed_ = 0;  // the log holds positions above this one
  std::deque<std::pair<uint64_t, std::string>> log_;
  std::map<Id128, Tracked> tracked_;
  std::map<Id128, Transfer> transfers_;
  std::map<MigrationId, Dirty> dirty_;
  std::vector<std::string> forgotten_;
  uint64_t forgotten_read_ = 0;
};

}  // namespace warmring
