#include "tests/sim/server.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/base/mutant.h"
#include "core/base/status_macros.h"
#include "core/membership/encoding.h"
#include "server/conductor/migration_book.h"
#include "server/store/schema/key.h"
#include "tests/sim/agent.h"
#include "tests/sim/watcher.h"
#include "tests/sim/world.h"

namespace warmring::sim {
namespace {

constexpr size_t kDeltas = 64;
constexpr Nanos kProgressEvery = 2 * kSecond;

// The way to one agent.
class SimLink final : public SessionLink {
 public:
  SimLink(World* world, NodeId node, std::shared_ptr<Stream> stream, std::shared_ptr<Agent> agent,
          uint64_t turn)
      : world_(world),
        node_(std::move(node)),
        stream_(std::move(stream)),
        agent_(agent),
        turn_(turn) {}

  void Send(SessionMessage message) override {
    if (std::holds_alternative<SessionTasks>(message) && world_->LosesTasks(node_)) return;
    const bool grants = std::holds_alternative<LeaseGrant>(message);
    const Nanos extra = grants ? world_->GrantDelay(node_) : 0;
    auto shared = std::make_shared<const SessionMessage>(std::move(message));
    stream_->Send(
        1,
        [agent = agent_, turn = turn_, order = ++sent_, message = std::move(shared)] {
          if (const auto at = agent.lock()) at->OnSessionMessage(turn, order, *message);
        },
        extra);
  }
  void Close(absl::Status) override { stream_->Close(1); }

