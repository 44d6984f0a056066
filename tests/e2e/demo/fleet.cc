#include "tests/e2e/demo/fleet.h"

#include <fmt/format.h>

#include "core/base/status_macros.h"
#include "core/placement/allocator.h"
#include "migrations/planner.h"
#include "tests/support/binary.h"
#include "tests/support/cli.h"

namespace warmring::demo {
namespace {

support::RedisServerOptions PlainRedis() {
  support::RedisServerOptions options;
  options.maxmemory = "256mb";
  options.maxmemory_policy = "allkeys-lfu";
  return options;
}

absl::StatusOr<Membership::Ptr> MembershipOf(const std::vector<Node>& nodes) {
  MembershipData data;
  data.history.high = 1;
  data.version = Version(1);
  data.spec.id = kKeyspace;
  data.nodes = nodes;
  data.ranges = InitialRanges(data.spec, nodes, Epoch(1));
  return Membership::Create(std::move(data));
}

// The membership after every move of the plan at once: what a ring change without stages is.
absl::StatusOr<Membership::Ptr> AllAtOnce(const Membership& before, const Node& added) {
  MigrationPlan plan;
  plan.keyspace = kKeyspace;
  plan.changes.push_back(AddNode{added});
  ASSIGN_OR_RETURN(Preview preview, Plan(before, plan, {}));
  Update update;
  update.put_nodes = preview.nodes_added;
  update.split_at = preview.splits;
  for (const PlannedMove& move : preview.moves) {
    update.assignments.push_back({move.ranges, move.to, Epoch(2)});
  }
  return Apply(before, update);
}

}  // namespace

std::string NodeName(size_t index) { return fmt::format("cache-{:02}", index + 1); }

absl::StatusOr<NaiveFleet> StartNaiveFleet(size_t nodes) {
  NaiveFleet fleet;
  std::vector<Node> members;
  for (size_t i = 0; i < nodes; ++i) {
    ASSIGN_OR_RETURN(auto redis, support::RedisServer::Start(PlainRedis()));
    Node node;
    node.id = NodeName(i);
    node.address = redis->Address();
    members.push_back(std::move(node));
    fleet.nodes.push_back(std::move(redis));
  }
  const Node last = members.back();
  members.pop_back();
  ASSIGN_OR_RETURN(fleet.before, MembershipOf(members));
  ASSIGN_OR_RETURN(fleet.after, AllAtOnce(*fleet.before, last));
  return fleet;
}

absl::StatusOr<WarmringFleet> StartWarmringFleet(size_t nodes) {
  WarmringFleet fleet;
  support::WarmringdOptions server_options;
  server_options.lease = "5s";
  ASSIGN_OR_RETURN(fleet.server, support::WarmringdServer::Start(server_options));
  ASSIGN_OR_RETURN(std::string module, support::BinaryPath("warmring-redis.so"));
  std::vector<std::string> create = {"keyspace", "create", kKeyspace};
  for (size_t i = 0; i < nodes; ++i) {
    support::RedisServerOptions options = PlainRedis();
    options.modules.push_back({module, {}});
    ASSIGN_OR_RETURN(auto redis, support::RedisServer::Start(options));
    if (i + 1 < nodes) {
      create.push_back("--add");
      create.push_back(NodeName(i) + "=" + redis->Address());
    }
    fleet.nodes.push_back(std::move(redis));
  }
  RETURN_IF_ERROR(Warmring(fleet.server->Address(), create).status());
  for (size_t i = 0; i < nodes; ++i) {
    support::AgentOptions options;
    options.server = fleet.server->Address();
    options.keyspace = kKeyspace;
    options.node = NodeName(i);
    options.redis_port = fleet.nodes[i]->Port();
    ASSIGN_OR_RETURN(auto agent, support::AgentProcess::Start(options));
    fleet.agents.push_back(std::move(agent));
  }
  return fleet;
}

absl::StatusOr<std::string> Warmring(const std::string& server,
                                     const std::vector<std::string>& args) {
  support::CliOptions options;
  options.server = server;
  options.within = absl::Minutes(10);
  ASSIGN_OR_RETURN(support::CliResult result, support::RunCli(args, options));
  if (result.exit_code == 0) return result.out;
  return absl::FailedPreconditionError(fmt::format("warmring {} ended with {}: {}{}",
                                                   args.empty() ? "" : args[0], result.exit_code,
                                                   result.out, result.err));
}

}  // namespace warmring::demo
