#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/support/free_port.h"
#include "tests/support/redis_connection.h"
#include "tests/support/server_process.h"
#include "tests/support/temp_dir.h"

namespace warmring::support {

struct RedisModuleSpec {
  std::string path;
  std::vector<std::string> args;
};

// Empty or false: Redis' own default, except that nothing is saved to disk.
struct RedisServerOptions {
  std::string maxmemory;         // "64mb"
  std::string maxmemory_policy;  // "allkeys-lfu"
  std::string save;              // "3600 1"; empty: no snapshots
  bool appendonly = false;
  std::string appendfsync;  // "always"
  std::vector<RedisModuleSpec> modules;
  bool enable_debug_command = false;   // allows DEBUG to local clients
  bool enable_module_command = false;  // allows MODULE LOAD to local clients
  // Further lines of redis.conf, each as directive and arguments.
  std::vector<std::vector<std::string>> directives;
  Environment env;  // for every incarnation
  // Needed only if redis-server is not in PATH.
  std::string binary = "redis-server";
};

// A real redis-server on a free loopback port with a directory of its own.
//
// Thread rule: one thread at a time; other threads make their own RedisConnection to Port().
class RedisServer {
 public:
  // What a restart finds in the directory.
  enum class Data { kKeep, kWipe };

  // Starts it and waits until PING answers PONG.
  //
  // Errors: NotFound with the install command if there is no redis-server; those of
  // ServerProcess::Start (a module that does not load shows its reason in the log's end).
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<RedisServer>> Start(
      RedisServerOptions options = {});

  uint16_t Port() const { return port_.Port(); }
  std::string Address() const { return port_.Address(); }
  // Where dump.rdb and appendonlydir are.
  const std::string& Dir() const { return dir_->Path(); }

  // Ends it if it runs, then starts it again on the same port and directory with the same options.
  // A server with `save` or `appendonly` writes its data when it is asked to end; after Kill9 it
  // finds what was on disk at that moment.
  //
  // Errors: those of ServerProcess::Start and Stop.
  [[nodiscard]] absl::Status Restart(Data data = Data::kKeep, const Environment& extra_env = {});

  // Asks it to end.
  [[nodiscard]] absl::Status Stop();
  // SIGKILL to it and to a child that saves; on return they are gone.
  void Kill9();

  // Sends a command over a connection of this object, which is made anew when it broke.
  //
  // Errors: Unavailable if the server cannot be reached or the connection broke.
  [[nodiscard]] absl::StatusOr<RedisReply> Command(const std::vector<std::string>& words);

  // A connection of the caller's own.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<RedisConnection>> Connect() const;

  ServerProcess& Server() { return server_; }
  std::string LogText() const { return server_.LogText(); }

 private:
  RedisServer(FreePort port, std::unique_ptr<TempDir> dir, const RedisServerOptions& options);

  const FreePort port_;
  const std::unique_ptr<TempDir> dir_;
  ServerProcess server_;
  std::unique_ptr<RedisConnection> connection_;
};

}  // namespace warmring::support
