#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/hash_range.h"
#include "core/base/ids.h"
#include "core/membership/membership.h"
#include "core/placement/allocator.h"
#include "core/placement/bucket_change.h"

// What a change of a keyspace with copies does to owners and followers. Pure, any thread, integers
// only; the same inputs in any order give the same result.

namespace warmring {

struct CopyChange {
  BucketChange change;                // on a ring: only added and removed
  std::map<NodeId, NodeId> replaced;  // removed -> added: takes its seats, and nothing else changes
  // Removed ones are dead: a range that one owned goes to the first of its followers that is left,
  // if there is one.
  bool is_dead = false;
};

struct CopiesAfter {
  Reallocation reallocation;  // of owners
  // A range, as the splits leave it, whose followers are others, or stand in another order.
  struct Followers {
    HashRange range;
    NodeId owner_before;
    NodeId owner_after;
    std::vector<NodeId> before;  // empty ids: nobody
    std::vector<NodeId> after;
  };
  std::vector<Followers> followers;  // sorted by end
};

// On a directory the allocator decides all ranks; on a ring owners change as Reallocate says and
// followers are the preference lists of the ring that results.
// REQUIRES: as ReallocateBuckets (bucket_change.h) or Reallocate (allocator.h), but with copies.
// Errors, InvalidArgument: as DirectoryAfter and PreferenceLists; a strict rule of failure domains
// would be broken by what is asked for by name.
absl::StatusOr<CopiesAfter> ReallocateCopies(const Membership& base, const CopyChange& change);

}  // namespace warmring
