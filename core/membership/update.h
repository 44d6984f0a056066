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

// One change of a membership. Applied in the order of the fields.
struct Update {
  std::vector<Node> put_nodes;            // added, or replaced by id
  std::vector<HashPoint> split_at;        // range ends to insert; children inherit owner and epoch
  std::vector<Assignment> assignments;    // must lie on range boundaries (split first)
  std::vector<MigrationId> remove_moves;  // all moves of these migrations
  std::vector<Move> put_moves;            // added, or replaced by (migration, wave, from, to)
  std::vector<HashPoint> merge_at;        // range ends to remove; both sides: same owner and epoch
  std::vector<NodeId> remove_nodes;       // must own nothing and take part in no move any more
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

// What differs between two memberships of one keyspace: maximal ranges by (from, to).
struct RangeMove {
  NodeId from;
  NodeId to;
  HashRangeSet ranges;
  friend bool operator==(const RangeMove&, const RangeMove&) = default;
};
std::vector<RangeMove> Diff(const Membership& a, const Membership& b);

}  // namespace warmring