 private:
  World* const world_;
  const NodeId node_;
  const std::shared_ptr<Stream> stream_;
  const std::weak_ptr<Agent> agent_;
  const uint64_t turn_;
  uint64_t sent_ = 0;
};

}  // namespace

absl::StatusOr<CommitResult> SimStore::CommitNow(const Batch& batch) {
  const absl::StatusOr<CommitResult> result = world_->durable().Commit(batch);
  if (result.ok() && result->committed) world_->checker().OnCommitted(batch, term_);
  return result;
}

absl::StatusOr<CommitResult> SimStore::Commit(const Batch& batch) {
  if (failed_) return absl::FailedPreconditionError("an earlier call ended unknown");
  switch (world_->NextOutcome()) {
    case World::Outcome::kKnown:
      return CommitNow(batch);
    case World::Outcome::kWritten:
      CommitNow(batch).IgnoreError();
      break;
    case World::Outcome::kNotWritten:
      break;
    case World::Outcome::kWrittenLater:
      world_->scheduler().At(world_->scheduler().now() + world_->random().Between(0, kSecond),
                             [batch, world = world_, term = term_] {
                               SimStore late(world);
                               late.SetTerm(term);
                               late.CommitNow(batch).IgnoreError();
                             });
      break;
  }
  failed_ = true;
  return absl::UnknownError("the outcome is not known");
}

absl::StatusOr<std::optional<std::string>> SimStore::Get(std::string_view key) {
  return world_->durable().Get(key);
}

absl::StatusOr<std::vector<KeyValue>> SimStore::Scan(std::string_view begin, std::string_view end,
                                                     size_t limit) {
  return world_->durable().Scan(begin, end, limit);
}

Server::Server(World* world, int64_t rate_ppm, Nanos clock_start)
    : Process(&world->scheduler(), kServerSite, rate_ppm, clock_start),
      world_(world),
      store_(world),
      strand_(this),
      disk_(this, [world] { return world->DiskDelay(); }) {}

absl::Status Server::Start() {
  const KeyspaceId& id = world_->keyspace();
  ASSIGN_OR_RETURN(identity_, BeginTerm(world_->durable(), world_->history()));
  store_.SetTerm(identity_.term);
  world_->checker().OnTerm(identity_.term);
  committer_ = std::make_unique<Committer>(
      &store_, &disk_, [this](const absl::Status&) { world_->OnServerFailed(this); });
  ASSIGN_OR_RETURN(keyspace_, Keyspace::Load(world_->durable(), identity_.history, id));
  published_ = keyspace_->head()->membership;
  ASSIGN_OR_RETURN(const std::vector<Delta> recent, keyspace_->LatestDeltas(world_->durable(), 16));
  deltas_.assign(recent.begin(), recent.end());

  Sessions::Environment sessions;
  sessions.clock = this;
  sessions.strand = &strand_;
  sessions.committer = committer_.get();
  sessions.keyspace = keyspace_.get();
  sessions.identity = identity_;
  sessions.lease = world_->lease();
  sessions.on_change = [this] { conductor_->OnSessionsChanged(); };
  sessions.on_report = [this](const TaskReport& report) { conductor_->OnReport(report); };
  sessions_ = std::make_unique<Sessions>(std::move(sessions));
  Conductor::Context context;
  context.keyspace = keyspace_.get();
  context.identity = identity_;
  context.committer = committer_.get();
  context.strand = &strand_;
  context.clock = this;
  context.owners = this;
  context.publisher = this;
  context.lease = world_->lease();
  context.random = [world = world_] { return world->FreshIncarnation(); };
  conductor_ = std::make_unique<Conductor>(std::move(context));

  const std::string prefix = schema::SessionsPrefix(id);
  ASSIGN_OR_RETURN(const std::vector<KeyValue> rows, ScanPrefix(world_->durable(), prefix));
  for (const KeyValue& row : rows) {
    ASSIGN_OR_RETURN(const schema::SessionRecord record, schema::DecodeSession(row.value));
    sessions_->Restore(row.key.substr(prefix.size()), record);
  }
  ASSIGN_OR_RETURN(std::vector<migration_book::Entry> entries,
                   migration_book::Load(world_->durable(), id));
  strand_.Post([this, entries = std::move(entries)] { conductor_->Recover(entries); });
  Tick();
  return absl::OkStatus();
}

std::map<NodeId, NodeFact> Server::NodeFacts() const {
  std::map<NodeId, NodeFact> facts;
  for (const auto& [node, status] : sessions_->Statuses()) {
    facts[node] = NodeFact{status.connected, status.keys, status.bytes, status.rdb_version};
  }
  return facts;
}

void Server::SetTasks(std::map<NodeId, std::vector<Task>> tasks) {
  std::map<NodeId, std::vector<Floor>> floors;
  for (const auto& [node, list] : tasks) {
    for (const Task& task : list) {
      if (const auto* fence = std::get_if<FenceTask>(&task.body)) {
        floors[node].push_back({fence->ranges, fence->floor});
      }
    }
  }
  sessions_->SetWork(std::move(tasks), std::move(floors));
}

void Server::OnHello(StreamId id, const SessionHello& hello, const std::shared_ptr<Stream>& stream,
                     const std::shared_ptr<Agent>& agent, uint64_t turn) {
  if (session_streams_.contains(id)) return;  // it was sent once
  const auto facts = sessions_->Facts();
  const auto known = facts.find(hello.node);
  const bool is_known = known != facts.end() && known->second.incarnation == hello.incarnation;
  if (deposed_ && is_known && !IsMutant(Mutant::kK)) return stream->Close(1);
  session_streams_[id] = {stream, hello.node};
  stream->SetOnEnd(1, [this, id] {
    session_streams_.erase(id);
    sessions_->Closed(id);
  });
  sessions_->Open(id, hello, std::make_shared<SimLink>(world_, hello.node, stream, agent, turn));
}

void Server::OnRenewal(StreamId id, const SessionRenewal& renewal) {
  sessions_->Renew(id, renewal);
}

void Server::OnReport(StreamId id, const TaskReport& report) { sessions_->Report(id, report); }

void Server::Depose() {
  deposed_ = true;
  MoveTo(kDeposedSite);
  if (IsMutant(Mutant::kK)) return;
  for (auto& [id, session] : session_streams_) {
    session.stream->Mute();
    session.stream->Break(5 * kSecond);
  }
}

void Server::HalfClose(const NodeId& node) {
  for (auto& [id, session] : session_streams_) {
    if (session.node == node) session.stream->HalfClose(0);
  }
}

void Server::BreakSessions() {
  for (auto& [id, session] : session_streams_) session.stream->Break(kSecond);
}

void Server::Submit(MigrationPlan plan, const MigrationId& id,
                    std::function<void(const absl::StatusOr<Conductor::Submitted>&)> done) {
  Conductor::Submission submission;
  submission.plan = std::move(plan);
  submission.id = id;
  submission.author = "operator";
  submission.extra = [](const MigrationId&) { return Batch(); };
  conductor_->Submit(std::move(submission),
                     [done = std::move(done)](auto submitted) { done(submitted); });
}

std::string Server::HeldBy(const MigrationId& id) const {
  const absl::StatusOr<MigrationSnapshotPtr> snapshot = conductor_->Find(id);
  if (!snapshot.ok()) return std::string(snapshot.status().message());
  const std::vector<StageEntry>& history = (*snapshot)->record.history;
  return fmt::format("held: {}; last: {}", (*snapshot)->progress.held, history.back().note);
}

void Server::Force(const MigrationId& id, const NodeId& node) {
  conductor_->Force(id, ForceFence{node, "operator", "it is dead", false}, Batch(),
                    [](const absl::StatusOr<MigrationSnapshotPtr>&) {});
}

void Server::Command(const MigrationId& id, OperatorCommand command) {
  conductor_->Command(id, command, Batch(), [](const absl::StatusOr<MigrationSnapshotPtr>&) {});
}

void Server::Publish(const Membership::Ptr& membership, const std::optional<Delta>& delta) {
  if (delta) deltas_.push_back(*delta);
  if (deltas_.size() > kDeltas) deltas_.pop_front();
  published_ = membership;
  for (Subscription& subscription : subscriptions_) Serve(subscription);
}

void Server::OnWatchRequest(const std::shared_ptr<Stream>& stream, Watcher* watcher, uint64_t turn,
                            const WatchRequest& request) {
  const auto* subscribe = std::get_if<WatchSubscribe>(&request);
  if (subscribe == nullptr || !stream->IsOpen(1)) return;
  auto found = std::find_if(subscriptions_.begin(), subscriptions_.end(),
                            [&](const Subscription& s) { return s.stream == stream; });
  if (found == subscriptions_.end()) {
    subscriptions_.push_back({stream, watcher, turn, Version(), true});
    found = subscriptions_.end() - 1;
    stream->SetOnEnd(1, [this, stream = stream.get()] {
      std::erase_if(subscriptions_,
                    [&](const Subscription& s) { return s.stream.get() == stream; });
    });
  }
  found->cursor = subscribe->version;
  const bool oldest_known = !deltas_.empty() && deltas_.front().from <= subscribe->version;
  const bool is_head = subscribe->version == published_->version();
  found->snapshot_due = subscribe->history != identity_.history ||
                        subscribe->version == Version() || (!oldest_known && !is_head) ||
                        subscribe->version > published_->version();
  Serve(*found);
}

void Server::Serve(Subscription& subscription) {
  if (subscription.snapshot_due) {
    subscription.snapshot_due = false;
    subscription.cursor = published_->version();
    Tell(subscription,
         SnapshotPiece{published_->version(), 0, 1, EncodeMembership(published_->data())});
  }
  for (const Delta& delta : deltas_) {
    if (delta.from != subscription.cursor) continue;
    subscription.cursor = delta.to;
    Tell(subscription, delta);
  }
}

void Server::Tell(const Subscription& subscription, WatchMessage message) {
  auto shared = std::make_shared<const WatchMessage>(std::move(message));
  subscription.stream->Send(
      1, [watcher = subscription.watcher, turn = subscription.turn, message = std::move(shared)] {
        watcher->OnMessage(turn, *message);
      });
}

void Server::Tick() {
  for (const Subscription& subscription : subscriptions_) {
    Tell(subscription, WatchProgress{published_->version(), 1});
  }
  After(kProgressEvery, [this] { Tick(); });
}

}  // namespace warmring::sim
