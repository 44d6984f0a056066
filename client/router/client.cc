#include "warmring/client.h"

#include <fmt/format.h>

#include <utility>

#include "client/router/client_core.h"
#include "core/base/status_macros.h"

namespace warmring {
namespace {

absl::Status Validate(const ClientOptions& options) {
  if (options.max_connections_per_node == 0) {
    return absl::InvalidArgumentError("max_connections_per_node: 0: use at least 1");
  }
  for (const auto& [name, value] :
       {std::pair{"connect_timeout", options.connect_timeout},
        std::pair{"node_connect_timeout", options.node_connect_timeout},
        std::pair{"node_command_timeout", options.node_command_timeout}}) {
    if (value <= absl::ZeroDuration()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {}: use a positive time", name, absl::FormatDuration(value)));
    }
  }
  return absl::OkStatus();
}

// The watch goes on trying; for a caller that waits for its first membership, its trouble is final.
absl::Status WaitForFirst(MembershipWatch& watch, const ClientOptions& options) {
  const absl::Status waited = watch.WaitForVersion(Version(1), options.connect_timeout);
  if (waited.ok()) return waited;
  const absl::Status connection = watch.ConnectionStatus();
  if (absl::IsNotFound(connection) || absl::IsPermissionDenied(connection)) return connection;
  return absl::UnavailableError(fmt::format("no membership: {}", std::string(waited.message())));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(ClientOptions options) {
  RETURN_IF_ERROR(Validate(options));
  auto router = std::make_unique<Router>();
  MembershipWatchOptions watch_options;
  watch_options.endpoints = options.endpoints;
  watch_options.keyspace = options.keyspace;
  watch_options.client_name = options.client_name;
  watch_options.cache_file = options.cache_file;
  ASSIGN_OR_RETURN(
      std::unique_ptr<MembershipWatch> watch,
      MembershipWatch::Start(watch_options, [router = router.get()](const Membership::Ptr& value) {
        router->Install(value);
      }));
  RETURN_IF_ERROR(WaitForFirst(*watch, options));
  RedisPoolOptions pool_options;
  pool_options.max_connections = options.max_connections_per_node;
  pool_options.connect_timeout = options.node_connect_timeout;
  pool_options.command_timeout = options.node_command_timeout;
  return std::make_unique<Client>(
      std::make_unique<Core>(std::move(router), std::move(watch), std::move(pool_options)));
}

Client::Client(std::unique_ptr<Core> core) : core_(std::move(core)) {}

Client::~Client() = default;

const Router& Client::router() const { return *core_->router; }

absl::Status Client::WaitForVersion(Version version, absl::Duration timeout) {
  return core_->watch->WaitForVersion(version, timeout);
}

absl::Duration Client::Staleness() const { return core_->watch->Staleness(); }

absl::Status Client::ConnectionStatus() const { return core_->watch->ConnectionStatus(); }

}  // namespace warmring
