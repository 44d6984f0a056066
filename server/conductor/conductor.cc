#include "server/conductor/conductor.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "core/base/mutant.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/membership/encoding.h"
#include "migrations/conflict.h"
#include "server/executor/failpoint.h"
#include "server/store/schema/key.h"
#include "server/store/schema/migration_codec.h"

namespace warmring {
namespace {

// What a snapshot keeps of a record: the figures of an ended one, without its megabytes of ranges.
MigrationSnapshotPtr MakeSnapshot(const MigrationRecord& record, MigrationProgress progress) {
  auto snapshot = std::make_shared<MigrationSnapshot>();
  snapshot->record = record;
  snapshot->progress = std::move(progress);
  if (IsTerminal(record.stage)) {
    for (PlannedMove& move : snapshot->record.preview.moves) move.ranges = HashRangeSet();
    for (Change& change : snapshot->record.plan.changes) {
      if (auto* rebalance = std::get_if<Rebalance>(&change)) rebalance->bucket_load.clear();
    }
    snapshot->record.preview.splits.clear();
  }
  return snapshot;
}

absl::Status NoSuchMigration(const KeyspaceId& keyspace, const MigrationId& id) {
  return WithReason(
      absl::NotFoundError(fmt::format(
          "migration: keyspace '{}' has no migration '{}': list them with ListMigrations", keyspace,
          Printable(id))),
      "NOT_FOUND");
}

absl::Status InProgress(const MigrationId& active) {
  return WithReason(
      absl::AbortedError(fmt::format("migration '{}' has not ended, and this goes beside none: "
                                     "wait for it, or abort it",
                                     active)),
      "MIGRATION_IN_PROGRESS", {{"migration", active}});
}

// A guard of what came with a command did not hold: the request id is in use.
absl::Status RequestConflict(const CommitResult& result) {
  return WithReason(
      absl::AbortedError(fmt::format(
          "nothing was changed: '{}' is there already; the same request may be under way: ask for "
          "its result with the same request id",
          Printable(result.conflict_key))),
      "ALREADY_EXISTS");
}

// For the history: what a migration changes beside who is a member. Ends with a space.
std::string ChangesBesideNodes(const Preview& preview) {
  std::string text;
  for (const Reweight& reweight : preview.reweights) {
    text += fmt::format("{} weight {:g} -> {:g} ", reweight.node, reweight.before_milli / 1000.0,
                        reweight.after_milli / 1000.0);
  }
  if (!preview.pins_put.empty()) text += fmt::format("pin {} ", preview.pins_put.size());
  if (!preview.pins_removed.empty()) text += fmt::format("unpin {} ", preview.pins_removed.size());
  if (preview.nodes_added.empty() && preview.nodes_removed.empty() && !preview.moves.empty()) {
    text += fmt::format("move {:.2f}% ", preview.moved_share * 100);
  }
  return text;
}

bool Requires(const Batch& batch, const std::string& key) {
  return std::any_of(batch.guards().begin(), batch.guards().end(),
                     [&](const Batch::Guard& guard) { return guard.key == key; });
}

}  // namespace

Conductor::Conductor(Context context) : context_(std::move(context)) {}

void Conductor::Recover(std::vector<migration_book::Entry> entries) {
  for (migration_book::Entry& entry : entries) {
    const MigrationId id = entry.record.id;
    snapshots_[id] = MakeSnapshot(entry.record, {});
    if (!IsTerminal(entry.record.stage)) active_.emplace(id, Active(std::move(entry)));
  }
  for (const MigrationId& id : ActiveIds()) {
    spdlog::info("migration {} goes on in {}", id,
                 StageName(active_.at(id).machine.record().stage));
    Feed(id, Started{});
  }
  BeginQueued();
}

MachineView Conductor::View() const {
  const std::shared_ptr<const Head> head = context_.keyspace->head();
  MachineView view;
  view.now = context_.clock->Boot();
  view.wall = context_.clock->Wall();
  view.head = head->membership;
  view.next_epoch = head->next_epoch;
  view.lease = context_.lease;
  view.fresh_nonce = context_.random();
  view.sessions = context_.owners->Facts();
  return view;
}

void Conductor::Feed(const MigrationId& id, const MachineEvent& event) {
  const auto found = active_.find(id);
  if (found == active_.end()) return;
  const bool may_decide = persisting_.empty() || (persisting_ == id && !planning_anew_);
  if (!may_decide) {
    // To look once is enough.
    const bool is_look =
        std::holds_alternative<SessionsChanged>(event) || std::holds_alternative<TimerFired>(event);
    const bool is_known =
        is_look && std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& known) {
          return known.id == id && known.event.index() == event.index();
        });
    if (!is_known) waiting_.push_back({id, event, std::nullopt});
    return;
  }
  Carry(id, found->second.machine.OnEvent(event, View()));
}

