#include "migrations/handover.h"

#include <algorithm>
#include <utility>

namespace warmring {
namespace {

void Append(const HashRangeSet& from, std::vector<HashRange>& to) {
  const std::vector<HashRange> ranges = from.Ranges();
  to.insert(to.end(), ranges.begin(), ranges.end());
}

// The waves that change hands in the record's stage, and in which direction.
struct Handover {
  uint32_t first = 0;
  uint32_t end = 0;
  bool backwards = false;
};

Handover HandoverOf(const MigrationRecord& record) {
  switch (record.stage) {
    case Stage::kFencing:
      return {record.wave, record.wave + 1, false};
    case Stage::kUndoFencing:
      return {0, record.waves_committed, true};
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

template <typename Directed>
std::vector<Directed> Turned(std::vector<Directed> list, bool backwards) {
  if (backwards) {
    for (Directed& item : list) std::swap(item.from, item.to);
  }
  return list;
}

}  // namespace

std::vector<Flow> FlowsOfWaves(const Preview& preview, uint32_t first, uint32_t end) {
  std::set<Flow> flows;
  for (const PlannedMove& move : preview.moves) {
    if (move.wave >= first && move.wave < end) flows.insert({move.from, move.to});
  }
  return {flows.begin(), flows.end()};
}

std::vector<RangeMove> MovesOfWaves(const Preview& preview, uint32_t first, uint32_t end) {
  std::map<Flow, std::vector<HashRange>> ranges;
  for (const PlannedMove& move : preview.moves) {
    if (move.wave >= first && move.wave < end) Append(move.ranges, ranges[{move.from, move.to}]);
  }
  std::vector<RangeMove> moves;
  for (const auto& [flow, list] : ranges) {
    moves.push_back({flow.from, flow.to, HashRangeSet(list)});
  }
  return moves;
}

std::vector<Flow> RemainingFlows(const MigrationRecord& record) {
  return FlowsOfWaves(record.preview, record.waves_committed, record.preview.waves);
}

std::vector<RangeMove> RemainingMoves(const MigrationRecord& record) {
  return MovesOfWaves(record.preview, record.waves_committed, record.preview.waves);
}

std::vector<Flow> CommittedFlows(const MigrationRecord& record) {
  return FlowsOfWaves(record.preview, 0, record.waves_committed);
}

std::vector<Flow> HandoverFlows(const MigrationRecord& record) {
  const Handover handover = HandoverOf(record);
  return Turned(FlowsOfWaves(record.preview, handover.first, handover.end), handover.backwards);
}

std::vector<RangeMove> HandoverMoves(const MigrationRecord& record) {
  const Handover handover = HandoverOf(record);
  return Turned(MovesOfWaves(record.preview, handover.first, handover.end), handover.backwards);
}

bool IsDead(const MigrationRecord& record, const NodeId& node) {
  const std::vector<NodeId>& dead = record.preview.nodes_dead;
  return std::binary_search(dead.begin(), dead.end(), node);
}

std::vector<Flow> LiveFlows(const MigrationRecord& record, std::vector<Flow> flows) {
  std::erase_if(flows, [&](const Flow& flow) { return IsDead(record, flow.from); });
  return flows;
}

std::set<NodeId> DonorsOf(const std::vector<Flow>& flows) {
  std::set<NodeId> donors;
  for (const Flow& flow : flows) donors.insert(flow.from);
  return donors;
}

std::set<NodeId> RecipientsOf(const std::vector<Flow>& flows) {
  std::set<NodeId> recipients;
  for (const Flow& flow : flows) recipients.insert(flow.to);
  return recipients;
}

std::set<NodeId> NodesOf(const std::vector<Flow>& flows) {
  std::set<NodeId> nodes = DonorsOf(flows);
  nodes.merge(RecipientsOf(flows));
  return nodes;
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
