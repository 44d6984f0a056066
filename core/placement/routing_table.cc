#include "core/placement/routing_table.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <utility>

namespace warmring {
namespace {

// More ends in a cell, on average, and too many cells are crowded; fewer, and cells cost more
// memory than they save time.
constexpr double kMaxEndsPerCell = 3.6;

// The shift for which bucket i ends at ((i + 1) << shift) - 1, or 0 when `ends` are not uniform.
uint32_t UniformShift(const std::vector<HashPoint>& ends) {
  if (ends.size() < 2 || !std::has_single_bit(ends.size())) return 0;
  const auto bits = static_cast<uint32_t>(std::countr_zero(ends.size()));
  for (size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] != BucketEnd(bits, i)) return 0;
  }
  return 64 - bits;
}

// At least one bit, so that shifts stay below 64.
uint32_t CellBits(size_t ends) {
  uint32_t bits = 1;
  while (static_cast<double>(ends) > kMaxEndsPerCell * static_cast<double>(size_t{1} << bits)) {
    ++bits;
  }
  return bits;
}

bool FitNarrow(const std::vector<uint32_t>& values) {
  uint32_t bits = 0;
  for (const uint32_t value : values) bits |= value;
  return bits <= std::numeric_limits<uint16_t>::max();
}

// Rows of `width` numbers, each padded to `stride`, and the first once more after the last.
template <typename Numbers>
void FillRows(const std::vector<uint32_t>& values, size_t width, size_t stride, Numbers& out) {
  using Number = typename Numbers::value_type;
  const size_t rows = values.size() / width;
  out.assign((rows + 1) * stride, Number{0});
  for (size_t row = 0; row <= rows; ++row) {
    const size_t from = row == rows ? 0 : row * width;
    for (size_t rank = 0; rank < width; ++rank) {
      out[row * stride + rank] = static_cast<Number>(values[from + rank]);
    }
  }
}

}  // namespace

void RoutingTable::SetValues(const std::vector<uint32_t>& values, uint32_t width) {
  if (width == 0) return;
  const uint32_t stride = std::bit_ceil(width);
  stride_bits_ = static_cast<uint32_t>(std::countr_zero(stride));
  is_narrow_ = FitNarrow(values);
  if (is_narrow_) {
    FillRows(values, width, stride, narrow_);
  } else {
    FillRows(values, width, stride, wide_);
  }
}

RoutingTable RoutingTable::Build(const std::vector<HashPoint>& ends,
                                 const std::vector<uint32_t>& values, uint32_t width) {
  RoutingTable table;
  table.size_ = ends.size();
  table.uniform_shift_ = UniformShift(ends);
  table.SetValues(values, width);
  if (table.uniform_shift_ != 0) return table;

  auto index = std::make_shared<Index>();
  index->low_bits.resize(ends.size());
  std::transform(ends.begin(), ends.end(), index->low_bits.begin(),
                 [](HashPoint end) { return static_cast<uint32_t>(end); });
  const uint32_t bits = CellBits(ends.size());
  table.cell_shift_ = 64 - bits;
  index->cells.resize(size_t{1} << bits);
  size_t next = 0;
  for (size_t i = 0; i < index->cells.size(); ++i) {
    Cell& cell = index->cells[i];
    std::fill(std::begin(cell.fractions), std::end(cell.fractions),
              std::numeric_limits<int32_t>::max());
    const size_t first = next;
    cell.first = static_cast<uint32_t>(first);
    for (; next < ends.size() && ends[next] >> table.cell_shift_ == i; ++next) {
      if (next - first < kCellEnds) {
        cell.fractions[next - first] = static_cast<int32_t>(table.FractionOf(ends[next]));
      }
    }
    if (next - first > kCellEnds) {
      cell.first |= kCrowded;
      cell.fractions[0] = static_cast<int32_t>(index->crowded.size());
      index->crowded.insert(index->crowded.end(), ends.begin() + static_cast<std::ptrdiff_t>(first),
                            ends.begin() + static_cast<std::ptrdiff_t>(next));
    }
  }
  index->crowded.shrink_to_fit();
  table.cells_ = index->cells.data();
  table.index_ = std::move(index);
  return table;
}

RoutingTable RoutingTable::WithValues(const std::vector<uint32_t>& values, uint32_t width) const {
  RoutingTable table;
  table.size_ = size_;
  table.uniform_shift_ = uniform_shift_;
  table.cell_shift_ = cell_shift_;
  table.cells_ = cells_;
  table.index_ = index_;
  table.SetValues(values, width);
  return table;
}

RoutingTable RoutingTable::WithRows(const std::vector<uint32_t>& ranges,
                                    const std::vector<uint32_t>& values, uint32_t width) const {
  RoutingTable table = *this;
  if (table.is_narrow_ && !FitNarrow(values)) {
    table.wide_.assign(narrow_.begin(), narrow_.end());
    table.narrow_ = {};
    table.is_narrow_ = false;
  }
  for (size_t i = 0; i < ranges.size(); ++i) {
    table.SetRow(ranges[i], &values[i * width], width);
    if (ranges[i] == 0) table.SetRow(size_, &values[i * width], width);
  }
  return table;
}

void RoutingTable::SetRow(size_t row, const uint32_t* values, uint32_t width) {
  const size_t at = row << stride_bits_;
  for (uint32_t rank = 0; rank < width; ++rank) {
    if (is_narrow_) {
      narrow_[at + rank] = static_cast<uint16_t>(values[rank]);
    } else {
      wide_[at + rank] = values[rank];
    }
  }
}

size_t RoutingTable::PositionInDoubt(HashPoint h) const {
  const auto number = static_cast<size_t>(h >> cell_shift_);
  const Cell& cell = cells_[number];
  const std::vector<HashPoint>& crowded = index_->crowded;
  const size_t first = cell.first & ~kCrowded;
  const size_t end =
      number + 1 == index_->cells.size() ? size_ : cells_[number + 1].first & ~kCrowded;
  if (cell.first >= kCrowded) {
    const auto begin = crowded.begin() + cell.fractions[0];
    const auto found = std::lower_bound(begin, begin + static_cast<std::ptrdiff_t>(end - first), h);
    return first + static_cast<size_t>(found - begin);
  }
  // Ends with this very fraction differ from `h`, if at all, in their low 32 bits.
  const auto fraction = static_cast<int32_t>(FractionOf(h));
  size_t position = first;
  while (position < end && cell.fractions[position - first] < fraction) ++position;
  while (position < end && cell.fractions[position - first] == fraction &&
         index_->low_bits[position] < static_cast<uint32_t>(h)) {
    ++position;
  }
  return position;
}

size_t RoutingTable::MemoryBytes() const {
  const size_t numbers =
      narrow_.capacity() * sizeof(uint16_t) + wide_.capacity() * sizeof(uint32_t);
  if (index_ == nullptr) return numbers;
  return numbers + index_->cells.capacity() * sizeof(Cell) +
         index_->low_bits.capacity() * sizeof(uint32_t) +
         index_->crowded.capacity() * sizeof(HashPoint);
}

}  // namespace warmring
