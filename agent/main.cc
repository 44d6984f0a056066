#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/synchronization/mutex.h"
#include "agent/agent.h"
#include "core/base/ids.h"
#include "core/membership/node.h"
#include "fmt/format.h"
#include "spdlog/spdlog.h"

namespace {

constexpr int kExitUsage = 2;

int Refuse(const absl::Status& status) {
  std::fputs(fmt::format("warmring-agent: {}\n", std::string(status.message())).c_str(), stderr);
  return kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app(
      "Runs beside one Redis server with warmring-redis.so: holds its lease and moves its keys");
  app.set_version_flag("--version", "warmring-agent " WARMRING_VERSION);
  warmring::AgentOptions options;
  std::string log_level = "info";
  app.add_option("--server", options.servers, "host:port of warmringd; several with commas")
      ->required()
      ->delimiter(',');
  app.add_option("--keyspace", options.keyspace, "the keyspace")->required();
  app.add_option("--node", options.node, "the id of this node")->required();
  app.add_option("--redis", options.redis, "host:port of the Redis server")->required();
  app.add_option("--listen", options.listen, "host:port for the agents of other nodes")
      ->capture_default_str();
  app.add_option("--advertise", options.advertise,
                 "host:port that they are told to dial; default: --listen");
  app.add_option("--log-level", log_level, "trace, debug, info, warn, error or off")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  spdlog::set_level(spdlog::level::from_str(log_level));
  spdlog::flush_on(spdlog::level::info);

  // Before any thread starts, so that all inherit it and only this one takes the signals.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  auto agent = warmring::Agent::Start(options);
  if (!agent.ok()) return Refuse(agent.status());
  std::fputs(
      fmt::format("warmring-agent ready: keyspace={} node={} redis={} transfer={}\n",
                  options.keyspace, options.node, options.redis, (*agent)->transfer_address())
          .c_str(),
      stdout);
  std::fflush(stdout);

  int signal = 0;
  sigwait(&signals, &signal);
  spdlog::info("signal {}: ending", signal);
  agent->reset();
  return 0;
}
