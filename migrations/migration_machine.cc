#include "migrations/migration_machine.h"

#include <utility>

#include <fmt/format.h>

#include "absl/strings/str_join.h"
#include "core/base/reason.h"
#include "migrations/claims.h"
#include "migrations/conflict.h"
#include "migrations/handover.h"
#include "migrations/step_builder.h"
#include "migrations/task_list.h"

namespace warmring {
namespace {

// So often a transfer is begun again before the migration is given up.
constexpr uint32_t kMaxAttempts = 10;
// A persist that met a conflict is tried again so much later, with what is known then.
const absl::Duration kConflictPause = absl::Milliseconds(50);
// A hand-over that takes longer than this says what it waits for.
const absl::Duration kHandoverPatience = absl::Seconds(1);

// A failover that failed is tried again so much later.
const absl::Duration kFailoverRest = absl::Seconds(1);

constexpr char kAbortedByOperator[] = "aborted by an operator";
constexpr char kPaused[] = "paused by an operator";
constexpr size_t kMaxReasonBytes = 1024;

constexpr uint32_t If(bool holds, Evidence bit) { return holds ? static_cast<uint32_t>(bit) : 0; }

bool IsStopRequested(const MigrationRecord& record) {
  return record.abort_requested || record.undo_requested;
}

bool TakesPart(const Preview& preview, const NodeId& node) {
  return std::any_of(preview.moves.begin(), preview.moves.end(),
                     [&](const PlannedMove& move) { return move.from == node || move.to == node; });
}

// What is closed at one position of a log is closed at every later one: to hear it again from
// further on is nothing new. If it were, two nodes that give to each other would go on for ever:
// each answer would ask the other again.
bool IsRepeat(const std::optional<FenceAck>& known, const FenceAck& ack) {
  return known.has_value() && known->floor == ack.floor && known->log_id == ack.log_id &&
         known->dirty_complete == ack.dirty_complete && known->watermark <= ack.watermark;
}

std::string Text(const absl::Status& status) { return std::string(status.message()); }

std::string Waves(const MigrationRecord& record) {
  return fmt::format("wave {} of {}", record.wave + 1, record.preview.waves);
}

absl::Status NotAllowed(const MigrationRecord& record, std::string_view command,
                        std::string_view way_out) {
  return WithReason(absl::FailedPreconditionError(
                        fmt::format("migration '{}' is {}: {} is not possible: {}", record.id,
                                    StageName(record.stage), command, way_out)),
                    "STAGE_NOT_ALLOWED",
                    {{"migration", record.id}, {"stage", std::string(StageName(record.stage))}});
}

bool IsFailoverRecord(const MigrationRecord& record) { return !record.preview.nodes_dead.empty(); }

bool IsBeingFenced(const MigrationRecord& record) {
  return record.stage == Stage::kFencing || record.stage == Stage::kUndoFencing;
}

absl::Status CheckAbort(const MigrationRecord& record) {
  if (IsFailoverRecord(record) && record.waves_committed > 0) {
    return NotAllowed(record, "abort", "there is nobody to go back to; it goes on until it works");
  }
  if (record.stage == Stage::kSoaking) {
    return NotAllowed(record, "abort", "all is committed; undo it instead");
  }
  if (record.stage == Stage::kUndoFencing) {
    return NotAllowed(record, "abort", "it is being undone already; wait for its end");
  }
  return absl::OkStatus();
}

absl::Status CheckUndo(const MigrationRecord& record) {
  if (IsFailoverRecord(record)) {
    return NotAllowed(record, "undo", "there is nobody to go back to");
  }
  if (record.stage == Stage::kUndoFencing) {
    return NotAllowed(record, "undo", "it is being undone already; wait for its end");
  }
  if (record.stage == Stage::kCommitted || record.stage == Stage::kSoaking) {
    return absl::OkStatus();
  }
  return NotAllowed(record, "undo",
                    record.waves_committed == 0 ? "nothing is committed yet; abort it instead"
                                                : "a wave is being committed; abort it instead");
}

std::string_view CommandName(OperatorCommand command) {
  switch (command) {
    case OperatorCommand::kPromote:
      return "promote";
    case OperatorCommand::kPause:
      return "pause";
    case OperatorCommand::kResume:
      return "resume";
    case OperatorCommand::kAbort:
      return "abort";
    case OperatorCommand::kUndo:
      return "undo";
  }
  return "this command";
}

}  // namespace

std::vector<Floor> Decision::FloorsOf(const NodeId& node) const {
  std::vector<Floor> floors;
  const auto it = tasks.find(node);
  if (it == tasks.end()) return floors;
  for (const Task& task : it->second) {
    if (const auto* fence = std::get_if<FenceTask>(&task.body)) {
      floors.push_back({fence->ranges, fence->floor});
    }
  }
  return floors;
}

MigrationRecord NewMigrationRecord(MigrationId id, std::string author, absl::Time now,
                                   MigrationPlan plan, Preview preview, Id128 nonce) {
  MigrationRecord record;
  record.id = std::move(id);
  record.author = std::move(author);
  record.created = now;
  record.stage_since = now;
  record.plan = std::move(plan);
  record.preview = std::move(preview);
  record.nonce = nonce;
  AddHistory(record, now, fmt::format("submitted by {}", record.author));
  return record;
}

MigrationMachine::MigrationMachine(MigrationRecord record)
    : record_(std::move(record)), draft_(record_) {}

absl::Status MigrationMachine::Check(OperatorCommand command) const {
  if (finished()) {
    return NotAllowed(record_, CommandName(command), "it has ended; submit a new migration");
  }
  switch (command) {
    case OperatorCommand::kPromote:
      if (draft_.awaiting_promotion || draft_.promoted) return absl::OkStatus();
      return NotAllowed(record_, "promote",
                        record_.plan.strategy.await_promotion
                            ? "it does not await promotion yet; wait until it is verified"
                            : "its plan does not ask for promotion");
    case OperatorCommand::kPause:
      return absl::OkStatus();
    case OperatorCommand::kResume:
      if (draft_.paused) return absl::OkStatus();
      return NotAllowed(record_, "resume", "it is not paused");
    case OperatorCommand::kAbort:
      return CheckAbort(record_);
    case OperatorCommand::kUndo:
      return CheckUndo(record_);
  }
  return absl::InvalidArgumentError("unknown command");
}

Decision MigrationMachine::OnEvent(const MachineEvent& event, const MachineView& view) {
  if (!started_) {
    started_ = true;
    stage_entered_ = view.now;
    fence_since_ = view.now;
    SnapshotBeliefs(view);
  }
  ForgetOldIncarnations(view);
  Absorb(event, view);
  Decision decision;
  wake_at_ = Instant::Never();
  if (!persisting_.has_value() && !finished()) {
    decision.persist = Decide(view);
    if (decision.persist.has_value()) persisting_ = decision.persist->next;
  }
  if (!persisting_.has_value()) decision.wake_at = wake_at_;
  decision.tasks = TasksOf(record_, reports_, view.sessions);
  return decision;
}

void MigrationMachine::Absorb(const MachineEvent& event, const MachineView& view) {
  if (const auto* persisted = std::get_if<Persisted>(&event)) {
    if (persisting_.has_value() && persisting_->revision == persisted->revision) {
      AbsorbPersisted(view);
    }
  } else if (std::holds_alternative<PersistConflict>(event)) {
    if (!persisting_.has_value()) return;
    persisting_.reset();
    retry_persist_ = view.now + kConflictPause;
  } else if (const auto* report = std::get_if<TaskReport>(&event)) {
    AbsorbReport(*report, view);
  } else if (const auto* command = std::get_if<OperatorCommand>(&event)) {
    if (!Check(*command).ok()) return;
    commands_.push_back(event);
  } else if (IsToBeApplied(event)) {
    commands_.push_back(event);
  }
  if (persisting_.has_value()) return;
  for (const MachineEvent& due : std::exchange(commands_, {})) {
    if (!finished()) ApplyDue(due, view);
  }
}

bool MigrationMachine::IsToBeApplied(const MachineEvent& event) {
  return std::holds_alternative<ForceFence>(event) || std::holds_alternative<Preempt>(event) ||
         std::holds_alternative<CannotBegin>(event);
}

void MigrationMachine::ApplyDue(const MachineEvent& event, const MachineView& view) {
  if (const auto* command = std::get_if<OperatorCommand>(&event)) {
    ApplyCommand(*command, view);
  } else if (const auto* force = std::get_if<ForceFence>(&event)) {
    ApplyForce(*force, view);
  } else if (const auto* preempt = std::get_if<Preempt>(&event)) {
    ApplyPreemption(*preempt, view);
  } else if (const auto* cannot = std::get_if<CannotBegin>(&event)) {
    if (!record_.queued) return;
    draft_.abort_requested = true;
    draft_.failure = cannot->why;
    draft_changed_ = true;
  }
}

void MigrationMachine::AbsorbPersisted(const MachineView& view) {
  const Stage before = record_.stage;
  const bool new_transfer = record_.nonce != persisting_->nonce;
  const bool expiry_found = record_.evidence != persisting_->evidence;
  record_ = *std::exchange(persisting_, std::nullopt);
  draft_ = record_;
  draft_changed_ = false;
  held_.clear();
  if (new_transfer) {
    reports_.clear();
    seen_.clear();
  }
  if (record_.stage == before) {
    if (expiry_found) fence_since_ = view.now;
    return;
  }
  stage_entered_ = view.now;
  fence_since_ = view.now;
  undo_wanted_.reset();
  SnapshotBeliefs(view);
  if (before == Stage::kUndoFencing && record_.undo_requested) {
    retry_undo_ = view.now + FenceTimeout(view);
  }
}

// Grants from here on carry this wave's floors, so what counts is what was granted before.
void MigrationMachine::SnapshotBeliefs(const MachineView& view) {
  beliefs_.clear();
  if (!IsBeingFenced(record_)) return;
  for (const auto& [node, session] : view.sessions) beliefs_[node] = session.belief_until;
}

void MigrationMachine::AbsorbReport(const TaskReport& report, const MachineView& view) {
  if (report.migration != record_.id || report.nonce != record_.nonce) return;
  if (!TakesPart(record_.preview, report.node)) return;
  const auto session = view.sessions.find(report.node);
  if (session != view.sessions.end() && session->second.incarnation != report.incarnation) return;
  NodeReports& reports = reports_[report.node];
  if (reports.incarnation != report.incarnation) {
    reports = NodeReports();
    reports.incarnation = report.incarnation;
  }
  if (const auto* warm = std::get_if<WarmReport>(&report.body)) {
    reports.warm = *warm;
  } else if (const auto* verify = std::get_if<VerifyReport>(&report.body)) {
    reports.verify = *verify;
  } else if (const auto* fence = std::get_if<FenceAck>(&report.body)) {
    if (!IsRepeat(reports.fence, *fence)) reports.fence = *fence;
  } else if (const auto* prepared = std::get_if<PreparedReport>(&report.body)) {
    reports.prepared[prepared->mode] = *prepared;
  } else if (const auto* failure = std::get_if<TaskFailure>(&report.body)) {
    reports.failure = *failure;
  }
}

// An answer is evidence only while no other session of its node has followed.
void MigrationMachine::ForgetOldIncarnations(const MachineView& view) {
  std::erase_if(reports_, [&](const auto& entry) {
    const auto session = view.sessions.find(entry.first);
    return session != view.sessions.end() &&
           session->second.incarnation != entry.second.incarnation;
  });
}

void MigrationMachine::ApplyCommand(OperatorCommand command, const MachineView& view) {
  switch (command) {
    case OperatorCommand::kPromote:
      if (draft_.promoted) return;
      draft_.awaiting_promotion = false;
      draft_.promoted = true;
      break;
    case OperatorCommand::kPause:
      if (draft_.paused) return;
      draft_.paused = true;
      break;
    case OperatorCommand::kResume:
      if (!draft_.paused) return;
      draft_.paused = false;
      // The time spent in pause does not count against the warm timeout.
      if (draft_.stage == Stage::kWarming || draft_.stage == Stage::kVerifying) {
        draft_.stage_since = view.wall;
        stage_entered_ = view.now;
      }
      break;
    case OperatorCommand::kAbort:
      if (draft_.abort_requested) return;
      draft_.abort_requested = true;
      draft_.failure = kAbortedByOperator;
      break;
    case OperatorCommand::kUndo:
      if (draft_.undo_requested) return;
      draft_.undo_requested = true;
      draft_.attempt = 0;
      draft_.failure = "undone by an operator";
      break;
  }
  draft_changed_ = true;
  AddHistory(draft_, view.wall, fmt::format("{} asked for", CommandName(command)));
}

absl::Status MigrationMachine::Check(const ForceFence& force, const MachineView& view) const {
  constexpr std::string_view kCommand = "force-fence";
  if (finished()) {
    return NotAllowed(record_, kCommand, "it has ended; submit a new migration");
  }
  if (force.reason.empty() || force.reason.size() > kMaxReasonBytes) {
    return WithReason(absl::InvalidArgumentError(fmt::format(
                          "reason: it has {} bytes: say in 1 to {} why '{}' is known to be dead",
                          force.reason.size(), kMaxReasonBytes, Printable(force.node))),
                      "BAD_FIELD");
  }
  if (!IsBeingFenced(record_)) {
    return NotAllowed(record_, kCommand,
                      "nothing is being fenced now; wait until a wave is, or abort it");
  }
  const std::set<NodeId> donors = DonorsOf(HandoverFlows(record_));
  if (!donors.contains(force.node)) {
    return WithReason(
        absl::InvalidArgumentError(fmt::format("node: '{}' gives nothing now: name one of {}",
                                               Printable(force.node), absl::StrJoin(donors, ", "))),
        "BAD_FIELD");
  }
  const std::vector<NodeId> open = OpenDonors(record_, reports_);
  if (std::find(open.begin(), open.end(), force.node) == open.end()) {
    return NotAllowed(record_, kCommand,
                      fmt::format("'{}' is closed already; look at what it waits for", force.node));
  }
  if (record_.forced.size() >= kMaxForced) {
    return NotAllowed(record_, kCommand, "it was forced too often; abort it");
  }
  const absl::Duration left = BeliefIn(force.node, view) - view.now;
  if (left <= absl::ZeroDuration() || force.accept_data_loss) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(fmt::format(
          "migration '{}': the lease of '{}' may hold until {}, for {} more: if it is alive and "
          "clients reach it, it accepts writes so long, which are lost, and two nodes accept "
          "writes for {:.3f}% of hash space: wait, or accept the loss",
          record_.id, force.node,
          absl::FormatTime("%H:%M:%SZ", view.wall + left, absl::UTCTimeZone()),
          absl::FormatDuration(absl::Trunc(left, absl::Milliseconds(1))),
          RangesByDonor(HandoverMoves(record_))[force.node].Share() * 100)),
      "LEASE_MAY_HOLD", {{"migration", record_.id}, {"node", force.node}});
}

