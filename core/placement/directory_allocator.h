#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/placement/directory.h"

// "Bucket take": decides who holds each bucket at each rank of a directory. Pure, any thread,
// integers only; the same inputs in any order give the same result on every machine.
//
// History decides: a directory is what the changes made of it, so clients apply changes and never
// recompute. The steps, for a specification see docs/spec/placement.md:
//   1. Targets by weight, water-filled: a node at most every bucket once, a domain at most once per
//      bucket; whole numbers within one of the share, split by rank (directory_targets.h).
//   2. Forced slots (no owner, owner gone, second of a domain) go, in a pseudo-random order of
//      buckets, to the emptiest valid node relative to its target.
//   3. Take: nodes below target, in turns, take the next bucket of their own order whose owner is
//      above its target and where their domain is free. Only donors above target lose.
//   4. Exchange, where domains block a take: along the shortest chain of nodes, each takes a bucket
//      of the next, up to one above its target.
//   5. Ranks of one bucket are swapped until each rank is balanced too.

namespace warmring {

// A new directory. Errors, InvalidArgument: what ValidateDirectoryInput names; strict, and fewer
// domains than ranks (the message has both counts). Not strict: ranks beyond the number of nodes
// stay without owner, ranks beyond the number of domains share one; CountViolations tells.
absl::StatusOr<Directory> Allocate(const DirectoryShape& shape,
                                   const std::vector<DirectoryNode>& nodes);

struct ReallocateOptions {
  // A bucket that stays as it is, or (with `seat`) has this node at this rank and the others as
  // they are. Pinned slots count for their node's share and are never taken. A slot whose owner
  // leaves is placed anew in spite of a pin without seat.
  struct Seat {
    uint32_t rank = 0;
    NodeId node;
  };
  struct Pin {
    uint32_t bucket = 0;
    std::optional<Seat> seat;
  };
  std::vector<Pin> pins;

  // The bucket's replica at `from` goes to `to`, at the same rank; then its slot is as pinned.
  struct BucketMove {
    uint32_t bucket = 0;
    NodeId from;
    NodeId to;
  };
  std::vector<BucketMove> moves;

  // At most this many slots for the node, or for all nodes of the domain.
  struct Cap {
    std::string name;
    uint64_t slots = 0;
  };
  std::vector<Cap> node_caps;
  std::vector<Cap> domain_caps;

  // What moves beside forced slots, pins and listed moves.
  enum class Balance : uint8_t {
    kAll = 1,        // whatever balance needs
    kAddedOnly = 2,  // added nodes take their share; nothing moves between nodes that stay
    kNothing = 3,
  };
  Balance balance = Balance::kAll;

  // Load of each bucket (requests, bytes: any one unit), or empty. If given, nodes are balanced by
  // the load of the slots they hold, and not by their number, with the fewest moves: largest
  // buckets first. Each node's target is its share of the slots times the mean load; one that is
  // off it by no more than the tolerance, in millionths of the target, neither gives nor gets.
  // Ranks are left as they are.
  std::vector<uint64_t> heat;
  uint32_t heat_tolerance_ppm = 10'000;
};

// `base` for the nodes `nodes_after`: some may be new, gone, or of other weight or domain.
// REQUIRES: `base` valid.
// Errors, InvalidArgument: as for Allocate; an option names a bucket, rank, node or domain that
// does not exist, or contradicts another (two pins for a slot, a node twice in a bucket, in strict
// a domain twice), a cap below what is pinned or what the kind of balance leaves there, caps
// without room for all slots, heat of another size than the number of buckets or above 2^40 in one
// bucket.
absl::StatusOr<Directory> Reallocate(const Directory& base,
                                     const std::vector<DirectoryNode>& nodes_after,
                                     const ReallocateOptions& options = {});

}  // namespace warmring
