#include "core/placement/directory_board.h"

#include <algorithm>
#include <array>

#include <xxhash.h>

namespace warmring {

Board::Board(uint32_t buckets, uint32_t ranks, std::vector<DirectorySeat> seats,
             std::vector<uint32_t> depths)
    : buckets_(buckets),
      ranks_(ranks),
      seats_(std::move(seats)),
      depths_(std::move(depths)),
      slots_(size_t{buckets} * ranks, kNoSeat),
      fixed_(slots_.size(), 0),
      rank_owned_(seats_.size() * ranks, 0),
      rank_targets_(seats_.size() * ranks, 0) {
  for (const DirectorySeat& seat : seats_) domain_of_.push_back(seat.domain);
  for (uint32_t depth : depths_) max_depth_ = std::max(max_depth_, depth);
}

void Board::Put(uint32_t bucket, uint32_t rank, SeatIndex seat) {
  SeatIndex& slot = slots_[Slot(bucket, rank)];
  if (slot != kNoSeat) {
    --seats_[slot].owned;
    --rank_owned_[RankOf(slot, rank)];
  }
  slot = seat;
  if (slot != kNoSeat) {
    ++seats_[slot].owned;
    ++rank_owned_[RankOf(slot, rank)];
  }
}

void Board::SwapRanks(uint32_t bucket, uint32_t a, uint32_t b) {
  const SeatIndex at_a = At(bucket, a);
  const SeatIndex at_b = At(bucket, b);
  Put(bucket, a, at_b);
  Put(bucket, b, at_a);
}

bool Board::Contains(uint32_t bucket, SeatIndex seat) const {
  const SeatIndex* first = &slots_[Slot(bucket, 0)];
  return std::find(first, first + ranks_, seat) != first + ranks_;
}

uint32_t Board::CountDomain(uint32_t bucket, uint32_t rank, uint32_t domain) const {
  uint32_t count = 0;
  for (uint32_t r = 0; r < ranks_; ++r) {
    const SeatIndex other = At(bucket, r);
    if (r != rank && other != kNoSeat && domain_of_[other] == domain) ++count;
  }
  return count;
}

bool Board::CanHold(uint32_t bucket, uint32_t rank, SeatIndex seat) const {
  const uint32_t domain = domain_of_[seat];
  if (CountDomain(bucket, rank, domain) >= depths_[domain]) return false;
  if (max_depth_ == 1) return true;
  for (uint32_t r = 0; r < ranks_; ++r) {
    if (r != rank && At(bucket, r) == seat) return false;
  }
  return true;
}

BucketOrder::BucketOrder(std::string_view id, uint32_t rank)
    : seed_(XXH3_64bits_withSeed(id.data(), id.size(), rank)) {}

uint64_t BucketOrder::KeyOf(uint32_t bucket) const {
  std::array<unsigned char, 8> bytes{};
  for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<unsigned char>(bucket >> (8 * i));
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed_);
}

std::vector<uint32_t> InCommonOrder(const std::vector<uint32_t>& buckets) {
  const BucketOrder order("", 0);
  std::vector<std::pair<uint64_t, uint32_t>> keyed;
  keyed.reserve(buckets.size());
  for (uint32_t bucket : buckets) keyed.emplace_back(order.KeyOf(bucket), bucket);
  std::sort(keyed.begin(), keyed.end());
  std::vector<uint32_t> ordered;
  ordered.reserve(keyed.size());
  for (const auto& [key, bucket] : keyed) ordered.push_back(bucket);
  return ordered;
}

}  // namespace warmring