// What an operator asks for is answered when it is durable, so its answer goes with its effect: it
// waits for any persist that is under way.
void Conductor::Ask(const MigrationId& id, const MachineEvent& event, PendingCommand command) {
  if (!persisting_.empty()) {
    waiting_.push_back({id, event, std::move(command)});
    return;
  }
  if (const absl::Status allowed = CheckAllowed(id, event); !allowed.ok()) {
    return command.done(allowed);
  }
  active_.at(id).pending.push_back(std::move(command));
  Feed(id, event);
}

absl::Status Conductor::CheckAllowed(const MigrationId& id, const MachineEvent& event) const {
  ASSIGN_OR_RETURN(const MigrationSnapshotPtr snapshot, Find(id));
  const auto active = active_.find(id);
  const std::optional<MigrationMachine> ended =
      active == active_.end() ? std::optional(MigrationMachine(snapshot->record)) : std::nullopt;
  const MigrationMachine& machine = ended.has_value() ? *ended : active->second.machine;
  if (const auto* command = std::get_if<OperatorCommand>(&event)) return machine.Check(*command);
  return machine.Check(std::get<ForceFence>(event), View());
}

void Conductor::FeedAll(const MachineEvent& event) {
  for (const MigrationId& id : ActiveIds()) Feed(id, event);
}

void Conductor::FeedWaiting() {
  while (persisting_.empty() && !waiting_.empty()) {
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    if (next.command.has_value()) {
      Ask(next.id, next.event, *std::move(next.command));
    } else {
      Feed(next.id, next.event);
    }
  }
}

void Conductor::Carry(const MigrationId& id, Decision decision) {
  Active& active = active_.at(id);
  // Tasks are those of what is durable; a persist that is under way changes them when it is done.
  active.tasks = std::move(decision.tasks);
  SendTasks();
  if (decision.persist) Persist(id, *decision.persist);
  if (persisting_ != id && !active.pending.empty()) {
    CommitAlone(id, std::exchange(active.pending, {}));
  }
  if (decision.wake_at != Instant::Never()) {
    context_.strand->RunAt(decision.wake_at, [this, id, timer = ++active.timer] {
      const auto found = active_.find(id);
      if (found != active_.end() && found->second.timer == timer) Feed(id, TimerFired{});
    });
  }
  Remember(id);
}

void Conductor::SendTasks() {
  std::map<NodeId, std::vector<Task>> tasks;
  for (const auto& [id, active] : active_) {
    for (const auto& [node, list] : active.tasks) {
      std::vector<Task>& all = tasks[node];
      all.insert(all.end(), list.begin(), list.end());
    }
  }
  context_.owners->SetTasks(std::move(tasks));
}

