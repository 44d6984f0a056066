#include "migrations/task_list.h"

#include <algorithm>
#include <utility>

#include "migrations/handover.h"

namespace warmring {
namespace {

using TaskLists = std::map<NodeId, std::vector<Task>>;

template <typename Body>
Task MakeTask(const MigrationRecord& record, uint32_t wave, Body body) {
  return {record.id, wave, record.nonce, std::move(body)};
}

std::string AddressOf(const NodeId& node, const Sessions& sessions) {
  const auto it = sessions.find(node);
  if (it == sessions.end() || !it->second.connected) return "";
  return it->second.transfer_address;
}

void AddWarmTasks(const MigrationRecord& record, const Sessions& sessions, TaskLists& tasks) {
  // What is dropped must not be filled again by the same transfer.
  std::map<Flow, HashRangeSet> later;
  for (RangeMove& move : MovesOfWaves(record.preview, record.wave + 1, record.preview.waves)) {
    if (IsCopyVoid(record, move.from)) later[{move.from, move.to}] = std::move(move.ranges);
  }
  for (const auto& [recipient, moves] : MovesByRecipient(RemainingMoves(record))) {
    WarmTask warm;
    warm.limits = record.plan.limits;
    for (const RangeMove& move : moves) {
      if (IsDead(record, move.from)) continue;
      const HashRangeSet ranges =
          IsCopyVoid(record, move.from) ? later[{move.from, move.to}] : move.ranges;
      if (ranges.empty()) continue;
      warm.sources.push_back({move.from, AddressOf(move.from, sessions), ranges});
    }
    if (warm.sources.empty()) continue;
    tasks[recipient].push_back(MakeTask(record, 0, std::move(warm)));
  }
}

void AddVerifyTasks(const MigrationRecord& record, TaskLists& tasks) {
  for (const NodeId& recipient : RecipientsOf(LiveFlows(record, RemainingFlows(record)))) {
    tasks[recipient].push_back(MakeTask(record, 0, VerifyTask{record.plan.strategy.verify_sample}));
  }
}

// REQUIRES: each donor of `terms` is in `moves`.
PrepareTask MakePrepareTask(const MigrationRecord& record, const PrepareTerms& terms,
                            const std::vector<RangeMove>& moves, const Sessions& sessions) {
  PrepareTask task;
  task.mode = terms.mode;
  task.epoch = record.wave_epoch;
  task.limits = record.plan.limits;
  for (const PrepareTerms::Donor& donor : terms.donors) {
    const auto move = std::find_if(moves.begin(), moves.end(), [&](const RangeMove& candidate) {
      return candidate.from == donor.node;
    });
    task.donors.push_back({{donor.node, AddressOf(donor.node, sessions), move->ranges},
                           donor.log_id,
                           donor.watermark});
  }
  return task;
}

// A follower that takes over from a dead owner may keep the copy that it has.
HashRangeSet KeptCopies(const MigrationRecord& record, const NodeId& recipient,
                        const PrepareTask& task) {
  HashRangeSet of_dead;
  if (record.stage != Stage::kFencing || record.preview.follower_changes.empty()) return of_dead;
  for (const PrepareTask::Donor& donor : task.donors) {
    if (IsDead(record, donor.source.donor)) of_dead = of_dead.Union(donor.source.ranges);
  }
  return of_dead.Intersection(
      FollowedUntil(record.preview.follower_changes, record.wave, recipient));
}

void AddHandoverTasks(const MigrationRecord& record, const Reports& reports,
                      const Sessions& sessions, TaskLists& tasks) {
  const std::vector<RangeMove> moves = HandoverMoves(record);
  const Epoch floor(record.wave_epoch.value - 1);
  for (const auto& [donor, ranges] : RangesByDonor(moves)) {
    tasks[donor].push_back(MakeTask(record, record.wave, FenceTask{ranges, floor}));
  }
  for (const auto& [recipient, its_moves] : MovesByRecipient(moves)) {
    for (const PrepareTerms& terms : PrepareTermsOf(record, recipient, reports)) {
      PrepareTask task = MakePrepareTask(record, terms, its_moves, sessions);
      task.kept = KeptCopies(record, recipient, task);
      tasks[recipient].push_back(MakeTask(record, record.wave, std::move(task)));
    }
  }
}

}  // namespace

TaskLists TasksOf(const MigrationRecord& record, const Reports& reports, const Sessions& sessions) {
  TaskLists tasks;
  switch (record.stage) {
    case Stage::kWarming:
      AddWarmTasks(record, sessions, tasks);
      break;
    case Stage::kVerifying:
      AddWarmTasks(record, sessions, tasks);
      AddVerifyTasks(record, tasks);
      break;
    case Stage::kFencing:
      AddWarmTasks(record, sessions, tasks);
      AddHandoverTasks(record, reports, sessions, tasks);
      break;
    case Stage::kCommitted:
      if (!record.abort_requested && !record.undo_requested) {
        AddWarmTasks(record, sessions, tasks);
      }
      break;
    case Stage::kUndoFencing:
      AddHandoverTasks(record, reports, sessions, tasks);
      break;
    case Stage::kPlanned:
    case Stage::kSoaking:
    case Stage::kSucceeded:
    case Stage::kAborted:
    case Stage::kRolledBack:
    case Stage::kFailed:
      break;
  }
  return tasks;
}

}  // namespace warmring
