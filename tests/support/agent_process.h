#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/support/free_port.h"
#include "tests/support/server_process.h"
#include "tests/support/temp_dir.h"

namespace warmring::support {

struct AgentOptions {
  std::string server;  // warmringd's address
  std::string keyspace;
  std::string node;
  uint16_t redis_port = 0;
  // Appended to the flags.
  std::vector<std::string> extra_args;
  Environment env;        // for every incarnation
  Environment first_env;  // for the first one only, as failpoints
};

// The built warmring-agent beside a Redis server, on a free loopback port.
//
// Thread rule: one thread at a time, except Address().
class AgentProcess {
 public:
  // Starts `warmring-agent --server=… --keyspace=… --node=… --redis=127.0.0.1:… --listen=…` and
  // waits until its port takes connections.
  //
  // Errors: NotFound if warmring-agent is not built; those of ServerProcess::Start.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<AgentProcess>> Start(
      const AgentOptions& options);

  // Where other agents pull from.
  std::string Address() const { return port_.Address(); }
  uint16_t Port() const { return port_.Port(); }

  // Ends it if it runs, and starts it again with the same port and flags.
  //
  // Errors: those of ServerProcess::Start and Stop.
  [[nodiscard]] absl::Status Restart(const Environment& extra_env = {});
  [[nodiscard]] absl::Status Stop() { return server_.Stop(); }
  void Kill9() { server_.Kill9(); }

  ServerProcess& Server() { return server_; }
  std::string LogText() const { return server_.LogText(); }

 private:
  AgentProcess(FreePort port, std::unique_ptr<TempDir> dir, ServerProcessOptions options)
      : port_(std::move(port)), dir_(std::move(dir)), server_(std::move(options)) {}

  const FreePort port_;
  const std::unique_ptr<TempDir> dir_;
  ServerProcess server_;
};

}  // namespace warmring::support
