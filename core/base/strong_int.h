#pragma once

#include <compare>
#include <cstdint>
#include <utility>

namespace warmring {

// A 64-bit number that cannot be mixed up with another kind of number. Pure value, any thread.
template <typename Tag>
struct StrongInt {
  uint64_t value = 0;

  constexpr StrongInt() = default;
  constexpr explicit StrongInt(uint64_t v) : value(v) {}

  constexpr StrongInt Next() const { return StrongInt(value + 1); }
  friend constexpr auto operator<=>(StrongInt, StrongInt) = default;

  template <typename H>
  friend H AbslHashValue(H h, StrongInt v) {
    return H::combine(std::move(h), v.value);
  }
};

}  // namespace warmring
