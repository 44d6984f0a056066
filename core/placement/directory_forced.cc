#include <algorithm>
#include <functional>
#include <optional>
#include <queue>

#include "core/placement/directory_steps.h"

namespace warmring {
namespace {

// How full the seat was, then the seat: the least is the next to be served. Each slot that a seat
// is to get has a lot between 0 and 1, drawn by hash, which counts for the fullness as if it were
// held already: without it seats would be served in the same order over and over, and meet the same
// few others in all their buckets.
struct Claim {
  uint64_t fullness = 0;
  SeatIndex seat = 0;
  auto operator<=>(const Claim&) const = default;
};

template <typename T>
using MinHeap = std::priority_queue<T, std::vector<T>, std::greater<>>;

// Who is below its target at one rank, by domain. Seats only fill up while this lives, so a claim
// that is out of date is corrected when it comes up.
class RankClaims {
 public:
  RankClaims(const Board& board, uint32_t rank)
      : board_(&board), rank_(rank), of_domain_(board.domains()) {
    for (const DirectorySeat& seat : board.seats()) lots_.emplace_back(seat.id, rank);
    for (SeatIndex i = 0; i < board.seats().size(); ++i) {
      if (const std::optional<Claim> claim = Current(i)) {
        of_domain_[board.seat(i).domain].push(*claim);
      }
    }
    for (uint32_t domain = 0; domain < of_domain_.size(); ++domain) PushFirst(domain);
  }

  // The emptiest seat of any domain that may have the slot.
  std::optional<SeatIndex> Best(uint32_t bucket) {
    std::optional<Claim> best;
    std::vector<uint32_t> passed;
    while (!domains_.empty()) {
      const Claim first = domains_.top();
      if (best.has_value() && *best < first) break;
      const uint32_t domain = board_->seat(first.seat).domain;
      domains_.pop();
      const std::optional<Claim> now = First(domain);
      if (now != first) {
        if (now.has_value()) domains_.push(*now);
        continue;
      }
      passed.push_back(domain);
      const std::optional<Claim> valid = BestIn(domain, bucket);
      if (valid.has_value() && (!best.has_value() || *valid < *best)) best = valid;
    }
    for (uint32_t domain : passed) PushFirst(domain);
    return best.has_value() ? std::optional(best->seat) : std::nullopt;
  }

  // The emptiest seat of this domain that may have the slot.
  std::optional<Claim> BestIn(uint32_t domain, uint32_t bucket) {
    if (board_->CountDomain(bucket, rank_, domain) >= board_->DepthOf(domain)) return std::nullopt;
    std::optional<Claim> best;
    std::vector<Claim> passed;
    while (!best.has_value()) {
      const std::optional<Claim> claim = First(domain);
      if (!claim.has_value()) break;
      if (board_->Contains(bucket, claim->seat)) {
        passed.push_back(*claim);
        of_domain_[domain].pop();
      } else {
        best = claim;
      }
    }
    for (const Claim& claim : passed) of_domain_[domain].push(claim);
    return best;
  }

 private:
  std::optional<Claim> Current(SeatIndex i) const {
    const uint64_t owned = board_->OwnedAt(i, rank_);
    const uint64_t target = board_->TargetAt(i, rank_);
    if (owned >= target || !board_->IsBelow(i)) return std::nullopt;
    const uint64_t lot = lots_[i].KeyOf(static_cast<uint32_t>(owned)) >> 44;
    return Claim{((owned << 20 | lot) << 24) / target, i};
  }

  std::optional<Claim> First(uint32_t domain) {
    MinHeap<Claim>& heap = of_domain_[domain];
    while (!heap.empty()) {
      const Claim first = heap.top();
      const std::optional<Claim> now = Current(first.seat);
      if (now == first) return first;
      heap.pop();
      if (now.has_value()) heap.push(*now);
    }
    return std::nullopt;
  }

  void PushFirst(uint32_t domain) {
    if (const std::optional<Claim> first = First(domain)) domains_.push(*first);
  }

  const Board* board_;
  uint32_t rank_;
  std::vector<BucketOrder> lots_;  // by seat
  std::vector<MinHeap<Claim>> of_domain_;
  MinHeap<Claim> domains_;  // the first of each domain
};

// Tells which domains must be served now because the buckets that are left have no more room for
// them than they need.
class DomainNeeds {
 public:
  DomainNeeds(const Board& board, const std::vector<uint32_t>& holed)
      : board_(&board), left_(holed.size()), claimed_(board.domains(), 0) {
    for (SeatIndex i = 0; i < board.seats().size(); ++i) {
      if (board.IsBelow(i)) {
        claimed_[board.seat(i).domain] += board.seat(i).target - board.seat(i).owned;
      }
    }
    for (uint32_t bucket : holed) Count(bucket, 1);
    Rescan();
  }

