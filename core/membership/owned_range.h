#pragma once

#include <cstdint>

#include "core/base/hash_range.h"
#include "core/base/ids.h"

namespace warmring {

// Index of a node in Membership::nodes(); valid for that one membership only.
using NodeIndex = uint32_t;
inline constexpr NodeIndex kNoNode = UINT32_MAX;

// A run of hash space with one owner and one epoch: `(end of the range before it, end]`.
struct OwnedRange {
  HashPoint end = 0;
  NodeIndex owner = 0;
  Epoch epoch;
  friend bool operator==(const OwnedRange&, const OwnedRange&) = default;
};

}  // namespace warmring
