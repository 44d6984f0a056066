#pragma once

#include <cstdint>
#include <string>
#include <vector>

// What a change costs a client that has a membership already, beside making the next membership
// anew.

namespace warmring::bench {

struct DeltaCost {
  std::string placement;
  std::string change;
  uint64_t ranges = 0;
  double apply_s = 0;    // ApplyDelta
  double rebuild_s = 0;  // Membership::Create of the same fields
};

// `quick`: small memberships, once.
std::vector<DeltaCost> MeasureDeltas(bool quick);

}  // namespace warmring::bench
