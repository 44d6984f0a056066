#include "migrations/machine_world_testing.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/placement/preference.h"
#include "migrations/handover.h"

namespace warmring {
namespace {

constexpr size_t kPoints = 64;
const absl::Duration kLease = absl::Seconds(10);
const absl::Duration kBelief = absl::Seconds(10) * 1.01 + absl::Milliseconds(100);
const absl::Duration kRenewPeriod = kLease / 4;
// What one persist or one message takes.
const absl::Duration kMoment = absl::Milliseconds(1);

HistoryId History() {
  HistoryId history;
  history.low = 7;
  return history;
}

// A finaliser that spreads a counter over all bits.
uint64_t Spread(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

MachineWorld::MachineWorld(Membership::Ptr base, MigrationPlan plan, uint64_t seed)
    : next_epoch_(100), random_(seed) {
  MembershipData data = base->data();
  data.history = History();
  head_ = *Membership::Create(std::move(data));
  const absl::StatusOr<Preview> preview = Plan(*head_, plan, {});
  if (!preview.ok()) {
    Fault("plan: " + std::string(preview.status().message()));
    return;
  }
  record_ = NewMigrationRecord("mig-1", "operator", wall_, std::move(plan), *preview,
                               Id128{1, ++next_nonce_});
  std::vector<Node> nodes = head_->nodes();
  nodes.insert(nodes.end(), preview->nodes_added.begin(), preview->nodes_added.end());
  for (const Node& node : nodes) {
    Incarnation incarnation;
    incarnation.low = ++next_incarnation_;
    owners_.emplace(node.id,
                    Owner(node.id, OwnerView(History(), head_->spec().id, node.id, incarnation)));
  }
  for (size_t i = 0; i < kPoints; ++i) AddKey(Spread(i + 1));
  // So that whatever moves is looked at: a point of each of its ranges, the first ones.
  for (const RangeMove& move : MovesOfWaves(*preview, 0, preview->waves)) {
    for (const HashRange& range : move.ranges.Ranges()) {
      if (keys_.size() < 2 * kPoints) AddKey(range.end);
    }
  }
  for (auto& [id, owner] : owners_) {
    InstallHead(owner);
    Renew(owner);
  }
  WriteEverywhere();
  machine_.emplace(record_);
  Deliver(Started());
}

void MachineWorld::AddKey(HashPoint hash) {
  const size_t i = keys_.size();
  keys_.push_back({fmt::format("{}-{}", i % 2 == 0 ? "key" : "tenant", i), hash});
}

KeyPoint MachineWorld::PointIn(const Membership& map, size_t i) const {
  return {keys_[i].hash, map.PointOf(keys_[i].name).plane};
}

KeyPoint MachineWorld::PointAt(const Owner& owner, size_t i) const {
  const Membership::Ptr& map = owner.view.membership();
  return map == nullptr ? KeyPoint(keys_[i].hash) : PointIn(*map, i);
}

uint64_t MachineWorld::Random(uint64_t below) {
  random_ += 0x9e3779b97f4a7c15;
  return Spread(random_) % below;
}

void MachineWorld::Fault(const std::string& what) {
  faults_.push_back(fmt::format("[event {}, {}] {}", events_, StageName(record_.stage), what));
}

MachineView MachineWorld::View() {
  MachineView view;
  view.now = now_;
  view.wall = wall_;
  view.head = head_;
  view.next_epoch = next_epoch_;
  view.lease = kLease;
  view.fresh_nonce = Id128{1, ++next_nonce_};
  for (const auto& [id, owner] : owners_) {
    SessionFact& fact = view.sessions[id];
    fact.connected = owner.up && owner.connected;
    fact.incarnation = owner.view.incarnation();
    fact.transfer_address = id + ":7001";
    fact.applied_version = owner.view.membership() ? owner.view.membership()->version() : Version();
    fact.belief_until = beliefs_[id];
  }
  return view;
}

void MachineWorld::Deliver(const MachineEvent& event) {
  ++events_;
  std::optional<PersistCommand> outstanding = std::move(decision_.persist);
  decision_ = machine_->OnEvent(event, View());
  const auto* persisted = std::get_if<Persisted>(&event);
  const bool answered = std::holds_alternative<PersistConflict>(event) ||
                        std::holds_alternative<Started>(event) ||
                        (outstanding.has_value() && persisted != nullptr &&
                         persisted->revision == outstanding->next.revision);
  if (outstanding.has_value() && !answered) {
    if (decision_.persist.has_value()) Fault("a second persist while one is outstanding");
    decision_.persist = std::move(outstanding);
  }
  HandOutTasks();
}

bool MachineWorld::RunUntil(const std::function<bool()>& done, int limit) {
  for (int i = 0; i < limit; ++i) {
    if (done()) return true;
    Step();
  }
  return done();
}

bool MachineWorld::RunToStage(Stage stage) {
  return RunUntil([&] { return record_.stage == stage; });
}

bool MachineWorld::RunToEnd() {
  return RunUntil([&] { return machine_->finished(); });
}

absl::Status MachineWorld::Command(OperatorCommand command) {
  const absl::Status status = machine_->Check(command);
  if (status.ok()) Deliver(command);
  return status;
}

absl::Status MachineWorld::Force(const ForceFence& force) {
  const absl::Status status = machine_->Check(force, View());
  if (status.ok()) Deliver(force);
  return status;
}

void MachineWorld::Step() {
  Misfortune();
  now_ = now_ + kMoment;
  wall_ += kMoment;
  if (decision_.persist.has_value()) {
    ExecutePersist();
  } else if (!reports_.empty()) {
    DeliverReport();
  } else {
    Tick();
  }
  WriteEverywhere();
  CheckReads();
}

void MachineWorld::Misfortune() {
  std::vector<NodeId> nodes;
  for (const auto& [id, unused] : owners_) nodes.push_back(id);
  const NodeId& node = nodes[Random(nodes.size())];
  if (Chance(chances_.restart_node)) RestartNode(node);
  if (Chance(chances_.cut_node)) SetConnected(node, !owners_.at(node).connected);
  if (Chance(chances_.restart_server)) RestartServer();
  if (Chance(chances_.command)) {
    static constexpr OperatorCommand kCommands[] = {
        OperatorCommand::kPromote, OperatorCommand::kPause, OperatorCommand::kResume,
        OperatorCommand::kAbort, OperatorCommand::kUndo};
    // Most of the time it is nothing that ends the migration.
    Command(kCommands[Random(Chance(200) ? 5 : 3)]).IgnoreError();
  }
}

void MachineWorld::ExecutePersist() {
  const PersistCommand command = *std::exchange(decision_.persist, std::nullopt);
  ++persists_;
  const Crash crash = crash_ ? crash_(persists_, command) : Crash::kNone;
  if (crash == Crash::kBefore) return RestartServer();
  if (Chance(chances_.conflict)) return Deliver(PersistConflict());
  const std::string refused = Execute(command);
  if (!refused.empty()) {
    steps_.push_back("conflict: " + refused);
    return Deliver(PersistConflict());
  }
  if (crash == Crash::kAfter) return RestartServer();
  // Publish, then send.
  if (command.update.has_value()) {
    for (auto& [id, owner] : owners_) {
      if (!Chance(chances_.lag_watch)) InstallHead(owner);
    }
  }
  decision_.persist = command;
  Deliver(Persisted{command.next.revision});
}

// One conditional transaction. Returns why its guard refuses it, if it does.
std::string MachineWorld::Execute(const PersistCommand& command) {
  if (std::string broken = CheckShape(command); !broken.empty()) Fault(broken);
  if (command.next.revision != record_.revision + 1) return "record revision";
  Membership::Ptr next = head_;
  if (command.update.has_value()) {
    const absl::StatusOr<Membership::Ptr> applied = Apply(*head_, *command.update);
    if (!applied.ok()) {
      Fault(fmt::format("{} does not apply: {}", StepName(command.step),
                        std::string(applied.status().message())));
      return "update";
    }
    next = *applied;
    if (!next->spec().domains.best_effort && CountDomainViolations(*next) > 0) {
      Fault(fmt::format("{} puts copies into one failure domain", StepName(command.step)));
    }
    if (command.next.final_version != next->version()) return "head version";
  }
  if (command.reserve_epoch) {
    if (command.next.wave_epoch != next_epoch_) return "next epoch";
    last_reserved_ = next_epoch_;
    reserved_.push_back(next_epoch_);
    next_epoch_ = next_epoch_.Next();
  }
  if (command.update.has_value()) {
    for (const Assignment& assignment : command.update->assignments) {
      if (assignment.epoch != last_reserved_) {
        Fault(fmt::format("epoch {} is assigned, and {} is the last reserved one",
                          assignment.epoch.value, last_reserved_.value));
      }
    }
  }
  head_ = next;
  record_ = command.next;
  steps_.push_back(command.touch ? "touch" : std::string(StepName(command.step)));
  return "";
}

std::string MachineWorld::CheckShape(const PersistCommand& command) const {
  if (command.failpoint.empty()) return "a persist without a failpoint";
  if (command.touch) {
    if (command.next.stage != record_.stage) return "a touch that changes the stage";
    if (command.update.has_value() || command.reserve_epoch) return "a touch that does more";
    return "";
  }
  const TransitionRule* rule = FindRule(record_.stage, command.step);
  if (rule == nullptr || rule->to != command.next.stage) {
    return fmt::format("{} leads to {}, which the table does not know", StepName(command.step),
                       StageName(command.next.stage));
  }
  return "";
}

void MachineWorld::DeliverReport() {
  TaskReport report = std::move(reports_.front());
  reports_.pop_front();
  if (Chance(chances_.lose_report)) return;
  if (filter_ && !filter_(report)) return;
  if (Chance(chances_.repeat_report)) reports_.push_back(report);
  Deliver(report);
}

// Time passes: to the next renewal, or to when the machine wants to be woken.
void MachineWorld::Tick() {
  absl::Duration step = kRenewPeriod;
  const bool wakes = decision_.wake_at < now_ + step;
  if (wakes) step = std::max(absl::ZeroDuration(), decision_.wake_at - now_);
  now_ = now_ + step;
  wall_ += step;
  for (auto& [id, owner] : owners_) {
    if (!owner.up) continue;
    InstallHead(owner);
    Renew(owner);
    React(owner);
  }
  Deliver(wakes ? MachineEvent(TimerFired()) : MachineEvent(SessionsChanged()));
}

void MachineWorld::RestartServer() {
  ++term_.value;
  reports_.clear();
  // Every lease granted before could have been granted just now.
  for (auto& [id, belief] : beliefs_) belief = std::max(belief, now_ + kBelief);
  machine_.emplace(record_);
  decision_ = Decision();
  Deliver(Started());
}

void MachineWorld::RestartNode(const NodeId& node) {
  Owner& old = owners_.at(node);
  Incarnation incarnation;
  incarnation.low = ++next_incarnation_;
  Owner fresh(node, OwnerView(History(), head_->spec().id, node, incarnation));
  fresh.connected = old.connected;
  fresh.up = old.up;
  fresh.no_grant_before = beliefs_[node];
  old = std::move(fresh);
  InstallHead(old);
  Deliver(SessionsChanged());
}

void MachineWorld::SetConnected(const NodeId& node, bool connected) {
  owners_.at(node).connected = connected;
  Deliver(SessionsChanged());
}

void MachineWorld::SetUp(const NodeId& node, bool up) {
  owners_.at(node).up = up;
  if (up) return RestartNode(node);
  Deliver(SessionsChanged());
}

void MachineWorld::StallWatch(const NodeId& node, Membership::Ptr map) {
  Owner& owner = owners_.at(node);
  owner.watch_stalled = map != nullptr;
  if (map == nullptr) return InstallHead(owner);
  MembershipData data = map->data();
  data.history = History();
  owner.view = OwnerView(History(), head_->spec().id, node, owner.view.incarnation());
  if (!owner.view.Install(*Membership::Create(std::move(data))).ok()) Fault("no older map");
  const uint64_t seq = owner.view.Renew(now_);
  if (!owner.view.Grant({seq, term_, kLease, map->version(), {}}).ok()) Fault("no older lease");
}

void MachineWorld::MoveHeadOn(const Update& update) { head_ = *Apply(*head_, update); }

// An owner installs from its own watch, which is another connection than its session.
void MachineWorld::InstallHead(Owner& owner) {
  if (!owner.up || !owner.connected || owner.watch_stalled) return;
  const Membership::Ptr before = owner.view.membership();
  if (before != nullptr && before->version() == head_->version()) return;
  const absl::Status installed = owner.view.Install(head_);
  if (!installed.ok()) return Fault("install: " + std::string(installed.message()));
  for (size_t i = 0; i < keys_.size(); ++i) {
    const bool owned_before =
        before != nullptr &&
        before->nodes()[before->RangeOf(PointIn(*before, i)).owner].id == owner.id;
    if (owner.view.Owns(PointAt(owner, i)) && !owned_before && before != nullptr) {
      owner.dirty_complete = true;
    }
    if (owner.view.IsEntitled(PointAt(owner, i))) continue;
    owner.dirty.erase(i);
    const std::optional<NodeIndex> self = head_->FindNode(owner.id);
    if (!self.has_value() || !head_->IsFollower(*self, keys_[i].hash)) owner.values.erase(i);
  }
}

void MachineWorld::Renew(Owner& owner) {
  if (!owner.up || !owner.connected || now_ < owner.no_grant_before) return;
  LeaseGrant grant;
  grant.seq = owner.view.Renew(now_);
  grant.term = term_;
  grant.ttl = kLease;
  grant.version = head_->version();
  grant.floors = decision_.FloorsOf(owner.id);
  Instant& belief = beliefs_[owner.id];
  belief = std::max(belief, now_ + kBelief);
  if (const absl::Status granted = owner.view.Grant(grant); !granted.ok()) {
    Fault("grant: " + std::string(granted.message()));
  }
}

void MachineWorld::HandOutTasks() {
  for (auto& [id, owner] : owners_) {
    if (!owner.up || !owner.connected) continue;
    const auto it = decision_.tasks.find(id);
    std::vector<Task> tasks;
    if (it != decision_.tasks.end()) tasks = it->second;
    if (tasks == owner.tasks) continue;
    owner.tasks = std::move(tasks);
    React(owner);
  }
}

void MachineWorld::React(Owner& owner) {
  if (!owner.up) return;
  for (const Task& task : std::vector<Task>(owner.tasks)) ReactTo(owner, task);
}

void MachineWorld::ReactTo(Owner& owner, const Task& task) {
  if (const auto* warm = std::get_if<WarmTask>(&task.body)) {
    Warm(owner, task, *warm);
  } else if (const auto* verify = std::get_if<VerifyTask>(&task.body)) {
    if (owner.nonce == task.nonce && owner.copied) {
      Report(owner, task, VerifyReport{verify->sample, 0, true});
    }
  } else if (const auto* fence = std::get_if<FenceTask>(&task.body)) {
    if (!owner.view.CheckPlanes(fence->ranges).ok()) return;
    if (owner.fence != *fence) {
      owner.view.Fence(fence->ranges, fence->floor);
      owner.fence = *fence;
      owner.ack = {fence->floor, owner.view.incarnation().ToString(), owner.position,
                   owner.dirty_complete};
    }
    Report(owner, task, owner.ack);
  } else if (const auto* prepare = std::get_if<PrepareTask>(&task.body)) {
    Prepare(owner, task, *prepare);
  }
}

// First time: purge and say so. From then on: everything that the donors have, again and again.
void MachineWorld::Warm(Owner& owner, const Task& task, const WarmTask& warm) {
  if (owner.nonce != task.nonce) {
    owner.nonce = task.nonce;
    owner.copied = false;
    owner.dropped.clear();
    for (size_t i = 0; i < keys_.size(); ++i) {
      for (const TransferSource& source : warm.sources) {
        if (!source.ranges.Contains(PointAt(owner, i))) continue;
        if (owner.view.Owns(PointAt(owner, i))) Fault(owner.id + " purges what it owns");
        owner.values.erase(i);
      }
    }
    owner.purged = true;
    Report(owner, task, WarmReport{true, false, 0, 0, 100});
    return;
  }
  bool all = true;
  for (const TransferSource& source : warm.sources) {
    all = !source.transfer_address.empty() && CopyFrom(owner, source) && all;
  }
  owner.copied = owner.copied || all;
  Report(owner, task, WarmReport{true, owner.copied, 100, 1000, 100});
}

std::optional<PrepareTask> MachineWorld::PrepareOf(const NodeId& node,
                                                   PrepareTask::Mode mode) const {
  const auto it = decision_.tasks.find(node);
  if (it == decision_.tasks.end()) return std::nullopt;
  for (const Task& task : it->second) {
    const auto* body = std::get_if<PrepareTask>(&task.body);
    if (body != nullptr && body->mode == mode) return *body;
  }
  return std::nullopt;
}

size_t MachineWorld::Stored(const NodeId& node, const HashRangeSet& ranges) const {
  const Owner& owner = owners_.at(node);
  return static_cast<size_t>(
      std::count_if(owner.values.begin(), owner.values.end(),
                    [&](const auto& item) { return ranges.Contains(PointAt(owner, item.first)); }));
}

void MachineWorld::Prepare(Owner& owner, const Task& task, const PrepareTask& prepare) {
  PreparedReport report;
  report.epoch = prepare.epoch;
  report.mode = prepare.mode;
  for (const PrepareTask::Donor& donor : prepare.donors) {
    const Owner& from = owners_.at(donor.source.donor);
    report.donors.push_back(donor.source.donor);
    report.log_ids.push_back(donor.log_id);
    report.applied.push_back(donor.watermark);
    const bool there = from.up && from.view.incarnation().ToString() == donor.log_id;
    switch (prepare.mode) {
      case PrepareTask::Mode::kChanges:
        if (owner.nonce != task.nonce || !owner.copied || !there) return;
        CopyFrom(owner, donor.source);
        break;
      case PrepareTask::Mode::kDirty:
        if (!there) return;
        for (size_t i : from.dirty) {
          const auto value = from.values.find(i);
          if (value == from.values.end()) continue;
          if (donor.source.ranges.Contains(PointAt(owner, i))) owner.values[i] = value->second;
        }
        break;
      case PrepareTask::Mode::kPurge:
        for (size_t i = 0; i < keys_.size(); ++i) {
          if (!donor.source.ranges.Contains(PointAt(owner, i))) continue;
          owner.values.erase(i);
          owner.dropped.insert(i);
        }
        break;
    }
  }
  Report(owner, task, report);
}

bool MachineWorld::CopyFrom(Owner& to, const TransferSource& source) {
  const Owner& from = owners_.at(source.donor);
  if (!from.up) return false;
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (!source.ranges.Contains(PointAt(to, i)) || to.view.Owns(PointAt(to, i))) continue;
    if (to.dropped.count(i) > 0) Fault(to.id + " copies what it had to drop");
    const auto value = from.values.find(i);
    if (value == from.values.end()) {
      to.values.erase(i);
    } else {
      to.values[i] = value->second;
    }
  }
  return true;
}

template <typename Body>
void MachineWorld::Report(const Owner& owner, const Task& task, Body body) {
  if (!owner.connected) return;
  reports_.push_back(
      {task.migration, task.wave, task.nonce, owner.id, owner.view.incarnation(), std::move(body)});
}

// Every owner that admits a write of a point takes one. Two would break the first promise.
void MachineWorld::WriteEverywhere() {
  for (size_t i = 0; i < keys_.size(); ++i) {
    NodeId writer;
    for (auto& [id, owner] : owners_) {
      if (!owner.up || !owner.view.AdmitPlain(PointAt(owner, i), now_).ok()) continue;
      if (!writer.empty()) {
        Fault(fmt::format("{} and {} both accept a write of {:016x}", writer, id, keys_[i].hash));
      }
      writer = id;
      owner.values[i] = latest_[i] = ++next_value_;
      owner.dirty.insert(i);
      ++owner.position;
    }
    if (!writer.empty()) CopyToFollowers(i);
    if (!writer.empty()) {
      unowned_since_[i] = now_;
    } else if (unowned_since_.count(i) > 0) {
      unowned_ = std::max(unowned_, now_ - unowned_since_[i]);
    }
  }
}

void MachineWorld::CopyToFollowers(size_t i) {
  const size_t range = head_->RangeIndexOf(keys_[i].hash);
  for (const NodeIndex follower : head_->FollowersAt(range)) {
    if (follower == kNoNode) continue;
    Owner& owner = owners_.at(head_->nodes()[follower].id);
    if (owner.up && !owner.view.Owns(PointAt(owner, i))) owner.values[i] = latest_[i];
  }
}

std::vector<std::string> MachineWorld::NotWritable() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < keys_.size(); ++i) {
    const bool writable = std::any_of(owners_.begin(), owners_.end(), [&](const auto& item) {
      const Owner& owner = item.second;
      return owner.up && owner.view.AdmitPlain(PointAt(owner, i), now_).ok();
    });
    if (!writable) names.push_back(keys_[i].name);
  }
  return names;
}

// The owner under the present epoch holds the last acknowledged value or none.
void MachineWorld::CheckReads() {
  for (size_t i = 0; i < keys_.size(); ++i) {
    const OwnedRange range = head_->RangeOf(PointIn(*head_, i));
    const Owner& owner = owners_.at(head_->nodes()[range.owner].id);
    // What a checked read asks: mine, and under the epoch that the client knows.
    const Membership::Ptr& map = owner.view.membership();
    if (!owner.up || map == nullptr || !owner.view.Owns(PointAt(owner, i))) continue;
    if (map->RangeOf(PointIn(*map, i)).epoch != range.epoch) continue;
    const auto value = owner.values.find(i);
    if (value != owner.values.end() && value->second != latest_[i]) {
      Fault(fmt::format("{} serves value {} of {:016x}, and {} was acknowledged", owner.id,
                        value->second, keys_[i].hash, latest_[i]));
    }
  }
}

}  // namespace warmring
