#include "tests/crash/cluster.h"

#include <algorithm>
#include <utility>

#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "proto/wire/membership.h"
#include "proto/wire/status.h"
#include "tests/support/binary.h"
#include "tests/support/wait.h"

namespace warmring::crash {
namespace {

// A call may hang in a stopped server; it is then given up and made again.
constexpr absl::Duration kCallDeadline = absl::Seconds(2);
// How long a call is repeated: longer than any stop or restart here.
constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr uint32_t kPageSize = 1000;
// Records of migrations are large.
constexpr uint32_t kMigrationsPage = 20;

bool MayBeRepeated(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kDeadlineExceeded ||
         status.code() == absl::StatusCode::kCancelled ||
         // The request was made before and is still under way; or something else is in the way,
         // and may end.
         status.code() == absl::StatusCode::kAborted;
}

// Makes a call until warmringd answers.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(std::string_view what, Stub& stub,
                              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Response*),
                              const Request& request) {
  Response response;
  absl::Status answer;
  int calls = 0;
  const absl::Status answered =
      support::WaitUntilOk(fmt::format("an answer to {}", what), kPatience, [&] {
        grpc::ClientContext context;
        context.set_deadline(absl::ToChronoTime(absl::Now() + kCallDeadline));
        answer = wire::FromGrpcStatus((stub.*method)(&context, request, &response));
        ++calls;
        if (!MayBeRepeated(answer)) return absl::OkStatus();
        return absl::UnavailableError(fmt::format("call {}: {}", calls, answer.ToString()));
      });
  if (!answered.ok()) return answered;
  if (!answer.ok()) return answer;
  return response;
}

void SetDuration(absl::Duration duration, google::protobuf::Duration* proto) {
  proto->set_seconds(absl::ToInt64Seconds(duration));
  proto->set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(duration - absl::Seconds(absl::ToInt64Seconds(duration)))));
}

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  // The server is killed all the time and comes back at once.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

support::Environment Failpoints(const std::string& failpoints) {
  if (failpoints.empty()) return {};
  return {{"WARMRING_FAILPOINTS", failpoints}};
}

support::Environment EnvironmentOf(const std::map<NodeId, support::Environment>& environments,
                                   const NodeId& node) {
  const auto found = environments.find(node);
  return found == environments.end() ? support::Environment() : found->second;
}