VersionNote Conductor::NoteOf(const PersistCommand& command) const {
  const MigrationRecord& record = command.next;
  VersionNote note;
  note.author = record.author;
  note.reason = record.plan.reason;
  note.migration = record.id;
  for (const Node& node : record.preview.nodes_added) note.change += "+ " + node.id + " ";
  for (const NodeId& node : record.preview.nodes_removed) note.change += "- " + node + " ";
  note.change += ChangesBesideNodes(record.preview);
  switch (command.step) {
    case Step::kSettle:
      note.change += "(done at once)";
      break;
    case Step::kPrepare:
      note.change += "(prepare)";
      break;
    case Step::kCommitWave:
      note.change += fmt::format("(wave {}/{})", record.wave + 1, record.preview.waves);
      break;
    case Step::kRelease:
      note.change += "(release)";
      break;
    case Step::kCommitUndo:
      note.change += "(undone)";
      break;
    case Step::kRetryFirst:
    case Step::kRetryWave:
      note.change += fmt::format("(wave {} released)", record.waves_committed + 1);
      break;
    case Step::kGiveUp:
      note.change += "(given up)";
      break;
    default:
      note.change += "(aborted)";
  }
  const bool changes_hands = command.step == Step::kCommitWave || command.step == Step::kCommitUndo;
  for (const FenceEvidence& evidence : record.evidence) {
    if (!changes_hands || evidence.kind != EvidenceKind::kForce) continue;
    note.change += fmt::format(" FORCED without {}", evidence.donor);
  }
  return note;
}

void Conductor::Persist(const MigrationId& id, const PersistCommand& command) {
  Active& active = active_.at(id);
  Committer::Request request;
  request.batch = context_.identity.Guard();
  std::string stored = schema::EncodeMigration(command.next, active.pages);
  const std::string key = schema::MigrationKey(context_.keyspace->id(), id);
  request.batch.RequireValue(key, active.stored);
  request.batch.Put(key, stored);
  std::optional<HeadChange> change;
  if (command.update || command.reserve_epoch) {
    absl::StatusOr<HeadChange> prepared = context_.keyspace->Prepare(
        command.update, command.reserve_epoch, NoteOf(command), context_.clock->Wall());
    if (!prepared.ok()) {
      // The machine checks its updates against the head it sees, so this is a defect; the migration
      // holds, and its timeouts lead it back.
      spdlog::error("migration {}: {}: {}", id, StepName(command.step),
                    std::string(prepared.status().message()));
      context_.strand->Post([this, id] { Feed(id, PersistConflict{}); });
      return;
    }
    change = *std::move(prepared);
    if (IsMutant(Mutant::kI) && change->delta) {
      context_.publisher->Publish(change->next->membership, change->delta);
    }
    request.before = change->before;
    request.batch.Append(change->batch);
  }
  std::vector<PendingCommand> commands = TakePending(active);
  for (const PendingCommand& pending : commands) request.batch.Append(pending.extra);
  request.failpoint = command.failpoint;
  if (!command.failpoint.empty()) WARMRING_FP(command.failpoint + ".before");
  persisting_ = id;
  context_.committer->Commit(std::move(request), context_.strand,
                             [this, command, stored = std::move(stored), change = std::move(change),
                              commands = std::move(commands)](const CommitResult& result) mutable {
                               OnPersisted(command, std::move(stored), change, std::move(commands),
                                           result);
                             });
}

void Conductor::OnPersisted(const PersistCommand& command, std::string stored,
                            const std::optional<HeadChange>& change,
                            std::vector<PendingCommand> commands, const CommitResult& result) {
  const MigrationId id = command.next.id;
  Active& active = active_.at(id);
  persisting_.clear();
  if (!result.committed) {
    spdlog::warn("migration {}: {} met a conflict at {}", id,
                 command.touch ? "touch" : StepName(command.step), result.conflict_key);
    Feed(id, PersistConflict{});
    // The machine tries again, and the rows of the commands go with it; but not those of a request
    // that was carried out before, which would be in the way for ever.
    for (PendingCommand& pending : commands) {
      if (Requires(pending.extra, result.conflict_key)) {
        pending.done(RequestConflict(result));
      } else {
        active.pending.push_back(std::move(pending));
      }
    }
    return FeedWaiting();
  }
  active.stored = std::move(stored);
  const std::string& failpoint = command.failpoint;
  if (change) context_.keyspace->Install(*change);
  if (change && change->delta && !IsMutant(Mutant::kI)) {
    context_.publisher->Publish(change->next->membership, change->delta);
  }
  if (!failpoint.empty()) WARMRING_FP(failpoint + ".published");
  spdlog::info("migration {}: {}: {}", id, command.touch ? "touch" : StepName(command.step),
               StageName(command.next.stage));
  Decision decision = active.machine.OnEvent(Persisted{command.next.revision}, View());
  active.tasks = decision.tasks;
  {
    WARMRING_FP_SCOPE(failpoint);
    SendTasks();
  }
  if (!failpoint.empty()) WARMRING_FP(failpoint + ".sent");
  Carry(id, std::move(decision));
  for (PendingCommand& pending : commands) pending.done(snapshots_[id]);
  if (command.next.queued) begins_queued_ = true;
  if (active.machine.finished()) End(id);
  if (std::exchange(begins_queued_, false)) BeginQueued();
  FeedWaiting();
}

