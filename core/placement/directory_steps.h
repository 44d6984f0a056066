#pragma once

#include <cstdint>
#include <vector>

#include "core/placement/directory_board.h"

// The steps of the allocator on a board with targets. Each is deterministic and has the contract
// that directory_allocator.h tells in words.

namespace warmring {

// Fills every empty slot: in the common order of buckets, each rank gets the valid seat with the
// least floor((owned * 2^20 + lot) * 2^24 / target), all of this rank, where lot is the top 20 bits
// of BucketOrderKey(owned, id, rank); ties by order of seats. A domain that needs every bucket that
// is left goes first. Where no valid seat is below its target, the emptiest valid one gets it.
void PlaceForced(Board& board);

// Seats below target take, in turns, the next bucket of their own order (BucketOrderKey at rank 0)
// in which they may have the slot of an owner above its target; of several, that of the one
// furthest above. First round: only ranks that the taker lacks and the owner has too much of.
// Second: any. With `added_only` the seats that were there before take nothing.
void Take(Board& board, bool added_only);

// For each seat still below target, along the shortest chain, each takes a slot of the next.
void Exchange(Board& board);

// Swaps ranks within buckets until each seat holds as many slots of one rank as of another, to
// within one; does nothing if that is so already. Moves no data. Fixed slots may stand in its way.
void BalanceRanks(Board& board);

// Instead of the above when the load of each bucket is known: fills every empty slot, then moves
// the largest buckets that fit from seats above their load target to seats below it.
struct HeatTargets {
  std::vector<uint64_t> of_bucket;
  std::vector<uint64_t> of_seat;  // the load that each seat should have
  uint32_t tolerance_ppm = 0;
};
void PlaceForcedByHeat(Board& board, const HeatTargets& heat);
void MoveByHeat(Board& board, const HeatTargets& heat, bool added_only);

}  // namespace warmring
