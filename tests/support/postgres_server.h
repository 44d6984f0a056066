#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/support/free_port.h"
#include "tests/support/server_process.h"
#include "tests/support/temp_dir.h"

namespace warmring::support {

struct PostgresServerOptions {
  int max_connections = 100;
  std::string shared_buffers = "64MB";
  // Writes survive a crash of the machine. Off is much faster; a kill of the server loses no
  // acknowledged commit either way.
  bool fsync = false;
  // Further settings of postgresql.conf.
  std::vector<std::pair<std::string, std::string>> settings;
  // Where postgres and initdb are. Empty: the newest version in /usr/lib/postgresql, else PATH.
  std::string bin_dir;
};

// A row of a result; a NULL is nullopt.
using PostgresRow = std::vector<std::optional<std::string>>;

// A real PostgreSQL with a new, empty cluster in a directory of its own, reached over a free
// loopback port or a unix socket. The superuser is `postgres`, without a password. PostgreSQL
// refuses to run as root: under root its processes run as the system user `postgres`.
//
// Thread rule: one thread at a time, except Port() and ConnectionString().
class PostgresServer {
 public:
  // Makes the cluster (about two seconds), starts the server and waits until it takes connections.
  //
  // Errors: NotFound with the install command if PostgreSQL or the system user is missing; Internal
  // with initdb's output if the cluster cannot be made; those of ServerProcess::Start.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PostgresServer>> Start(
      PostgresServerOptions options = {});

  // Ends it by a fast shutdown: a killed PostgreSQL leaves a segment of shared memory behind.
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  uint16_t Port() const { return port_.Port(); }
  // For libpq, over TCP.
  std::string ConnectionString() const;
  // For libpq, over the unix socket.
  std::string UnixConnectionString() const;

  // Runs SQL on a connection of its own and returns the rows of the last statement.
  //
  // Errors: Unavailable if there is no connection; InvalidArgument with PostgreSQL's message if it
  // refuses the statement.
  [[nodiscard]] absl::StatusOr<std::vector<PostgresRow>> Query(const std::string& sql) const;

  // Ends it by a fast shutdown: connections are closed.
  [[nodiscard]] absl::Status Stop();
  // SIGKILL to it and its backends; on return they are gone.
  void Kill9() { server_.Kill9(); }
  // Ends it if it runs, and starts it again with its data.
  [[nodiscard]] absl::Status Restart();

  ServerProcess& Server() { return server_; }
  std::string LogText() const { return server_.LogText(); }

 private:
  PostgresServer(FreePort port, std::unique_ptr<TempDir> dir, ServerProcessOptions options)
      : port_(std::move(port)), dir_(std::move(dir)), server_(std::move(options)) {}

  const FreePort port_;
  const std::unique_ptr<TempDir> dir_;
  ServerProcess server_;
};

}  // namespace warmring::support
