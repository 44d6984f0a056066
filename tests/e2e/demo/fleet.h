#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/membership/membership.h"
#include "tests/support/agent_process.h"
#include "tests/support/redis_server.h"
#include "tests/support/warmringd_server.h"

namespace warmring::demo {

inline constexpr const char* kKeyspace = "demo";

std::string NodeName(size_t index);  // "cache-01" for 0

// Plain Redis servers and what a naive client knows of them: one membership before and one after
// the fifth node, by the same allocator that the planner uses.
struct NaiveFleet {
  std::vector<std::unique_ptr<support::RedisServer>> nodes;
  Membership::Ptr before;
  Membership::Ptr after;
};
absl::StatusOr<NaiveFleet> StartNaiveFleet(size_t nodes);

// warmringd, Redis servers with the module, their agents, and a keyspace that holds all of them but
// the last, which runs but is no member yet.
struct WarmringFleet {
  std::unique_ptr<support::WarmringdServer> server;
  std::vector<std::unique_ptr<support::RedisServer>> nodes;
  std::vector<std::unique_ptr<support::AgentProcess>> agents;
};
absl::StatusOr<WarmringFleet> StartWarmringFleet(size_t nodes);

// Runs the command line against a server. Error: FailedPrecondition with what it printed.
absl::StatusOr<std::string> Warmring(const std::string& server,
                                     const std::vector<std::string>& args);

}  // namespace warmring::demo
