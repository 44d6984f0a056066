#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "core/base/hash_range.h"
#include "core/base/ids.h"
#include "core/membership/update.h"
#include "migrations/migration_record.h"

// Which ranges go from whom to whom at a point of a migration, derived from its record. Pure.

namespace warmring {

// Who gives to whom. Enough for most decisions, and much smaller than the ranges.
struct Flow {
  NodeId from;
  NodeId to;
  friend auto operator<=>(const Flow&, const Flow&) = default;
};

// Of waves [first, end): each pair once, sorted, and the same with all that it moves.
std::vector<Flow> FlowsOfWaves(const Preview& preview, uint32_t first, uint32_t end);
std::vector<RangeMove> MovesOfWaves(const Preview& preview, uint32_t first, uint32_t end);

// Waves that are still to be committed: what is being transferred.
std::vector<Flow> RemainingFlows(const MigrationRecord& record);
std::vector<RangeMove> RemainingMoves(const MigrationRecord& record);

// Committed waves, as they were moved.
std::vector<Flow> CommittedFlows(const MigrationRecord& record);

// What is changing hands now, donors first: the wave in Fencing, the committed waves backwards in
// UndoFencing, nothing otherwise.
std::vector<Flow> HandoverFlows(const MigrationRecord& record);
std::vector<RangeMove> HandoverMoves(const MigrationRecord& record);

// Without those whose donor is dead: what is copied, and whose donor is asked.
std::vector<Flow> LiveFlows(const MigrationRecord& record, std::vector<Flow> flows);
bool IsDead(const MigrationRecord& record, const NodeId& node);

std::set<NodeId> DonorsOf(const std::vector<Flow>& flows);
std::set<NodeId> RecipientsOf(const std::vector<Flow>& flows);
std::set<NodeId> NodesOf(const std::vector<Flow>& flows);

std::map<NodeId, HashRangeSet> RangesByDonor(const std::vector<RangeMove>& moves);
std::map<NodeId, std::vector<RangeMove>> MovesByRecipient(const std::vector<RangeMove>& moves);

}  // namespace warmring