  // The domains that must be in this bucket, each as often as it must; most needy first. The bucket
  // no longer counts as one that is left.
  std::vector<uint32_t> Enter(uint32_t bucket) {
    Count(bucket, -1);
    --left_;
    std::vector<uint32_t> due;
    if (largest_ <= left_) return due;
    for (uint32_t domain = 0; domain < claimed_.size(); ++domain) {
      const uint64_t depth = board_->DepthOf(domain);
      const uint64_t lacking = claimed_[domain] - std::min(claimed_[domain], left_ * depth);
      due.insert(due.end(), std::min(lacking, depth), domain);
    }
    Rescan();
    return due;
  }

  void Placed(uint32_t domain) {
    if (claimed_[domain] > 0) --claimed_[domain];
  }

 private:
  void Count(uint32_t bucket, int sign) {
    for (uint32_t r = 0; r < board_->ranks(); ++r) {
      const SeatIndex i = board_->At(bucket, r);
      if (i == Board::kNoSeat) continue;
      uint64_t& claimed = claimed_[board_->seat(i).domain];
      claimed = sign > 0 ? claimed + 1 : claimed - std::min<uint64_t>(claimed, 1);
    }
  }

  // Claims only shrink, so a scan is needed only when the largest one could have become too large.
  void Rescan() {
    largest_ = 0;
    for (uint32_t domain = 0; domain < claimed_.size(); ++domain) {
      largest_ = std::max(largest_, claimed_[domain] / board_->DepthOf(domain) + 1);
    }
  }

  const Board* board_;
  uint64_t left_;  // buckets with an empty slot
  // By domain: slots it needs, plus those it has in buckets that are left.
  std::vector<uint64_t> claimed_;
  uint64_t largest_ = 0;
};

// owned / target as a number that orders exactly like the fraction: two different fractions of
// numbers up to 2^20 differ by at least 2^-40.
uint64_t Fullness(uint64_t owned, uint64_t target) {
  return target == 0 ? UINT64_MAX : (owned << 40) / target;
}

// Nobody that may have the slot is below its target at this rank: the emptiest over all ranks, or
// at last one whose domain is not free.
SeatIndex Fallback(const Board& board, uint32_t bucket, uint32_t rank) {
  SeatIndex best = Board::kNoSeat;
  std::pair<bool, uint64_t> best_key;
  for (SeatIndex i = 0; i < board.seats().size(); ++i) {
    if (board.Contains(bucket, i)) continue;
    const DirectorySeat& seat = board.seat(i);
    const std::pair<bool, uint64_t> key = {!board.CanHold(bucket, rank, i),
                                           Fullness(seat.owned, seat.target)};
    if (best == Board::kNoSeat || key < best_key) {
      best = i;
      best_key = key;
    }
  }
  return best;
}

std::vector<uint32_t> HoledBuckets(const Board& board) {
  std::vector<uint32_t> holed;
  for (uint32_t bucket = 0; bucket < board.buckets(); ++bucket) {
    if (board.Contains(bucket, Board::kNoSeat)) holed.push_back(bucket);
  }
  return InCommonOrder(holed);
}

SeatIndex Choose(const Board& board, uint32_t bucket, uint32_t rank, RankClaims& claims,
                 const std::vector<uint32_t>& due) {
  std::optional<Claim> best;
  for (uint32_t domain : due) {
    const std::optional<Claim> claim = claims.BestIn(domain, bucket);
    if (claim.has_value() && (!best.has_value() || *claim < *best)) best = claim;
  }
  if (best.has_value()) return best->seat;
  if (const std::optional<SeatIndex> seat = claims.Best(bucket)) return *seat;
  return Fallback(board, bucket, rank);
}

}  // namespace

void PlaceForced(Board& board) {
  const std::vector<uint32_t> holed = HoledBuckets(board);
  if (holed.empty()) return;
  DomainNeeds needs(board, holed);
  std::vector<RankClaims> claims;
  for (uint32_t r = 0; r < board.ranks(); ++r) claims.emplace_back(board, r);
  const std::vector<uint32_t> anyone;
  for (uint32_t bucket : holed) {
    std::vector<uint32_t> due = needs.Enter(bucket);
    uint32_t holes = 0;
    for (uint32_t r = 0; r < board.ranks(); ++r) {
      if (board.At(bucket, r) == Board::kNoSeat) ++holes;
    }
    for (uint32_t r = 0; r < board.ranks(); ++r) {
      if (board.At(bucket, r) != Board::kNoSeat) continue;
      // As long as there are more holes than domains that must be served, the rank chooses freely.
      const bool must = due.size() >= holes;
      const SeatIndex seat = Choose(board, bucket, r, claims[r], must ? due : anyone);
      board.Put(bucket, r, seat);
      --holes;
      const uint32_t domain = board.seat(seat).domain;
      needs.Placed(domain);
      const auto served = std::find(due.begin(), due.end(), domain);
      if (served != due.end()) due.erase(served);
    }
  }
}

}  // namespace warmring
