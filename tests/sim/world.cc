#include "tests/sim/world.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace warmring::sim {
namespace {

constexpr Site kFirstNodeSite = 2;
constexpr size_t kMembers = 3;  // at the beginning; one node is to be added
constexpr size_t kNodes = 4;
constexpr size_t kKeys = 24;
constexpr size_t kClients = 2;
constexpr Site kFirstClientSite = kFirstNodeSite + kNodes;
// When the faults have stopped, everything must have ended by then.
constexpr Nanos kPatience = 900 * kSecond;

Node MakeNode(const NodeId& id) {
  Node node;
  node.id = id;
  node.address = id + ".example:6379";
  return node;
}

}  // namespace

World::World(const Options& options)
    : options_(options), random_(options.seed), network_(&scheduler_, &random_) {
  history_.high = random_.Next();
  history_.low = random_.Next();
  history_tag_ = history_.Tag();
  for (size_t i = 0; i < kNodes; ++i) nodes_.push_back(fmt::format("n{}", i));
  for (size_t i = 0; i < kKeys; ++i) keys_.push_back(fmt::format("key-{}", i));
  checker_ = std::make_unique<Checker>(this, keys_);
  DrawProfile();
}

World::~World() {
  // What they hold refers to others of them.
  if (server_ != nullptr) server_->Die();
  for (const auto& server : deposed_) server->Die();
  for (const auto& [node, agent] : agents_) agent->Die();
  for (const auto& engine : engines_) engine->Die();
  for (const auto& client : clients_) client->Die();
}

void World::Trace(const std::string& what) {
  options_.trace(fmt::format("{:10.4f}s step {:7} {}",
                             static_cast<double>(scheduler_.now()) / kSecond, scheduler_.steps(),
                             what));
}

void World::DrawProfile() {
  Profile& p = profile_;
  static constexpr uint32_t kFaults[] = {0, 30, 100, 300};
  p.faults = kFaults[random_.Below(4)];
  p.two_steps = random_.Chance(250);
  p.ring = random_.Chance(600);
  p.traps = random_.Chance(300) ? 100 : 800;
  if (random_.Chance(300)) lease_ = absl::Seconds(3);
  static constexpr Nanos kPauses[] = {20 * kMilli, 100 * kMilli, 400 * kMilli};
  p.client_pause = kPauses[random_.Below(3)];
  Network::Weather& weather = network_.weather();
  switch (random_.Below(4)) {
    case 0:  // one rack
      weather.delay_min = 50 * kMicro;
      weather.delay_max = 500 * kMicro;
      p.disk_max = 500 * kMicro;
      break;
    case 1:
      weather.slow = 20;
      p.disk_max = 20 * kMilli;
      p.loopback_max = 5 * kMilli;
      break;
    case 2:
      weather.delay_max = 30 * kMilli;
      p.disk_slow = 50;
      break;
    default:
      break;
  }
  weather.soup = random_.Chance(300);
  if (weather.soup) {
    weather.lose = static_cast<uint32_t>(random_.Below(60));
    weather.repeat = static_cast<uint32_t>(random_.Below(100));
  }
  p.unknown = random_.Chance(300) ? 1000 : 0;

  // The half of the seeds is at the edge of the bound, in the direction that is dangerous: slow
  // owners, fast servers. (1 + a) / (1 - a) is a little more than 1 + 2 a.
  const int64_t most = options_.clock_rate_ppm;
  const int64_t half = most / 2 - most * most / 4'000'000;
  const bool edge = random_.Chance(500);
  server_rate_ = edge ? half : random_.Between(-half, half);
  for (const NodeId& node : nodes_)
    owner_rates_[node] = edge ? -half : random_.Between(-half, half);
}

Site World::SiteOf(const NodeId& node) const {
  const auto at = std::find(nodes_.begin(), nodes_.end(), node);
  return kFirstNodeSite + static_cast<Site>(at - nodes_.begin());
}

Incarnation World::FreshIncarnation() {
  Incarnation incarnation;
  incarnation.high = random_.Next();
  incarnation.low = random_.Next() | 1;
  return incarnation;
}

Nanos World::WriteTime() {
  if (random_.Chance(30)) return random_.Between(0, 15 * kSecond);
  return random_.Between(0, 30 * kMilli);
}

