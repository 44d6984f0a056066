#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/hash_range.h"
#include "core/base/ids.h"
#include "core/base/instant.h"
#include "core/base/mutant.h"
#include "core/membership/membership.h"

namespace warmring {

// Every epoch <= `epoch` is closed for ever in `ranges` at the owner that applied it.
struct Floor {
  HashRangeSet ranges;
  Epoch epoch;
  friend bool operator==(const Floor&, const Floor&) = default;
};

// The coordinator's answer to a renewal: a state, not an event. Applying it twice is harmless.
struct LeaseGrant {
  uint64_t seq = 0;  // of the renewal that it answers
  Term term;
  absl::Duration ttl;
  Version version;            // the lease counts only once this version is installed
  std::vector<Floor> floors;  // of ranges in Fencing whose donor this owner is
};

enum class Verdict : uint8_t {
  kAdmit = 0,
  kNoLease,       // retry later, same route
  kWrongHistory,  // refresh
  kNotOwner,      // refresh; `owner` is the hint
  kStaleEpoch,    // refresh
  kOwnerBehind,   // retry later, same route: this owner has not applied the version yet
  kFencing,       // retry later: the range is changing hands
};

// The answer to one request, and what the refused client needs to cure itself.
struct Admission {
  Verdict verdict = Verdict::kAdmit;
  Epoch epoch;                     // the range's epoch in this owner's map
  Version version;                 // of this owner's map
  std::optional<NodeIndex> owner;  // the range's owner in this owner's map
  bool ok() const { return verdict == Verdict::kAdmit; }
};

// What a client writes in front of a key: `a1b2c3d4:17`.
struct EpochWord {
  std::string_view history_tag;
  Epoch epoch;
  // Error: InvalidArgument for anything but 8 hex digits, ':', a decimal epoch of at most 20
  // digits.
  static absl::StatusOr<EpochWord> Parse(std::string_view word);
  // The same without the words: false, and `parsed` is void, for anything else.
  static bool Read(std::string_view word, EpochWord& parsed);
};
std::string FormatEpochWord(const HistoryId& history, Epoch epoch);

// One owner's view of what it may accept: map, lease, floors. The rule that refuses stale writes,
// used by the Redis module and by OwnerGuard alike. Knows no clock: every call that depends on
// time takes the owner's own BOOTTIME reading. A value: a copy decides as the original did. Const
// calls may be made by many threads at once; callers serialise the others.
//
// Fails closed: a new OwnerView has no map and no lease and admits nothing.
class OwnerView {
 public:
  OwnerView(HistoryId history, KeyspaceId keyspace, NodeId node, Incarnation incarnation);

  // Takes a membership. Activates ranges that it gives to this node above their floors.
  // REQUIRES: `membership` is not null.
  // Errors: FailedPrecondition for another history, an older version, or another content under the
  // installed version (the same one is ok); InvalidArgument for another keyspace.
  absl::Status Install(Membership::Ptr membership);

  // Begins a renewal: stamps `now`, voids all earlier ones that are unanswered.
  uint64_t Renew(Instant now);

  // Floors take effect at once; the lease runs until stamp(seq) + ttl, and only once
  // grant.version is installed. A lease never gets shorter; a grant that waits for its version is
  // replaced by the next one.
  // Errors: FailedPrecondition when seq is not the newest renewal or the term went back; the floors
  // are raised all the same (closing is always safe).
  absl::Status Grant(const LeaseGrant& grant);

  // Ok, or FailedPrecondition while there are keys in `ranges` that this owner cannot tell from
  // others yet, because the installed map lacks their override. Who is to answer
  // for a fence, or to copy or watch ranges, asks first. Closing before is still safe.
  absl::Status CheckPlanes(const HashRangeSet& ranges) const;

  // Raises the floor: no epoch <= `epoch` is accepted in `ranges` any more.
  void Fence(const HashRangeSet& ranges, Epoch epoch);

  // A checked write: lease, history, ownership, epoch equal, above the floor.
  Admission AdmitWrite(KeyPoint point, const EpochWord& word, Instant now) const;
  // A checked read: as a write, but without the lease. The floor counts: once this owner has
  // acknowledged a fence, the next one may have accepted a newer value, whether or not the map that
  // says so has come here and to the client.
  Admission AdmitRead(KeyPoint point, const EpochWord& word) const;
  // A command of an unmodified client: lease, ownership, floor.
  Admission AdmitPlain(KeyPoint point, Instant now) const;
  // A grace read at the previous owner: the map has a kGrace move from this node at that point and
  // the client's epoch is the range's present one.
  Admission AdmitPeek(KeyPoint point, const EpochWord& word) const;

  // May this node hold data for `point` at all: it owns it, warms it, or keeps it during grace.
  bool IsEntitled(KeyPoint point) const;
  HashRangeSet EntitledRanges() const;
  bool Owns(KeyPoint point) const;  // by map, whatever the lease says
  // Move that covers `point` in the installed map, or null.
  const Move* MoveOf(KeyPoint point) const;

  bool HasLease(Instant now) const {
#ifdef WARMRING_MUTANTS
    if (IsMutant(Mutant::kC)) read_ = now;
#endif
    return lease_until_ && now < *lease_until_;
  }
  std::optional<Instant> lease_until() const { return lease_until_; }
  Epoch FloorOf(KeyPoint point) const;
  const Membership::Ptr& membership() const { return membership_; }
  const HistoryId& history() const { return history_; }
  const NodeId& node() const { return node_; }
  const KeyspaceId& keyspace() const { return keyspace_; }
  const Incarnation& incarnation() const { return incarnation_; }

 private:
  Admission Describe(KeyPoint point, Verdict verdict) const;
  Admission AdmitEpoch(KeyPoint point, const EpochWord& word) const;
  void ApplyWaitingLease();
  void ForgetFloors();

  HistoryId history_;
  std::string history_tag_;  // of history_, for the comparison on each request
  KeyspaceId keyspace_;
  NodeId node_;
  Incarnation incarnation_;
  Membership::Ptr membership_;
  std::optional<NodeIndex> self_;  // in membership_
  std::vector<Floor> floors_;      // only those that can still refuse something
  Term term_;
  uint64_t seq_ = 0;
  std::optional<Instant> renewal_sent_;  // stamp of renewal seq_
  std::optional<Instant> lease_until_;
  struct WaitingLease {
    Instant until;
    Version version;
  };
  std::optional<WaitingLease> waiting_lease_;  // granted for a version not installed yet
#ifdef WARMRING_MUTANTS
  mutable Instant read_{INT64_MIN};  // newest reading of the clock; for Mutant::kC
#endif
};

}  // namespace warmring
