#pragma once

#include <vector>

#include "core/membership/node.h"

// What a change of the nodes would cost elsewhere: the figures beside which a preview shows its
// own. Shares of hash space, 0..1, for people. Pure, any thread. REQUIRES of all: both lists not
// empty, ids unique.

namespace warmring {

// What balanced ownership by weight has to move at least: for one added node its weight's share.
double IdealShare(const std::vector<Node>& before, const std::vector<Node>& after);

// What `hash mod N` would move, where nodes that stay keep their order and added ones come last, in
// the order of `after`. Weights do not count.
double ModuloShare(const std::vector<Node>& before, const std::vector<Node>& after);

// What a plain token ring would move: kPlainRingTokens derived tokens for a node of weight 1 (fewer
// when that would make more than 2^16 in all), no regard to balance.
inline constexpr uint32_t kPlainRingTokens = 160;
double PlainRingShare(const std::vector<Node>& before, const std::vector<Node>& after);

}  // namespace warmring
