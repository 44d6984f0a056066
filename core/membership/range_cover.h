#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "core/base/hash_range.h"
#include "core/membership/membership.h"

namespace warmring {

// Indices of the ranges that make up `set`, each once. Pure, any thread; linear in the result, and
// logarithmic in `ranges` for each maximal range of the set.
// REQUIRES: `ranges` not empty, sorted by end, unique ends.
// Error: InvalidArgument when the set begins or ends inside a range, naming the point, or is not on
// the common plane.
absl::StatusOr<std::vector<size_t>> CoveredRanges(const std::vector<OwnedRange>& ranges,
                                                  const HashRangeSet& set);

// Index of the range that ends at `end`, or ranges.size() when there is none. Same REQUIRES.
size_t RangeEndingAt(const std::vector<OwnedRange>& ranges, HashPoint end);

}  // namespace warmring
