#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/membership/membership.h"
#include "core/ownership/owner_view.h"
#include "migrations/migration_machine.h"

namespace warmring {

// A small world for stories about one migration: a store that executes persists, owners that hold
// leases, take writes, copy and answer tasks, and a machine that may be lost and begun again from
// its record at any point. It checks the promises after everything that happens and collects what
// breaks them in `faults()`. Where a range has followers, an application copies to them what their
// owner accepts, before it is acknowledged. Deterministic: no clock, no thread; chance comes from a
// seed.
class MachineWorld {
 public:
  // What may go wrong by chance at each step, in 1/1000.
  struct Chances {
    uint32_t lose_report = 0;
    uint32_t repeat_report = 0;
    uint32_t restart_node = 0;
    uint32_t cut_node = 0;   // session lost; comes back by chance too
    uint32_t lag_watch = 0;  // a new version is not seen before the next tick
    uint32_t restart_server = 0;
    uint32_t conflict = 0;  // a persist meets a conflict although nothing moved
    uint32_t command = 0;   // an operator asks for something
  };

  MachineWorld(Membership::Ptr base, MigrationPlan plan, uint64_t seed = 1);

  // Lets one thing happen: an outstanding persist, else the next report, else time passes.
  void Step();
  // Steps until `done` or `limit` steps. Returns whether it came true.
  bool RunUntil(const std::function<bool()>& done, int limit = 20'000);
  bool RunToStage(Stage stage);
  bool RunToEnd();

  // Operators.
  absl::Status Command(OperatorCommand command);
  absl::Status Force(const ForceFence& force);

  // Faults.
  void RestartServer();  // the machine begins again from its record; sessions re-open
  void RestartNode(const NodeId& node);
  void SetConnected(const NodeId& node, bool connected);
  void SetUp(const NodeId& node, bool up);  // down: no session, serves nothing, answers nothing
  // The watch of a node, which is another connection than its session, stands still: from now on,
  // or since an older membership, `map`, under which it got its last lease. Until null.
  void StallWatch(const NodeId& node, Membership::Ptr map);
  void set_chances(const Chances& chances) { chances_ = chances; }
  // Called at each persist with its number from 1; what it returns happens to it.
  enum class Crash { kNone, kBefore, kAfter };
  void set_crash(std::function<Crash(int, const PersistCommand&)> crash) {
    crash_ = std::move(crash);
  }
  // May change a report before it is delivered, or drop it by returning false.
  void set_report_filter(std::function<bool(TaskReport&)> filter) { filter_ = std::move(filter); }
  // Another change of the membership, not of this migration.
  void MoveHeadOn(const Update& update = {});
  void Deliver(const MachineEvent& event);

  const MigrationRecord& record() const { return record_; }
  const MigrationMachine& machine() const { return *machine_; }
  const Membership& head() const { return *head_; }
  Membership::Ptr head_ptr() const { return head_; }
  const std::map<NodeId, std::vector<Task>>& tasks() const { return decision_.tasks; }
  const std::vector<std::string>& steps() const { return steps_; }  // taken, touches too
  const std::vector<std::string>& faults() const { return faults_; }
  // How many of the keys in `ranges` the node has a value of.
  size_t Stored(const NodeId& node, const HashRangeSet& ranges) const;
  // Names of the keys of which nobody accepts a write now.
  std::vector<std::string> NotWritable() const;
  const std::vector<Epoch>& reserved() const { return reserved_; }
  int persists() const { return persists_; }
  int events() const { return events_; }
  Instant now() const { return now_; }
  Incarnation IncarnationOf(const NodeId& node) const {
    return owners_.at(node).view.incarnation();
  }
  absl::Duration unowned() const { return unowned_; }  // longest that no owner took writes

  template <typename Body>
  std::optional<Body> TaskOf(const NodeId& node) const {
    const auto it = decision_.tasks.find(node);
    if (it == decision_.tasks.end()) return std::nullopt;
    for (const Task& task : it->second) {
      if (const auto* body = std::get_if<Body>(&task.body)) return *body;
    }
    return std::nullopt;
  }
  std::optional<PrepareTask> PrepareOf(const NodeId& node, PrepareTask::Mode mode) const;

 private:
  struct Owner {
    Owner(NodeId node, OwnerView owner_view) : id(std::move(node)), view(std::move(owner_view)) {}

    NodeId id;
    OwnerView view;
    bool up = true;
    bool connected = true;
    bool watch_stalled = false;
    Instant no_grant_before;  // an older incarnation may hold a lease until then
    std::vector<Task> tasks;  // as last delivered
    Id128 nonce;              // of the transfer under way
    bool purged = false;
    bool copied = false;
    uint64_t position = 0;  // of the change log
    bool dirty_complete = false;
    std::optional<FenceTask> fence;  // the last one, and its answer: where the log stood then
    FenceAck ack;
    std::set<size_t> dropped;           // points purged in a hand-over: nothing may fill them
    std::set<size_t> dirty;             // points written since activation
    std::map<size_t, uint64_t> values;  // by point
  };

  void AddKey(HashPoint hash);
  // Where key `i` is by a map, and by the map of an owner.
  KeyPoint PointIn(const Membership& map, size_t i) const;
  KeyPoint PointAt(const Owner& owner, size_t i) const;
  uint64_t Random(uint64_t below);
  bool Chance(uint32_t per_mille) { return Random(1000) < per_mille; }
  MachineView View();
  void ExecutePersist();
  std::string Execute(const PersistCommand& command);
  std::string CheckShape(const PersistCommand& command) const;
  void DeliverReport();
  void Tick();
  void Misfortune();
  void InstallHead(Owner& owner);
  void Renew(Owner& owner);
  void HandOutTasks();
  void React(Owner& owner);
  void ReactTo(Owner& owner, const Task& task);
  void Warm(Owner& owner, const Task& task, const WarmTask& warm);
  void Prepare(Owner& owner, const Task& task, const PrepareTask& prepare);
  bool CopyFrom(Owner& to, const TransferSource& source);
  template <typename Body>
  void Report(const Owner& owner, const Task& task, Body body);
  void WriteEverywhere();
  void CopyToFollowers(size_t i);
  void CheckReads();
  void Fault(const std::string& what);

  Membership::Ptr head_;
  Epoch next_epoch_;
  MigrationRecord record_;
  uint64_t random_;
  // Every other one begins with "tenant-", for overrides.
  struct Key {
    std::string name;
    HashPoint hash = 0;  // in place of that of its name, so that all that moves can be looked at
  };
  std::vector<Key> keys_;
  std::map<size_t, uint64_t> latest_;  // acknowledged value of each point
  uint64_t next_value_ = 0;
  std::map<NodeId, Owner> owners_;
  std::map<NodeId, Instant> beliefs_;
  std::optional<MigrationMachine> machine_;
  Decision decision_;
  std::deque<TaskReport> reports_;
  Term term_{1};
  Instant now_{1'000'000'000'000};
  absl::Time wall_ = absl::FromUnixSeconds(1'800'000'000);
  uint64_t next_incarnation_ = 0;
  uint64_t next_nonce_ = 0;
  Epoch last_reserved_;
  std::vector<Epoch> reserved_;
  std::map<size_t, Instant> unowned_since_;
  absl::Duration unowned_;
  std::vector<std::string> steps_;
  std::vector<std::string> faults_;
  int persists_ = 0;
  int events_ = 0;
  Chances chances_;
  std::function<Crash(int, const PersistCommand&)> crash_;
  std::function<bool(TaskReport&)> filter_;
};

}  // namespace warmring