// A migration has ended. What waited for it may begin.
void Conductor::End(const MigrationId& id) {
  const auto found = active_.find(id);
  const std::vector<PendingCommand> late = std::move(found->second.pending);
  active_.erase(found);
  SendTasks();
  for (const PendingCommand& pending : late) pending.done(snapshots_[id]);
  BeginQueued();
}

// So many at a time that their rows and the persist stay inside the bounds of a batch.
std::vector<Conductor::PendingCommand> Conductor::TakePending(Active& active) {
  constexpr size_t kAtOnce = 16;
  std::vector<PendingCommand> taken;
  while (!active.pending.empty() && taken.size() < kAtOnce) {
    taken.push_back(std::move(active.pending.front()));
    active.pending.erase(active.pending.begin());
  }
  return taken;
}

// Commands that changed nothing, such as a second pause: their rows are written all the same, each
// on its own, so that a request that was carried out before stands in nobody else's way.
void Conductor::CommitAlone(const MigrationId& id, std::vector<PendingCommand> commands) {
  for (PendingCommand& pending : commands) {
    Committer::Request request;
    request.batch = context_.identity.Guard();
    request.batch.Append(std::move(pending.extra));
    context_.committer->Commit(
        std::move(request), context_.strand,
        [this, id, done = std::move(pending.done)](const CommitResult& result) {
          if (!result.committed) return done(RequestConflict(result));
          done(snapshots_[id]);
        });
  }
}

void Conductor::Remember(const MigrationId& id) {
  const Active& active = active_.at(id);
  MigrationProgress progress = active.machine.Progress();
  if (active.machine.record().queued && !active.waits_for.empty()) {
    progress.held = active.waits_for;
  }
  MigrationSnapshotPtr snapshot = MakeSnapshot(active.machine.record(), std::move(progress));
  snapshots_[id] = snapshot;
  Tell(snapshot);
}

std::vector<OtherMigration> Conductor::Others(bool queued) const {
  std::vector<OtherMigration> others;
  for (const auto& [id, active] : active_) {
    const MigrationRecord& record = active.machine.record();
    if (record.queued && !queued) continue;
    others.push_back({id, &record.preview});
  }
  return others;
}

// What a plan does now. If something is in its way and it may wait, what it would do, and what it
// waits for.
absl::StatusOr<Preview> Conductor::PreviewOf(const MigrationPlan& plan,
                                             std::string* waits_for) const {
  const Membership::Ptr head = context_.keyspace->head()->membership;
  const std::map<NodeId, NodeFact> facts = context_.owners->NodeFacts();
  absl::StatusOr<Preview> preview = Plan(*head, plan, facts, Others(/*queued=*/false));
  absl::Status in_the_way = preview.status();
  // Who came first goes first, also where only the plans are in each other's way; but what is down
  // comes before them.
  for (const OtherMigration& other : Others(/*queued=*/true)) {
    if (!in_the_way.ok() || IsFailover(plan)) break;
    in_the_way = ConflictWith(*head, *preview, other);
  }
  if (in_the_way.ok()) return preview;
  const bool waits = plan.strategy.on_conflict == OnConflict::kQueue || IsFailover(plan);
  if (!waits || ReasonNameOf(in_the_way) != "MIGRATION_IN_PROGRESS") return in_the_way;
  *waits_for = std::string(in_the_way.message());
  preview = PlanForLater(*head, plan, facts, Others(/*queued=*/false));
  if (!preview.ok()) return preview;
  preview->warnings.push_back(
      fmt::format("it waits for its turn and is planned again when that comes: {}", *waits_for));
  return preview;
}

