#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/e2e/demo/zipf.h"

namespace warmring::demo {

// One key that a cache holds in the steady state of a load.
struct Resident {
  std::string key;
  int ttl_ms = 0;  // what is left of it
};

// The keys that a read-through cache with this time to live would hold under a Zipf load that has
// run for long: key k is present with probability rate·ttl / (1 + rate·ttl), and the rest of its
// life is uniform. Starting from there, the miss rate is steady from the first second.
std::vector<Resident> SteadyState(const Zipf& zipf, uint32_t keys, double reads_per_second,
                                  int ttl_ms, uint64_t seed);

}  // namespace warmring::demo
