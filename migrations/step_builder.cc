#include "migrations/step_builder.h"

#include <utility>

#include "core/base/mutant.h"
#include "migrations/claims.h"
#include "migrations/handover.h"

namespace warmring {
namespace {

// So that a record fits the store twice in one batch, with what else is in it.
constexpr size_t kMaxHistory = 256;
constexpr size_t kMaxHistoryBytes = 96 * 1024;
constexpr size_t kMaxNoteBytes = 1024;

// Names of the crash points around each persist.
std::string_view FailpointOf(Step step) {
  switch (step) {
    case Step::kPrepare:
    case Step::kSettle:
      return "p2";
    case Step::kStartVerify:
      return "p3";
    case Step::kRestartWarm:
      return "restart";
    case Step::kFenceWave:
      return "p5";
    case Step::kCommitWave:
      return "p6";
    case Step::kStartSoak:
      return "p7";
    case Step::kRelease:
      return "p8";
    case Step::kAbort:
    case Step::kAbortFencing:
    case Step::kRetreat:
    case Step::kAbandonUndo:
      return "pa";
    case Step::kRetryFirst:
    case Step::kRetryWave:
      return "pr";
    case Step::kFenceUndo:
      return "pu5";
    case Step::kCommitUndo:
      return "pu6";
    case Step::kGiveUp:
      return "failed";
  }
  return "";
}

std::vector<Move> PendingMoves(const MigrationRecord& record, uint32_t first, uint32_t end,
                               MovePhase phase) {
  std::vector<Move> moves;
  for (const PlannedMove& move : record.preview.moves) {
    if (move.wave < first || move.wave >= end) continue;
    moves.push_back({record.id, move.wave, move.from, move.to, phase, move.ranges});
  }
  return moves;
}

std::vector<NodeId> AddedIds(const Preview& preview) {
  std::vector<NodeId> ids;
  for (const Node& node : preview.nodes_added) ids.push_back(node.id);
  return ids;
}

// Each donor of the hand-over keeps its ranges, under an epoch above every one that it was fenced
// at.
std::vector<Assignment> KeepWithDonors(const MigrationRecord& record, Epoch epoch) {
  std::vector<Assignment> assignments;
  for (const auto& [donor, ranges] : RangesByDonor(HandoverMoves(record))) {
    const HashRangeSet common = ranges.On(kCommonPlane);
    if (!common.empty()) assignments.push_back({common, donor, epoch});
  }
  return assignments;
}

std::vector<Assignment> GiveToRecipients(const MigrationRecord& record) {
  std::vector<Assignment> assignments;
  for (const RangeMove& move : HandoverMoves(record)) {
    const HashRangeSet common = move.ranges.On(kCommonPlane);
    if (!common.empty()) assignments.push_back({common, move.to, record.wave_epoch});
  }
  return assignments;
}

// The planes of overrides are handed over as a whole: what is put says who has all of it.
std::vector<PutOverride> OverridesBefore(const Preview& preview, Epoch epoch) {
  std::vector<PutOverride> puts;
  for (const OverrideChange& change : preview.overrides) {
    puts.push_back(OverrideBefore(change, epoch));
  }
  return puts;
}

std::vector<PutOverride> OverridesAfter(const Preview& preview, Epoch epoch) {
  std::vector<PutOverride> puts;
  for (const OverrideChange& change : preview.overrides) {
    puts.push_back(OverrideAfter(change, epoch));
  }
  return puts;
}

std::vector<Plane> NewPlanes(const Preview& preview) {
  std::vector<Plane> planes;
  for (const OverrideChange& change : preview.overrides) {
    if (change.is_new) planes.push_back(change.plane);
  }
  return planes;
}

void ReserveEpoch(const MachineView& view, PersistCommand& command) {
  command.reserve_epoch = true;
  command.next.wave_epoch = view.next_epoch;
}

// The reweighted nodes as they are in the head but for the weight. No other change of the keyspace
// runs beside a migration, so the weight before it is the one to go back to.
enum class Weights { kBefore, kAfter };
std::vector<Node> Reweighted(const MigrationRecord& record, const Membership& head,
                             Weights weights) {
  std::vector<Node> nodes;
  for (const Reweight& reweight : record.preview.reweights) {
    const std::optional<NodeIndex> index = head.FindNode(reweight.node);
    if (!index.has_value()) continue;
    nodes.push_back(head.nodes()[*index]);
    nodes.back().weight_milli =
        weights == Weights::kBefore ? reweight.before_milli : reweight.after_milli;
  }
  return nodes;
}

Update PrepareUpdate(const MigrationRecord& record, const Membership& head) {
  Update update;
  update.put_nodes = Reweighted(record, head, Weights::kAfter);
  update.put_nodes.insert(update.put_nodes.end(), record.preview.nodes_added.begin(),
                          record.preview.nodes_added.end());
  update.split_at = record.preview.splits;
  for (const OverrideChange& change : record.preview.overrides) {
    if (change.is_new) update.put_overrides.push_back({change.plane, change.rule, {}, Epoch()});
  }
  update.put_moves = PendingMoves(record, 0, record.preview.waves, MovePhase::kWarming);
  return update;
}

Update CommitUpdate(const MigrationRecord& record) {
  Update update;
  update.assignments = GiveToRecipients(record);
  update.put_followers =
      FollowersAfter(record.preview.follower_changes, record.wave, record.wave + 1);
  update.put_overrides = OverridesAfter(record.preview, record.wave_epoch);
  if (record.preview.nodes_dead.empty()) {
    update.put_moves = PendingMoves(record, record.wave, record.wave + 1, MovePhase::kGrace);
    return update;
  }
  // Nobody is to ask the dead for what is missing.
  update.remove_moves = {record.id};
  update.put_moves =
      PendingMoves(record, record.wave + 1, record.preview.waves, MovePhase::kWarming);
  return update;
}

// Pins change here and not before, so that no way back has to think of them.
Update ReleaseUpdate(const MigrationRecord& record, const MachineView& view) {
  Update update;
  update.put_followers = FollowersAfter(record.preview.follower_changes, record.preview.waves,
                                        record.preview.waves + 1);
  update.remove_moves = {record.id};
  update.remove_overrides = EndedOverrides(record.id, view);
  update.remove_pins = record.preview.pins_removed;
  update.put_pins = record.preview.pins_put;
  update.remove_nodes = record.preview.nodes_removed;
  return update;
}

Update SettleUpdate(const MigrationRecord& record, const MachineView& view) {
  Update update = ReleaseUpdate(record, view);
  update.remove_moves.clear();
  update.put_nodes = Reweighted(record, *view.head, Weights::kAfter);
  return update;
}

// Nothing of the migration is left. (Boundaries that it inserted stay: they change no owner.)
Update WithdrawUpdate(const MigrationRecord& record, const Membership& head,
                      std::vector<Assignment> assignments, std::vector<PutOverride> overrides) {
  Update update;
  update.put_nodes = Reweighted(record, head, Weights::kBefore);
  update.assignments = std::move(assignments);
  update.put_overrides = std::move(overrides);
  update.remove_moves = {record.id};
  update.remove_nodes = AddedIds(record.preview);
  return update;
}

// What is committed stays in grace, what is not will not be.
Update KeepCommittedUpdate(const MigrationRecord& record, Epoch epoch) {
  Update update;
  update.assignments = KeepWithDonors(record, epoch);
  update.put_overrides = OverridesAfter(record.preview, epoch);
  if (record.waves_committed < record.preview.waves) {
    update.remove_moves = {record.id};
    update.put_moves = PendingMoves(record, 0, record.waves_committed, MovePhase::kGrace);
  }
  return update;
}

// The wave is released: its donors go on under a fresh epoch, and what moves still moves.
Update RetryUpdate(const MigrationRecord& record, Epoch epoch) {
  Update update;
  update.assignments = KeepWithDonors(record, epoch);
  update.put_overrides = record.waves_committed == 0 ? OverridesBefore(record.preview, epoch)
                                                     : OverridesAfter(record.preview, epoch);
  return update;
}

// Nothing more happens: what is committed stays, without grace.
Update GiveUpUpdate(const MigrationRecord& record) {
  Update update;
  update.remove_moves = {record.id};
  return update;
}

void FillFence(const MachineView& view, PersistCommand& command) {
  ReserveEpoch(view, command);
  command.next.evidence.clear();
  command.next.awaiting_promotion = false;
}

void FillCommit(const MigrationRecord& record, PersistCommand& command) {
  command.update = CommitUpdate(record);
  command.next.waves_committed = record.wave + 1;
  command.next.wave_attempt = 0;
}

void FillAbort(const MigrationRecord& record, const MachineView& view, PersistCommand& command) {
  if (record.prepared_version == Version()) return;
  command.update = WithdrawUpdate(record, *view.head, {}, {});
  command.update->remove_overrides = NewPlanes(record.preview);
}

void FillAbandonUndo(const MigrationRecord& record, const MachineView& view,
                     PersistCommand& command) {
  ReserveEpoch(view, command);
  command.update = KeepCommittedUpdate(record, command.next.wave_epoch);
  command.next.undo_requested = IsUndoTriedAgain(record);
  ++command.next.attempt;
  command.next.abort_requested = false;
}

void FillStep(const MigrationRecord& record, Step step, const std::string& note,
              const MachineView& view, PersistCommand& command) {
  MigrationRecord& next = command.next;
  switch (step) {
    case Step::kPrepare:
      command.update = PrepareUpdate(record, *view.head);
      next.prepared_version = view.head->version().Next();
      return;
    case Step::kStartVerify:
    case Step::kStartSoak:
      return;
    case Step::kRestartWarm:
      next.nonce = view.fresh_nonce;
      ++next.attempt;
      next.verify_compared = 0;
      next.verify_mismatched = 0;
      next.awaiting_promotion = false;
      return;
    case Step::kFenceWave:
      FillFence(view, command);
      next.wave = record.waves_committed;
      return;
    case Step::kCommitWave:
      FillCommit(record, command);
      return;
    case Step::kRelease:
      command.update = ReleaseUpdate(record, view);
      next.failure.clear();  // of an undo that was given up
      return;
    case Step::kAbort:
      FillAbort(record, view, command);
      next.failure = note;
      return;
    case Step::kAbortFencing:
      next.failure = note;
      if (IsMutant(Mutant::kH)) return FillAbort(record, view, command);
      ReserveEpoch(view, command);
      command.update = WithdrawUpdate(record, *view.head, KeepWithDonors(record, next.wave_epoch),
                                      OverridesBefore(record.preview, next.wave_epoch));
      return;
    case Step::kRetreat:
      ReserveEpoch(view, command);
      command.update = KeepCommittedUpdate(record, next.wave_epoch);
      next.wave = record.waves_committed - 1;
      next.undo_requested = true;
      next.failure = note;
      return;
    case Step::kRetryFirst:
    case Step::kRetryWave:
      ReserveEpoch(view, command);
      command.update = RetryUpdate(record, next.wave_epoch);
      // What was copied is copied again: the donors' logs may have ended meanwhile.
      next.nonce = view.fresh_nonce;
      next.verify_compared = 0;
      next.verify_mismatched = 0;
      next.wave = record.waves_committed == 0 ? 0 : record.waves_committed - 1;
      return;
    case Step::kFenceUndo:
      FillFence(view, command);
      next.nonce = view.fresh_nonce;
      return;
    case Step::kCommitUndo:
      command.update = WithdrawUpdate(record, *view.head, GiveToRecipients(record),
                                      OverridesBefore(record.preview, record.wave_epoch));
      command.update->put_followers =
          FollowersBefore(record.preview.follower_changes, 0, record.waves_committed);
      return;
    case Step::kAbandonUndo:
      FillAbandonUndo(record, view, command);
      next.failure = note;
      return;
    case Step::kGiveUp:
      command.update = GiveUpUpdate(record);
      next.failure = note;
      return;
    case Step::kSettle:
      command.update = SettleUpdate(record, view);
      return;
  }
}

}  // namespace

namespace {

// Notes name nodes, of which there may be thousands.
std::string Shortened(std::string note) {
  constexpr std::string_view kMore = " ...";
  if (note.size() > kMaxNoteBytes) {
    note.resize(kMaxNoteBytes - kMore.size());
    // Not in the middle of a character.
    while (!note.empty() && (static_cast<unsigned char>(note.back()) & 0xc0) == 0x80) {
      note.pop_back();
    }
    note += kMore;
  }
  return note;
}

}  // namespace

std::vector<Plane> EndedOverrides(const MigrationId& migration, const MachineView& view) {
  // While others move, their donors must find keys where they were when they began.
  for (const Move& move : view.head->moves()) {
    if (move.migration != migration) return {};
  }
  for (const Node& node : view.head->nodes()) {
    const auto session = view.sessions.find(node.id);
    const bool knows = session != view.sessions.end() && session->second.connected &&
                       session->second.applied_version >= view.head->version();
    if (!knows) return {};
  }
  std::vector<Plane> ended;
  for (const Override& item : view.head->overrides()) {
    if (item.IsAsHashed()) ended.push_back(item.plane);
  }
  return ended;
}

void AddHistory(MigrationRecord& record, absl::Time time, std::string note) {
  record.history.push_back({record.stage, record.wave, time, Shortened(std::move(note))});
  size_t bytes = 0;
  for (const StageEntry& entry : record.history) bytes += entry.note.size();
  while (record.history.size() > kMaxHistory ||
         (bytes > kMaxHistoryBytes && record.history.size() > 2)) {
    bytes -= record.history[1].note.size();
    record.history.erase(record.history.begin() + 1);
  }
}

PersistCommand BuildStep(const MigrationRecord& record, Step step, std::string note,
                         const MachineView& view) {
  PersistCommand command;
  command.step = step;
  command.next = record;
  command.next.revision = record.revision + 1;
  command.next.stage = FindRule(record.stage, step)->to;
  command.next.stage_since = view.wall;
  command.failpoint = FailpointOf(step);
  FillStep(record, step, note, view, command);
  if (command.update.has_value()) command.next.final_version = view.head->version().Next();
  command.next.failure = Shortened(std::move(command.next.failure));
  AddHistory(command.next, view.wall, std::move(note));
  return command;
}

PersistCommand BuildTouch(const MigrationRecord& record) {
  PersistCommand command;
  command.touch = true;
  command.next = record;
  command.next.revision = record.revision + 1;
  command.failpoint = "touch";
  return command;
}

}  // namespace warmring