// What waits is planned again, in the order in which it was submitted, failovers first; and begins
// if nothing is in its way any more. One at a time: its persist leads back here.
void Conductor::BeginQueued() {
  if (submitting_) {
    begins_queued_ = true;  // what is being submitted comes first
    return;
  }
  std::vector<std::pair<std::tuple<bool, absl::Time>, MigrationId>> queue;
  for (const auto& [id, active] : active_) {
    const MigrationRecord& record = active.machine.record();
    if (!record.queued || record.abort_requested) continue;
    queue.push_back({{!IsFailover(record.plan), record.created}, id});
  }
  std::sort(queue.begin(), queue.end());
  const Membership::Ptr head = context_.keyspace->head()->membership;
  const std::vector<OtherMigration> running = Others(/*queued=*/false);
  std::vector<OtherMigration> before;  // that wait, too
  for (const auto& [order, id] : queue) {
    Active& active = active_.at(id);
    MigrationPlan plan = active.machine.record().plan;
    plan.base_version = Version();
    const bool is_failover = IsFailover(plan);
    if (!is_failover && active_.contains(active.waits_for_id)) {
      before.push_back({id, &active.machine.record().preview});
      continue;  // nothing has changed for it
    }
    absl::StatusOr<Preview> preview = Plan(*head, plan, context_.owners->NodeFacts(), running);
    for (const OtherMigration& other : before) {
      if (!preview.ok()) break;
      if (absl::Status free = ConflictWith(*head, *preview, other); !free.ok()) preview = free;
    }
    if (preview.ok()) {
      if (persisting_.empty()) return PlanAnew(id, *std::move(preview));
      begins_queued_ = true;
    } else if (ReasonNameOf(preview.status()) != "MIGRATION_IN_PROGRESS") {
      Feed(id, CannotBegin{fmt::format("when its turn came, the plan did not fit any more: {}",
                                       std::string(preview.status().message()))});
      continue;
    } else {
      active.waits_for = std::string(preview.status().message());
      active.waits_for_id = ReasonOf(preview.status())->metadata.at("migration");
      if (is_failover) {
        const absl::StatusOr<Preview> later =
            PlanForLater(*head, plan, context_.owners->NodeFacts(), running);
        MakeWayFor(id, later.ok() ? *later : active.machine.record().preview);
      }
      Remember(id);
    }
    before.push_back({id, &active.machine.record().preview});
  }
}

void Conductor::MakeWayFor(const MigrationId& failover, const Preview& preview) {
  const Membership::Ptr head = context_.keyspace->head()->membership;
  std::vector<MigrationId> in_the_way;
  for (const OtherMigration& other : Others(/*queued=*/false)) {
    if (ConflictWith(*head, preview, other).ok()) continue;
    // Another failover ends by itself, unless it gives to what is dead now, or waits for somebody.
    const MigrationRecord& theirs = active_.at(other.id).machine.record();
    const bool ends = IsFailover(theirs.plan) && !theirs.paused && !theirs.awaiting_promotion &&
                      std::none_of(other.preview->moves.begin(), other.preview->moves.end(),
                                   [&](const PlannedMove& move) {
                                     return std::binary_search(preview.nodes_dead.begin(),
                                                               preview.nodes_dead.end(), move.to);
                                   });
    if (!ends) in_the_way.push_back(other.id);
  }
  for (const MigrationId& id : in_the_way) {
    if (active_.at(id).machine.record().preempted_by.empty()) Feed(id, Preempt{failover});
  }
}

