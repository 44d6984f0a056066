#include "tests/crash/victim.h"

#include "core/base/status_macros.h"

namespace warmring::crash {

std::string_view Name(Victim victim) {
  switch (victim) {
    case Victim::kServer:
      return "server";
    case Victim::kDonorAgent:
      return "donor-agent";
    case Victim::kRecipientAgent:
      return "recipient-agent";
    case Victim::kDonorRedis:
      return "donor-redis";
    case Victim::kRecipientRedis:
      return "recipient-redis";
    case Victim::kServerAndDonorAgent:
      return "server-and-donor-agent";
  }
  return "nobody";
}

bool IncludesServer(Victim victim) {
  return victim == Victim::kServer || victim == Victim::kServerAndDonorAgent;
}

absl::Status KillAndRestart(Victim victim, const Roles& roles, Cluster& cluster,
                            const std::string& failpoints) {
  switch (victim) {
    case Victim::kServer:
      return cluster.RestartServer(failpoints);
    case Victim::kDonorAgent:
      return cluster.RestartAgent(cluster.Find(roles.donor));
    case Victim::kRecipientAgent:
      return cluster.RestartAgent(cluster.Find(roles.recipient));
    case Victim::kDonorRedis:
      return cluster.RestartRedis(cluster.Find(roles.donor));
    case Victim::kRecipientRedis:
      return cluster.RestartRedis(cluster.Find(roles.recipient));
    case Victim::kServerAndDonorAgent:
      // Both are dead at the same time: neither can tell the other anything.
      cluster.Server().Kill9();
      cluster.Find(roles.donor).agent->Kill9();
      RETURN_IF_ERROR(cluster.RestartServer(failpoints));
      return cluster.RestartAgent(cluster.Find(roles.donor));
  }
  return absl::OkStatus();
}

}  // namespace warmring::crash
