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
      absl::AbortedError(fmt::format("migration '{}' has not ended, and a keyspace runs one at a "
                                     "time: wait for it, or abort it",
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
    snapshots_[entry.record.id] = MakeSnapshot(entry.record, {});
    if (!IsTerminal(entry.record.stage)) active_.emplace(std::move(entry));
  }
  if (!active_) return;
  spdlog::info("migration {} goes on in {}", active_->machine.record().id,
               StageName(active_->machine.record().stage));
  Feed(Started{});
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

void Conductor::Feed(const MachineEvent& event) {
  if (!active_) return;
  Carry(active_->machine.OnEvent(event, View()));
}

void Conductor::Carry(Decision decision) {
  // Tasks are those of what is durable; a persist that is under way changes them when it is done.
  context_.owners->SetTasks(decision.tasks);
  if (decision.persist) Persist(*decision.persist);
  if (!persisting_ && !pending_.empty()) CommitAlone(std::exchange(pending_, {}));
  if (decision.wake_at != Instant::Never()) {
    context_.strand->RunAt(decision.wake_at, [this, timer = ++timer_] {
      if (timer == timer_) Feed(TimerFired{});
    });
  }
  Remember();
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
    default:
      note.change += "(aborted)";
  }
  return note;
}

void Conductor::Persist(const PersistCommand& command) {
  Committer::Request request;
  request.batch = context_.identity.Guard();
  std::string stored = schema::EncodeMigration(command.next, active_->plan_pages);
  const std::string key = schema::MigrationKey(context_.keyspace->id(), command.next.id);
  request.batch.RequireValue(key, active_->stored);
  request.batch.Put(key, stored);
  std::optional<HeadChange> change;
  if (command.update || command.reserve_epoch) {
    absl::StatusOr<HeadChange> prepared = context_.keyspace->Prepare(
        command.update, command.reserve_epoch, NoteOf(command), context_.clock->Wall());
    if (!prepared.ok()) {
      // The machine checks its updates against the head it sees, so this is a defect; the migration
      // holds, and its timeouts lead it back.
      spdlog::error("migration {}: {}: {}", command.next.id, StepName(command.step),
                    std::string(prepared.status().message()));
      context_.strand->Post([this] { Feed(PersistConflict{}); });
      return;
    }
    change = *std::move(prepared);
    if (IsMutant(Mutant::kI) && change->delta) {
      context_.publisher->Publish(change->next->membership, change->delta);
    }
    request.before = change->before;
    request.batch.Append(change->batch);
  }
  std::vector<PendingCommand> commands = TakePending();
  for (const PendingCommand& pending : commands) request.batch.Append(pending.extra);
  request.failpoint = command.failpoint;
  if (!command.failpoint.empty()) WARMRING_FP(command.failpoint + ".before");
  persisting_ = true;
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
  persisting_ = false;
  if (!result.committed) {
    spdlog::warn("migration {}: {} met a conflict at {}", command.next.id,
                 command.touch ? "touch" : StepName(command.step), result.conflict_key);
    Feed(PersistConflict{});
    // The machine tries again, and the rows of the commands go with it; but not those of a request
    // that was carried out before, which would be in the way for ever.
    for (PendingCommand& pending : commands) {
      if (Requires(pending.extra, result.conflict_key)) {
        pending.done(RequestConflict(result));
      } else {
        pending_.push_back(std::move(pending));
      }
    }
    return;
  }
  active_->stored = std::move(stored);
  const std::string& failpoint = command.failpoint;
  if (change) context_.keyspace->Install(*change);
  if (change && change->delta && !IsMutant(Mutant::kI)) {
    context_.publisher->Publish(change->next->membership, change->delta);
  }
  if (!failpoint.empty()) WARMRING_FP(failpoint + ".published");
  spdlog::info("migration {}: {}: {}", command.next.id,
               command.touch ? "touch" : StepName(command.step), StageName(command.next.stage));
  Decision decision = active_->machine.OnEvent(Persisted{command.next.revision}, View());
  context_.owners->SetTasks(decision.tasks);
  if (!failpoint.empty()) WARMRING_FP(failpoint + ".sent");
  Carry(std::move(decision));
  for (PendingCommand& pending : commands) pending.done(snapshots_[command.next.id]);
  if (active_->machine.finished()) {
    active_.reset();
    ++timer_;
    for (PendingCommand& pending : std::exchange(pending_, {})) {
      pending.done(snapshots_[command.next.id]);
    }
  }
}

