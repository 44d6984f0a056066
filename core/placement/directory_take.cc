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

// How choosy a round is about its donors.
enum class Donor : uint8_t {
  kFullest,   // of those in the bucket that could give, none is further above its target
  kSameRank,  // has too much of the rank that is taken
  kAny,       // is above its target
};

// One round of takes. Nobody gets above its target in it, so a bucket whose owner is not above its
// target need not be looked at again.
class TakeRound {
 public:
  TakeRound(Board& board, bool added_only, Donor donor)
      : board_(&board), donor_(donor), candidates_(board.ranks()) {
    for (uint32_t bucket = 0; bucket < board.buckets(); ++bucket) {
      for (uint32_t r = 0; r < board.ranks(); ++r) {
        if (MayGive(bucket, r)) candidates_[r].push_back(bucket);
      }
    }
    for (SeatIndex i = 0; i < board.seats().size(); ++i) {
      if (!board.IsBelow(i) || (added_only && !board.seat(i).added)) continue;
      Taker taker{i, {}};
      for (uint32_t r = 0; r < board.ranks(); ++r) {
        const uint64_t need = board.seat(i).target - board.seat(i).owned;
        taker.orders.emplace_back(BucketOrder(board.seat(i).id, r), candidates_[r],
                                  need / board.ranks());
      }
      takers_.push_back(std::move(taker));
    }
  }

  // Whether anything was taken.
  bool Run() {
    bool taken = false;
    while (!takers_.empty()) {
      std::erase_if(takers_, [&](Taker& taker) {
        if (!TakeOne(taker)) return true;
        taken = true;
        return !board_->IsBelow(taker.seat);
      });
    }
    return taken;
  }

 private:
  struct Taker {
    SeatIndex seat;
    std::vector<OwnOrder> orders;  // by rank
  };

  bool MayGive(uint32_t bucket, uint32_t rank) const {
    const SeatIndex owner = board_->At(bucket, rank);
    return board_->IsAbove(owner) && !board_->IsFixed(bucket, rank) &&
           (donor_ == Donor::kAny || board_->RankExcess(owner, rank) > 0);
  }

  // Where the taker's domain has to get into nearly all buckets, it is late to find that the ones
  // that are left have no owner who can give.
  bool IsFullest(uint32_t bucket, uint32_t rank, SeatIndex taker) const {
    const auto above = [this](SeatIndex i) {
      return static_cast<int64_t>(board_->seat(i).owned) -
             static_cast<int64_t>(board_->seat(i).target);
    };
    const int64_t here = above(board_->At(bucket, rank));
    for (uint32_t r = 0; r < board_->ranks(); ++r) {
      if (r == rank || above(board_->At(bucket, r)) <= here) continue;
      if (!board_->IsFixed(bucket, r) && board_->CanHold(bucket, r, taker)) return false;
    }
    return true;
  }

  // Takes a bucket at the rank that the taker lacks most, or where it finds one.
  bool TakeOne(Taker& taker) {
    std::vector<std::pair<int64_t, uint32_t>> ranks;
    for (uint32_t r = 0; r < board_->ranks(); ++r) {
      const int64_t excess = board_->RankExcess(taker.seat, r);
      if (donor_ == Donor::kAny || excess < 0) ranks.emplace_back(excess, r);
    }
    std::sort(ranks.begin(), ranks.end());
    for (const auto& [excess, rank] : ranks) {
      while (const std::optional<uint32_t> bucket = taker.orders[rank].Next()) {
        if (!MayGive(*bucket, rank) || !board_->CanHold(*bucket, rank, taker.seat)) continue;
        if (donor_ == Donor::kFullest && !IsFullest(*bucket, rank, taker.seat)) continue;
        board_->Put(*bucket, rank, taker.seat);
        return true;
      }
    }
    return false;
  }

  Board* board_;
  Donor donor_;
  std::vector<std::vector<uint32_t>> candidates_;  // by rank
  std::vector<Taker> takers_;
};

