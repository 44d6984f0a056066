#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/ids.h"

// The allocator's working state: a directory under change, with what each node should hold and
// what it does. One thread.

namespace warmring {

// A node, as an index into Board::seats.
using SeatIndex = uint32_t;

struct DirectorySeat {
  NodeId id;
  uint64_t order = 0;  // NodeOrderKey(id); seats are sorted by (order, id)
  uint64_t weight = 1;
  uint32_t domain = 0;
  uint32_t node = 0;   // index in the resulting Directory::nodes
  bool added = false;  // was not in the base
  uint64_t cap = 0;
  uint64_t target = 0;
  uint64_t owned = 0;
};

class Board {
 public:
  static constexpr SeatIndex kNoSeat = UINT32_MAX;

  // All slots are empty. `depths` is by domain: how many ranks of a bucket it may hold.
  // REQUIRES: `seats` sorted by (order, id).
  Board(uint32_t buckets, uint32_t ranks, std::vector<DirectorySeat> seats,
        std::vector<uint32_t> depths);

  uint32_t buckets() const { return buckets_; }
  uint32_t ranks() const { return ranks_; }
  const std::vector<DirectorySeat>& seats() const { return seats_; }
  DirectorySeat& seat(SeatIndex i) { return seats_[i]; }
  const DirectorySeat& seat(SeatIndex i) const { return seats_[i]; }
  uint32_t DepthOf(uint32_t domain) const { return depths_[domain]; }
  uint32_t domains() const { return static_cast<uint32_t>(depths_.size()); }

  SeatIndex At(uint32_t bucket, uint32_t rank) const { return slots_[Slot(bucket, rank)]; }
  // Puts the seat, or nobody, in place of who is there.
  void Put(uint32_t bucket, uint32_t rank, SeatIndex seat);
  // The two ranks of the bucket trade places.
  void SwapRanks(uint32_t bucket, uint32_t a, uint32_t b);

  // A fixed slot is never taken from its owner.
  void Fix(uint32_t bucket, uint32_t rank) { fixed_[Slot(bucket, rank)] = 1; }
  bool IsFixed(uint32_t bucket, uint32_t rank) const { return fixed_[Slot(bucket, rank)] != 0; }

  bool Contains(uint32_t bucket, SeatIndex seat) const;
  // How many ranks of the bucket, other than `rank`, the domain holds.
  uint32_t CountDomain(uint32_t bucket, uint32_t rank, uint32_t domain) const;
  // Whether the seat may have this slot, whoever has it now.
  bool CanHold(uint32_t bucket, uint32_t rank, SeatIndex seat) const;

  bool IsAbove(SeatIndex i) const { return seats_[i].owned > seats_[i].target; }
  bool IsBelow(SeatIndex i) const { return seats_[i].owned < seats_[i].target; }

  uint64_t OwnedAt(SeatIndex i, uint32_t rank) const { return rank_owned_[RankOf(i, rank)]; }
  uint64_t TargetAt(SeatIndex i, uint32_t rank) const { return rank_targets_[RankOf(i, rank)]; }
  const std::vector<uint64_t>& rank_owned() const { return rank_owned_; }
  void SetRankTargets(std::vector<uint64_t> targets) { rank_targets_ = std::move(targets); }
  // Above 0: holds more of this rank than it should.
  int64_t RankExcess(SeatIndex i, uint32_t rank) const {
    return static_cast<int64_t>(OwnedAt(i, rank)) - static_cast<int64_t>(TargetAt(i, rank));
  }

 private:
  size_t Slot(uint32_t bucket, uint32_t rank) const { return size_t{bucket} * ranks_ + rank; }
  size_t RankOf(SeatIndex i, uint32_t rank) const { return size_t{i} * ranks_ + rank; }

  uint32_t buckets_;
  uint32_t ranks_;
  std::vector<DirectorySeat> seats_;
  std::vector<uint32_t> depths_;
  std::vector<uint32_t> domain_of_;
  uint32_t max_depth_ = 1;
  std::vector<SeatIndex> slots_;
  std::vector<uint8_t> fixed_;
  std::vector<uint64_t> rank_owned_;
  std::vector<uint64_t> rank_targets_;
};

// BucketOrderKey for many buckets of one node and rank.
class BucketOrder {
 public:
  BucketOrder(std::string_view id, uint32_t rank);
  uint64_t KeyOf(uint32_t bucket) const;

 private:
  uint64_t seed_;
};

// All buckets, or those given, in the order that belongs to no node: of BucketOrderKey(b, "", 0).
std::vector<uint32_t> InCommonOrder(const std::vector<uint32_t>& buckets);

}  // namespace warmring
