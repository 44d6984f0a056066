#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/hash_range.h"
#include "core/base/ids.h"
#include "core/membership/keyspace_spec.h"
#include "core/membership/membership.h"
#include "core/membership/node.h"
#include "core/membership/update.h"

// Who should own which range: "bucket take" on a directory, derived tokens on a ring. Pure, any
// thread, integers only; the same inputs in any order give the same result on every machine.

namespace warmring {

// Tokens of a node on a ring: tokens_per_node times its weight, rounded half up, at least 1.
uint32_t TokensOf(const KeyspaceSpec& spec, const Node& node);

// Ok, or InvalidArgument when these nodes would need more than Membership::kMaxRanges tokens on a
// ring, naming the count and the bound. A directory always fits. Check it before the functions
// below: their cost grows with the number of tokens.
absl::Status ValidatePlacementSize(const KeyspaceSpec& spec, const std::vector<Node>& nodes);

// The ranges of a new keyspace, sorted by end, all under `epoch`. An owner index counts `nodes` in
// order of their ids, as Membership::nodes() does.
//   directory: as Allocate (directory_allocator.h) with one rank: every node gets its share by
//              weight to within one bucket.
//   ring:      each node's derived tokens; of equal tokens the lowest (NodeOrderKey(id), id) wins.
// REQUIRES: `spec` valid, nodes not empty, ids unique, ValidatePlacementSize is ok.
std::vector<OwnedRange> InitialRanges(const KeyspaceSpec& spec, const std::vector<Node>& nodes,
                                      Epoch epoch);

// What has to change so that added nodes get their share and removed ones own nothing.
struct Reallocation {
  std::vector<HashPoint> splits;  // range ends to insert first, sorted; a directory needs none
  std::vector<RangeMove> moves;  // sorted by (from, to), disjoint, `from` owns the ranges in `base`
  friend bool operator==(const Reallocation&, const Reallocation&) = default;
};

// Movement is the least that does it: nothing moves between nodes that stay.
//   directory: as ReallocateBuckets (bucket_change.h), where only added nodes take.
//   ring:      a removed node's range goes to the owner of the next range clockwise that stays; an
//              added node's token takes the arc that ends at it. An end left behind by an earlier
//              migration is no token of its owner and does not cut that arc short, so the result
//              does not depend on what was aborted before. Of equal tokens the lowest wins.
// REQUIRES: every removed id is a node of `base` and named once; no added id is; at least one node
// is left; base.moves() is empty; ValidatePlacementSize is ok for the nodes that result.
Reallocation Reallocate(const Membership& base, const std::vector<Node>& added,
                        const std::vector<NodeId>& removed);

}  // namespace warmring
