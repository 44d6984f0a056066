#pragma once

#include <vector>

#include "core/placement/allocator.h"
#include "core/placement/member.h"

// A ring whose tokens are chosen rather than derived from names: near-perfect balance with few
// arcs a node. Behind allocator.h. Pure, integers only; the same on every machine.
//
//   new ring: every node gets as many equal arcs as it has tokens (TokensOf), the nodes taking
//             turns in node order, so that shares are exact.
//   join:     the node's share is cut in as many equal pieces as it has tokens. Each piece, in
//   turn,
//             is cut off the beginning of the largest arc of the node that is then the fullest
//             relative to its target; an arc that is no larger than a piece is taken whole. So a
//             join moves at most TokensOf arcs, and exactly the new node's share when the fullest
//             nodes have arcs that large.
//   removal:  the arcs change owner rather than being deleted, which would pile them on whoever
//             comes next: each, the largest first, goes to the node that is then the emptiest
//             relative to its target.
//
// Found by simulation against random tokens and against Cassandra's allocator for few tokens
// (CASSANDRA-7032), which halves the largest ranges: cutting pieces of the share's own size keeps
// max/mean below 1 + 2/V as nodes join one by one.

namespace warmring {

// REQUIRES: `members` sorted by id, not empty.
std::vector<OwnedRange> InitialDeliberateRing(const KeyspaceSpec& spec,
                                              const std::vector<Member>& members, Epoch epoch);

// `members` are the nodes of `base` by their index, then the added ones; `stays` is by member.
Reallocation ReallocateDeliberateRing(const Membership& base, const std::vector<Member>& members,
                                      const std::vector<bool>& stays);

}  // namespace warmring
