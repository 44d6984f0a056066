#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "core/membership/membership.h"
#include "warmring/v1/keyspace_service.pb.h"

namespace warmring {

// The ranges of a request that says itself who owns what, sorted, under the first epoch; owners are
// indices into the request's nodes, as there. Pure, any thread.
// REQUIRES: `spec` valid.
// Errors: InvalidArgument (BAD_FIELD): ends that do not rise, or that a directory has by itself;
// another number of owners than of ends or buckets; an owner that is no node; too many ranges.
absl::StatusOr<std::vector<OwnedRange>> RangesOfPlacement(const KeyspaceSpec& spec,
                                                          size_t node_count,
                                                          const v1::ExplicitPlacement& placement);

}  // namespace warmring