// By the grants before the floors went out: an owner takes the floors with any later grant. One
// that has no session was never granted anything.
Instant MigrationMachine::BeliefIn(const NodeId& donor, const MachineView& view) const {
  const auto belief = beliefs_.find(donor);
  return belief == beliefs_.end() ? view.now : belief->second;
}

void MigrationMachine::ApplyForce(const ForceFence& force, const MachineView& view) {
  if (!Check(force, view).ok()) return;
  if (std::any_of(draft_.evidence.begin(), draft_.evidence.end(),
                  [&](const FenceEvidence& known) { return known.donor == force.node; })) {
    return;
  }
  ForcedFence forced;
  forced.donor = force.node;
  forced.author = Printable(force.author, kMaxReasonBytes);
  forced.reason = Printable(force.reason, kMaxReasonBytes);
  forced.time = view.wall;
  forced.wave = record_.wave;
  forced.is_undo = record_.stage == Stage::kUndoFencing;
  forced.lease_left = std::max(absl::ZeroDuration(), BeliefIn(force.node, view) - view.now);
  AddHistory(draft_, view.wall,
             fmt::format("FORCED by {}: {} is taken as dead{}, its recipients start without its "
                         "copy; reason: {}",
                         force.author, force.node,
                         forced.lease_left > absl::ZeroDuration()
                             ? fmt::format(", {} before its lease is over (writes that it accepts "
                                           "until then are lost)",
                                           absl::FormatDuration(forced.lease_left))
                             : "",
                         force.reason));
  draft_.evidence.push_back({force.node, EvidenceKind::kForce, {}, "", 0, false});
  draft_.forced.push_back(std::move(forced));
  draft_changed_ = true;
}