void Conductor::PlanAnew(const MigrationId& id, Preview preview) {
  const Active& active = active_.at(id);
  migration_book::Entry entry;
  entry.record = active.machine.record();
  MigrationRecord& record = entry.record;
  WarnOfAddresses(preview);
  record.preview = std::move(preview);
  record.queued = false;
  ++record.revision;
  record.stage_since = context_.clock->Wall();
  record.history.push_back({record.stage, 0, record.stage_since,
                            fmt::format("its turn has come: planned again for version {}",
                                        record.preview.base_version.value)});
  if (const absl::Status size = CheckSize(record); !size.ok()) {
    return Feed(id, CannotBegin{std::string(size.message())});
  }
  migration_book::NewEntry replaced =
      migration_book::Replace(context_.keyspace->id(), record, active.pages, active.stored);
  entry.pages = replaced.pages;
  entry.stored = std::move(replaced.stored);
  Committer::Request request;
  request.before = std::move(replaced.before);
  request.batch = context_.identity.Guard();
  request.batch.Append(std::move(replaced.batch));
  request.failpoint = "pq";
  WARMRING_FP("pq.before");
  persisting_ = id;
  planning_anew_ = true;
  context_.committer->Commit(
      std::move(request), context_.strand,
      [this, id, entry = std::move(entry)](const CommitResult& result) mutable {
        OnPlannedAnew(id, std::move(entry), result);
      });
}

void Conductor::OnPlannedAnew(const MigrationId& id, migration_book::Entry entry,
                              const CommitResult& result) {
  persisting_.clear();
  planning_anew_ = false;
  if (!result.committed) {
    // Nobody else writes this record, so this is a defect; it goes on waiting.
    spdlog::error("migration {}: planning it again met a conflict at {}", id, result.conflict_key);
    return FeedWaiting();
  }
  Active& active = active_.at(id);
  const uint64_t timer = active.timer;
  std::vector<PendingCommand> pending = std::move(active.pending);
  active = Active(std::move(entry));
  active.timer = timer;
  active.pending = std::move(pending);
  WARMRING_FP("pq.published");
  spdlog::info("migration {} begins", id);
  Feed(id, Started{});
  WARMRING_FP("pq.sent");
  BeginQueued();
  FeedWaiting();
}

void Conductor::Tell(const MigrationSnapshotPtr& snapshot) {
  const bool ended = IsTerminal(snapshot->record.stage);
  auto [it, end] = listeners_.equal_range(snapshot->record.id);
  while (it != end) {
    const bool more = it->second(snapshot) && !ended;
    it = more ? std::next(it) : listeners_.erase(it);
  }
}

absl::Status Conductor::CheckSubmission(const Submission& submission) const {
  RETURN_IF_ERROR(ValidatePlan(submission.plan));
  if (!submission.id.empty()) {
    RETURN_IF_ERROR(ValidateId("migration_id", submission.id));
    if (snapshots_.contains(submission.id)) {
      return WithReason(
          absl::AlreadyExistsError(fmt::format(
              "migration_id: keyspace '{}' had a migration '{}' before: choose another id",
              context_.keyspace->id(), submission.id)),
          "ALREADY_EXISTS");
    }
  }
  if (active_.size() >= kMaxActive) {
    return WithReason(
        absl::ResourceExhaustedError(fmt::format(
            "keyspace '{}' has {} migrations that have not ended, and {} is the most: wait for one",
            context_.keyspace->id(), active_.size(), kMaxActive)),
        "LIMIT_EXCEEDED");
  }
  return CheckNotSubmitting();
}

absl::Status Conductor::CheckNotSubmitting() const {
  if (planning_anew_) return InProgress(persisting_);
  return submitting_ ? InProgress("(being submitted)") : absl::OkStatus();
}

absl::Status Conductor::CheckIdle() const {
  if (!active_.empty()) return InProgress(active_.begin()->first);
  return CheckNotSubmitting();
}

