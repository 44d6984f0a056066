#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "core/base/hash_range.h"

namespace warmring {

// The end of bucket `bucket` on a directory of 2^bits buckets. REQUIRES: bits in 1..63.
constexpr HashPoint BucketEnd(uint32_t bits, uint64_t bucket) {
  // For the last bucket the left side wraps to 0, so that its end is 2^64 - 1.
  return ((bucket + 1) << (64 - bits)) - 1;
}

// The compiled form of an ordered list of range ends: hash point -> index of its range, and the
// numbers that belong to that range. One class for both placements. Immutable after Build, any
// thread.
//
//   directory: uniform ends, so that the index is one shift and the numbers are one load.
//   ring:      the top bits of the hash choose a cell of half a cache line, which holds the next 32
//              bits of up to seven ends and the index of the first; a vector comparison counts the
//              ends before the hash. Then the numbers are one load. A cell with more ends, and a
//              hash that agrees with an end in all the bits of the cell, take a slower, exact way.
//
// The `width` numbers of a range lie side by side in one cache line: a preference list costs what
// its first entry costs. They take 16 bits each when all fit, else 32; more than 16 of those take
// two lines, side by side.
class RoutingTable {
 public:
  static constexpr uint32_t kMaxWidth = 32;
  static constexpr size_t kLine = 64;  // bytes of a cache line

  // The numbers of one range. Valid as long as the table.
  class Row {
   public:
    uint32_t operator[](size_t rank) const {
      return narrow_ != nullptr ? narrow_[rank] : wide_[rank];
    }

    // The cache line that holds a number.
    uintptr_t LineOf(size_t rank) const {
      return (narrow_ != nullptr ? reinterpret_cast<uintptr_t>(narrow_ + rank)
                                 : reinterpret_cast<uintptr_t>(wide_ + rank)) /
             kLine;
    }

   private:
    friend class RoutingTable;
    const uint16_t* narrow_ = nullptr;
    const uint32_t* wide_ = nullptr;
  };

  RoutingTable() = default;

  // `values` holds `width` numbers for each range, range after range; none for a table that only
  // finds ranges. Range i is (ends[i-1], ends[i]]; range 0 wraps.
  // REQUIRES: `ends` sorted, unique, not empty, at most 2^30 of them; width at most kMaxWidth;
  // values.size() == width * ends.size().
  static RoutingTable Build(const std::vector<HashPoint>& ends,
                            const std::vector<uint32_t>& values = {}, uint32_t width = 0);

  // A table of the same ends with other numbers. What finds a range is shared with this table, so
  // that only the numbers take time and memory. `values` and `width` as in Build.
  RoutingTable WithValues(const std::vector<uint32_t>& values, uint32_t width) const;

  // A table of the same ends and numbers but for some ranges: `values` holds `width` numbers for
  // each of `ranges`. REQUIRES: `width` that of this table, above 0; `ranges` below the number of
  // ranges; values.size() == width * ranges.size().
  RoutingTable WithRows(const std::vector<uint32_t>& ranges, const std::vector<uint32_t>& values,
                        uint32_t width) const;

  // Finding takes one shift, as on a directory.
  bool is_uniform() const { return uniform_shift_ != 0; }

  // Index of the first end at or clockwise after `h`.
  size_t Find(HashPoint h) const {
    const size_t position = Position(h);
    return position == size_ ? 0 : position;
  }

  // The first number of the range that holds `h`. REQUIRES: built with width above 0.
  uint32_t Value(HashPoint h) const {
    const size_t at = Position(h) << stride_bits_;
    if (is_narrow_) [[likely]] {
      return narrow_[at];
    }
    return wide_[at];
  }

  // The first two numbers of the range that holds `h`. REQUIRES: built with width above 1.
  struct Two {
    uint32_t first;
    uint32_t second;
  };
  Two FirstTwo(HashPoint h) const {
    const size_t at = Position(h) << stride_bits_;
    if (is_narrow_) [[likely]] {
      return {narrow_[at], narrow_[at + 1]};
    }
    return {wide_[at], wide_[at + 1]};
  }

  // Where the first two numbers of every range are, for who asks so often that even to ask what
  // kind of table this is costs too much: those of the range that holds h are rows[(h >> shift) <<
  // stride_bits] and the next. `rows` is null unless finding takes one shift and the numbers 16
  // bits. Valid as long as the table. REQUIRES: built with width above 1.
  struct DirectRows {
    const uint16_t* rows = nullptr;
    uint32_t shift = 0;
    uint32_t stride_bits = 0;

    Two At(HashPoint h) const {
      const uint16_t* const row = rows + (static_cast<size_t>(h >> shift) << stride_bits);
      return {row[0], row[1]};
    }
  };
  DirectRows direct_rows() const {
    if (uniform_shift_ == 0 || !is_narrow_) return {};
    return {narrow_.data(), uniform_shift_, stride_bits_};
  }

