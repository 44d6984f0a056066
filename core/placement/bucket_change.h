#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "core/membership/membership.h"
#include "core/membership/node.h"
#include "core/placement/allocator.h"
#include "core/placement/directory.h"
#include "core/placement/directory_allocator.h"

// What can be asked of a bucket directory: nodes, weights, buckets by list, balance by share or by
// load. Pure, any thread, integers only; the same inputs in any order give the same result.

namespace warmring {

struct BucketChange {
  struct Placed {
    uint32_t bucket = 0;
    NodeId to;
    friend bool operator==(const Placed&, const Placed&) = default;
  };

  std::vector<Node> added;
  std::vector<NodeId> removed;
  std::map<NodeId, uint32_t> weight_milli;  // new weights of nodes that stay
  std::vector<Placed> placed;               // these buckets go where it says
  std::vector<uint32_t> unpinned;           // pins of the base that do not count any more
  // What moves beside that and what removed nodes leave behind.
  ReallocateOptions::Balance balance = ReallocateOptions::Balance::kAddedOnly;
  // Load of each bucket in any one unit, or empty: then balance means equal shares of hash space.
  std::vector<uint64_t> load;
  uint32_t load_tolerance_ppm = 10'000;  // a node so close to its target neither gives nor gets
};

// Who holds each bucket at each rank when it is done. Of what it says below, the rest holds for a
// base with copies too: a pinned bucket keeps all its copies but those of nodes that leave, and a
// follower that is to own its bucket changes places with the owner.
// Errors, InvalidArgument: as below, and as Allocate (directory_allocator.h) where the rule of
// failure domains cannot hold.
absl::StatusOr<Directory> DirectoryAfter(const Membership& base, const BucketChange& change);

// The moves that do it. A pinned bucket of the base stays where it is unless it is placed,
// unpinned, or its owner is removed. Where the allocator is rendezvous, any balance but kNothing
// recomputes the owner of every bucket that is neither pinned nor placed.
// REQUIRES: `base` is a directory without copies; base.moves() is empty; removed ids and those with
// weights are nodes of `base` and named once; no added id is; at least one node is left.
// Errors, InvalidArgument: a bucket that does not exist or is placed twice, or on a node that is
// not there afterwards; load of another size than the number of buckets, above 2^40 in one bucket,
// or where the allocator is rendezvous.
absl::StatusOr<Reallocation> ReallocateBuckets(const Membership& base, const BucketChange& change);

}  // namespace warmring
