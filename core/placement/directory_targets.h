#pragma once

#include <cstdint>
#include <vector>

#include "core/placement/directory.h"

// How many slots each node should hold: shares by weight, water-filled under caps, rounded. Pure,
// any thread, integers only.

namespace warmring {

// The nodes stand in the order that breaks ties.
struct TargetProblem {
  struct Node {
    uint64_t weight = 1;  // 1..DirectoryNode::kMaxWeightMilli
    uint32_t domain = 0;
    uint64_t cap = 0;    // at most this many
    uint64_t least = 0;  // at least this many, at most cap: slots that may not leave it
    uint64_t owned = 0;  // holds now: of two nodes that could be rounded up, the one that has it
  };
  uint64_t slots = 0;
  std::vector<Node> nodes;
  std::vector<uint64_t> domain_caps;
};

// The most ranks of one bucket that one domain has to hold: the least k for which the domains, with
// min(k, nodes) each, have room for `ranks`. 1 where there are enough domains.
// REQUIRES: ranks <= nodes.
uint32_t DomainDepth(const std::vector<uint32_t>& nodes_per_domain, uint32_t ranks);

// What weights and domains alone ask for: each node up to all buckets, each domain up to its depth
// in each bucket. Nodes in the order given, no least, nothing owned. Ranks beyond the number of
// nodes are left out.
TargetProblem NaturalTargets(const DirectoryShape& shape, const std::vector<DirectoryNode>& nodes);

// The exact share of each node: a common level times its weight, but never below `least`, above
// `cap`, or beyond what is left of its domain's cap. What a capped one cannot take is shared by the
// others in the same way.
// REQUIRES: the caps leave room for all slots, and all `least` fit below the caps.
std::vector<Ratio> FillShares(const TargetProblem& problem);

// Whole numbers within one of the shares, for each node and for each domain, and `slots` together.
// Rounded up are first the nodes that hold more than the floor already, so that a change moves no
// more than it must, then those with the largest remainders; ties by order.
std::vector<uint64_t> RoundShares(const TargetProblem& problem, const std::vector<Ratio>& shares);

// Splits the targets by rank: result[node * ranks + rank] is within one of targets[node] / ranks,
// and each rank sums to the same. Rounded up are the ranks of which `owned` has more than the
// floor, as far as the sums allow; else the emptiest rank, ties by rank.
// REQUIRES: the sum of targets is a multiple of `ranks`.
std::vector<uint64_t> SplitByRank(const std::vector<uint64_t>& targets,
                                  const std::vector<uint64_t>& owned, uint32_t ranks);

}  // namespace warmring
