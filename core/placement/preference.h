#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "core/membership/membership.h"

namespace warmring {

// Who keeps the other copies of each range: spec.replication - 1 followers a range, the nearest
// first (the form of MembershipData::followers).
//
// The preference list of a range is found by walking clockwise from it over the owners of the
// ranges that follow: a node joins the list when neither it nor its failure domain is on it, until
// there are spec.replication. With rule.best_effort and too few domains, the walk is made again for
// domains of the next lower level, down to nodes; where even nodes are too few, kNoNode fills the
// rest.
//
// Pure, any thread; made where a membership is decided and published with it, so that no reader
// derives it in another way. Source of the walk: Dynamo's preference lists (DeCandia et al., 2007,
// section 4.3) with the rule of distinct racks of Cassandra's NetworkTopologyStrategy.
//
// REQUIRES: `spec` valid, `nodes` sorted by id, `ranges` sorted by end with owners in `nodes`.
// Error: InvalidArgument: a strict rule, and fewer domains that own something than copies; names
// both counts and the way out.
absl::StatusOr<std::vector<NodeIndex>> PreferenceLists(const KeyspaceSpec& spec,
                                                       const std::vector<Node>& nodes,
                                                       const std::vector<OwnedRange>& ranges);

// How many followers of `membership` share a failure domain (of the rule's level) with an earlier
// copy of their range, or are missing.
size_t CountDomainViolations(const Membership& membership);

}  // namespace warmring
