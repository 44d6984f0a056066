#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/ids.h"
#include "core/base/instant.h"
#include "core/membership/membership.h"
#include "core/membership/update.h"
#include "core/ownership/owner_view.h"
#include "migrations/migration_record.h"
#include "migrations/task.h"
#include "migrations/transition_table.h"

namespace warmring {

// What the sessions table knows about one node at this moment.
struct SessionFact {
  bool connected = false;
  Incarnation incarnation;
  std::string transfer_address;
  Version applied_version;
  // Until when the coordinator must believe that the node, in any incarnation, holds a lease:
  // max over all grants of (grant instant + C), and start + C after a restart of the server.
  Instant belief_until;
};

// Everything outside the record that a decision depends on, as values.
struct MachineView {
  Instant now;
  absl::Time wall;
  Membership::Ptr head;
  Epoch next_epoch;         // of the keyspace's head record
  absl::Duration lease;     // L
  Id128 fresh_nonce;        // random; used if the decision starts a transfer attempt
  std::map<NodeId, SessionFact> sessions;
};

enum class OperatorCommand : uint8_t { kPromote = 1, kPause, kResume, kAbort, kUndo };

// Things that happen to a machine.
struct Started {};                    // created, or recovered from the store
struct Persisted { uint64_t revision = 0; };  // the persist of that revision is durable
struct PersistConflict {};            // the guard failed; nothing was written
struct SessionsChanged {};
struct TimerFired {};
using MachineEvent = std::variant<Started, Persisted, PersistConflict, SessionsChanged, TimerFired,
                                  TaskReport, OperatorCommand>;

// One conditional transaction: record at revision `next.revision - 1` -> next, together with the
// membership change and the epoch reservation when present. Guards: term, record revision, head
// version and (when reserved) next_epoch.
struct PersistCommand {
  Step step = Step::kPrepare;
  MigrationRecord next;
  std::optional<Update> update;  // writes head version + 1
  bool reserve_epoch = false;    // next_epoch + 1; next.wave_epoch is the reserved one
  std::string failpoint;         // "p2", "p5", "p6", "pa" ...: names the crash points around it
};

// How far it is, for people. Derived, never stored.
struct MigrationProgress {
  uint64_t keys_done = 0;
  uint64_t keys_total = 0;  // 0 = unknown
  uint64_t bytes_done = 0;
  struct Transfer {
    NodeId from;
    NodeId to;
    uint64_t keys = 0;
    uint64_t bytes = 0;
    bool caught_up = false;
  };
  std::vector<Transfer> transfers;
  std::string held;  // why it does not go on, empty when it does: names what it waits for
};

// What the shell has to do, in this order: persist; (once durable) publish the head; replace every
// node's tasks of this migration by `tasks`; wake the machine at `wake_at`.
// While a persist is outstanding the tasks stay those of the stage before it.
struct Decision {
  std::optional<PersistCommand> persist;
  std::map<NodeId, std::vector<Task>> tasks;
  std::vector<Floor> FloorsOf(const NodeId& node) const;  // from its FenceTasks; for grants
  Instant wake_at = Instant::Never();
};

// Drives one migration. Pure: no clock, no I/O; the same events give the same decisions. Not
// thread-safe; it lives on its keyspace's strand. A spurious event or timer is harmless.
class MigrationMachine {
 public:
  // `record` as created by NewMigrationRecord or read back from the store.
  explicit MigrationMachine(MigrationRecord record);

  // REQUIRES: while a persist is outstanding, its Persisted or PersistConflict event comes before
  // any further persist is returned (others events may come; they are taken into account later).
  Decision OnEvent(const MachineEvent& event, const MachineView& view);

  // Whether an operator's command is allowed now. Error: FailedPrecondition naming the stage and
  // the way out. Check before feeding the command as an event.
  absl::Status Check(OperatorCommand command) const;

  const MigrationRecord& record() const { return record_; }
  bool finished() const { return IsTerminal(record_.stage); }
  MigrationProgress Progress() const;

 private:
  struct NodeReports {
    Incarnation incarnation;
    std::optional<WarmReport> warm;
    std::optional<VerifyReport> verify;
    std::optional<FenceAck> fence;
    std::optional<PreparedReport> prepared;
    std::optional<TaskFailure> failure;
  };

  MigrationRecord record_;
  std::map<NodeId, NodeReports> reports_;
  bool persisting_ = false;
  std::string held_;
  Instant stage_entered_;  // by the machine's own time base, since it was (re)started
  // Implementation: migration_machine.cc may add private members and helpers.
};

// The record of a new migration at revision 0 in stage Planned.
MigrationRecord NewMigrationRecord(MigrationId id, std::string author, absl::Time now,
                                   MigrationPlan plan, Preview preview, Id128 nonce);

}  // namespace warmring