// The prepare version names every range that moves; a wave's version names a part of them twice. If
// the first fits in half, all of them fit, and no migration gets stuck half way for its size.
absl::Status Conductor::CheckSize(const MigrationRecord& record) const {
  MigrationMachine scratch(record);
  const Decision decision = scratch.OnEvent(Started{}, View());
  if (!decision.persist || !decision.persist->update) return absl::OkStatus();
  Delta delta;
  delta.update = *decision.persist->update;
  const size_t bytes = EncodeDelta(delta).size();
  if (bytes <= Keyspace::kMaxDeltaBytes / 2) return absl::OkStatus();
  return WithReason(
      absl::InvalidArgumentError(fmt::format(
          "changes: they move so many ranges that one version takes {} bytes, and {} is the most: "
          "submit fewer changes at a time",
          bytes, Keyspace::kMaxDeltaBytes / 2)),
      "BAD_FIELD");
}

MigrationId Conductor::ChooseId() const {
  for (;;) {
    MigrationId id = fmt::format("mig-{:06x}", context_.random().low & 0xffffff);
    if (!snapshots_.contains(id)) return id;
  }
}

// Clients would be sent elsewhere than its agent serves.
void Conductor::WarnOfAddresses(Preview& preview) const {
  const std::map<NodeId, OwnerStatus> owners = context_.owners->Describe();
  for (const Node& node : preview.nodes_added) {
    const auto owner = owners.find(node.id);
    if (owner == owners.end() || owner->second.data_address.empty()) continue;
    if (owner->second.data_address == node.address) continue;
    preview.warnings.push_back(
        fmt::format("{}: the plan says that clients reach it at {}, its agent serves {}", node.id,
                    node.address, owner->second.data_address));
  }
}

void Conductor::Submit(Submission submission, std::function<void(absl::StatusOr<Submitted>)> done) {
  if (const absl::Status checked = CheckSubmission(submission); !checked.ok()) {
    return done(checked);
  }
  std::string waits_for;
  absl::StatusOr<Preview> preview = PreviewOf(submission.plan, &waits_for);
  if (!preview.ok()) return done(preview.status());
  WarnOfAddresses(*preview);
  const MigrationId id = submission.id.empty() ? ChooseId() : submission.id;
  MigrationRecord record =
      NewMigrationRecord(id, std::move(submission.author), context_.clock->Wall(),
                         std::move(submission.plan), *preview, context_.random());
  record.queued = !waits_for.empty();
  if (const absl::Status size = CheckSize(record); !size.ok()) return done(size);
  if (submission.validate_only) return done(Submitted{*std::move(preview), nullptr});

  migration_book::NewEntry entry = migration_book::Create(context_.keyspace->id(), record);
  Committer::Request request;
  request.before = std::move(entry.before);
  request.batch = context_.identity.Guard();
  request.batch.Append(std::move(entry.batch)).Append(submission.extra(id));
  request.failpoint = "p1";
  WARMRING_FP("p1.before");
  submitting_ = true;
  context_.committer->Commit(
      std::move(request), context_.strand,
      [this, record = std::move(record), pages = entry.pages, stored = std::move(entry.stored),
       preview = *std::move(preview), done = std::move(done)](const CommitResult& result) mutable {
        submitting_ = false;
        if (!result.committed) {
          if (std::exchange(begins_queued_, false)) BeginQueued();
          return done(RequestConflict(result));
        }
        const MigrationId committed = record.id;
        snapshots_[committed] = MakeSnapshot(record, {});
        active_.emplace(committed,
                        Active(migration_book::Entry{std::move(record), pages, std::move(stored)}));
        WARMRING_FP("p1.published");
        spdlog::info("migration {} of {} was submitted", committed, context_.keyspace->id());
        Feed(committed, Started{});
        begins_queued_ = false;
        BeginQueued();
        WARMRING_FP("p1.sent");
        done(Submitted{std::move(preview), snapshots_[committed]});
      });
}

