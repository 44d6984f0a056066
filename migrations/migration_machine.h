#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
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
#include "migrations/node_reports.h"
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
  Epoch next_epoch;      // of the keyspace's head record
  absl::Duration lease;  // L
  Id128 fresh_nonce;     // random; used if the decision starts a transfer attempt
  std::map<NodeId, SessionFact> sessions;
};

enum class OperatorCommand : uint8_t { kPromote = 1, kPause, kResume, kAbort, kUndo };

// An operator attests that a donor is dead: its acknowledgement is not waited for, and neither is
// the end of its lease when what may be lost by that is accepted. Breaks safety; so it says who and
// why.
struct ForceFence {
  NodeId node;
  std::string author;
  std::string reason;             // required; at most 1,024 bytes
  bool accept_data_loss = false;  // required while the lease of the node may still hold
};

// A failover that is in the way of this migration wants it to end as soon as it can.
struct Preempt {
  MigrationId by;
};

// A migration that waited for its turn cannot be planned any more.
struct CannotBegin {
  std::string why;
};

// Things that happen to a machine.
struct Started {};  // created, or recovered from the store
struct Persisted {
  uint64_t revision = 0;
};                          // the persist of that revision is durable
struct PersistConflict {};  // the guard failed; nothing was written
struct SessionsChanged {};
struct TimerFired {};
using MachineEvent = std::variant<Started, Persisted, PersistConflict, SessionsChanged, TimerFired,
                                  TaskReport, OperatorCommand, ForceFence, Preempt, CannotBegin>;

// One conditional transaction: record at revision `next.revision - 1` -> next, together with the
// membership change and the epoch reservation when present. Guards: term, record revision, head
// version and (when reserved) next_epoch.
struct PersistCommand {
  Step step = Step::kPrepare;
  bool touch = false;  // no step: the record changes inside its stage
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

  // The same for a forced fence. Errors: InvalidArgument: no reason, or one that is too long, or a
  // node that is no donor of what is changing hands; FailedPrecondition: nothing is being fenced,
  // the node has acknowledged, or its lease may still hold (LEASE_MAY_HOLD) and data loss is not
  // accepted: the message says until when it may, and what can be lost.
  absl::Status Check(const ForceFence& force, const MachineView& view) const;

  const MigrationRecord& record() const { return record_; }
  bool finished() const { return IsTerminal(record_.stage); }
  MigrationProgress Progress() const;

 private:
  void Absorb(const MachineEvent& event, const MachineView& view);
  void AbsorbPersisted(const MachineView& view);
  void AbsorbReport(const TaskReport& report, const MachineView& view);
  void ApplyCommand(OperatorCommand command, const MachineView& view);
  void ForgetOldIncarnations(const MachineView& view);
  void SnapshotBeliefs(const MachineView& view);

  std::optional<PersistCommand> Decide(const MachineView& view);
  std::optional<PersistCommand> DecideStage(const MachineView& view);
  std::optional<PersistCommand> DecidePlanned(const MachineView& view);
  std::optional<PersistCommand> DecideWarming(const MachineView& view);
  std::optional<PersistCommand> DecideVerifying(const MachineView& view);
  std::optional<PersistCommand> DecideFencing(const MachineView& view);
  std::optional<PersistCommand> DecideCommitted(const MachineView& view);
  std::optional<PersistCommand> DecideNextWave(const MachineView& view);
  std::optional<PersistCommand> DecideSoaking(const MachineView& view);
  std::optional<PersistCommand> DecideUndoFencing(const MachineView& view);
  std::optional<PersistCommand> AbandonUndo(const std::string& reason, const MachineView& view);

  std::optional<PersistCommand> Take(Step step, uint32_t evidence, std::string note,
                                     const MachineView& view);
  std::optional<PersistCommand> Abort(std::string reason, const MachineView& view);
  std::optional<PersistCommand> GiveWaveUp(std::string reason, const MachineView& view);
  static bool IsToBeApplied(const MachineEvent& event);
  void ApplyDue(const MachineEvent& event, const MachineView& view);
  std::optional<PersistCommand> NewAttempt(const std::string& reason, const MachineView& view);
  std::optional<PersistCommand> TryUndo(const MachineView& view);
  bool WaitsForOwners(const MachineView& view);
  std::optional<PersistCommand> PassOverExpired(const MachineView& view);
  bool MayPassOver(const NodeId& donor) const;
  bool RestsAfterFailedWave(const MachineView& view);
  bool WaitsForLease(const MachineView& view);
  std::optional<PersistCommand> TryWaveAgain(const std::string& reason, const MachineView& view);
  std::optional<PersistCommand> MakeWay(const MachineView& view);
  void ApplyForce(const ForceFence& force, const MachineView& view);
  void ApplyPreemption(const Preempt& preempt, const MachineView& view);
  Instant BeliefIn(const NodeId& donor, const MachineView& view) const;
  std::optional<PersistCommand> HandOver(Step step, const MachineView& view);
  std::string TransferTrouble(const MachineView& view);
  std::string FailureAmong(const std::set<NodeId>& nodes) const;

  absl::Duration Elapsed(const MachineView& view) const;
  absl::Duration FenceTimeout(const MachineView& view) const;
  void WakeAt(Instant instant) { wake_at_ = std::min(wake_at_, instant); }

  MigrationRecord record_;  // what is durable
  MigrationRecord draft_;   // and what operators have asked for since
  bool draft_changed_ = false;
  std::optional<MigrationRecord> persisting_;  // outstanding
  // Commands, forced fences and preemptions that wait for the persist that is outstanding.
  std::vector<MachineEvent> commands_;
  std::map<NodeId, NodeReports> reports_;  // of the present incarnations
  std::map<NodeId, Incarnation> seen_;     // in the present transfer attempt
  std::map<NodeId, Instant> beliefs_;      // lease ends, as of the entry to Fencing
  std::string held_;
  // By the machine's own time base, since it was (re)started.
  bool started_ = false;
  Instant stage_entered_;
  Instant fence_since_;    // entry to Fencing, or when expired leases were recorded
  Instant retry_persist_;  // after a conflict
  Instant retry_undo_;     // after an undo that was given up
  Instant wake_at_ = Instant::Never();
  // Since when an undo waits in this stage, and the version that its owners are to have.
  struct UndoWanted {
    Version version;
    Instant since;
  };
  std::optional<UndoWanted> undo_wanted_;
};

// The record of a new migration at revision 0 in stage Planned.
MigrationRecord NewMigrationRecord(MigrationId id, std::string author, absl::Time now,
                                   MigrationPlan plan, Preview preview, Id128 nonce);

}  // namespace warmring
