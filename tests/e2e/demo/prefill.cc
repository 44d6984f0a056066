#include "tests/e2e/demo/prefill.h"

#include <random>

#include "tests/e2e/demo/origin.h"

namespace warmring::demo {

std::vector<Resident> SteadyState(const Zipf& zipf, uint32_t keys, double reads_per_second,
                                  int ttl_ms, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> unit(0, 1);
  std::uniform_int_distribution<int> life(1, ttl_ms);
  std::vector<Resident> residents;
  for (uint32_t k = 0; k < keys; ++k) {
    const double per_life = reads_per_second * zipf.Probability(k) * ttl_ms / 1000.0;
    if (unit(random) < per_life / (1 + per_life)) residents.push_back({KeyName(k), life(random)});
  }
  return residents;
}

}  // namespace warmring::demo
