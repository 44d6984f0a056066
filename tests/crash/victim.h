#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "core/base/ids.h"
#include "tests/crash/cluster.h"

namespace warmring::crash {

// Who dies. Donor and recipient are those of the hand-over under test.
enum class Victim {
  kServer,
  kDonorAgent,
  kRecipientAgent,
  kDonorRedis,
  kRecipientRedis,
  kServerAndDonorAgent,
};
inline constexpr Victim kAllVictims[] = {Victim::kServer,         Victim::kDonorAgent,
                                         Victim::kRecipientAgent, Victim::kDonorRedis,
                                         Victim::kRecipientRedis, Victim::kServerAndDonorAgent};

struct Roles {
  NodeId donor;
  NodeId recipient;
};

std::string_view Name(Victim victim);
bool IncludesServer(Victim victim);

// SIGKILL to all that the victim stands for, then a new process for each; `failpoints` are those of
// a new warmringd. A dead warmringd (at a failpoint) is as good as a killed one.
//
// Errors: those of the restarts.
[[nodiscard]] absl::Status KillAndRestart(Victim victim, const Roles& roles, Cluster& cluster,
                                          const std::string& failpoints = "");

}  // namespace warmring::crash
