#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/ids.h"
#include "core/membership/membership.h"
#include "grpcpp/grpcpp.h"
#include "tests/history/recorder.h"
#include "tests/support/agent_process.h"
#include "tests/support/redis_server.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/warmringd_server.h"
#include "warmring/v1/keyspace_service.grpc.pb.h"
#include "warmring/v1/migration_service.grpc.pb.h"

namespace warmring::crash {

// A cache node: a Redis with the module, and its agent.
struct CacheNode {
  NodeId id;
  // The networks of ClusterOptions::proxies, else null.
  std::unique_ptr<support::TcpProxy> to_server;  // from its agent to warmringd
  std::unique_ptr<support::TcpProxy> to_agent;   // from other agents to its agent
  std::unique_ptr<support::TcpProxy> to_redis;   // from clients to its Redis
  std::unique_ptr<support::RedisServer> redis;
  std::unique_ptr<support::AgentProcess> agent;
};

struct ClusterOptions {
  KeyspaceId keyspace = "crash";
  // The processes: node-a, node-b...
  size_t nodes = 3;
  // So many of them own the keyspace from the beginning; the others run and wait to be added.
  size_t members = 2;
  std::string lease = "1s";
  // Each pair of processes talks through a network of its own, which can be made bad.
  bool proxies = false;
  // Of processes, in every incarnation.
  support::Environment server_environment = {};
  std::map<NodeId, support::Environment> redis_environments = {};
  std::map<NodeId, support::Environment> agent_environments = {};
  std::vector<std::string> server_args = {};
  uint32_t replication = 1;
};

// Whether a plan adds or removes, and under which timing. One wave costs little, two show what
// happens between waves.
struct MigrationTerms {
  absl::Duration hold;  // between waves
  absl::Duration soak;
  absl::Duration fence_timeout = absl::Seconds(5);
  uint64_t keys_per_second = 0;  // 0 = unlimited
  // Share of what moves that is committed after each wave.
  std::vector<double> commit_steps = {0.5, 1};
  uint32_t wave_attempts = 1;
  bool queue = false;  // wait for what is in the way
  // A wave may be committed when a donor says nothing and can hold no lease any more.
  bool ack_or_lease = false;
};

// warmringd, Redis servers with the module, their agents and one keyspace, all real processes on
// this machine, each of which may be killed and started again.
//
// Thread rule: the processes belong to one thread; the calls to warmringd (from Submit on) may come
// from any thread.
class Cluster {
 public:
  // Starts everything and waits until each member holds a lease.
  //
  // Errors: NotFound if something is not built or installed; those of the processes and calls.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Cluster>> Start(
      const ClusterOptions& options = {});

  support::WarmringdServer& Server() { return *server_; }
  // From clients to warmringd. REQUIRES: ClusterOptions::proxies.
  support::TcpProxy& ClientsToServer() { return *clients_to_server_; }
  // Where a client dials a node's address.
  std::string DialledBy(std::string_view address) const;
  // All networks are good again.
  void HealAll();
  const KeyspaceId& Keyspace() const { return options_.keyspace; }
  std::vector<CacheNode>& Nodes() { return nodes_; }
  // REQUIRES: there is such a node.
  CacheNode& Find(std::string_view id);

  // SIGKILL, and a new process with the same data directory. `failpoints` holds for that process
  // only.
  //
  // Errors: those of ServerProcess::Start.
  [[nodiscard]] absl::Status RestartServer(const std::string& failpoints = "");
  // The same for the engine of a node (its data are gone with it) and for its agent. KillRedis
  // alone: it is started by the next RestartRedis.
  void KillRedis(CacheNode& node);
  [[nodiscard]] absl::Status RestartRedis(CacheNode& node, const std::string& failpoints = "");
  [[nodiscard]] absl::Status RestartAgent(CacheNode& node, const std::string& failpoints = "");
  // Where losses of memory are written down from here on; null: nowhere.
  void SetRecorder(history::Recorder* recorder) { recorder_ = recorder; }

  // The calls below are repeated while warmringd is dead or stopped, as a patient operator would:
  // a request id makes the repetition harmless. Errors: DeadlineExceeded with the last answer,
  // which may be that something is in the way; whatever warmringd refuses.

  // `plan` has the changes; the rest is filled in here.
  [[nodiscard]] absl::StatusOr<v1::Migration> Submit(const MigrationId& id, v1::MigrationPlan plan,
                                                     const MigrationTerms& terms);
  [[nodiscard]] absl::StatusOr<v1::Migration> SubmitAdd(const MigrationId& id, const NodeId& node,
                                                        const MigrationTerms& terms);
  [[nodiscard]] absl::StatusOr<v1::Migration> SubmitRemove(const MigrationId& id,
                                                           const NodeId& node,
                                                           const MigrationTerms& terms);
  // Any one change.
  [[nodiscard]] absl::StatusOr<v1::Migration> SubmitChange(const MigrationId& id,
                                                           const v1::Change& change,
                                                           const MigrationTerms& terms);
  // Divides every bucket of the directory.
  [[nodiscard]] absl::Status Grow(uint32_t directory_bits);
  [[nodiscard]] absl::StatusOr<v1::Migration> Get(const MigrationId& id);
  // OK also if the migration has ended or is being aborted (undone) already.
  [[nodiscard]] absl::Status Abort(const MigrationId& id);
  [[nodiscard]] absl::Status Undo(const MigrationId& id);
  // Takes a donor for dead. Not repeated.
  [[nodiscard]] absl::StatusOr<v1::Migration> Force(const MigrationId& id, const NodeId& node,
                                                    const std::string& reason,
                                                    bool accept_data_loss);

  // Waits until the migration is as `is_so` wants it, and returns it as it is then.
  [[nodiscard]] absl::StatusOr<v1::Migration> WaitForMigration(
      const MigrationId& id, std::string_view what, absl::Duration within,
      const std::function<bool(const v1::Migration&)>& is_so);

  // The membership at a version, checked against its digest; the newest for 0.
  [[nodiscard]] absl::StatusOr<Membership::Ptr> MembershipAt(Version version = Version(0));
  // All versions that the server knows, newest first, and their numbers.
  [[nodiscard]] absl::StatusOr<std::vector<v1::VersionInfo>> VersionInfos();
  [[nodiscard]] absl::StatusOr<std::vector<Version>> Versions();
  // All migrations of the keyspace.
  [[nodiscard]] absl::StatusOr<std::vector<v1::Migration>> Migrations();
  // Waits until every member is connected, holds a lease and has applied the newest version.
  [[nodiscard]] absl::Status WaitUntilServing(absl::Duration within);

 private:
  explicit Cluster(ClusterOptions options) : options_(std::move(options)) {}

  absl::Status StartProcesses();
  absl::Status CreateKeyspace();

  const ClusterOptions options_;
  history::Recorder* recorder_ = nullptr;
  std::map<NodeId, int64_t> killed_;  // Redis servers that do not run, since when
  std::unique_ptr<support::WarmringdServer> server_;
  std::unique_ptr<support::TcpProxy> clients_to_server_;
  std::vector<CacheNode> nodes_;
  std::unique_ptr<v1::KeyspaceService::Stub> keyspaces_;
  std::unique_ptr<v1::MigrationService::Stub> migrations_;
};

// "Succeeded after 2 waves" or "Warming: waiting for node-c ..."; for messages.
std::string Describe(const v1::Migration& migration);

}  // namespace warmring::crash