void MigrationMachine::ApplyPreemption(const Preempt& preempt, const MachineView& view) {
  if (!draft_.preempted_by.empty()) return;
  draft_.preempted_by = preempt.by;
  draft_.failure = fmt::format("it makes way for the failover '{}'", preempt.by);
  draft_changed_ = true;
  AddHistory(draft_, view.wall, draft_.failure);
}

// The shortest way to an end that leaves nothing half done: forward where all is committed, back
// where nothing is. In between, what is committed stays: its donors may be what is dead.
std::optional<PersistCommand> MigrationMachine::MakeWay(const MachineView& view) {
  const std::string why = draft_.failure;
  switch (record_.stage) {
    case Stage::kPlanned:
    case Stage::kWarming:
    case Stage::kVerifying:
      return Abort(why, view);
    case Stage::kFencing:
      return Take(record_.waves_committed == 0 ? Step::kAbortFencing : Step::kRetreat, kNoEvidence,
                  why, view);
    case Stage::kCommitted:
    case Stage::kSoaking:  // in part, after an undo that did not work
      if (record_.waves_committed < record_.preview.waves) {
        return Take(Step::kGiveUp, kNoEvidence,
                    fmt::format("{}: {} of {} waves are committed and stay", why,
                                record_.waves_committed, record_.preview.waves),
                    view);
      }
      return record_.stage == Stage::kCommitted ? Take(Step::kStartSoak, kLastWave, why, view)
                                                : Take(Step::kRelease, kSoakOver, why, view);
    case Stage::kUndoFencing:
      return Take(Step::kAbandonUndo, kNoEvidence, why, view);
    case Stage::kSucceeded:
    case Stage::kAborted:
    case Stage::kRolledBack:
    case Stage::kFailed:
      break;
  }
  return std::nullopt;
}

