#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/ids.h"
#include "warmring/router.h"

namespace warmring {

struct ClientOptions {
  std::vector<std::string> endpoints;  // host:port of warmringd servers; tried in turn
  std::string keyspace;
  // Where the newest membership is kept, so that a new process can route while every server is
  // down. Each process needs a file of its own. Empty: none.
  std::string cache_file;
  std::string client_name;  // for the server's list of watchers
  // How long Connect waits for the first membership.
  absl::Duration connect_timeout = absl::Seconds(5);

  // Of the connections to cache nodes.
  size_t max_connections_per_node = 32;
  absl::Duration node_connect_timeout = absl::Milliseconds(500);
  absl::Duration node_command_timeout = absl::Seconds(1);
};

// One keyspace, followed and routed. An application needs one for each keyspace. Thread-safe.
class Client {
 public:
  // Follows the keyspace's membership and waits until there is one: the cache file's, or the
  // server's.
  // Errors: InvalidArgument naming the option; NotFound: no such keyspace; Unavailable: no server
  // answered within the connect timeout, and there was no cache file.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(ClientOptions options);

  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Router& router() const;

  // Waits until the router has at least `version`. Error: DeadlineExceeded.
  absl::Status WaitForVersion(Version version, absl::Duration timeout);
  // How long ago a server last said that the router's version is the newest. Infinite when never.
  absl::Duration Staleness() const;
  // The last trouble of the connection to the servers, Ok when connected. Routing goes on without.
  absl::Status ConnectionStatus() const;

  // Of this library: what its other parts share.
  struct Core;
  explicit Client(std::unique_ptr<Core> core);
  Core& core() { return *core_; }

 private:
  const std::unique_ptr<Core> core_;
};

}  // namespace warmring
