#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/sync/watch_transport.h"
#include "server/conductor/conductor.h"
#include "server/registry/keyspace.h"
#include "server/sessions/sessions.h"
#include "server/store/committer.h"
#include "server/store/memory/memory_store.h"
#include "tests/sim/network.h"
#include "tests/sim/process.h"

namespace warmring::sim {

class Agent;
class Watcher;
class World;

// One process's way to the disk that all servers share. A call may end with an outcome that nobody
// knows, after which this process gets nothing done any more.
class SimStore final : public Store {
 public:
  explicit SimStore(World* world) : world_(world) {}

  absl::StatusOr<CommitResult> Commit(const Batch& batch) override;
  absl::StatusOr<std::optional<std::string>> Get(std::string_view key) override;
  absl::StatusOr<std::vector<KeyValue>> Scan(std::string_view begin, std::string_view end,
                                             size_t limit) override;
  // By whom it writes, for the checker.
  void SetTerm(Term term) { term_ = term; }

 private:
  absl::StatusOr<CommitResult> CommitNow(const Batch& batch);

  World* const world_;
  Term term_;
  bool failed_ = false;
};

// One run of warmringd with one keyspace: what server/conductor/keyspace_runtime.cc wires together,
// on simulated strands, and a watch that sends snapshots and deltas.
class Server final : public Process, private OwnerDirectory, private Publisher {
 public:
  Server(World* world, int64_t rate_ppm, Nanos clock_start);

  // Begins a term and takes over what the store holds.
  absl::Status Start();

  // From owners.
  void OnHello(StreamId id, const SessionHello& hello, const std::shared_ptr<Stream>& stream,
               const std::shared_ptr<Agent>& agent, uint64_t turn);
  void OnRenewal(StreamId id, const SessionRenewal& renewal);
  void OnReport(StreamId id, const TaskReport& report);
  // From watchers.
  void OnWatchRequest(const std::shared_ptr<Stream>& stream, Watcher* watcher, uint64_t turn,
                      const WatchRequest& request);
  // From operators.
  void Submit(MigrationPlan plan, const MigrationId& id,
              std::function<void(const absl::StatusOr<Conductor::Submitted>&)> done);
  void Command(const MigrationId& id, OperatorCommand command);
  // Why it does not go on.
  std::string HeldBy(const MigrationId& id) const;
  // Without accepting that data is lost.
  void Force(const MigrationId& id, const NodeId& node);

  // Another server has begun a term. It goes on where it is, until the store turns it away, but
  // does not reach the owners that had a session with it.
  void Depose();
  bool deposed() const { return deposed_; }
  Term term() const { return identity_.term; }
  // Half opens the session of a node: the node's end is told, this one is not.
  void HalfClose(const NodeId& node);
  void BreakSessions();

 private:
  struct Subscription {
    std::shared_ptr<Stream> stream;
    Watcher* watcher = nullptr;
    uint64_t turn = 0;
    Version cursor;
    bool snapshot_due = false;
  };

  std::map<NodeId, SessionFact> Facts() const override { return sessions_->Facts(); }
  std::map<NodeId, NodeFact> NodeFacts() const override;
  std::map<NodeId, OwnerStatus> Describe() const override { return {}; }
  void SetTasks(std::map<NodeId, std::vector<Task>> tasks) override;
  void Publish(const Membership::Ptr& membership, const std::optional<Delta>& delta) override;
  void Serve(Subscription& subscription);
  void Tell(const Subscription& subscription, WatchMessage message);
  void Tick();

  World* const world_;
  SimStore store_;
  SimExecutor strand_;
  SimExecutor disk_;
  StoreIdentity identity_;
  std::unique_ptr<Committer> committer_;
  std::unique_ptr<Keyspace> keyspace_;
  std::unique_ptr<Sessions> sessions_;
  std::unique_ptr<Conductor> conductor_;
  struct Session {
    std::shared_ptr<Stream> stream;
    NodeId node;
  };
  std::map<StreamId, Session> session_streams_;
  std::deque<Delta> deltas_;
  Membership::Ptr published_;
  std::vector<Subscription> subscriptions_;
  bool deposed_ = false;
};

}  // namespace warmring::sim
