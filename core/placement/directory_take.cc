#include <algorithm>
#include <optional>

#include "core/placement/directory_steps.h"

namespace warmring {
namespace {

// The candidate buckets in one node's own order, found window by window, so that many takers at
// once cost memory for what they take and not for all buckets each.
class OwnOrder {
 public:
  OwnOrder(BucketOrder order, const std::vector<uint32_t>& candidates, uint64_t expected)
      : order_(order), candidates_(&candidates), expected_(4 * expected + 64) {}

  std::optional<uint32_t> Next() {
    while (at_ == window_.size()) {
      if (exhausted_) return std::nullopt;
      Refill();
    }
    return window_[at_++].second;
  }

 private:
  void Refill() {
    // The last key of this window; at or beyond the end of the space it is the last window.
    const uint64_t width = UINT64_MAX / std::max<uint64_t>(candidates_->size(), 1);
    const bool last = expected_ >= (UINT64_MAX - first_) / width;
    const uint64_t end = last ? UINT64_MAX : first_ + width * expected_;
    window_.clear();
    at_ = 0;
    for (uint32_t bucket : *candidates_) {
      const uint64_t key = order_.KeyOf(bucket);
      if (key >= first_ && key <= end) window_.emplace_back(key, bucket);
    }
    std::sort(window_.begin(), window_.end());
    exhausted_ = last;
    first_ = end + 1;
    expected_ *= 2;
  }

  BucketOrder order_;
  const std::vector<uint32_t>* candidates_;
  uint64_t expected_;
  uint64_t first_ = 0;
  bool exhausted_ = false;
  std::vector<std::pair<uint64_t, uint32_t>> window_;
  size_t at_ = 0;
};

// One round of takes. Nobody gets above its target in it, so a bucket that nobody could give need
// not be looked at again.
class TakeRound {
 public:
  // `same_rank`: only of ranks that the taker lacks and the donor has too much of.
  TakeRound(Board& board, bool added_only, bool same_rank) : board_(&board), same_rank_(same_rank) {
    for (uint32_t bucket = 0; bucket < board.buckets(); ++bucket) {
      for (uint32_t r = 0; r < board.ranks(); ++r) {
        if (!board.IsAbove(board.At(bucket, r))) continue;
        candidates_.push_back(bucket);
        break;
      }
    }
    for (SeatIndex i = 0; i < board.seats().size(); ++i) {
      const DirectorySeat& seat = board.seat(i);
      if (!board.IsBelow(i) || (added_only && !seat.added)) continue;
      takers_.emplace_back(
          i, OwnOrder(BucketOrder(seat.id, 0), candidates_, seat.target - seat.owned));
    }
  }

  void Run() {
    while (!takers_.empty()) {
      std::erase_if(takers_, [this](std::pair<SeatIndex, OwnOrder>& taker) {
        return !TakeOne(taker.first, taker.second) || !board_->IsBelow(taker.first);
      });
    }
  }

 private:
  bool TakeOne(SeatIndex taker, OwnOrder& order) {
    while (const std::optional<uint32_t> bucket = order.Next()) {
      const std::optional<uint32_t> rank = FullestDonor(*bucket, taker);
      if (!rank.has_value()) continue;
      board_->Put(*bucket, *rank, taker);
      return true;
    }
    return false;
  }

  // Of the ranks that may be taken, the one whose owner is furthest above its target. Where the
  // taker's domain has to get into nearly all buckets, it would be late to find that those that are
  // left have no owner who can give.
  std::optional<uint32_t> FullestDonor(uint32_t bucket, SeatIndex taker) const {
    std::optional<uint32_t> best;
    uint64_t best_above = 0;
    for (uint32_t r = 0; r < board_->ranks(); ++r) {
      const DirectorySeat& owner = board_->seat(board_->At(bucket, r));
      if (owner.owned <= owner.target || owner.owned - owner.target <= best_above) continue;
      if (board_->IsFixed(bucket, r) || !board_->CanHold(bucket, r, taker)) continue;
      if (same_rank_ && (board_->RankExcess(taker, r) >= 0 ||
                         board_->RankExcess(board_->At(bucket, r), r) <= 0)) {
        continue;
      }
      best = r;
      best_above = owner.owned - owner.target;
    }
    return best;
  }

