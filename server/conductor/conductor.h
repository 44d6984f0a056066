#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
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

// Runs the migrations of one keyspace, one at a time: feeds the machine and carries out what it
// decides, always in the order persist, publish, send. Lives on the keyspace's strand; every call
// comes from there unless it says otherwise, and every callback runs there.
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

  // Takes over what the store holds and goes on with the migration that has not ended. Before any
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
  // Errors: those of ValidatePlan and Plan; Aborted MIGRATION_IN_PROGRESS naming the migration that
  // has not ended; AlreadyExists; Aborted when something in `extra` did not hold.
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

  // Error: NotFound.
  absl::StatusOr<MigrationSnapshotPtr> Find(const MigrationId& id) const;
  // Newest first.
  std::vector<MigrationSnapshotPtr> List() const;
  // Empty when nothing moves.
  MigrationId ActiveId() const;

  // Called with the present snapshot, then at each change, until it returns false or the migration
  // has ended. Error: NotFound.
  using Listener = std::function<bool(const MigrationSnapshotPtr&)>;
  absl::Status Watch(const MigrationId& id, Listener listener);

  void OnSessionsChanged() override;
  void OnReport(const TaskReport& report) override;

 private:
  struct Active {
    explicit Active(migration_book::Entry entry)
        : machine(std::move(entry.record)),
          plan_pages(entry.plan_pages),
          stored(std::move(entry.stored)) {}
    MigrationMachine machine;
    uint64_t plan_pages;
    std::string stored;  // what the store holds of its record
  };
  // An operator's command whose effect is not durable yet.
  struct PendingCommand {
    Batch extra;
    std::function<void(absl::StatusOr<MigrationSnapshotPtr>)> done;
  };

  MachineView View() const;
  void Feed(const MachineEvent& event);
  void Carry(Decision decision);
  void Persist(const PersistCommand& command);
  void OnPersisted(const PersistCommand& command, std::string stored,
                   const std::optional<HeadChange>& change, std::vector<PendingCommand> commands,
                   const CommitResult& result);
  std::vector<PendingCommand> TakePending();
  void CommitAlone(std::vector<PendingCommand> commands);
  void Remember();
  void Tell(const MigrationSnapshotPtr& snapshot);
  absl::Status CheckIdle() const;
  absl::Status CheckSubmission(const Submission& submission) const;
  absl::Status CheckSize(const MigrationRecord& record) const;
  MigrationId ChooseId() const;
  VersionNote NoteOf(const PersistCommand& command) const;

  const Context context_;
  std::optional<Active> active_;
  bool submitting_ = false;  // a migration or a growth is being committed
  bool persisting_ = false;
  uint64_t timer_ = 0;  // generation of the newest timer
  std::vector<PendingCommand> pending_;
  std::map<MigrationId, MigrationSnapshotPtr> snapshots_;
  std::multimap<MigrationId, Listener> listeners_;
};

}  // namespace warmring
