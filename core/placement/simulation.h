#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "core/membership/membership.h"
#include "core/membership/update.h"

// What a change of the nodes would do to a placement, worked out in memory and bound to nothing:
// also for what cannot be migrated yet (copies). Pins hold, but for those of nodes that go;
// overrides are left out, since their keys are counted apart. Pure, any thread.

namespace warmring {

struct SimulatedChange {
  std::vector<Node> added;
  std::vector<NodeId> removed;
  std::map<NodeId, uint32_t> weight_milli;  // of nodes that stay
};

struct SimulatedOutcome {
  Membership::Ptr after;
  std::vector<RangeMove> moves;  // of owners
  double moved_share = 0;        // of hash space, owners
  double copied_share = 0;       // data that a node gets and did not have, in copies of hash space
  double ideal_share = 0;        // the least that balance by weight takes (yardstick.h)
  double modulo_share = 0;
  double plain_ring_share = 0;
};

// Errors, InvalidArgument: an added node that is there or is invalid, a removed or re-weighted one
// that is not, or is named twice; no node left; a weight out of bounds; a change of weights on a
// ring, whose tokens are where they are; what PlaceInitially refuses.
absl::StatusOr<SimulatedOutcome> Simulate(const Membership& base, const SimulatedChange& change);

// How one node stands. Shares are of hash space, 0..1.
struct NodeBalance {
  NodeIndex node = 0;
  double owned = 0;
  double ideal = 0;     // by weight
  double followed = 0;  // copies beside the owner's: up to replication - 1
  size_t ranges = 0;    // owned
};
struct Balance {
  std::vector<NodeBalance> nodes;  // in order of the membership's
  double max_over_mean = 0;        // of owned / ideal
  double min_over_mean = 0;
};
Balance BalanceOf(const Membership& membership);

}  // namespace warmring