// So many at a time that their rows and the persist stay inside the bounds of a batch.
std::vector<Conductor::PendingCommand> Conductor::TakePending() {
  constexpr size_t kAtOnce = 16;
  std::vector<PendingCommand> taken;
  while (!pending_.empty() && taken.size() < kAtOnce) {
    taken.push_back(std::move(pending_.front()));
    pending_.erase(pending_.begin());
  }
  return taken;
}

// Commands that changed nothing, such as a second pause: their rows are written all the same, each
// on its own, so that a request that was carried out before stands in nobody else's way.
void Conductor::CommitAlone(std::vector<PendingCommand> commands) {
  const MigrationId id = active_->machine.record().id;
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

void Conductor::Remember() {
  if (!active_) return;
  const MigrationMachine& machine = active_->machine;
  MigrationSnapshotPtr snapshot = MakeSnapshot(machine.record(), machine.Progress());
  snapshots_[machine.record().id] = snapshot;
  Tell(snapshot);
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
  return CheckIdle();
}

absl::Status Conductor::CheckIdle() const {
  if (active_) return InProgress(active_->machine.record().id);
  if (submitting_) return InProgress("(being submitted)");
  return absl::OkStatus();
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

void Conductor::Submit(Submission submission, std::function<void(absl::StatusOr<Submitted>)> done) {
  if (const absl::Status checked = CheckSubmission(submission); !checked.ok()) {
    return done(checked);
  }
  const Membership::Ptr head = context_.keyspace->head()->membership;
  absl::StatusOr<Preview> preview = Plan(*head, submission.plan, context_.owners->NodeFacts());
  if (!preview.ok()) return done(preview.status());
  const std::map<NodeId, OwnerStatus> owners = context_.owners->Describe();
  for (const Node& node : preview->nodes_added) {
    const auto owner = owners.find(node.id);
    if (owner == owners.end() || owner->second.data_address.empty()) continue;
    if (owner->second.data_address == node.address) continue;
    preview->warnings.push_back(
        fmt::format("{}: the plan says that clients reach it at {}, its "
                    "agent serves {}",
                    node.id, node.address, owner->second.data_address));
  }
  const MigrationId id = submission.id.empty() ? ChooseId() : submission.id;
  MigrationRecord record =
      NewMigrationRecord(id, std::move(submission.author), context_.clock->Wall(),
                         std::move(submission.plan), *preview, context_.random());
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
      [this, record = std::move(record), pages = entry.plan_pages, stored = std::move(entry.stored),
       preview = *std::move(preview), done = std::move(done)](const CommitResult& result) mutable {
        submitting_ = false;
        if (!result.committed) return done(RequestConflict(result));
        const MigrationId committed = record.id;
        active_.emplace(migration_book::Entry{std::move(record), pages, std::move(stored)});
        WARMRING_FP("p1.published");
        spdlog::info("migration {} of {} was submitted", committed, context_.keyspace->id());
        Feed(Started{});
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
  const absl::StatusOr<MigrationSnapshotPtr> snapshot = Find(id);
  if (!snapshot.ok()) return done(snapshot.status());
  const bool is_active = active_ && active_->machine.record().id == id;
  const absl::Status allowed = is_active ? active_->machine.Check(command)
                                         : MigrationMachine((*snapshot)->record).Check(command);
  if (!allowed.ok()) return done(allowed);
  pending_.push_back({std::move(extra), std::move(done)});
  Feed(command);
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

MigrationId Conductor::ActiveId() const { return active_ ? active_->machine.record().id : ""; }

absl::Status Conductor::Watch(const MigrationId& id, Listener listener) {
  ASSIGN_OR_RETURN(const MigrationSnapshotPtr snapshot, Find(id));
  if (listener(snapshot) && !IsTerminal(snapshot->record.stage)) {
    listeners_.emplace(id, std::move(listener));
  }
  return absl::OkStatus();
}

void Conductor::OnSessionsChanged() { Feed(SessionsChanged{}); }

void Conductor::OnReport(const TaskReport& report) { Feed(report); }

}  // namespace warmring
