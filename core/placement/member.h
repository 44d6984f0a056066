#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/hash_range.h"
#include "core/membership/node.h"
#include "core/membership/update.h"

// What the allocators of both placements share. Pure values, any thread.

namespace warmring {

// No member.
inline constexpr uint32_t kNobody = UINT32_MAX;

// A node that takes part, with what its order depends on.
struct Member {
  const Node* node = nullptr;
  uint64_t order = 0;
  auto Key() const { return std::tuple<uint64_t, std::string_view>(order, node->id); }
};
Member MemberOf(const Node& node);

// (from, to) as members -> ranges.
using Flows = std::map<std::pair<uint32_t, uint32_t>, std::vector<HashRange>>;
// Sorted by (from, to).
std::vector<RangeMove> MovesOf(const Flows& flows, const std::vector<Member>& members);

}  // namespace warmring
