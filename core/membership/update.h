#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "core/base/hash_range.h"
#include "core/base/ids.h"
#include "core/membership/membership.h"

namespace warmring {

// Gives `ranges` to `owner` under `epoch`.
struct Assignment {
  HashRangeSet ranges;
  NodeId owner;
  Epoch epoch;
  friend bool operator==(const Assignment&, const Assignment&) = default;
};

// Gives `ranges` these followers, the preferred first: as many as the spec's replication - 1; an
// empty id is nobody.
struct PutFollowers {
  HashRangeSet ranges;
  std::vector<NodeId> followers;
  friend bool operator==(const PutFollowers&, const PutFollowers&) = default;
};

// Adds an override, or replaces the one on the same plane.
struct PutOverride {
  struct Range {
    HashPoint end = 0;
    NodeId owner;
    friend bool operator==(const Range&, const Range&) = default;
  };
  Plane plane = kCommonPlane;
  OverrideRule rule;
  std::vector<Range> ranges;  // as in Override; empty: as hashed
  Epoch epoch;
  friend bool operator==(const PutOverride&, const PutOverride&) = default;
};

// One change of a membership. Applied in the order of the fields.
struct Update {
  std::vector<Node> put_nodes;  // added, or replaced by id
  // Above 0: the directory is grown to 2^bits buckets; children inherit owner, epoch and pin.
  uint32_t directory_bits = 0;
  std::vector<HashPoint> split_at;  // range ends to insert; children inherit owner and epoch
  // A new one has plane next_plane or above, and changes no owner: as hashed, epoch 0. One that is
  // replaced keeps its rule, and gets an epoch above all that hold on its plane.
  std::vector<PutOverride> put_overrides;
  std::vector<Assignment> assignments;  // must lie on range boundaries (split first)
  // Likewise. Owners and followers of a range must differ when both are as they are to be, so that
  // two nodes can change places.
  std::vector<PutFollowers> put_followers;
  std::vector<MigrationId> remove_moves;  // all moves of these migrations
  std::vector<Move> put_moves;            // added, or replaced by (migration, wave, from, to)
  std::vector<HashPoint> merge_at;        // range ends to remove; both sides: same owner and epoch
  std::vector<Plane> remove_overrides;    // must be as hashed and take part in no move any more
  std::vector<uint32_t> remove_pins;      // buckets
  std::vector<Pin> put_pins;              // added, or replaced by bucket
  // Must own nothing, have no pin and take part in no move any more.
  std::vector<NodeId> remove_nodes;
  friend bool operator==(const Update&, const Update&) = default;
};

// The membership that follows `base`: version + 1 with the update applied. Pure, any thread.
// Errors: InvalidArgument: the update does not fit (unknown node, boundary missing, epoch not
// greater than the one it replaces, node removed that owns ranges, broken invariant).
absl::StatusOr<Membership::Ptr> Apply(const Membership& base, const Update& update);

// One committed change as the watch sends it and the store keeps it.
struct Delta {
  HistoryId history;
  Version from;
  Version to;  // from + 1
  Update update;
  uint64_t digest = 0;  // of the membership at `to`
  friend bool operator==(const Delta&, const Delta&) = default;
};

// Errors: FailedPrecondition: the delta is for another history or base version (ask for a
// snapshot); DataLoss: the digest differs after applying (ask for a snapshot).
absl::StatusOr<Membership::Ptr> ApplyDelta(const Membership& base, const Delta& delta);

// What differs between two memberships of one keyspace: maximal ranges by (from, to). On the plane
// of an override that is in one of them only, the other holds points as hashed.
struct RangeMove {
  NodeId from;
  NodeId to;
  HashRangeSet ranges;
  friend bool operator==(const RangeMove&, const RangeMove&) = default;
};
std::vector<RangeMove> Diff(const Membership& a, const Membership& b);

}  // namespace warmring