void Conductor::Grow(Growth growth, std::function<void(absl::StatusOr<Membership::Ptr>)> done) {
  if (const absl::Status idle = CheckIdle(); !idle.ok()) return done(idle);
  const Membership::Ptr head = context_.keyspace->head()->membership;
  if (growth.base_version != Version() && growth.base_version != head->version()) {
    return done(WithReason(
        absl::AbortedError(fmt::format(
            "base_version: the request is for version {} and the membership is at {}: look again",
            growth.base_version.value, head->version().value)),
        "VERSION_MISMATCH",
        {{"base_version", std::to_string(growth.base_version.value)},
         {"version", std::to_string(head->version().value)}}));
  }
  if (growth.directory_bits == 0) {
    return done(
        WithReason(absl::InvalidArgumentError(fmt::format(
                       "directory_bits: 0: use a number above {}, which it is, and up to {}",
                       head->spec().directory_bits, KeyspaceSpec::kMaxDirectoryBits)),
                   "BAD_FIELD"));
  }
  Update update;
  update.directory_bits = growth.directory_bits;
  VersionNote note;
  note.author = std::move(growth.author);
  note.reason = std::move(growth.reason);
  note.change = fmt::format("grown from 2^{} to 2^{} buckets", head->spec().directory_bits,
                            growth.directory_bits);
  absl::StatusOr<HeadChange> prepared =
      context_.keyspace->Prepare(update, /*reserve_epoch=*/false, note, context_.clock->Wall());
  if (!prepared.ok()) return done(WithReason(prepared.status(), "BAD_FIELD"));
  if (growth.validate_only) return done(prepared->next->membership);
  HeadChange change = *std::move(prepared);
  Committer::Request request;
  request.before = change.before;
  request.batch = context_.identity.Guard();
  request.batch.Append(change.batch).Append(std::move(growth.extra));
  request.failpoint = "g1";
  WARMRING_FP("g1.before");
  submitting_ = true;
  context_.committer->Commit(
      std::move(request), context_.strand,
      [this, change = std::move(change), done = std::move(done)](const CommitResult& result) {
        submitting_ = false;
        if (!result.committed) return done(RequestConflict(result));
        context_.keyspace->Install(change);
        context_.publisher->Publish(change.next->membership, change.delta);
        WARMRING_FP("g1.published");
        spdlog::info("keyspace {} has 2^{} buckets from version {} on", context_.keyspace->id(),
                     change.next->membership->spec().directory_bits,
                     change.next->membership->version().value);
        done(change.next->membership);
      });
}

void Conductor::Command(const MigrationId& id, OperatorCommand command, Batch extra,
                        std::function<void(absl::StatusOr<MigrationSnapshotPtr>)> done) {
  const absl::Status allowed = CheckAllowed(id, command);
  if (!allowed.ok()) return done(allowed);
  Ask(id, command, {std::move(extra), std::move(done)});
}

void Conductor::Force(const MigrationId& id, ForceFence force, Batch extra,
                      std::function<void(absl::StatusOr<MigrationSnapshotPtr>)> done) {
  const absl::Status allowed = CheckAllowed(id, force);
  if (!allowed.ok()) return done(allowed);
  Ask(id, force, {std::move(extra), std::move(done)});
}

absl::StatusOr<MigrationSnapshotPtr> Conductor::Find(const MigrationId& id) const {
  const auto it = snapshots_.find(id);
  if (it == snapshots_.end()) return NoSuchMigration(context_.keyspace->id(), id);
  return it->second;
}

std::vector<MigrationSnapshotPtr> Conductor::List() const {
  std::vector<MigrationSnapshotPtr> all;
  for (const auto& [id, snapshot] : snapshots_) all.push_back(snapshot);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::tie(a->record.created, a->record.id) > std::tie(b->record.created, b->record.id);
  });
  return all;
}

std::vector<MigrationId> Conductor::ActiveIds() const {
  std::vector<MigrationId> ids;
  for (const auto& [id, active] : active_) ids.push_back(id);
  return ids;
}

absl::Status Conductor::Watch(const MigrationId& id, Listener listener) {
  ASSIGN_OR_RETURN(const MigrationSnapshotPtr snapshot, Find(id));
  if (listener(snapshot) && !IsTerminal(snapshot->record.stage)) {
    listeners_.emplace(id, std::move(listener));
  }
  return absl::OkStatus();
}

void Conductor::OnSessionsChanged() { FeedAll(SessionsChanged{}); }

void Conductor::OnReport(const TaskReport& report) { Feed(report.migration, report); }

}  // namespace warmring
