#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace warmring::demo {

// Ranks 0..n-1 with probability proportional to 1 / (rank + 1)^exponent. Immutable; any thread,
// each with its own generator.
class Zipf {
 public:
  Zipf(uint32_t n, double exponent) : cumulative_(n) {
    double sum = 0;
    for (uint32_t k = 0; k < n; ++k) {
      sum += std::pow(k + 1.0, -exponent);
      cumulative_[k] = sum;
    }
    for (double& c : cumulative_) c /= sum;
  }

  uint32_t Draw(std::mt19937_64& random) const {
    const double u = std::uniform_real_distribution<double>(0, 1)(random);
    const auto it = std::lower_bound(cumulative_.begin(), cumulative_.end(), u);
    return static_cast<uint32_t>(std::min<std::ptrdiff_t>(
        it - cumulative_.begin(), static_cast<std::ptrdiff_t>(cumulative_.size()) - 1));
  }

  double Probability(uint32_t rank) const {
    return rank == 0 ? cumulative_[0] : cumulative_[rank] - cumulative_[rank - 1];
  }

 private:
  std::vector<double> cumulative_;
};

}  // namespace warmring::demo
