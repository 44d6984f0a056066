#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/hash_range.h"
#include "core/base/ids.h"

namespace warmring {

// Proof that nobody touched a key between a miss and the fill that answers it. A miss takes a
// token; every write, delete or forget bumps the counter of the key's stripe, which voids all
// tokens of the stripe (of 65,536, so that a needless refusal is rare). A token also names the
// owner's incarnation and the range's epoch: a fill never lands in another tenure.
// Not thread-safe.
class FillTokens {
 public:
  static constexpr size_t kStripes = 65'536;

  explicit FillTokens(const Incarnation& incarnation);

  // The token for a miss of a key with this hash, held under this epoch.
  std::string Issue(HashPoint hash, Epoch epoch) const;
  // Whether `token` is what Issue would give now.
  bool IsValid(std::string_view token, HashPoint hash, Epoch epoch) const;
  // Voids the tokens of every key in the stripe of `hash`.
  void Bump(HashPoint hash) { ++(*counters_)[hash % kStripes]; }
  // Voids all tokens.
  void BumpAll();

 private:
  std::string incarnation_;
  std::unique_ptr<std::array<uint64_t, kStripes>> counters_;
};

}  // namespace warmring
