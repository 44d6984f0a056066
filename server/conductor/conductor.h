#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/ids.h"
#include "migrations/migration_machine.h"
#include "migrations/plan.h"
#include "migrations/planner.h"
#include "server/conductor/migration_book.h"
#include "server/conductor/owner_directory.h"
#include "server/executor/clock.h"
#include "server/executor/executor.h"
#include "server/registry/keyspace.h"
#include "server/registry/store_identity.h"
#include "server/store/committer.h"

namespace warmring {

// A migration as it was at one moment. Immutable.
struct MigrationSnapshot {
  MigrationRecord record;  // of an ended migration: without the ranges of its preview
  MigrationProgress progress;
};
using MigrationSnapshotPtr = std::shared_ptr<const MigrationSnapshot>;

// Runs the migrations of one keyspace: feeds their machines and carries out what they decide,
// always in the order persist, publish, send. Several that are not in each other's way run at a
// time, one persist at a time: while one is under way, what happens to other migrations waits, so
// that each decision is made on the membership that it changes. A plan that is in the way of
// another is refused, or waits for its turn; a failover makes what is in its way end. Lives on the
// keyspace's strand; every call comes from there unless it says otherwise, and every callback runs
// there.
class Conductor final : public OwnerEvents {
 public:
  struct Context {
    Keyspace* keyspace = nullptr;
    StoreIdentity identity;
    Committer* committer = nullptr;
    Executor* strand = nullptr;
    const Clock* clock = nullptr;
    OwnerDirectory* owners = nullptr;
    Publisher* publisher = nullptr;
    absl::Duration lease;
    std::function<Id128()> random;
  };
  // All that the context names must outlive the conductor.
  explicit Conductor(Context context);

  // So many migrations of one keyspace may be under way or wait.
  static constexpr size_t kMaxActive = 64;

  // Takes over what the store holds and goes on with the migrations that have not ended. Before any
  // other call.
  void Recover(std::vector<migration_book::Entry> entries);

  struct Submission {
    MigrationPlan plan;
    MigrationId id;  // empty: chosen here
    std::string author;
    bool validate_only = false;
    // What is committed with it: the request id, the audit row.
    std::function<Batch(const MigrationId&)> extra;
  };
  struct Submitted {
    Preview preview;
    MigrationSnapshotPtr migration;  // null with validate_only
  };
  // Errors: those of ValidatePlan and Plan, among them Aborted MIGRATION_IN_PROGRESS naming the
  // migration that is in the way (or when a submission or a growth is being committed just now);
  // AlreadyExists; ResourceExhausted: kMaxActive; Aborted when something in `extra` did not hold.
  void Submit(Submission submission, std::function<void(absl::StatusOr<Submitted>)> done);

  struct Growth {
    uint32_t directory_bits = 0;
    Version base_version;  // 0 = do not check
    std::string author;
    std::string reason;
    bool validate_only = false;
    Batch extra;  // what is committed with it: the request id, the audit row
  };
  // Divides every bucket of the directory: one version, in which no key changes owner or epoch.
  // Answers the membership after it. Errors: InvalidArgument: a ring, bits that are no more than
  // there are or over the limit, too many pins; Aborted VERSION_MISMATCH; Aborted
  // MIGRATION_IN_PROGRESS as above; Aborted when something in `extra` did not hold.
  void Grow(Growth growth, std::function<void(absl::StatusOr<Membership::Ptr>)> done);

  // Errors: NotFound; FailedPrecondition STAGE_NOT_ALLOWED naming stage and way out; Aborted as
  // above.
  void Command(const MigrationId& id, OperatorCommand command, Batch extra,
               std::function<void(absl::StatusOr<MigrationSnapshotPtr>)> done);

  // An operator takes a donor for dead. Errors: NotFound; those of MigrationMachine::Check; Aborted
  // as above.
  void Force(const MigrationId& id, ForceFence force, Batch extra,
             std::function<void(absl::StatusOr<MigrationSnapshotPtr>)> done);