v1::Node NodeProto(const CacheNode& node) {
  v1::Node proto;
  proto.set_id(node.id);
  proto.set_address(node.redis->Address());
  return proto;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Cluster>> Cluster::Start(const ClusterOptions& options) {
  std::unique_ptr<Cluster> cluster(new Cluster(options));
  RETURN_IF_ERROR(cluster->StartProcesses());
  RETURN_IF_ERROR(cluster->WaitUntilServing(support::kDefaultWait));
  return cluster;
}

absl::Status Cluster::StartProcesses() {
  support::WarmringdOptions server_options;
  server_options.lease = options_.lease;
  server_options.extra_args = options_.server_args;
  server_options.env = options_.server_environment;
  ASSIGN_OR_RETURN(server_, support::WarmringdServer::Start(server_options));
  const auto channel = ChannelTo(server_->Address());
  keyspaces_ = v1::KeyspaceService::NewStub(channel);
  migrations_ = v1::MigrationService::NewStub(channel);

  if (options_.proxies) {
    ASSIGN_OR_RETURN(clients_to_server_, support::TcpProxy::Start(server_->Port()));
  }

  support::RedisServerOptions redis_options;
  ASSIGN_OR_RETURN(std::string module, support::BinaryPath("warmring-redis.so"));
  redis_options.modules.push_back({std::move(module), {}});
  for (size_t i = 0; i < options_.nodes; ++i) {
    CacheNode node;
    node.id = fmt::format("node-{}", static_cast<char>('a' + i));
    redis_options.env = EnvironmentOf(options_.redis_environments, node.id);
    ASSIGN_OR_RETURN(node.redis, support::RedisServer::Start(redis_options));
    if (options_.proxies) {
      ASSIGN_OR_RETURN(node.to_server, support::TcpProxy::Start(server_->Port()));
      ASSIGN_OR_RETURN(node.to_agent, support::TcpProxy::Start());
      ASSIGN_OR_RETURN(node.to_redis, support::TcpProxy::Start(node.redis->Port()));
    }
    nodes_.push_back(std::move(node));
  }
  RETURN_IF_ERROR(CreateKeyspace());
  for (CacheNode& node : nodes_) {
    support::AgentOptions agent_options;
    agent_options.server = server_->Address();
    agent_options.keyspace = options_.keyspace;
    agent_options.node = node.id;
    agent_options.redis_port = node.redis->Port();
    agent_options.env = EnvironmentOf(options_.agent_environments, node.id);
    if (options_.proxies) {
      agent_options.server = node.to_server->Address();
      agent_options.extra_args = {"--advertise=" + node.to_agent->Address()};
    }
    ASSIGN_OR_RETURN(node.agent, support::AgentProcess::Start(agent_options));
    if (options_.proxies) node.to_agent->SetTarget(node.agent->Port());
  }
  return absl::OkStatus();
}

absl::Status Cluster::CreateKeyspace() {
  v1::CreateKeyspaceRequest request;
  request.mutable_spec()->set_id(options_.keyspace);
  request.mutable_spec()->set_directory_bits(KeyspaceSpec::kMinDirectoryBits);
  request.mutable_spec()->set_replication(options_.replication);
  for (size_t i = 0; i < options_.members; ++i) *request.add_nodes() = NodeProto(nodes_[i]);
  request.set_request_id("create");
  return Call("CreateKeyspace", *keyspaces_, &v1::KeyspaceService::Stub::CreateKeyspace, request)
      .status();
}

std::string Cluster::DialledBy(std::string_view address) const {
  for (const CacheNode& node : nodes_) {
    if (node.to_redis != nullptr && node.redis->Address() == address) {
      return node.to_redis->Address();
    }
  }
  return std::string(address);
}

void Cluster::HealAll() {
  if (clients_to_server_ != nullptr) clients_to_server_->Heal();
  for (CacheNode& node : nodes_) {
    for (support::TcpProxy* proxy :
         {node.to_server.get(), node.to_agent.get(), node.to_redis.get()}) {
      if (proxy != nullptr) proxy->Heal();
    }
  }
}

CacheNode& Cluster::Find(std::string_view id) {
  return *std::find_if(nodes_.begin(), nodes_.end(),
                       [id](const CacheNode& node) { return node.id == id; });
}

absl::Status Cluster::RestartServer(const std::string& failpoints) {
  server_->Kill9();
  return server_->Restart(Failpoints(failpoints));
}

void Cluster::KillRedis(CacheNode& node) {
  killed_.emplace(node.id, history::Recorder::Now());
  node.redis->Kill9();
}

absl::Status Cluster::RestartRedis(CacheNode& node, const std::string& failpoints) {
  KillRedis(node);
  const absl::Status restarted =
      node.redis->Restart(support::RedisServer::Data::kKeep, Failpoints(failpoints));
  if (recorder_ != nullptr) {
    history::Event lost;
    lost.kind = history::Kind::kLost;
    lost.owner = node.id;
    lost.t0 = killed_[node.id];
    lost.t1 = history::Recorder::Now();
    recorder_->Add(std::move(lost));
  }
  killed_.erase(node.id);
  return restarted;
}

absl::Status Cluster::RestartAgent(CacheNode& node, const std::string& failpoints) {
  node.agent->Kill9();
  return node.agent->Restart(Failpoints(failpoints));
}

absl::StatusOr<v1::Migration> Cluster::SubmitAdd(const MigrationId& id, const NodeId& node,
                                                 const MigrationTerms& terms) {
  v1::MigrationPlan plan;
  *plan.add_changes()->mutable_add()->mutable_node() = NodeProto(Find(node));
  return Submit(id, std::move(plan), terms);
}

absl::StatusOr<v1::Migration> Cluster::SubmitRemove(const MigrationId& id, const NodeId& node,
                                                    const MigrationTerms& terms) {
  v1::MigrationPlan plan;
  plan.add_changes()->mutable_remove()->set_node(node);
  return Submit(id, std::move(plan), terms);
}

absl::StatusOr<v1::Migration> Cluster::SubmitChange(const MigrationId& id, const v1::Change& change,
                                                    const MigrationTerms& terms) {
  v1::MigrationPlan plan;
  *plan.add_changes() = change;
  return Submit(id, std::move(plan), terms);
}

absl::Status Cluster::Grow(uint32_t directory_bits) {
  v1::GrowDirectoryRequest request;
  request.set_keyspace(options_.keyspace);
  request.set_directory_bits(directory_bits);
  request.set_request_id("grow-" + std::to_string(directory_bits));
  return Call("GrowDirectory", *keyspaces_, &v1::KeyspaceService::Stub::GrowDirectory, request)
      .status();
}

absl::StatusOr<v1::Migration> Cluster::Submit(const MigrationId& id, v1::MigrationPlan plan,
                                              const MigrationTerms& terms) {
  v1::SubmitMigrationRequest request;
  request.set_migration_id(id);
  request.set_request_id(id);
  plan.set_keyspace(options_.keyspace);
  v1::Strategy& strategy = *plan.mutable_strategy();
  for (const double step : terms.commit_steps) strategy.add_commit_steps(step);
  SetDuration(terms.hold, strategy.mutable_hold());
  SetDuration(terms.soak, strategy.mutable_soak());
  SetDuration(terms.fence_timeout, strategy.mutable_fence_timeout());
  SetDuration(absl::Minutes(2), strategy.mutable_warm_timeout());
  strategy.set_wave_attempts(terms.wave_attempts);
  if (terms.queue) strategy.set_on_conflict(v1::ON_CONFLICT_QUEUE);
  if (terms.ack_or_lease) strategy.set_fence_policy(v1::FENCE_POLICY_ACK_OR_LEASE);
  // Some clients delete keys at nodes that are to get them, on purpose: that is done where it is
  // asked, and the copy differs for a moment.
  strategy.set_verify_max_mismatch(100);
  plan.mutable_limits()->set_keys_per_second(terms.keys_per_second);
  *request.mutable_plan() = std::move(plan);
  ASSIGN_OR_RETURN(
      const v1::SubmitMigrationResponse response,
      Call("SubmitMigration", *migrations_, &v1::MigrationService::Stub::SubmitMigration, request));
  return response.migration();
}

absl::StatusOr<v1::Migration> Cluster::Get(const MigrationId& id) {
  v1::GetMigrationRequest request;
  request.set_keyspace(options_.keyspace);
  request.set_migration(id);
  ASSIGN_OR_RETURN(
      const v1::GetMigrationResponse response,
      Call("GetMigration", *migrations_, &v1::MigrationService::Stub::GetMigration, request));
  return response.migration();
}

absl::Status Cluster::Abort(const MigrationId& id) {
  v1::AbortMigrationRequest request;
  request.set_keyspace(options_.keyspace);
  request.set_migration(id);
  request.set_request_id(id + "-abort");
  const absl::Status status =
      Call("AbortMigration", *migrations_, &v1::MigrationService::Stub::AbortMigration, request)
          .status();
  return absl::IsFailedPrecondition(status) ? absl::OkStatus() : status;
}

absl::Status Cluster::Undo(const MigrationId& id) {
  v1::UndoMigrationRequest request;
  request.set_keyspace(options_.keyspace);
  request.set_migration(id);
  request.set_request_id(id + "-undo");
  const absl::Status status =
      Call("UndoMigration", *migrations_, &v1::MigrationService::Stub::UndoMigration, request)
          .status();
  return absl::IsFailedPrecondition(status) ? absl::OkStatus() : status;
}

absl::StatusOr<v1::Migration> Cluster::Force(const MigrationId& id, const NodeId& node,
                                             const std::string& reason, bool accept_data_loss) {
  v1::ForceFenceRequest request;
  request.set_keyspace(options_.keyspace);
  request.set_migration(id);
  request.set_node(node);
  request.set_reason(reason);
  request.set_accept_data_loss(accept_data_loss);
  ASSIGN_OR_RETURN(
      const v1::ForceFenceResponse response,
      Call("ForceFence", *migrations_, &v1::MigrationService::Stub::ForceFence, request));
  return response.migration();
}

absl::StatusOr<v1::Migration> Cluster::WaitForMigration(
    const MigrationId& id, std::string_view what, absl::Duration within,
    const std::function<bool(const v1::Migration&)>& is_so) {
  v1::Migration last;
  RETURN_IF_ERROR(support::WaitUntilOk(fmt::format("{} to be {}", id, what), within, [&] {
    ASSIGN_OR_RETURN(last, Get(id));
    return is_so(last) ? absl::OkStatus() : absl::UnavailableError(Describe(last));
  }));
  return last;
}

absl::StatusOr<Membership::Ptr> Cluster::MembershipAt(Version version) {
  v1::GetMembershipRequest request;
  request.set_keyspace(options_.keyspace);
  request.set_version(version.value);
  ASSIGN_OR_RETURN(
      const v1::GetMembershipResponse response,
      Call("GetMembership", *keyspaces_, &v1::KeyspaceService::Stub::GetMembership, request));
  return wire::MembershipFromProto(response.membership());
}

absl::StatusOr<std::vector<Version>> Cluster::Versions() {
  ASSIGN_OR_RETURN(const std::vector<v1::VersionInfo> infos, VersionInfos());
  std::vector<Version> versions;
  for (const v1::VersionInfo& info : infos) versions.push_back(Version(info.version()));
  return versions;
}

absl::StatusOr<std::vector<v1::Migration>> Cluster::Migrations() {
  std::vector<v1::Migration> migrations;
  v1::ListMigrationsRequest request;
  request.set_keyspace(options_.keyspace);
  request.set_page_size(kMigrationsPage);
  do {
    ASSIGN_OR_RETURN(
        const v1::ListMigrationsResponse response,
        Call("ListMigrations", *migrations_, &v1::MigrationService::Stub::ListMigrations, request));
    migrations.insert(migrations.end(), response.migrations().begin(), response.migrations().end());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return migrations;
}

absl::StatusOr<std::vector<v1::VersionInfo>> Cluster::VersionInfos() {
  std::vector<v1::VersionInfo> versions;
  v1::ListVersionsRequest request;
  request.set_keyspace(options_.keyspace);
  request.set_page_size(kPageSize);
  do {
    ASSIGN_OR_RETURN(
        const v1::ListVersionsResponse response,
        Call("ListVersions", *keyspaces_, &v1::KeyspaceService::Stub::ListVersions, request));
    versions.insert(versions.end(), response.versions().begin(), response.versions().end());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return versions;
}

absl::Status Cluster::WaitUntilServing(absl::Duration within) {
  return support::WaitUntilOk("every member to serve", within, [&] {
    ASSIGN_OR_RETURN(const Membership::Ptr head, MembershipAt());
    v1::ListNodesRequest request;
    request.set_keyspace(options_.keyspace);
    ASSIGN_OR_RETURN(
        const v1::ListNodesResponse response,
        Call("ListNodes", *keyspaces_, &v1::KeyspaceService::Stub::ListNodes, request));
    for (const v1::NodeStatus& node : response.nodes()) {
      if (!node.connected() || node.lease_remaining_ms() <= 0 ||
          node.applied_version() < head->version().value) {
        return absl::UnavailableError(node.ShortDebugString());
      }
    }
    return absl::OkStatus();
  });
}

std::string Describe(const v1::Migration& migration) {
  std::string text = v1::MigrationState_Name(migration.state());
  constexpr std::string_view kPrefix = "MIGRATION_STATE_";
  if (text.starts_with(kPrefix)) text.erase(0, kPrefix.size());
  text +=
      fmt::format(" with {} of {} waves committed", migration.waves_committed(), migration.waves());
  if (!migration.held().empty()) text += "; held: " + migration.held();
  if (!migration.failure().empty()) text += "; " + migration.failure();
  return text;
}

}  // namespace warmring::crash
