#include <algorithm>
#include <optional>
#include <tuple>

#include "core/base/hash_range.h"
#include "core/placement/directory_steps.h"

namespace warmring {
namespace {

using Wide = HashMeasure;

std::vector<uint64_t> LoadsOf(const Board& board, const HeatTargets& heat) {
  std::vector<uint64_t> loads(board.seats().size(), 0);
  for (uint32_t bucket = 0; bucket < board.buckets(); ++bucket) {
    for (uint32_t r = 0; r < board.ranks(); ++r) {
      const SeatIndex seat = board.At(bucket, r);
      if (seat != Board::kNoSeat) loads[seat] += heat.of_bucket[bucket];
    }
  }
  return loads;
}

// The valid seat with the least load for its target.
SeatIndex Emptiest(const Board& board, const HeatTargets& heat, const std::vector<uint64_t>& loads,
                   uint32_t bucket, uint32_t rank) {
  SeatIndex best = Board::kNoSeat;
  bool best_blocked = false;
  for (SeatIndex i = 0; i < loads.size(); ++i) {
    if (board.Contains(bucket, i)) continue;
    const bool blocked =
        !board.CanHold(bucket, rank, i) || board.seat(i).owned >= board.seat(i).cap;
    const bool better = best == Board::kNoSeat ||
                        (blocked != best_blocked ? best_blocked
                                                 : Wide{loads[i]} * heat.of_seat[best] <
                                                       Wide{loads[best]} * heat.of_seat[i]);
    if (!better) continue;
    best = i;
    best_blocked = blocked;
  }
  return best;
}

class HeatMover {
 public:
  HeatMover(Board& board, const HeatTargets& heat, bool added_only)
      : board_(&board),
        heat_(&heat),
        added_only_(added_only),
        loads_(LoadsOf(board, heat)),
        held_(loads_.size()),
        stuck_(loads_.size(), false) {
    for (uint32_t bucket = 0; bucket < board.buckets(); ++bucket) {
      for (uint32_t r = 0; r < board.ranks(); ++r) {
        if (board.IsFixed(bucket, r) || heat.of_bucket[bucket] == 0) continue;
        held_[board.At(bucket, r)].push_back({heat.of_bucket[bucket], bucket, r});
      }
    }
    for (std::vector<Held>& held : held_) std::sort(held.begin(), held.end());
  }

  void Run() {
    while (const std::optional<SeatIndex> seat = Worst()) {
      if (!(Excess(*seat) > 0 ? GiveOne(*seat) : GetOne(*seat))) stuck_[*seat] = true;
    }
  }

 private:
  struct Held {
    uint64_t heat = 0;
    uint32_t bucket = 0;
    uint32_t rank = 0;
    auto operator<=>(const Held&) const = default;
  };

  int64_t Excess(SeatIndex i) const {
    return static_cast<int64_t>(loads_[i]) - static_cast<int64_t>(heat_->of_seat[i]);
  }
  bool MayGet(SeatIndex i) const {
    return Excess(i) < 0 && (!added_only_ || board_->seat(i).added) &&
           board_->seat(i).owned < board_->seat(i).cap;
  }

  // The seat furthest above its target beyond the tolerance; if there is none, furthest below it.
  std::optional<SeatIndex> Worst() const {
    std::optional<SeatIndex> worst;
    for (bool above : {true, false}) {
      int64_t distance = 0;
      for (SeatIndex i = 0; i < loads_.size(); ++i) {
        const int64_t here = above ? Excess(i) : -Excess(i);
        if (stuck_[i] || here <= distance || (!above && !MayGet(i))) continue;
        if (Wide{static_cast<uint64_t>(here)} * 1'000'000 <=
            Wide{heat_->of_seat[i]} * heat_->tolerance_ppm) {
          continue;
        }
        worst = i;
        distance = here;
      }
      if (worst.has_value()) return worst;
    }
    return std::nullopt;
  }

  // Seats that pass the test, by sign * excess, largest first.
  template <typename Test>
  std::vector<SeatIndex> Partners(int64_t sign, Test&& test) const {
    std::vector<std::pair<int64_t, SeatIndex>> keyed;
    for (SeatIndex i = 0; i < loads_.size(); ++i) {
      if (sign * Excess(i) > 0 && test(i)) keyed.emplace_back(-sign * Excess(i), i);
    }
    std::sort(keyed.begin(), keyed.end());
    std::vector<SeatIndex> partners;
    for (const auto& [key, i] : keyed) partners.push_back(i);
    return partners;
  }

  bool GiveOne(SeatIndex from) {
    for (SeatIndex to : Partners(-1, [this](SeatIndex i) { return MayGet(i); })) {
      if (MoveOne(from, to)) return true;
    }
    return false;
  }

  bool GetOne(SeatIndex to) {
    for (SeatIndex from : Partners(1, [](SeatIndex) { return true; })) {
      if (MoveOne(from, to)) return true;
    }
    return false;
  }

  // The largest bucket that neither takes `from` below nor `to` above its target; if there is none,
  // the smallest that still brings the two nearer to their targets.
  bool MoveOne(SeatIndex from, SeatIndex to) {
    const auto excess = static_cast<uint64_t>(Excess(from));
    const auto deficit = static_cast<uint64_t>(-Excess(to));
    std::vector<Held>& held = held_[from];
    const auto first_over =
        std::upper_bound(held.begin(), held.end(), std::min(excess, deficit),
                         [](uint64_t limit, const Held& entry) { return limit < entry.heat; });
    for (auto at = first_over; at != held.begin();) {
      --at;
      if (board_->CanHold(at->bucket, at->rank, to)) return Move(from, to, at);
    }
    for (auto at = first_over; at != held.end() && at->heat < excess + deficit; ++at) {
      if (board_->CanHold(at->bucket, at->rank, to)) return Move(from, to, at);
    }
    return false;
  }

  bool Move(SeatIndex from, SeatIndex to, std::vector<Held>::iterator at) {
    const Held moved = *at;
    held_[from].erase(at);
    held_[to].insert(std::lower_bound(held_[to].begin(), held_[to].end(), moved), moved);
    board_->Put(moved.bucket, moved.rank, to);
    loads_[from] -= moved.heat;
    loads_[to] += moved.heat;
    return true;
  }

  Board* board_;
  const HeatTargets* heat_;
  bool added_only_;
  std::vector<uint64_t> loads_;
  std::vector<std::vector<Held>> held_;  // by seat, ascending
  std::vector<bool> stuck_;
};

}  // namespace

void PlaceForcedByHeat(Board& board, const HeatTargets& heat) {
  std::vector<uint32_t> holed;
  for (uint32_t bucket = 0; bucket < board.buckets(); ++bucket) {
    if (board.Contains(bucket, Board::kNoSeat)) holed.push_back(bucket);
  }
  holed = InCommonOrder(holed);
  std::stable_sort(holed.begin(), holed.end(), [&heat](uint32_t a, uint32_t b) {
    return heat.of_bucket[a] > heat.of_bucket[b];
  });
  std::vector<uint64_t> loads = LoadsOf(board, heat);
  for (uint32_t bucket : holed) {
    for (uint32_t r = 0; r < board.ranks(); ++r) {
      if (board.At(bucket, r) != Board::kNoSeat) continue;
      const SeatIndex seat = Emptiest(board, heat, loads, bucket, r);
      board.Put(bucket, r, seat);
      loads[seat] += heat.of_bucket[bucket];
    }
  }
}

void MoveByHeat(Board& board, const HeatTargets& heat, bool added_only) {
  HeatMover(board, heat, added_only).Run();
}

}  // namespace warmring