  // Error: NotFound.
  absl::StatusOr<MigrationSnapshotPtr> Find(const MigrationId& id) const;
  // Newest first.
  std::vector<MigrationSnapshotPtr> List() const;
  // Those that have not ended, sorted; those that wait for their turn included.
  std::vector<MigrationId> ActiveIds() const;

  // Called with the present snapshot, then at each change, until it returns false or the migration
  // has ended. Error: NotFound.
  using Listener = std::function<bool(const MigrationSnapshotPtr&)>;
  absl::Status Watch(const MigrationId& id, Listener listener);

  void OnSessionsChanged() override;
  void OnReport(const TaskReport& report) override;

 private:
  // An operator's command whose effect is not durable yet.
  struct PendingCommand {
    Batch extra;
    std::function<void(absl::StatusOr<MigrationSnapshotPtr>)> done;
  };
  struct Active {
    explicit Active(migration_book::Entry entry)
        : machine(std::move(entry.record)), pages(entry.pages), stored(std::move(entry.stored)) {}
    MigrationMachine machine;
    schema::PlanPages pages;
    std::string stored;                         // what the store holds of its record
    std::map<NodeId, std::vector<Task>> tasks;  // of its last decision
    std::string waits_for;                      // while it is queued: what is in its way,
    MigrationId waits_for_id;                   // and whose it is
    uint64_t timer = 0;                         // generation of its newest timer
    std::vector<PendingCommand> pending;
  };
  using ActiveMap = std::map<MigrationId, Active>;

  MachineView View() const;
  // What happened to a migration that must not decide now. An operator's command waits with it.
  struct Waiting {
    MigrationId id;
    MachineEvent event;
    std::optional<PendingCommand> command;
  };
  void Feed(const MigrationId& id, const MachineEvent& event);
  void Ask(const MigrationId& id, const MachineEvent& event, PendingCommand command);
  absl::Status CheckAllowed(const MigrationId& id, const MachineEvent& event) const;
  void FeedAll(const MachineEvent& event);
  void FeedWaiting();
  void Carry(const MigrationId& id, Decision decision);
  void SendTasks();
  void Persist(const MigrationId& id, const PersistCommand& command);
  void OnPersisted(const PersistCommand& command, std::string stored,
                   const std::optional<HeadChange>& change, std::vector<PendingCommand> commands,
                   const CommitResult& result);
  void End(const MigrationId& id);
  static std::vector<PendingCommand> TakePending(Active& active);
  void CommitAlone(const MigrationId& id, std::vector<PendingCommand> commands);
  // What a plan has to go by: those that are under way, and with `queued` those that wait, too.
  std::vector<OtherMigration> Others(bool queued) const;
  absl::StatusOr<Preview> PreviewOf(const MigrationPlan& plan, std::string* waits_for) const;
  void WarnOfAddresses(Preview& preview) const;
  void BeginQueued();
  void MakeWayFor(const MigrationId& failover, const Preview& preview);
  void PlanAnew(const MigrationId& id, Preview preview);
  void OnPlannedAnew(const MigrationId& id, migration_book::Entry entry,
                     const CommitResult& result);
  void Remember(const MigrationId& id);
  void Tell(const MigrationSnapshotPtr& snapshot);
  absl::Status CheckIdle() const;
  absl::Status CheckNotSubmitting() const;
  absl::Status CheckSubmission(const Submission& submission) const;
  absl::Status CheckSize(const MigrationRecord& record) const;
  MigrationId ChooseId() const;
  VersionNote NoteOf(const PersistCommand& command) const;

  const Context context_;
  ActiveMap active_;
  bool submitting_ = false;     // a migration or a growth is being committed
  MigrationId persisting_;      // whose persist is under way; empty: none
  bool planning_anew_ = false;  // that persist replaces the migration's machine
  bool begins_queued_ = false;  // something that waited may begin after that persist
  // What has happened since to migrations that must not decide now, oldest first.
  std::deque<Waiting> waiting_;
  std::map<MigrationId, MigrationSnapshotPtr> snapshots_;
  std::multimap<MigrationId, Listener> listeners_;
};

}  // namespace warmring
