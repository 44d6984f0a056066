#include "core/placement/routing_table.h"

#include <bit>

namespace warmring {
namespace {

// The shift for which bucket i ends at ((i + 1) << shift) - 1, or 0 when `ends` are not uniform.
uint32_t UniformShift(const std::vector<HashPoint>& ends) {
  if (ends.size() < 2 || !std::has_single_bit(ends.size())) return 0;
  const auto bits = static_cast<uint32_t>(std::countr_zero(ends.size()));
  for (size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] != BucketEnd(bits, i)) return 0;
  }
  return 64 - bits;
}

}  // namespace

RoutingTable RoutingTable::Build(const std::vector<HashPoint>& ends) {
  RoutingTable table;
  table.uniform_shift_ = UniformShift(ends);
  if (table.uniform_shift_ != 0) return table;
  table.ends_ = ends;
  // At least two cells per range keeps the scan short; at least 2 cells keeps the shift below 64.
  const uint32_t bits = static_cast<uint32_t>(std::bit_width(ends.size())) + 1;
  table.index_shift_ = 64 - bits;
  table.index_.resize(size_t{1} << bits);
  size_t next = 0;
  for (size_t cell = 0; cell < table.index_.size(); ++cell) {
    const HashPoint first = static_cast<HashPoint>(cell) << table.index_shift_;
    while (next < ends.size() && ends[next] < first) ++next;
    table.index_[cell] = static_cast<uint32_t>(next);
  }
  return table;
}

}  // namespace warmring