std::optional<PersistCommand> MigrationMachine::Decide(const MachineView& view) {
  if (view.now < retry_persist_) {
    WakeAt(retry_persist_);
    return std::nullopt;
  }
  held_.clear();
  std::optional<PersistCommand> step =
      draft_.preempted_by.empty() ? DecideStage(view) : MakeWay(view);
  if (!step.has_value() && draft_changed_) step = BuildTouch(draft_);
  return step;
}

std::optional<PersistCommand> MigrationMachine::DecideStage(const MachineView& view) {
  switch (record_.stage) {
    case Stage::kPlanned:
      return DecidePlanned(view);
    case Stage::kWarming:
      return DecideWarming(view);
    case Stage::kVerifying:
      return DecideVerifying(view);
    case Stage::kFencing:
      return DecideFencing(view);
    case Stage::kCommitted:
      return DecideCommitted(view);
    case Stage::kSoaking:
      return DecideSoaking(view);
    case Stage::kUndoFencing:
      return DecideUndoFencing(view);
    case Stage::kSucceeded:
    case Stage::kAborted:
    case Stage::kRolledBack:
    case Stage::kFailed:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<PersistCommand> MigrationMachine::Take(Step step, uint32_t evidence, std::string note,
                                                     const MachineView& view) {
  if (!MayTake(record_.stage, step, evidence)) {
    if (held_.empty()) held_ = MissingEvidence(record_.stage, step, evidence);
    return std::nullopt;
  }
  return BuildStep(draft_, step, std::move(note), view);
}

std::optional<PersistCommand> MigrationMachine::Abort(std::string reason, const MachineView& view) {
  return Take(Step::kAbort, kNoEvidence, std::move(reason), view);
}

std::optional<PersistCommand> MigrationMachine::DecidePlanned(const MachineView& view) {
  if (draft_.abort_requested) return Abort(draft_.failure, view);
  if (record_.queued) {
    held_ = "it waits for its turn";
    return std::nullopt;
  }
  const Version head = view.head->version();
  if (const absl::Status fits = CheckStillFits(record_.preview, *view.head); !fits.ok()) {
    if (!IsFailoverRecord(record_)) return Abort("the membership moved on: " + Text(fits), view);
    MigrationRecord next = draft_;
    next.queued = true;
    AddHistory(next, view.wall, "to be planned again: " + Text(fits));
    return BuildTouch(next);
  }
  const bool moves = !record_.preview.moves.empty();
  const Step step = moves ? Step::kPrepare : Step::kSettle;
  PersistCommand first = BuildStep(draft_, step, "", view);
  const absl::StatusOr<Membership::Ptr> applied = Apply(*view.head, *first.update);
  if (!applied.ok()) return Abort("the plan does not fit: " + Text(applied.status()), view);
  if (draft_.paused) {
    held_ = kPaused;
    return std::nullopt;
  }
  if (!moves && !record_.preview.overrides.empty() && EndedOverrides(record_.id, view).empty()) {
    held_ =
        fmt::format("waiting for every node to be connected and to apply version {}", head.value);
    return std::nullopt;
  }
  if (!moves) {
    return Take(step, kPlanChecked,
                fmt::format("nothing moves: version {} has all of it", head.Next().value), view);
  }
  return Take(
      step, kPlanChecked,
      fmt::format("version {} inserts {} boundaries and {} pending moves", head.Next().value,
                  record_.preview.splits.size(), record_.preview.moves.size()),
      view);
}

std::optional<PersistCommand> MigrationMachine::DecideWarming(const MachineView& view) {
  if (draft_.abort_requested) return Abort(kAbortedByOperator, view);
  if (std::string trouble = TransferTrouble(view); !trouble.empty()) {
    return NewAttempt(trouble, view);
  }
  const Claim warmed = AllWarmed(record_, reports_, view.sessions);
  held_ = draft_.paused ? kPaused : warmed.missing;
  if (draft_.paused) return std::nullopt;
  if (warmed.holds) {
    return Take(Step::kStartVerify, kWarmed, "every recipient has caught up with its donors", view);
  }
  const absl::Duration left = record_.plan.strategy.warm_timeout - Elapsed(view);
  if (left <= absl::ZeroDuration()) {
    return Abort(fmt::format("not warm after {}, the warm timeout{}{}",
                             absl::FormatDuration(record_.plan.strategy.warm_timeout),
                             warmed.missing.empty() ? "" : ": ", warmed.missing),
                 view);
  }
  WakeAt(view.now + left);
  return std::nullopt;
}

std::optional<PersistCommand> MigrationMachine::DecideVerifying(const MachineView& view) {
  if (draft_.abort_requested) return Abort(kAbortedByOperator, view);
  if (std::string trouble = TransferTrouble(view); !trouble.empty()) {
    return NewAttempt(trouble, view);
  }
  const Strategy& strategy = record_.plan.strategy;
  const VerifySum sum = SumOfVerification(record_, reports_);
  if (sum.mismatched > strategy.verify_max_mismatch) {
    return Abort(fmt::format("verification failed: {} mismatches of {} keys compared > {} allowed",
                             sum.mismatched, sum.compared, strategy.verify_max_mismatch),
                 view);
  }
  if (sum.done &&
      (draft_.verify_compared != sum.compared || draft_.verify_mismatched != sum.mismatched)) {
    draft_.verify_compared = sum.compared;
    draft_.verify_mismatched = sum.mismatched;
    draft_changed_ = true;
  }
  const bool promoted = !strategy.await_promotion || draft_.promoted;
  if (sum.done && !promoted && !draft_.awaiting_promotion) {
    draft_.awaiting_promotion = true;
    draft_changed_ = true;
    AddHistory(draft_, view.wall, "verified; awaits promotion");
  }
  const Claim warmed = AllWarmed(record_, reports_, view.sessions);
  held_ = draft_.paused               ? kPaused
          : draft_.awaiting_promotion ? "awaiting promotion"
                                      : warmed.missing;
  if (draft_.paused || draft_.awaiting_promotion) return std::nullopt;
  if (RestsAfterFailedWave(view)) return std::nullopt;
  if (sum.done && warmed.holds) {
    return Take(
        Step::kFenceWave,
        If(warmed.holds, kWarmed) | If(sum.done, kVerified) | If(promoted, kPromoted) | kHoldOver,
        fmt::format("verified: {} mismatches of {} keys compared <= {} allowed", sum.mismatched,
                    sum.compared, strategy.verify_max_mismatch),
        view);
  }
  const absl::Duration left = strategy.warm_timeout - Elapsed(view);
  if (left <= absl::ZeroDuration()) {
    return Abort(fmt::format("not verified after {}, the warm timeout{}{}",
                             absl::FormatDuration(strategy.warm_timeout),
                             warmed.missing.empty() ? "" : ": ", warmed.missing),
                 view);
  }
  WakeAt(view.now + left);
  return std::nullopt;
}

// Both hand-overs end the same way: owners change when both proofs are there.
std::optional<PersistCommand> MigrationMachine::HandOver(Step step, const MachineView& view) {
  const Claim closed = DonorsClosed(record_, reports_);
  const Claim ready = RecipientsReady(record_, reports_);
  const Instant patience_ends = stage_entered_ + kHandoverPatience;
  if (view.now >= patience_ends) {
    held_ = closed.holds ? ready.missing : closed.missing;
  } else {
    WakeAt(patience_ends);
  }
  if (!closed.holds || !ready.holds) return std::nullopt;
  std::vector<FenceEvidence> evidence = EvidenceOf(record_, reports_);
  const auto by = [&](EvidenceKind kind) {
    return std::any_of(evidence.begin(), evidence.end(),
                       [kind](const FenceEvidence& fence) { return fence.kind == kind; });
  };
  const bool forced = by(EvidenceKind::kForce);
  const bool expired = by(EvidenceKind::kLease);
  const bool unclean = forced || expired || IsFailoverRecord(record_);
  std::string note = step == Step::kCommitWave
                         ? fmt::format("{} is committed{}", Waves(record_),
                                       forced    ? " by force"
                                       : expired ? " on the expiry of a lease"
                                       : unclean ? " without what its donors had"
                                                 : "")
                         : fmt::format("{} committed waves are undone", record_.waves_committed);
  std::optional<PersistCommand> commit =
      Take(step, If(closed.holds, kDonorsClosed) | If(ready.holds, kRecipientsReady),
           std::move(note), view);
  commit->next.evidence = std::move(evidence);
  commit->next.unclean = commit->next.unclean || unclean;
  return commit;
}

std::optional<PersistCommand> MigrationMachine::DecideFencing(const MachineView& view) {
  if (IsStopRequested(draft_)) return GiveWaveUp(kAbortedByOperator, view);
  if (std::string failure = FailureAmong(NodesOf(HandoverFlows(record_))); !failure.empty()) {
    return GiveWaveUp(fmt::format("{} failed: {}", Waves(record_), failure), view);
  }
  if (auto commit = HandOver(Step::kCommitWave, view)) return commit;
  if (draft_.evidence != record_.evidence) return std::nullopt;  // forced: to be written first
  if (auto passed_over = PassOverExpired(view)) return passed_over;
  const Instant deadline = fence_since_ + FenceTimeout(view);
  if (view.now < deadline) {
    WakeAt(deadline);
    return std::nullopt;
  }
  if (WaitsForLease(view)) return std::nullopt;
  // Nobody serves the range: to begin again would only take longer.
  if (IsFailoverRecord(record_)) return std::nullopt;
  const Claim closed = DonorsClosed(record_, reports_);
  const Claim ready = RecipientsReady(record_, reports_);
  return GiveWaveUp(fmt::format("{} failed: {} within {}, the fence timeout", Waves(record_),
                                closed.holds ? ready.missing : closed.missing,
                                absl::FormatDuration(FenceTimeout(view))),
                    view);
}

// Whether the end of its lease may stand for the acknowledgement of `donor`.
bool MigrationMachine::MayPassOver(const NodeId& donor) const {
  return IsDead(record_, donor) || record_.plan.strategy.fence_policy == FencePolicy::kAckOrLease;
}

// Whether all that is open will be over with a lease. Says until when, and comes back then.
bool MigrationMachine::WaitsForLease(const MachineView& view) {
  const std::vector<NodeId> open = OpenDonors(record_, reports_);
  Instant until = view.now;
  for (const NodeId& donor : open) {
    if (!MayPassOver(donor)) return false;
    until = std::max(until, BeliefIn(donor, view));
  }
  if (open.empty() || until <= view.now) return false;
  const absl::Duration left = until - view.now;
  held_ = fmt::format(
      "{} did not acknowledge the fence: waiting until {}, for {}, for the end of "
      "its lease",
      absl::StrJoin(open, ", "),
      absl::FormatTime("%H:%M:%SZ", view.wall + left, absl::UTCTimeZone()),
      absl::FormatDuration(absl::Ceil(left, absl::Milliseconds(1))));
  WakeAt(until);
  return true;
}

// Every donor that is silent can hold no lease any more, so that nothing can be written there under
// an old epoch; and either it is known to be dead, or it was given its time to answer. This is
// recorded before anybody acts on it, since it decides that recipients drop their copies: a later
// acknowledgement must not bring those back.
std::optional<PersistCommand> MigrationMachine::PassOverExpired(const MachineView& view) {
  const std::vector<NodeId> open = OpenDonors(record_, reports_);
  if (open.empty()) return std::nullopt;
  const Instant deadline = fence_since_ + FenceTimeout(view);
  for (const NodeId& donor : open) {
    if (!MayPassOver(donor)) return std::nullopt;
    const Instant from =
        IsDead(record_, donor) ? BeliefIn(donor, view) : std::max(BeliefIn(donor, view), deadline);
    if (view.now >= from) continue;
    if (IsDead(record_, donor)) WaitsForLease(view);
    WakeAt(from);
    return std::nullopt;
  }
  MigrationRecord next = draft_;
  for (const NodeId& donor : open) {
    next.evidence.push_back({donor, EvidenceKind::kLease, {}, "", 0, false});
  }
  AddHistory(next, view.wall,
             fmt::format("the lease of {} has expired: its recipients start without its copy",
                         absl::StrJoin(open, ", ")));
  return BuildTouch(next);
}

std::optional<PersistCommand> MigrationMachine::GiveWaveUp(std::string reason,
                                                           const MachineView& view) {
  if (auto retry = TryWaveAgain(reason, view)) return retry;
  const Step step = record_.waves_committed == 0 ? Step::kAbortFencing : Step::kRetreat;
  return Take(step, kNoEvidence, std::move(reason), view);
}

// Releases the wave, to commit it later: of itself while it has attempts left, then if somebody
// asks for it, where the plan says so. A failover has nowhere else to go.
std::optional<PersistCommand> MigrationMachine::TryWaveAgain(const std::string& reason,
                                                             const MachineView& view) {
  if (IsStopRequested(draft_)) return std::nullopt;
  const Strategy& strategy = record_.plan.strategy;
  const uint32_t next = record_.wave_attempt + 1;
  const bool again = IsFailoverRecord(record_) || next < strategy.wave_attempts;
  if (!again && strategy.on_wave_failure != WaveFailure::kPause) return std::nullopt;
  std::optional<PersistCommand> release =
      Take(record_.waves_committed == 0 ? Step::kRetryFirst : Step::kRetryWave, kNoEvidence,
           fmt::format("{}; {}", reason,
                       again ? fmt::format("attempt {} follows", next + 1)
                             : "paused: resume tries it again, abort undoes the migration"),
           view);
  release->next.wave_attempt = again ? next : 0;
  release->next.paused = release->next.paused || !again;
  return release;
}

std::optional<PersistCommand> MigrationMachine::DecideCommitted(const MachineView& view) {
  if (IsStopRequested(draft_)) return TryUndo(view);
  if (record_.waves_committed == record_.preview.waves) {
    if (draft_.paused) {
      held_ = kPaused;
      return std::nullopt;
    }
    return Take(Step::kStartSoak, kLastWave,
                fmt::format("all {} waves are committed", record_.preview.waves), view);
  }
  return DecideNextWave(view);
}

std::optional<PersistCommand> MigrationMachine::DecideNextWave(const MachineView& view) {
  if (std::string trouble = TransferTrouble(view); !trouble.empty()) {
    return NewAttempt(trouble, view);
  }
  const Claim warmed = AllWarmed(record_, reports_, view.sessions);
  held_ = draft_.paused ? kPaused : warmed.missing;
  if (!draft_.paused && held_.empty() && !warmed.holds) {
    held_ = fmt::format("waiting for the remaining waves to be warm (transfer attempt {})",
                        record_.attempt + 1);
  }
  if (draft_.paused || !warmed.holds || RestsAfterFailedWave(view)) return std::nullopt;
  const absl::Duration left = record_.plan.strategy.hold - Elapsed(view);
  if (left > absl::ZeroDuration() && !IsFailoverRecord(record_)) {
    WakeAt(view.now + left);
    return std::nullopt;
  }
  // Promotion is asked for once, before the first wave.
  return Take(Step::kFenceWave, If(warmed.holds, kWarmed) | kPromoted | kHoldOver,
              fmt::format("held for {}", absl::FormatDuration(record_.plan.strategy.hold)), view);
}

// Writes that waited for a wave in vain get as long to go through before the next attempt.
bool MigrationMachine::RestsAfterFailedWave(const MachineView& view) {
  if (record_.wave_attempt == 0) return false;
  const absl::Duration rest = IsFailoverRecord(record_) ? kFailoverRest : FenceTimeout(view);
  const absl::Duration left = rest - Elapsed(view);
  if (left <= absl::ZeroDuration()) return false;
  held_ = fmt::format("attempt {} of {} comes in {}", record_.wave_attempt + 1, Waves(record_),
                      absl::FormatDuration(absl::Ceil(left, absl::Milliseconds(1))));
  WakeAt(view.now + left);
  return true;
}

std::optional<PersistCommand> MigrationMachine::TryUndo(const MachineView& view) {
  if (view.now < retry_undo_) {
    held_ = record_.failure;
    WakeAt(retry_undo_);
    return std::nullopt;
  }
  const Claim connected = AllConnected(NodesOf(CommittedFlows(record_)), view.sessions);
  held_ = connected.holds ? "" : "the undo is " + connected.missing;
  if (!connected.holds || WaitsForOwners(view)) return std::nullopt;
  return Take(Step::kFenceUndo, kUndoPossible, draft_.failure, view);
}

// A present owner notes what it changes from the version on that made it the owner. Asked before it
// has that version, it could not say that it has changed nothing yet, and what the others have
// would be dropped. One whose watch stands still is waited for as long as for a fence.
bool MigrationMachine::WaitsForOwners(const MachineView& view) {
  if (!undo_wanted_.has_value()) undo_wanted_ = UndoWanted{view.head->version(), view.now};
  const Instant until = undo_wanted_->since + FenceTimeout(view);
  if (view.now >= until) return false;
  for (const NodeId& owner : RecipientsOf(CommittedFlows(record_))) {
    const Version applied = view.sessions.at(owner).applied_version;
    if (applied >= undo_wanted_->version) continue;
    held_ = fmt::format("the undo waits for {} to apply version {}: it has version {}", owner,
                        undo_wanted_->version.value, applied.value);
    WakeAt(until);
    return true;
  }
  return false;
}

std::optional<PersistCommand> MigrationMachine::DecideSoaking(const MachineView& view) {
  if (IsStopRequested(draft_)) return TryUndo(view);
  const absl::Duration left = record_.plan.strategy.soak - Elapsed(view);
  if (left > absl::ZeroDuration() && !IsFailoverRecord(record_)) {
    WakeAt(view.now + left);
    return std::nullopt;
  }
  if (draft_.paused) {
    held_ = kPaused;
    return std::nullopt;
  }
  return Take(Step::kRelease, kSoakOver,
              fmt::format("soaked for {}", absl::FormatDuration(record_.plan.strategy.soak)), view);
}

std::optional<PersistCommand> MigrationMachine::DecideUndoFencing(const MachineView& view) {
  if (std::string failure = FailureAmong(NodesOf(HandoverFlows(record_))); !failure.empty()) {
    return AbandonUndo(failure, view);
  }
  if (auto commit = HandOver(Step::kCommitUndo, view)) return commit;
  if (draft_.evidence != record_.evidence) return std::nullopt;  // forced: to be written first
  const Instant deadline = fence_since_ + FenceTimeout(view);
  if (view.now < deadline) {
    WakeAt(deadline);
    return std::nullopt;
  }
  const Claim closed = DonorsClosed(record_, reports_);
  const Claim ready = RecipientsReady(record_, reports_);
  return AbandonUndo(
      fmt::format("{} within {}, the fence timeout", closed.holds ? ready.missing : closed.missing,
                  absl::FormatDuration(FenceTimeout(view))),
      view);
}

std::optional<PersistCommand> MigrationMachine::AbandonUndo(const std::string& reason,
                                                            const MachineView& view) {
  const std::string next =
      IsUndoTriedAgain(record_)
          ? fmt::format("attempt {} comes in {}", record_.attempt + 2,
                        absl::FormatDuration(FenceTimeout(view)))
          : fmt::format(
                "that was attempt {}, the last: undo it again, or it stays when it has "
                "soaked",
                record_.attempt + 1);
  return Take(Step::kAbandonUndo, kNoEvidence, fmt::format("the undo failed: {}; {}", reason, next),
              view);
}

// Why the transfer of what is left has to begin afresh; empty when it need not. Remembers which
// incarnations take part in this attempt.
std::string MigrationMachine::TransferTrouble(const MachineView& view) {
  const std::vector<Flow> flows = RemainingFlows(record_);
  std::set<NodeId> nodes = RecipientsOf(flows);
  nodes.merge(DonorsOf(LiveFlows(record_, flows)));
  if (std::string failure = FailureAmong(nodes); !failure.empty()) return failure;
  if (IsFailoverRecord(record_)) return "";  // nothing is copied that could be lost
  for (const NodeId& node : nodes) {
    const auto session = view.sessions.find(node);
    if (session == view.sessions.end() || session->second.incarnation == Incarnation()) continue;
    const auto [seen, fresh] = seen_.emplace(node, session->second.incarnation);
    if (!fresh && seen->second != session->second.incarnation) {
      return fmt::format("{} restarted", node);
    }
  }
  return "";
}

std::string MigrationMachine::FailureAmong(const std::set<NodeId>& nodes) const {
  for (const NodeId& node : nodes) {
    const auto it = reports_.find(node);
    if (it != reports_.end() && it->second.failure.has_value()) {
      return fmt::format("{}: {}", node, Printable(it->second.failure->reason, 300));
    }
  }
  return "";
}

// Begins the transfer of what is left under a fresh nonce, unless that is hopeless by now.
std::optional<PersistCommand> MigrationMachine::NewAttempt(const std::string& reason,
                                                           const MachineView& view) {
  const bool final = std::any_of(reports_.begin(), reports_.end(), [](const auto& entry) {
    return entry.second.failure.has_value() && !entry.second.failure->restart;
  });
  if (!IsFailoverRecord(record_) && (final || record_.attempt + 1 >= kMaxAttempts)) {
    std::string hopeless =
        final ? "the transfer failed: " + reason
              : fmt::format("the transfer failed {} times, last: {}", record_.attempt + 1, reason);
    if (record_.stage != Stage::kCommitted) return Abort(std::move(hopeless), view);
    MigrationRecord next = draft_;
    next.undo_requested = true;
    next.failure = std::move(hopeless);
    AddHistory(next, view.wall, next.failure);
    return BuildTouch(next);
  }
  std::string note = fmt::format("transfer attempt {}: {}", record_.attempt + 2, reason);
  if (record_.stage == Stage::kVerifying) {
    return Take(Step::kRestartWarm, kNoEvidence, std::move(note), view);
  }
  MigrationRecord next = draft_;
  next.nonce = view.fresh_nonce;
  ++next.attempt;
  AddHistory(next, view.wall, std::move(note));
  return BuildTouch(next);
}

// Time in the stage. The clock on the wall carries it over a restart, and only there: it counts
// when it says more.
absl::Duration MigrationMachine::Elapsed(const MachineView& view) const {
  return std::max(view.now - stage_entered_, view.wall - draft_.stage_since);
}

absl::Duration MigrationMachine::FenceTimeout(const MachineView& view) const {
  return record_.plan.strategy.fence_timeout.value_or(2 * view.lease);
}

// A recipient reports one number for all its sources: it is divided by the share of hash space.
MigrationProgress MigrationMachine::Progress() const {
  MigrationProgress progress;
  progress.held = held_;
  bool all_totals_known = true;
  for (const auto& [recipient, moves] :
       MovesByRecipient(MovesOfWaves(record_.preview, 0, record_.preview.waves))) {
    const auto it = reports_.find(recipient);
    WarmReport warm;
    if (it != reports_.end() && it->second.warm.has_value()) warm = *it->second.warm;
    progress.keys_done += warm.keys;
    progress.bytes_done += warm.bytes;
    progress.keys_total += warm.keys_total;
    all_totals_known = all_totals_known && warm.keys_total > 0;
    double whole = 0;
    for (const RangeMove& move : moves) whole += move.ranges.Share();
    for (const RangeMove& move : moves) {
      // Of the planes of overrides it is not known which part of the keys is where.
      const double part =
          whole > 0 ? move.ranges.Share() / whole : 1.0 / static_cast<double>(moves.size());
      progress.transfers.push_back(
          {move.from, recipient, static_cast<uint64_t>(static_cast<double>(warm.keys) * part),
           static_cast<uint64_t>(static_cast<double>(warm.bytes) * part), warm.caught_up});
    }
  }
  if (!all_totals_known) progress.keys_total = 0;
  return progress;
}

}  // namespace warmring
