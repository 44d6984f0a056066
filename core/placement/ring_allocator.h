#pragma once

#include <cstdint>
#include <vector>

#include "core/base/ids.h"
#include "core/membership/membership.h"
#include "core/placement/allocator.h"
#include "core/placement/member.h"

// Who should own which arc of a ring. Behind allocator.h, which states the contract.

namespace warmring {

// REQUIRES: `members` sorted by id.
std::vector<OwnedRange> InitialRing(const KeyspaceSpec& spec, const std::vector<Member>& members,
                                    Epoch epoch);

// `members` are the nodes of `base` by their index, then the added ones; `stays` is by member.
Reallocation ReallocateRing(const Membership& base, const std::vector<Member>& members,
                            const std::vector<bool>& stays);

}  // namespace warmring
