#pragma once

#include <map>
#include <vector>

#include "core/base/hash_range.h"
#include "core/base/ids.h"
#include "core/membership/update.h"
#include "migrations/migration_record.h"

// Which ranges go from whom to whom at a point of a migration, derived from its record. Pure.

namespace warmring {

// All that waves [first, end) move, one entry per (from, to), sorted.
std::vector<RangeMove> MovesOfWaves(const Preview& preview, uint32_t first, uint32_t end);

// Waves that are still to be committed: what is being transferred.
std::vector<RangeMove> RemainingMoves(const MigrationRecord& record);

// Committed waves as they were moved.
std::vector<RangeMove> CommittedMoves(const MigrationRecord& record);

// What is changing hands now, donors first: the wave in Fencing, the committed waves backwards in
// UndoFencing, nothing otherwise.
std::vector<RangeMove> HandoverMoves(const MigrationRecord& record);

std::map<NodeId, HashRangeSet> RangesByDonor(const std::vector<RangeMove>& moves);
std::map<NodeId, std::vector<RangeMove>> MovesByRecipient(const std::vector<RangeMove>& moves);

}  // namespace warmring
