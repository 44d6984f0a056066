#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace warmring::history {

// One operation on a register whose values are numbers.
struct RegisterOp {
  enum class Kind : uint8_t {
    kRead,
    kWrite,
    kMayClear,  // the register becomes kNothing, or stays as it is
  };
  Kind kind = Kind::kRead;
  int64_t t0 = 0;
  int64_t t1 = 0;  // INT64_MAX: it may take effect at any later time, or never
  uint32_t value = 0;
};

// The value of a register that has none.
inline constexpr uint32_t kNothing = 0;

enum class Linearizable : uint8_t { kYes, kNo, kUndecided };

// Is there an order of the operations in which each takes effect at one instant between its times,
// and each read gives what was written last? What the register held in the beginning is not known:
// the first read may give any value that is not among the written ones (or kNothing).
//
// The search of Wing and Gong with the memory of Lowe. A write without an end counts only if a read
// has its value, so that lost answers cost nothing. kUndecided after `max_steps`. Pure.
Linearizable CheckRegister(const std::vector<RegisterOp>& ops, size_t max_steps);

}  // namespace warmring::history
