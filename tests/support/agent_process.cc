#include "tests/support/agent_process.h"

#include <utility>

#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "tests/support/binary.h"

namespace warmring::support {

absl::StatusOr<std::unique_ptr<AgentProcess>> AgentProcess::Start(const AgentOptions& options) {
  ASSIGN_OR_RETURN(std::string binary, BinaryPath("warmring-agent"));
  ASSIGN_OR_RETURN(FreePort port, FreePort::Reserve());
  ASSIGN_OR_RETURN(std::unique_ptr<TempDir> dir, TempDir::Create("agent"));

  ServerProcessOptions server;
  server.process.argv = {std::move(binary),
                         fmt::format("--server={}", options.server),
                         fmt::format("--keyspace={}", options.keyspace),
                         fmt::format("--node={}", options.node),
                         fmt::format("--redis=127.0.0.1:{}", options.redis_port),
                         fmt::format("--listen={}", port.Address())};
  server.process.argv.insert(server.process.argv.end(), options.extra_args.begin(),
                             options.extra_args.end());
  server.process.env = options.env;
  server.process.log_path = dir->File("agent.log");
  server.ready = [number = port.Port()] { return ProbeTcp(number); };
  std::unique_ptr<AgentProcess> agent(
      new AgentProcess(std::move(port), std::move(dir), std::move(server)));
  RETURN_IF_ERROR(agent->server_.Start(options.first_env));
  return agent;
}

absl::Status AgentProcess::Restart(const Environment& extra_env) {
  RETURN_IF_ERROR(Stop());
  return server_.Start(extra_env);
}

}  // namespace warmring::support
