#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/ids.h"

namespace warmring {

struct AgentOptions {
  std::vector<std::string> servers;  // host:port of warmringd
  KeyspaceId keyspace;
  NodeId node;
  std::string redis;                   // host:port
  std::string listen = "127.0.0.1:0";  // of the TransferService
  std::string advertise;               // empty: as `listen`, with the port that was taken
};

// All parts of warmring-agent, wired. Runs on its own threads until it is destroyed. It waits for a
// Redis or a server that is not there, for ever.
class Agent {
 public:
  // Errors: InvalidArgument naming the flag, the value and the way out; Unavailable when --listen
  // cannot be listened on.
  static absl::StatusOr<std::unique_ptr<Agent>> Start(const AgentOptions& options);
  virtual ~Agent() = default;

  // What other agents dial.
  virtual const std::string& transfer_address() const = 0;
};

}  // namespace warmring
