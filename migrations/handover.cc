#include "migrations/handover.h"

#include <utility>

namespace warmring {
namespace {

void Append(const HashRangeSet& from, std::vector<HashRange>& to) {
  const std::vector<HashRange> ranges = from.Ranges();
  to.insert(to.end(), ranges.begin(), ranges.end());
}

std::vector<RangeMove> Reversed(std::vector<RangeMove> moves) {
  for (RangeMove& move : moves) std::swap(move.from, move.to);
  return moves;
}

}  // namespace

std::vector<RangeMove> MovesOfWaves(const Preview& preview, uint32_t first, uint32_t end) {
  std::map<std::pair<NodeId, NodeId>, std::vector<HashRange>> ranges;
  for (const PlannedMove& move : preview.moves) {
    if (move.wave >= first && move.wave < end) Append(move.ranges, ranges[{move.from, move.to}]);
  }
  std::vector<RangeMove> moves;
  for (const auto& [nodes, list] : ranges) {
    moves.push_back({nodes.first, nodes.second, HashRangeSet(list)});
  }
  return moves;
}

std::vector<RangeMove> RemainingMoves(const MigrationRecord& record) {
  return MovesOfWaves(record.preview, record.waves_committed, record.preview.waves);
}

std::vector<RangeMove> CommittedMoves(const MigrationRecord& record) {
  return MovesOfWaves(record.preview, 0, record.waves_committed);
}

std::vector<RangeMove> HandoverMoves(const MigrationRecord& record) {
  switch (record.stage) {
    case Stage::kFencing:
      return MovesOfWaves(record.preview, record.wave, record.wave + 1);
    case Stage::kUndoFencing:
      return Reversed(CommittedMoves(record));
    case Stage::kPlanned:
    case Stage::kWarming:
    case Stage::kVerifying:
    case Stage::kCommitted:
    case Stage::kSoaking:
    case Stage::kSucceeded:
    case Stage::kAborted:
    case Stage::kRolledBack:
    case Stage::kFailed:
      return {};
  }
  return {};
}

std::map<NodeId, HashRangeSet> RangesByDonor(const std::vector<RangeMove>& moves) {
  std::map<NodeId, std::vector<HashRange>> ranges;
  for (const RangeMove& move : moves) Append(move.ranges, ranges[move.from]);
  std::map<NodeId, HashRangeSet> sets;
  for (const auto& [donor, list] : ranges) sets.emplace(donor, HashRangeSet(list));
  return sets;
}

std::map<NodeId, std::vector<RangeMove>> MovesByRecipient(const std::vector<RangeMove>& moves) {
  std::map<NodeId, std::vector<RangeMove>> by_recipient;
  for (const RangeMove& move : moves) by_recipient[move.to].push_back(move);
  return by_recipient;
}

}  // namespace warmring
