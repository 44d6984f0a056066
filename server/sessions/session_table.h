#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/ids.h"
#include "core/base/instant.h"
#include "core/base/mutant.h"
#include "migrations/migration_machine.h"
#include "server/store/schema/record.h"

namespace warmring {

// Names a session stream inside this process; 0 = none.
using StreamId = uint64_t;

// What an owner says about itself when its stream begins.
struct SessionHello {
  NodeId node;
  Incarnation incarnation;
  std::string transfer_address;
  uint32_t rdb_version = 0;
  std::string data_address;
};

struct SessionRenewal {
  uint64_t seq = 0;
  Version applied_version;
  uint64_t keys = 0;
  uint64_t bytes = 0;
};

// What is known about a node's session at one instant.
struct SessionStatus {
  bool connected = false;
  Incarnation incarnation;
  std::string transfer_address;
  std::string data_address;
  uint32_t rdb_version = 0;
  Version applied_version;
  uint64_t keys = 0;
  uint64_t bytes = 0;
  Instant belief_until;
};

// The sessions of one keyspace and the leases that the server must believe in. The rules:
//   - A session counts once it is persisted (P0). An incarnation that opens again in the same term
//   is
//     persisted already.
//   - A grant at `now` extends the belief to max(belief, now + C), C = lease x 1.01 + 100 ms: the
//     owner counts from before it asked, on a clock whose rate differs by 1 % at most.
//   - A new incarnation is granted nothing before its predecessor's belief is over, and neither is
//     one that was still waiting when the server stopped.
//   - After a restart every persisted session may hold a lease until start + C, where C is that of
//     the longest lease it may have been granted: an earlier server may have granted longer ones.
// Pure: no clock, no I/O. Not thread-safe; it lives on its keyspace's strand.
class SessionTable {
 public:
  SessionTable(Term term, absl::Duration lease)
      : term_(term), lease_(lease), belief_(Belief(lease)) {}

  // C for a lease.
  static absl::Duration Belief(absl::Duration lease) {
    if (IsMutant(Mutant::kJ)) return lease;
    return lease * 1.01 + absl::Milliseconds(100);
  }

  // A session found in the store at the start of this term.
  void Restore(const NodeId& node, const schema::SessionRecord& record, Instant start);

  // What must be durable before the session may open; nothing when it is already.
  std::optional<schema::SessionRecord> ToPersist(const SessionHello& hello, Instant now) const;

  // The session is durable, as `record` if that was due: the stream is the node's. Returns the
  // stream that it replaces, or 0.
  StreamId Open(StreamId stream, const SessionHello& hello,
                const std::optional<schema::SessionRecord>& record);

  // The stream has ended. Returns whether it was its node's.
  bool Close(StreamId stream);

  enum class Renewal {
    kGranted,  // the belief is extended; send the grant now
    kWait,     // ask again at GrantFrom
    kForeign,  // the stream is not its node's (any more)
  };
  // `carries_floors`: the grant that follows does. It counts as any other.
  Renewal Renew(StreamId stream, const SessionRenewal& renewal, Instant now,
                bool carries_floors = false);
  Instant GrantFrom(const NodeId& node) const;

  // The first grant to a new incarnation makes this due: a record that no longer waits. It may only
  // replace the record that does (see Sessions::Settle).
  std::optional<schema::SessionRecord> ToSettle(const NodeId& node);

  // The stream's node, if the stream is its present one.
  std::optional<NodeId> NodeOf(StreamId stream) const;
  Version AppliedVersionOf(const NodeId& node) const;
  // The node's present stream, or 0.
  StreamId StreamOf(const NodeId& node) const;

  std::map<NodeId, SessionFact> Facts() const;
  std::map<NodeId, SessionStatus> Statuses() const;

 private:
  struct Entry {
    SessionStatus status;
    StreamId stream = 0;
    Term opened;  // the term of the last P0
    Instant grant_from;
    bool waiting = false;   // as persisted: was granted nothing yet, and had a predecessor
    absl::Duration lease;   // as persisted: the longest that it may hold
    Instant earlier_until;  // until then, one that an earlier server granted may be held
  };
  Entry* Find(StreamId stream);

  const Term term_;
  const absl::Duration lease_;
  const absl::Duration belief_;
  std::map<NodeId, Entry> entries_;
  std::map<StreamId, NodeId> streams_;
};

}  // namespace warmring
