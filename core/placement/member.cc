#include "core/placement/member.h"

#include <algorithm>

#include "core/hashing/key_hash.h"

namespace warmring {

Member MemberOf(const Node& node) { return {&node, NodeOrderKey(node.id)}; }

std::vector<RangeMove> MovesOf(const Flows& flows, const std::vector<Member>& members) {
  std::vector<RangeMove> moves;
  for (const auto& [pair, ranges] : flows) {
    moves.push_back(
        {members[pair.first].node->id, members[pair.second].node->id, HashRangeSet(ranges)});
  }
  std::sort(moves.begin(), moves.end(), [](const RangeMove& a, const RangeMove& b) {
    return std::tie(a.from, a.to) < std::tie(b.from, b.to);
  });
  return moves;
}

}  // namespace warmring
