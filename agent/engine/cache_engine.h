#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/hash_range.h"
#include "core/base/ids.h"
#include "core/membership/membership.h"
#include "core/ownership/owner_view.h"

namespace warmring {

// A place in an engine's change log. Positions of different logs cannot be compared.
struct LogPosition {
  std::string log_id;
  uint64_t position = 0;
  friend bool operator==(const LogPosition&, const LogPosition&) = default;
};

// A key as it travels from a donor to a recipient.
struct EngineEntry {
  std::string key;
  bool absent = false;     // the key does not exist (any more); the rest is then empty
  std::string payload;     // the engine's own dump of the value
  int64_t ttl_ms = -1;     // remaining time to live when it was read; -1 = none
  int32_t frequency = -1;  // of an LFU engine, 0..255; -1 = unknown
  size_t Bytes() const { return key.size() + payload.size(); }
  friend bool operator==(const EngineEntry&, const EngineEntry&) = default;
};

// A page of keys. 0 begins a walk and, coming back, ends it. A walk sees every key that exists from
// its begin to its end at least once.
struct KeyPage {
  uint64_t next = 0;
  std::vector<std::string> keys;
};

// What the agent asks of the engine that holds the keys: docs/protocol.md section 2.3 as an
// interface. The engine, not the agent, is the owner: it refuses stale writes by itself and keeps
// lease, floors and change log through an agent's death.
//
// Thread-safe; every call blocks for about one round trip to the engine, and no call waits behind
// another one of this object. Errors that every call may give:
//   Unavailable  the engine cannot be reached now; whether the call had an effect is unknown
//   Aborted      another agent drives this engine, or it was restarted: Attach again
// Further errors are named where they occur; anything else is Internal with the engine's words.
class CacheEngine {
 public:
  virtual ~CacheEngine() = default;

  struct Attachment {
    Incarnation incarnation;  // of the engine
    uint64_t keys = 0;
    bool purge_due = false;    // PurgeAll to the end before the first grant
    uint32_t rdb_version = 0;  // of its dump format; 0 = unknown
  };
  // Binds the engine to a keyspace and node. Later calls of this object are made in its name.
  virtual absl::StatusOr<Attachment> Attach(const HistoryId& history, const KeyspaceId& keyspace,
                                            const NodeId& node, OnRestart on_restart) = 0;

  // Error: FailedPrecondition: the engine has a newer membership, or one of another history.
  virtual absl::Status InstallMap(const Membership& membership) = 0;
  // Stamps a renewal on the engine's clock; the sequence number.
  virtual absl::StatusOr<uint64_t> Renew() = 0;
  // Error: FailedPrecondition: the grant is not for the outstanding renewal, or a purge is due.
  virtual absl::Status Grant(const LeaseGrant& grant) = 0;

  // What a donor is asked.

  struct FenceResult {
    LogPosition watermark;  // every write before the fence is in the log up to here
    bool dirty_complete = false;
  };
  virtual absl::StatusOr<FenceResult> Fence(const MigrationId& migration, Epoch floor,
                                            const HashRangeSet& ranges) = 0;

  // Begins to log the changes of `ranges` for the reader named `nonce`, from the position on.
  virtual absl::StatusOr<LogPosition> Track(const Id128& nonce, const HashRangeSet& ranges) = 0;
  virtual absl::Status Untrack(const Id128& nonce) = 0;
  struct Changes {
    uint64_t next = 0;  // cursor for the next call
    std::vector<std::string> keys;
    bool more = false;  // another call will find more at once
  };
  // Keys that changed after `cursor`. The log may be trimmed up to `ack`.
  // Error: DataLoss with the reason: the log does not reach back to `cursor` any more (suspect).
  virtual absl::StatusOr<Changes> ReadChanges(const Id128& nonce, const LogPosition& cursor,
                                              uint64_t ack, uint32_t count) = 0;
  // The keys of the tracked ranges.
  virtual absl::StatusOr<KeyPage> Scan(const Id128& nonce, uint64_t cursor, uint32_t count) = 0;

  struct Dump {
    LogPosition position;              // the values are those of this position or later
    std::vector<EngineEntry> entries;  // one for each key, in the order asked
  };
  virtual absl::StatusOr<Dump> DumpKeys(const std::vector<std::string>& keys) = 0;
  struct Digests {
    LogPosition position;
    std::vector<std::optional<uint64_t>> digests;  // empty: the key is absent
  };
  // Of the values, independent of their encoding; without the time to live.
  virtual absl::StatusOr<Digests> DigestKeys(const std::vector<std::string>& keys) = 0;

  struct DirtyPage {
    bool complete = false;  // the set holds every key written since activation
    KeyPage page;
  };
  virtual absl::StatusOr<DirtyPage> ReadDirty(const MigrationId& migration, uint64_t cursor,
                                              uint32_t count) = 0;

  // Keys deleted here after their range left (or was fenced); the present owner must hear of them.
  // `next` is the cursor for the next call, never 0.
  virtual absl::StatusOr<KeyPage> ReadForgotten(uint64_t cursor, uint32_t count) = 0;
  // Deletes the keys at another node's engine, by its data address.
  virtual absl::Status ForgetAt(const std::string& address,
                                const std::vector<std::string>& keys) = 0;

  // What a recipient is asked.

  // Accepts a transfer; opening it again replaces its ranges.
  // Error: FailedPrecondition: the installed membership does not make this node pending for (or, in
  // an undo, previous owner of) all the ranges.
  virtual absl::Status OpenTransfer(const Id128& nonce, const MigrationId& migration,
                                    const HashRangeSet& ranges) = 0;
  // Replaces or deletes each key, in order. Entries outside the ranges that are still open are
  // passed over.
  // Errors: Cancelled: the transfer is closed, nothing was applied by the failing part;
  // InvalidArgument: the engine refuses a payload; ResourceExhausted: it has no memory for it.
  virtual absl::Status Apply(const Id128& nonce, const std::vector<EngineEntry>& entries) = 0;
  virtual absl::Status CloseTransfer(const Id128& nonce) = 0;

  struct Purged {
    uint64_t next = 0;  // as in KeyPage
    uint64_t keys = 0;  // deleted
  };
  // Deletes the keys of the transfer's ranges. Error: Cancelled as above.
  virtual absl::StatusOr<Purged> PurgeTransfer(const Id128& nonce, uint64_t cursor,
                                               uint32_t count) = 0;
  // Deletes what the installed membership does not entitle this node to.
  virtual absl::StatusOr<Purged> PurgeLeft(uint64_t cursor, uint32_t count) = 0;
  // Deletes everything. Error: FailedPrecondition: no purge is due.
  virtual absl::StatusOr<Purged> PurgeAll(uint64_t cursor, uint32_t count) = 0;

  struct Stat {
    Incarnation incarnation;
    Version version;  // installed
    uint64_t keys = 0;
    uint64_t bytes = 0;  // of the dataset; 0 = unknown
    int64_t lease_ms = 0;
    uint64_t faults = 0;
  };
  virtual absl::StatusOr<Stat> ReadStat() = 0;
};

}  // namespace warmring
