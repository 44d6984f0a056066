#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/hash_range.h"
#include "core/base/ids.h"
#include "core/membership/update.h"
#include "core/placement/copy_change.h"

namespace warmring {

struct PlannedMove;

// Ranges that get other followers in one version. Followers are not copied: they are kept by the
// application or the engine.
struct FollowerChange {
  // In the version that commits this wave; as many as there are waves: in the one that ends the
  // migration.
  uint32_t wave = 0;
  HashRangeSet ranges;
  std::vector<NodeId> before;  // the preferred first; empty ids: nobody
  std::vector<NodeId> after;
  friend bool operator==(const FollowerChange&, const FollowerChange&) = default;
};

// When followers change: where the owner changes too, with it, since the two may change places;
// elsewhere at the end, or (`at_once`, where some of them are dead) with the first wave; with
// others where that version would become too large. Sorted by (wave, before, after).
// `moves`: those of owners, which are `copies.reallocation` cut into `waves` waves.
// Error: InvalidArgument: the versions, or the one that would undo them, have no room for it.
absl::StatusOr<std::vector<FollowerChange>> PlanFollowers(const CopiesAfter& copies,
                                                          const std::vector<PlannedMove>& moves,
                                                          uint32_t waves, bool at_once);

// Of waves [first, end): the followers when they are committed, and when they are not.
std::vector<PutFollowers> FollowersAfter(const std::vector<FollowerChange>& changes, uint32_t first,
                                         uint32_t end);
std::vector<PutFollowers> FollowersBefore(const std::vector<FollowerChange>& changes,
                                          uint32_t first, uint32_t end);

// What `node` follows and no longer will when `wave` is committed.
HashRangeSet FollowedUntil(const std::vector<FollowerChange>& changes, uint32_t wave,
                           const NodeId& node);

}  // namespace warmring