Nanos World::DiskDelay() {
  if (!calm_ && random_.Chance(profile_.disk_slow)) return random_.Between(0, 3 * kSecond);
  return random_.Between(profile_.disk_min, profile_.disk_max);
}

Nanos World::ClientPause() {
  const Nanos pause = calm_ ? 400 * kMilli : profile_.client_pause;
  return random_.Between(pause / 2, pause * 3 / 2);
}

World::Outcome World::NextOutcome() {
  if (calm_ || random_.Below(100'000) >= profile_.unknown) return Outcome::kKnown;
  Note([] { return "a commit whose outcome is not known"; });
  static constexpr Outcome kOutcomes[] = {Outcome::kWritten, Outcome::kNotWritten,
                                          Outcome::kWrittenLater};
  return kOutcomes[random_.Below(3)];
}

bool World::LosesTasks(const NodeId& node) const {
  const auto until = tasks_lost_until_.find(node);
  return until != tasks_lost_until_.end() && scheduler_.now() < until->second;
}

void World::CreateKeyspace() {
  KeyspaceSpec spec;
  spec.id = keyspace_;
  spec.placement = profile_.ring ? PlacementKind::kRing : PlacementKind::kDirectory;
  spec.directory_bits = KeyspaceSpec::kMinDirectoryBits;
  spec.tokens_per_node = 4;
  std::vector<Node> members;
  for (size_t i = 0; i < kMembers; ++i) members.push_back(MakeNode(nodes_[i]));
  const absl::StatusOr<HeadChange> created =
      Keyspace::Create(history_, spec, members, {}, absl::FromUnixSeconds(1'800'000'000));
  if (!created.ok()) return checker_->Violate("create: " + std::string(created.status().message()));
  for (const Batch& batch : created->before) durable_.Commit(batch).IgnoreError();
  durable_.Commit(created->batch).IgnoreError();
  checker_->OnCreated(created->next->membership);
}

void World::StartServer() {
  if (server_ != nullptr) return;
  server_ = std::make_shared<Server>(this, server_rate_, random_.Between(kSecond, 1000 * kSecond));
  const absl::Status started = server_->Start();
  Note([&] { return fmt::format("server of term {} starts", server_->term().value); });
  if (!started.ok()) checker_->Violate("start: " + std::string(started.message()));
}

void World::RestartServer(Nanos after) {
  scheduler_.At(scheduler_.now() + after, [this] { StartServer(); });
}

void World::CrashServer(Nanos down) {
  if (server_ == nullptr) return;
  Note([] { return "server is killed"; });
  ++restarts_;
  server_->Die();
  server_.reset();
  RestartServer(down);
}

void World::DeposeServer() {
  if (server_ == nullptr) return;
  Note([&] { return fmt::format("server of term {} is deposed", server_->term().value); });
  ++restarts_;
  server_->Depose();
  deposed_.push_back(std::exchange(server_, nullptr));
  RestartServer(random_.Between(kMilli, 50 * kMilli));
}

void World::OnServerFailed(Server* server) {
  Note([&] { return fmt::format("server of term {} ends by its store", server->term().value); });
  server->Die();
  if (server != server_.get()) return;
  ++restarts_;
  // It is still running its last piece of work.
  scheduler_.At(scheduler_.now(), [keep = std::exchange(server_, nullptr)] {});
  RestartServer(random_.Between(10 * kMilli, calm_ ? 20 * kMilli : 3 * kSecond));
}

std::shared_ptr<Server> World::PickServer(Site from) {
  std::shared_ptr<Server> server = server_;
  if (random_.Chance(400)) {
    for (const auto& deposed : deposed_) {
      if (deposed->alive()) server = deposed;
    }
  }
  if (server == nullptr || !server->alive()) return nullptr;
  if (network_.IsCut(from, server->site()) || network_.IsCut(server->site(), from)) return nullptr;
  return server;
}

std::shared_ptr<Engine> World::EngineOf(const NodeId& node) const {
  const auto found = present_.find(node);
  return found == present_.end() ? nullptr : found->second;
}

std::shared_ptr<Engine> World::EngineForClient(const NodeId& node) {
  if (random_.Chance(400)) {
    for (const auto& engine : engines_) {
      if (engine->replaced() && engine->node() == node && engine->alive()) return engine;
    }
  }
  return EngineOf(node);
}

std::shared_ptr<Agent> World::AgentOf(const NodeId& node) const {
  const auto found = agents_.find(node);
  return found == agents_.end() ? nullptr : found->second;
}

void World::StartEngine(const NodeId& node) {
  auto engine = std::make_shared<Engine>(
      this, node, SiteOf(node), owner_rates_[node], random_.Between(kSecond, 1000 * kSecond),
      FreshIncarnation(), random_.Next() >> 1, profile_.two_steps);
  engines_.push_back(engine);
  present_[node] = engine;
}

void World::RestartEngine(const NodeId& node, Nanos down) {
  const std::shared_ptr<Engine> old = EngineOf(node);
  if (old == nullptr) return;
  Note([&] { return fmt::format("engine of {} is killed", node); });
  ++restarts_;
  checker_->OnEngineLost(*old);
  // What it has on disk may be old; here it is what it had.
  const bool on_disk = random_.Chance(500);
  std::map<std::string, uint64_t> values;
  if (on_disk) values = old->values();
  old->Die();
  present_.erase(node);
  std::erase(engines_, old);
  scheduler_.At(scheduler_.now() + down, [this, node, values = std::move(values)] {
    if (present_.contains(node)) return;
    StartEngine(node);
    present_[node]->Load(values);
  });
}

void World::ReplaceEngine(const NodeId& node, Nanos old_lives) {
  const std::shared_ptr<Engine> old = EngineOf(node);
  if (old == nullptr) return;
  Note([&] { return fmt::format("engine of {} is replaced, and lives on", node); });
  ++restarts_;
  checker_->OnEngineLost(*old);
  old->SetReplaced();
  StartEngine(node);
  scheduler_.At(scheduler_.now() + old_lives, [this, old] {
    if (!old->alive()) return;
    old->Die();
    std::erase(engines_, old);
  });
}

void World::StartAgent(const NodeId& node) {
  auto agent = std::make_shared<Agent>(this, node, SiteOf(node), owner_rates_[node],
                                       random_.Between(kSecond, 1000 * kSecond));
  agents_[node] = agent;
  agent->Start();
}

void World::RestartAgent(const NodeId& node, Nanos down) {
  const std::shared_ptr<Agent> old = AgentOf(node);
  if (old == nullptr) return;
  Note([&] { return fmt::format("agent of {} is killed", node); });
  ++restarts_;
  old->Die();
  agents_.erase(node);
  scheduler_.At(scheduler_.now() + down, [this, node, old] {
    if (!agents_.contains(node)) StartAgent(node);
  });
}

void World::CutSites(Site a, Site b, bool both, Nanos time) {
  Note([&] { return fmt::format("site {} {}> {} is cut", a, both ? "<-" : "-", b); });
  network_.Cut(a, b, true);
  if (both) network_.Cut(b, a, true);
  scheduler_.At(scheduler_.now() + time, [this, a, b] {
    network_.Cut(a, b, false);
    network_.Cut(b, a, false);
  });
}

void World::CutDonors(const Trapped& trapped, Nanos time) {
  for (const NodeId& donor : trapped.donors) {
    CutSites(SiteOf(donor), kServerSite, true, time);
    CutSites(SiteOf(donor), kDeposedSite, true, time);
  }
}

void World::LookForFaults() {
  if (calm_) return;
  if (random_.Chance(profile_.faults)) Misfortune();
  scheduler_.At(scheduler_.now() + random_.Between(50 * kMilli, 400 * kMilli),
                [this] { LookForFaults(); });
}

void World::Misfortune() {
  const NodeId& node = nodes_[random_.Below(nodes_.size())];
  const Nanos moment = random_.Between(kMilli, 300 * kMilli);
  const Nanos while_ = random_.Chance(700) ? random_.Between(100 * kMilli, 4 * kSecond)
                                           : random_.Between(4 * kSecond, 40 * kSecond);
  switch (random_.Below(12)) {
    case 0:
    case 1:
      return CrashServer(random_.Chance(800) ? moment : while_);
    case 2:
      return RestartAgent(node, random_.Chance(800) ? moment : while_);
    case 3:
      return RestartEngine(node, random_.Chance(800) ? moment : while_);
    case 4:
      RestartAgent(node, moment);
      return RestartEngine(node, moment);
    case 5:
      return ReplaceEngine(node, random_.Between(kSecond, 40 * kSecond));
    case 6:
    case 7:
      return CutSites(SiteOf(node), kServerSite, random_.Chance(500), while_);
    case 8:
      return CutSites(kServerSite, SiteOf(node), random_.Chance(500), while_);
    case 9:
      return CutSites(SiteOf(node), SiteOf(nodes_[random_.Below(nodes_.size())]),
                      random_.Chance(500), while_);
    case 10:
      return CutSites(kFirstClientSite + static_cast<Site>(random_.Below(kClients)),
                      random_.Chance(500) ? kServerSite : SiteOf(node), random_.Chance(500),
                      while_);
    default:
      if (deposed_.empty()) return DeposeServer();
      deposed_.front()->Die();
  }
}

void World::Reap() {
  std::erase_if(deposed_, [](const auto& server) { return !server->alive(); });
}

void World::LookForOperators() {
  Reap();
  Operate();
  const Nanos pause = calm_ ? kSecond : random_.Between(50 * kMilli, 1500 * kMilli);
  scheduler_.At(scheduler_.now() + pause, [this] { LookForOperators(); });
}

void World::Operate() {
  if (server_ == nullptr) return;
  const std::vector<MigrationId> active = checker_->Active();
  if (calm_) {
    for (const MigrationId& id : active) {
      const Checker::Migration& migration = checker_->migrations().at(id);
      if (migration.paused) server_->Command(id, OperatorCommand::kResume);
      if (migration.awaiting_promotion) server_->Command(id, OperatorCommand::kPromote);
    }
    return;
  }
  if (active.empty() || random_.Chance(80)) return SubmitPlan();
  static constexpr OperatorCommand kCommands[] = {OperatorCommand::kPromote,
                                                  OperatorCommand::kResume, OperatorCommand::kPause,
                                                  OperatorCommand::kAbort, OperatorCommand::kUndo};
  const MigrationId& id = active[random_.Below(active.size())];
  const bool is_trapped = id == trapped_.id && trapped_.armed;
  if (random_.Chance(30)) {
    server_->Force(id, nodes_[random_.Below(nodes_.size())]);
  } else if (random_.Chance(is_trapped ? 30 : 150)) {
    server_->Command(id, kCommands[random_.Below(random_.Chance(400) ? 5 : 2)]);
  } else if (checker_->migrations().at(id).paused && random_.Chance(400)) {
    server_->Command(id, OperatorCommand::kResume);
  }
}

absl::Duration World::DrawFenceTimeout() {
  // When the server stops believing in the lease that an owner was granted just now.
  const absl::Duration belief = lease_ * 1.01 + absl::Milliseconds(100);
  switch (random_.Below(8)) {
    case 0:
      return absl::Milliseconds(random_.Between(50, 800));
    case 1:
      return lease_ + absl::Milliseconds(1);
    case 2:
      return belief + absl::Milliseconds(1);
    case 3:
      return belief + absl::Milliseconds(random_.Between(1, 300));
    case 4:
      return lease_ * 2;
    case 5:
    case 6:
      return lease_ * (static_cast<double>(random_.Between(70, 110)) / 100.0);
    default:
      return absl::Milliseconds(random_.Between(1000, 6000));
  }
}

MigrationPlan World::DrawPlan() {
  const Membership& map = *checker_->truth();
  MigrationPlan plan;
  plan.keyspace = keyspace_;
  std::vector<NodeId> others;
  for (const NodeId& node : nodes_) {
    if (!map.FindNode(node)) others.push_back(node);
  }
  const NodeId member = map.nodes()[random_.Below(map.nodes().size())].id;
  const uint64_t kind = random_.Below(10);
  if (!profile_.ring && kind < 6) {
    MoveBuckets move;
    std::set<uint32_t> buckets;
    const uint64_t count = 1 + random_.Below(6);
    for (uint64_t i = 0; i < count; ++i) {
      const KeyPoint point = map.PointOf(keys_[random_.Below(keys_.size())]);
      buckets.insert(static_cast<uint32_t>(map.RangeIndexOf(point.hash)));
    }
    move.buckets.assign(buckets.begin(), buckets.end());
    move.to = member;
    plan.changes.emplace_back(std::move(move));
  } else if (!profile_.ring && kind == 6) {
    plan.changes.emplace_back(SetWeight{member, static_cast<uint32_t>(random_.Between(500, 1500))});
  } else if (kind == 7 && random_.Chance(300)) {
    plan.changes.emplace_back(RemoveNode{member, true});
  } else if (kind == 8 && !others.empty()) {
    plan.changes.emplace_back(
        ReplaceNode{member, MakeNode(others[random_.Below(others.size())]), random_.Chance(400)});
  } else if (!others.empty()) {
    plan.changes.emplace_back(AddNode{MakeNode(others[random_.Below(others.size())])});
  } else {
    plan.changes.emplace_back(RemoveNode{member});
  }
  Strategy& strategy = plan.strategy;
  switch (random_.Below(3)) {
    case 0:
      strategy.commit_steps_ppm = {1'000'000};
      break;
    case 1:
      strategy.commit_steps_ppm = {400'000, 1'000'000};
      break;
    default:
      strategy.commit_steps_ppm = {200'000, 600'000, 1'000'000};
  }
  strategy.hold = absl::Milliseconds(random_.Chance(500) ? 0 : random_.Between(0, 2000));
  strategy.soak = absl::Milliseconds(random_.Between(0, 3000));
  strategy.warm_timeout = absl::Seconds(random_.Between(5, 60));
  strategy.fence_timeout = DrawFenceTimeout();
  strategy.fence_policy = random_.Chance(800) ? FencePolicy::kAckOrLease : FencePolicy::kAckOnly;
  strategy.await_promotion = random_.Chance(300);
  strategy.wave_attempts = static_cast<uint32_t>(random_.Between(1, 3));
  strategy.on_wave_failure = random_.Chance(300) ? WaveFailure::kPause : WaveFailure::kUndo;
  strategy.on_conflict = random_.Chance(400) ? OnConflict::kQueue : OnConflict::kRefuse;
  return plan;
}

void World::SubmitPlan() {
  const bool trapped = random_.Chance(profile_.traps);
  Trap trap = Trap::kNone;
  if (trapped) trap = static_cast<Trap>(1 + random_.Below(static_cast<uint64_t>(Trap::kLast)));
  if (trapped && options_.focus != Trap::kNone) trap = options_.focus;
  const bool wants_deposed = trap == Trap::kHalfOpen || trap == Trap::kRestartAcknowledged;
  if (wants_deposed && deposed_.empty() && random_.Chance(500)) return DeposeServer();
  MigrationPlan plan = DrawPlan();
  if (trapped) {
    plan.strategy.await_promotion = true;
    plan.strategy.on_conflict = OnConflict::kRefuse;
    if (random_.Chance(900)) plan.strategy.fence_policy = FencePolicy::kAckOrLease;
    if (trap == Trap::kSecondWave) {
      plan.strategy.commit_steps_ppm = {400'000, 1'000'000};
      plan.strategy.hold = absl::ZeroDuration();
      plan.strategy.fence_timeout = lease_ * (static_cast<double>(random_.Between(80, 101)) / 100);
    }
    if (trap == Trap::kCutAndRestart && random_.Chance(300)) {
      plan.strategy.fence_timeout = absl::Milliseconds(random_.Between(20, 300));
    }
  }
  const MigrationId id = fmt::format("m{}", ++next_migration_);
  server_->Submit(
      std::move(plan), id, [this, id, trap](const absl::StatusOr<Conductor::Submitted>& submitted) {
        Note([&] {
          return fmt::format("{} {} trap {}", id,
                             submitted.ok() ? "is submitted" : submitted.status().ToString(),
                             static_cast<int>(trap));
        });
        if (!submitted.ok() || trap == Trap::kNone) return;
        trapped_ = {id, trap, {}, {}, true, true};
        std::set<NodeId> donors;
        std::set<NodeId> recipients;
        for (const PlannedMove& move : submitted->preview.moves) {
          donors.insert(move.from);
          recipients.insert(move.to);
        }
        trapped_.donors.assign(donors.begin(), donors.end());
        trapped_.recipients.assign(recipients.begin(), recipients.end());
      });
}

// The moment that is worst for whoever believes in leases: the donor has just got one.
void World::OnLeaseGranted(const NodeId& node) {
  if (calm_ || !trapped_.promote || trapped_.donors.empty() || server_ == nullptr) return;
  if (trapped_.donors.front() != node) return;
  const auto found = checker_->migrations().find(trapped_.id);
  if (found == checker_->migrations().end() || !found->second.awaiting_promotion) return;
  trapped_.promote = false;
  const Nanos pause = random_.Chance(700) ? 0 : random_.Between(0, 2 * kSecond);
  scheduler_.At(scheduler_.now() + pause, [this, id = trapped_.id] {
    if (server_ != nullptr) server_->Command(id, OperatorCommand::kPromote);
  });
}

// A grant of which the word comes late: what was promoted when it was sent.
Nanos World::GrantDelay(const NodeId& node) {
  if (calm_ || trapped_.trap != Trap::kSlowGrant || !trapped_.promote) return 0;
  if (std::find(trapped_.donors.begin(), trapped_.donors.end(), node) == trapped_.donors.end()) {
    return 0;
  }
  const auto found = checker_->migrations().find(trapped_.id);
  if (found == checker_->migrations().end() || !found->second.awaiting_promotion) return 0;
  trapped_.promote = false;
  scheduler_.At(scheduler_.now() + kMilli, [this, id = trapped_.id] {
    if (server_ != nullptr) server_->Command(id, OperatorCommand::kPromote);
  });
  return random_.Between(kSecond, 4 * kSecond);
}

void World::OnStage(const MigrationId& id, Stage was, const Checker::Migration& now) {
  if (!calm_ && id == trapped_.id && trapped_.armed && trapped_.trap == Trap::kDonorHangsUp &&
      now.awaiting_promotion) {
    trapped_.armed = trapped_.promote = false;
    scheduler_.At(scheduler_.now() + random_.Between(0, 300 * kMilli), [this, trapped = trapped_] {
      for (const NodeId& donor : trapped.donors) {
        if (const auto agent = AgentOf(donor)) agent->HangUp();
      }
    });
    scheduler_.At(scheduler_.now() + random_.Between(300 * kMilli, 2 * kSecond), [this, id] {
      if (server_ != nullptr) server_->Command(id, OperatorCommand::kPromote);
    });
  }
  if (calm_ || was == now.stage || now.stage != Stage::kFencing) return;
  if (id != trapped_.id || !trapped_.armed) return;
  const bool first_of_two = trapped_.trap == Trap::kSecondWave && now.wave == 0;
  if (!first_of_two) trapped_.armed = false;
  // The store is answering just now.
  scheduler_.At(scheduler_.now(), [this, trapped = trapped_, first_of_two] {
    if (first_of_two) {
      const Nanos time = absl::ToInt64Nanoseconds(lease_) / 4 + random_.Between(0, kSecond);
      for (const NodeId& donor : trapped.donors) {
        for (const NodeId& recipient : trapped.recipients) {
          if (donor != recipient) CutSites(SiteOf(donor), SiteOf(recipient), true, time);
        }
      }
      return;
    }
    Spring(trapped);
  });
}

void World::Spring(Trapped trapped) {
  if (trapped.donors.empty()) return;
  Note([&] { return fmt::format("trap {} springs", static_cast<int>(trapped.trap)); });
  const NodeId& donor = trapped.donors.front();
  const Nanos time = random_.Between(20 * kSecond, 40 * kSecond);
  switch (trapped.trap) {
    case Trap::kNone:
    case Trap::kDonorHangsUp:
      return;
    case Trap::kCutDonor:
    case Trap::kSecondWave:
    case Trap::kSlowGrant:
      return CutDonors(trapped, time);
    case Trap::kCutAndRestart:
      CutDonors(trapped, time);
      return CrashServer(random_.Between(kMilli, 20 * kMilli));
    case Trap::kReplaceEngine:
      return ReplaceEngine(donor, 30 * kSecond);
    case Trap::kReplaceAndRestart:
      ReplaceEngine(donor, 30 * kSecond);
      scheduler_.At(scheduler_.now() + random_.Between(100 * kMilli, 2 * kSecond),
                    [this] { CrashServer(random_.Between(kMilli, 20 * kMilli)); });
      return;
    case Trap::kLoseTasks:
      for (const NodeId& node : trapped.donors) tasks_lost_until_[node] = scheduler_.now() + time;
      return;
    case Trap::kRestartAcknowledged:
      restart_when_acknowledged_ = donor;
      return;
    case Trap::kHalfOpen:
      for (const NodeId& node : trapped.donors) {
        if (server_ != nullptr) server_->HalfClose(node);
      }
  }
}

void World::OnFenceAcknowledged(const NodeId& node) {
  if (calm_ || restart_when_acknowledged_ != node) return;
  restart_when_acknowledged_.reset();
  // The acknowledgement leaves first.
  scheduler_.At(scheduler_.now() + kMicro, [this, node] {
    RestartEngine(node, kMilli);
    RestartAgent(node, kMilli);
  });
}

// From here on nothing goes wrong any more.
void World::Calm() {
  Note([] { return "the faults stop"; });
  calm_ = true;
  network_.HealAll();
  Network::Weather& weather = network_.weather();
  const bool has_lost = weather.soup || !tasks_lost_until_.empty();
  weather.slow = weather.lose = weather.repeat = 0;
  weather.soup = false;
  tasks_lost_until_.clear();
  restart_when_acknowledged_.reset();
  for (const auto& server : deposed_) server->Die();
  deposed_.clear();
  for (const auto& engine : std::vector<std::shared_ptr<Engine>>(engines_)) {
    if (!engine->replaced()) continue;
    engine->Die();
    std::erase(engines_, engine);
  }
  // On a stream, which is what there is, nothing is lost without its end.
  if (has_lost && server_ != nullptr) server_->BreakSessions();
}

Result World::Run() {
  CreateKeyspace();
  StartServer();
  for (const NodeId& node : nodes_) {
    StartEngine(node);
    StartAgent(node);
  }
  for (size_t i = 0; i < kClients; ++i) {
    clients_.push_back(std::make_shared<Client>(this, kFirstClientSite + static_cast<Site>(i)));
    clients_.back()->Start();
  }
  scheduler_.At(kSecond, [this] { LookForOperators(); });
  scheduler_.At(kSecond, [this] { LookForFaults(); });

  const auto is_well = [this] { return checker_->violations().empty(); };
  const auto step = [this] {
    scheduler_.RunOne();
    Mix(static_cast<uint64_t>(scheduler_.now()));
  };
  while (is_well() && scheduler_.steps() < options_.steps) step();
  if (is_well()) {
    Calm();
    const Nanos since = scheduler_.now();
    // Replaced engines may have left leases behind that somebody has to wait for.
    Nanos look = since;
    bool ended = false;
    while (is_well() && !ended && scheduler_.now() < since + kPatience) {
      step();
      if (scheduler_.now() < look) continue;
      look = scheduler_.now() + kSecond;
      ended = checker_->Active().empty() && checker_->NotWritable().empty();
    }
    if (is_well() && !ended) {
      for (const auto& [node, agent] : agents_) Note([&] { return agent->Describe(); });
      for (const MigrationId& id : checker_->Active()) {
        const Checker::Migration& migration = checker_->migrations().at(id);
        checker_->Violate(fmt::format("liveness: {} does not end, it is {} in wave {}; {}", id,
                                      StageName(migration.stage), migration.wave,
                                      server_ == nullptr ? "no server" : server_->HeldBy(id)));
      }
      for (const std::string& key : checker_->NotWritable()) {
        checker_->Violate(fmt::format("liveness: nobody accepts writes of {}", key));
      }
    }
    for (const auto& engine : engines_) checker_->CheckValues(*engine);
  }

  Result result;
  result.steps = scheduler_.steps();
  result.hash = hash_;
  result.time = scheduler_.now();
  result.acknowledged = checker_->acknowledged();
  result.succeeded = checker_->ended(Stage::kSucceeded);
  result.aborted = checker_->ended(Stage::kAborted);
  result.rolled_back = checker_->ended(Stage::kRolledBack);
  result.unclean = checker_->unclean();
  result.restarts = restarts_;
  result.violations = checker_->violations();
  return result;
}

}  // namespace warmring::sim