bool AnyBelow(const Board& board, bool added_only) {
  for (SeatIndex i = 0; i < board.seats().size(); ++i) {
    if (board.IsBelow(i) && (!added_only || board.seat(i).added)) return true;
  }
  return false;
}

// Breadth-first over "may take a slot of".
class ChainSearch {
 public:
  explicit ChainSearch(Board& board) : board_(&board), dead_(board.seats().size(), false) {}

  // Lets `first` gain one slot at the cost of somebody above its target; false if there is no way.
  bool Run(SeatIndex first) {
    steps_.assign(board_->seats().size(), {});
    std::vector<SeatIndex> queue = {first};
    steps_[first].reached = true;
    for (size_t i = 0; i < queue.size(); ++i) {
      if (const std::optional<SeatIndex> donor = Expand(queue[i], queue)) {
        Apply(*donor);
        return true;
      }
    }
    // Whoever can be reached from here ends here as well.
    for (SeatIndex seat : queue) dead_[seat] = true;
    return false;
  }

  bool IsDead(SeatIndex seat) const { return dead_[seat]; }

 private:
  struct Step {
    bool reached = false;
    SeatIndex taker = Board::kNoSeat;  // who takes this seat's slot
    uint32_t bucket = 0;
    uint32_t rank = 0;
  };

  bool IsOnPath(uint32_t bucket, SeatIndex seat) const {
    while (steps_[seat].taker != Board::kNoSeat) {
      if (steps_[seat].bucket == bucket) return true;
      seat = steps_[seat].taker;
    }
    return false;
  }

  // Adds to the queue whom `taker` may take from; ends at one above its target.
  std::optional<SeatIndex> Expand(SeatIndex taker, std::vector<SeatIndex>& queue) {
    const uint32_t mask = board_->buckets() - 1;
    const auto start = static_cast<uint32_t>(board_->seat(taker).order) & mask;
    for (uint32_t n = 0; n <= mask; ++n) {
      const uint32_t bucket = (start + n) & mask;
      if (board_->Contains(bucket, taker)) continue;
      for (uint32_t r = 0; r < board_->ranks(); ++r) {
        const SeatIndex owner = board_->At(bucket, r);
        if (steps_[owner].reached || dead_[owner] || board_->IsFixed(bucket, r)) continue;
        if (!board_->CanHold(bucket, r, taker) || IsOnPath(bucket, taker)) continue;
        steps_[owner] = {true, taker, bucket, r};
        if (board_->IsAbove(owner)) return owner;
        queue.push_back(owner);
      }
    }
    return std::nullopt;
  }

  // The chain's slots are in different buckets, so each step stays valid whatever the others do.
  void Apply(SeatIndex donor) {
    for (SeatIndex seat = donor; steps_[seat].taker != Board::kNoSeat; seat = steps_[seat].taker) {
      board_->Put(steps_[seat].bucket, steps_[seat].rank, steps_[seat].taker);
    }
  }

  Board* board_;
  std::vector<bool> dead_;
  std::vector<Step> steps_;
};

}  // namespace

void Take(Board& board, bool added_only) {
  for (Donor donor : {Donor::kFullest, Donor::kSameRank, Donor::kAny}) {
    bool taken = true;
    // Who is fullest changes, so a bucket that was passed over may do now.
    while (taken && AnyBelow(board, added_only)) {
      taken = TakeRound(board, added_only, donor).Run() && donor == Donor::kFullest;
    }
  }
}

void Exchange(Board& board) {
  bool moved = true;
  while (moved && AnyBelow(board, false)) {
    moved = false;
    ChainSearch search(board);
    for (SeatIndex i = 0; i < board.seats().size(); ++i) {
      while (board.IsBelow(i) && !search.IsDead(i) && search.Run(i)) moved = true;
    }
  }
}

}  // namespace warmring
