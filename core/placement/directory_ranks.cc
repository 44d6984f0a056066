#include <cstdlib>
#include <numeric>
#include <optional>

#include "core/placement/directory_steps.h"

namespace warmring {
namespace {

// How many more slots of rank `a` than of rank `b` the seat holds.
int64_t Lean(const Board& board, SeatIndex i, uint32_t a, uint32_t b) {
  return static_cast<int64_t>(board.OwnedAt(i, a)) - static_cast<int64_t>(board.OwnedAt(i, b));
}

bool IsEven(const Board& board) {
  for (SeatIndex i = 0; i < board.seats().size(); ++i) {
    for (uint32_t a = 0; a < board.ranks(); ++a) {
      for (uint32_t b = 0; b < a; ++b) {
        if (std::abs(Lean(board, i, a, b)) > 1) return false;
      }
    }
  }
  return true;
}

bool MaySwap(const Board& board, uint32_t bucket, uint32_t a, uint32_t b) {
  return !board.IsFixed(bucket, a) && !board.IsFixed(bucket, b);
}

// Swaps as long as that lowers the sum of the squares of what each seat holds of each rank.
void SwapWhereBetter(Board& board) {
  bool swapped = true;
  while (swapped) {
    swapped = false;
    for (uint32_t bucket = 0; bucket < board.buckets(); ++bucket) {
      for (uint32_t a = 0; a < board.ranks(); ++a) {
        for (uint32_t b = a + 1; b < board.ranks(); ++b) {
          const int64_t gain =
              Lean(board, board.At(bucket, a), a, b) + Lean(board, board.At(bucket, b), b, a);
          if (gain <= 2 || !MaySwap(board, bucket, a, b)) continue;
          board.SwapRanks(bucket, a, b);
          swapped = true;
        }
      }
    }
  }
}

// For two ranks: shifts one unit of rank `from` along the shortest chain of buckets, from a seat
// that leans to it by two or more, to one that leans to rank `to`. Each bucket has one of each, so
// the seats within reach of the first hold together no more of `from` than of `to`: there always is
// such a one, unless slots are fixed. The sum of the squares falls with each shift.
class RankShift {
 public:
  RankShift(Board& board, uint32_t from, uint32_t to)
      : board_(&board), from_(from), to_(to), first_(board.seats().size() + 1, 0) {
    for (uint32_t bucket = 0; bucket < board.buckets(); ++bucket) {
      ++first_[board.At(bucket, from) + 1];
    }
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    std::vector<uint32_t> at(first_.begin(), first_.end() - 1);
    by_owner_.resize(board.buckets());
    for (uint32_t bucket = 0; bucket < board.buckets(); ++bucket) {
      by_owner_[at[board.At(bucket, from)]++] = bucket;
    }
  }

  bool Run() {
    const size_t seats = board_->seats().size();
    std::vector<std::optional<uint32_t>> through(seats);  // the bucket by which it was reached
    std::vector<bool> reached(seats, false);
    std::vector<SeatIndex> queue;
    for (SeatIndex i = 0; i < seats; ++i) {
      if (Lean(*board_, i, from_, to_) < 2) continue;
      reached[i] = true;
      queue.push_back(i);
    }
    for (size_t n = 0; n < queue.size(); ++n) {
      for (uint32_t k = first_[queue[n]]; k < first_[queue[n] + 1]; ++k) {
        const uint32_t bucket = by_owner_[k];
        const SeatIndex next = board_->At(bucket, to_);
        if (reached[next] || !MaySwap(*board_, bucket, from_, to_)) continue;
        reached[next] = true;
        through[next] = bucket;
        if (Lean(*board_, next, from_, to_) < 0) {
          Apply(next, through);
          return true;
        }
        queue.push_back(next);
      }
    }
    return false;
  }

 private:
  void Apply(SeatIndex last, const std::vector<std::optional<uint32_t>>& through) {
    for (SeatIndex seat = last; through[seat].has_value();) {
      const uint32_t bucket = *through[seat];
      seat = board_->At(bucket, from_);
      board_->SwapRanks(bucket, from_, to_);
    }
  }

  Board* board_;
  uint32_t from_;
  uint32_t to_;
  std::vector<uint32_t> first_;  // by seat, into by_owner_
  std::vector<uint32_t> by_owner_;
};

}  // namespace

void BalanceRanks(Board& board) {
  if (IsEven(board)) return;
  SwapWhereBetter(board);
  bool shifted = true;
  while (shifted && !IsEven(board)) {
    shifted = false;
    for (uint32_t from = 0; from < board.ranks(); ++from) {
      for (uint32_t to = 0; to < board.ranks(); ++to) {
        while (from != to && RankShift(board, from, to).Run()) shifted = true;
      }
    }
  }
}

}  // namespace warmring