  Board* board_;
  bool same_rank_;
  std::vector<uint32_t> candidates_;
  std::vector<std::pair<SeatIndex, OwnOrder>> takers_;
};

bool AnyBelow(const Board& board, bool added_only) {
  for (SeatIndex i = 0; i < board.seats().size(); ++i) {
    if (board.IsBelow(i) && (!added_only || board.seat(i).added)) return true;
  }
  return false;
}

// Moves slots along shortest chains, many chains for one look at who can reach whom: all of the
// same length at a time, as in Dinic's algorithm.
class ChainPhase {
 public:
  explicit ChainPhase(Board& board)
      : board_(&board),
        steps_to_donor_(board.seats().size(), kFar),
        next_bucket_(board.seats().size(), 0) {
    Measure();
  }

  // Whether anything was moved.
  bool Run() {
    bool moved = false;
    for (SeatIndex i = 0; i < board_->seats().size(); ++i) {
      while (board_->IsBelow(i) && steps_to_donor_[i] != kFar && GainOne(i)) moved = true;
    }
    return moved;
  }

 private:
  static constexpr uint32_t kFar = UINT32_MAX;

  // How many takes it needs until somebody above its target pays, for each seat, up to the length
  // with which the first seats below their target get there.
  void Measure() {
    for (SeatIndex i = 0; i < steps_to_donor_.size(); ++i) {
      if (board_->IsAbove(i)) steps_to_donor_[i] = 0;
    }
    bool found = true;
    bool done = false;
    for (uint32_t steps = 1; found && !done; ++steps) {
      found = false;
      for (SeatIndex i = 0; i < steps_to_donor_.size(); ++i) {
        if (steps_to_donor_[i] != kFar || !HasSlotAt(i, steps - 1)) continue;
        steps_to_donor_[i] = steps;
        found = true;
        done = done || board_->IsBelow(i);
      }
    }
  }

  uint32_t BucketFor(SeatIndex taker, uint32_t n) const {
    return (static_cast<uint32_t>(board_->seat(taker).order) + n) & (board_->buckets() - 1);
  }

  // The rank at which `taker` may take this bucket from a seat that far from a donor.
  std::optional<uint32_t> SlotAt(SeatIndex taker, uint32_t bucket, uint32_t steps) const {
    if (board_->Contains(bucket, taker)) return std::nullopt;
    for (uint32_t r = 0; r < board_->ranks(); ++r) {
      const SeatIndex owner = board_->At(bucket, r);
      if (steps_to_donor_[owner] != steps || (steps == 0 && !board_->IsAbove(owner))) continue;
      if (!board_->IsFixed(bucket, r) && board_->CanHold(bucket, r, taker)) return r;
    }
    return std::nullopt;
  }

  bool HasSlotAt(SeatIndex taker, uint32_t steps) const {
    for (uint32_t n = 0; n < board_->buckets(); ++n) {
      if (SlotAt(taker, BucketFor(taker, n), steps).has_value()) return true;
    }
    return false;
  }

  // The buckets of one chain differ, so each of its takes stays valid whatever the others do.
  bool GainOne(SeatIndex taker) {
    const uint32_t steps = steps_to_donor_[taker] - 1;
    while (next_bucket_[taker] < board_->buckets()) {
      const uint32_t bucket = BucketFor(taker, next_bucket_[taker]);
      const bool used = std::find(chain_.begin(), chain_.end(), bucket) != chain_.end();
      const std::optional<uint32_t> rank = used ? std::nullopt : SlotAt(taker, bucket, steps);
      if (!rank.has_value()) {
        ++next_bucket_[taker];
        continue;
      }
      if (steps > 0) {
        const SeatIndex owner = board_->At(bucket, *rank);
        chain_.push_back(bucket);
        const bool paid = GainOne(owner);
        chain_.pop_back();
        if (!paid) {
          steps_to_donor_[owner] = kFar;
          continue;
        }
      }
      board_->Put(bucket, *rank, taker);
      return true;
    }
    return false;
  }

  Board* board_;
  std::vector<uint32_t> steps_to_donor_;  // by seat
  std::vector<uint32_t> next_bucket_;     // by seat, counted from its first
  std::vector<uint32_t> chain_;           // buckets that the present chain takes
};

}  // namespace

void Take(Board& board, bool added_only) {
  for (bool same_rank : {true, false}) {
    if (AnyBelow(board, added_only)) TakeRound(board, added_only, same_rank).Run();
  }
}

void Exchange(Board& board) {
  while (AnyBelow(board, false) && ChainPhase(board).Run()) {
  }
}

}  // namespace warmring
