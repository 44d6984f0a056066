#pragma once

#include <vector>

#include "core/membership/membership.h"
#include "core/placement/directory.h"

// The placement of a membership on a bucket directory as the allocators see it. Pure, any thread.

namespace warmring {

// REQUIRES: `spec` valid, of a directory.
DirectoryShape DirectoryShapeOf(const KeyspaceSpec& spec);

// Each node with its failure domain by the spec's rule.
std::vector<DirectoryNode> DirectoryNodesOf(const KeyspaceSpec& spec,
                                            const std::vector<Node>& nodes);

// REQUIRES: a membership of a directory.
Directory DirectoryOf(const Membership& membership);

}  // namespace warmring
