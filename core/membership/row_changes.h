#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/membership/membership.h"

namespace warmring {

// How the ranges of a membership differ from those of the one before it.
struct RowChanges {
  // As many ranges, with the same ends. The rest is there only then.
  bool same_ends = false;
  // The ranges with another owner, epoch or follower, in order. Nothing when that is not worth
  // knowing: the spec or the nodes differ too, most ranges do, or one breaks an invariant.
  std::optional<std::vector<uint32_t>> rows;
};

// Pure, any thread; reads each range once. REQUIRES: `before` has the invariants of a Membership.
RowChanges RowChangesOf(const MembershipData& before, const MembershipData& after);

}  // namespace warmring