  // All numbers of the range that holds `h`. REQUIRES: built with width above 0.
  Row Values(HashPoint h) const { return RowAt(Position(h)); }

  // The numbers of range `index`. REQUIRES: built with width above 0.
  Row RowAt(size_t index) const {
    const size_t at = index << stride_bits_;
    Row row;
    if (is_narrow_) {
      row.narrow_ = narrow_.data() + at;
    } else {
      row.wide_ = wide_.data() + at;
    }
    return row;
  }

  // What the table keeps on the heap, with what it shares.
  size_t MemoryBytes() const;

 private:
  static constexpr uint32_t kCellEnds = 7;
  static constexpr uint32_t kCrowded = uint32_t{1} << 31;
  // Fractions are unsigned, and the vector comparison of SSE2 is signed: they are stored with the
  // sign turned, which keeps the order.
  static constexpr uint32_t kSign = uint32_t{1} << 31;

  // The ends whose top bits are the number of the cell.
  struct alignas(32) Cell {
    int32_t fractions[kCellEnds];  // the next 32 bits of each end; the largest where there is none
    uint32_t first;                // index of its first end; kCrowded: they are in crowded_
  };

  // A row that fits in a line must not lie across two, so the numbers begin where a line does.
  template <typename T>
  struct LineAllocator {
    using value_type = T;
    LineAllocator() = default;
    template <typename U>
    explicit LineAllocator(const LineAllocator<U>&) {}
    T* allocate(size_t n) {
      return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{kLine}));
    }
    void deallocate(T* p, size_t) { ::operator delete (p, std::align_val_t{kLine}); }
    friend bool operator==(const LineAllocator&, const LineAllocator&) { return true; }
  };

  // Find, but one past the last range where Find wraps to range 0: the numbers are stored twice.
  size_t Position(HashPoint h) const {
    if (uniform_shift_ != 0) [[likely]] {
      return static_cast<size_t>(h >> uniform_shift_);
    }
    const Cell& cell = cells_[static_cast<size_t>(h >> cell_shift_)];
    const auto fraction = static_cast<int32_t>(FractionOf(h));
    uint32_t before = 0;
    bool exact = cell.first < kCrowded;
#ifdef __SSE2__
    using Ints __attribute__((vector_size(16))) = int32_t;
    using Floats __attribute__((vector_size(16))) = float;
    Ints low;
    Ints high;
    std::memcpy(&low, &cell, sizeof low);
    std::memcpy(&high, &cell.fractions[4], sizeof high);
    // The last lane is `first` and counts for nothing: bit 7 is set to end the count there.
    const Ints mine = {fraction, fraction, fraction, fraction};
    const auto mask = [](Ints lanes) {
      Floats bits;
      std::memcpy(&bits, &lanes, sizeof bits);
      return static_cast<uint32_t>(__builtin_ia32_movmskps(bits));
    };
    const uint32_t not_before = ~(mask(low < mine) | (mask(high < mine) << 4)) | (1U << kCellEnds);
    before = static_cast<uint32_t>(std::countr_zero(not_before));
    exact = exact && mask((low == mine) | (high == mine)) == 0;
#else
    for (const int32_t end : cell.fractions) {
      before += end < fraction ? 1 : 0;
      exact = exact && end != fraction;
    }
#endif
    if (!exact) [[unlikely]] {
      return PositionInDoubt(h);
    }
    return cell.first + before;
  }
  size_t PositionInDoubt(HashPoint h) const;
  void SetValues(const std::vector<uint32_t>& values, uint32_t width);
  void SetRow(size_t row, const uint32_t* values, uint32_t width);

  uint32_t FractionOf(HashPoint h) const {
    return static_cast<uint32_t>((h << (64 - cell_shift_)) >> 32) ^ kSign;
  }

  uint32_t uniform_shift_ = 0;  // not 0: ends are uniform, range = h >> shift
  uint32_t cell_shift_ = 0;     // 64 - bits of a cell's number
  uint32_t stride_bits_ = 0;    // a row's numbers start at (range << stride_bits_)
  bool is_narrow_ = false;      // the numbers are in narrow_, not in wide_
  size_t size_ = 0;             // ranges
  std::vector<uint16_t, LineAllocator<uint16_t>> narrow_;
  std::vector<uint32_t, LineAllocator<uint32_t>> wide_;
  // What finds a range among ends that are not uniform.
  struct Index {
    std::vector<Cell> cells;
    std::vector<uint32_t> low_bits;  // of each end, to tell apart what agrees in all bits of a cell
    std::vector<HashPoint> crowded;  // the ends of all crowded cells, in order
  };
  const Cell* cells_ = nullptr;         // of index_
  std::shared_ptr<const Index> index_;  // null when uniform
};

}  // namespace warmring
