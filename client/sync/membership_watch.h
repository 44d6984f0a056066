#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/membership/membership.h"

namespace grpc {
class ChannelCredentials;
}

namespace warmring {

struct MembershipWatchOptions {
  std::vector<std::string> endpoints;  // host:port of servers; tried in turn
  KeyspaceId keyspace;
  std::string client_name;
  // Never reads the origin: has no part in the fill budget, and is not counted by Watchers().
  bool observer = false;
  // Last-known-good file: written atomically at each new version, read at start
  // so that a client can route while every server is down. Empty: none.
  std::string cache_file;
  absl::Duration backoff_min = absl::Milliseconds(50);
  absl::Duration backoff_max = absl::Seconds(5);
  // A server that is silent for so long is given up for the next one.
  absl::Duration idle_timeout = absl::Seconds(30);
};

// Follows the membership of one keyspace: a driver (thread and stream) around
// the pure MembershipSyncMachine. Thread-safe. The membership never goes back
// in version within a history.
class MembershipWatch {
 public:
  // Called on the watch's thread for each new membership, in order; must return
  // soon.
  using Listener = std::function<void(const Membership::Ptr&)>;

  // Errors: InvalidArgument (no endpoint, one that is not host:port, bad
  // keyspace id, a cache file of another keyspace). Does not wait for the
  // server. A cache file that cannot be read is warned about and written anew.
  static absl::StatusOr<std::unique_ptr<MembershipWatch>> Start(MembershipWatchOptions options,
                                                                Listener listener = nullptr);
  virtual ~MembershipWatch() = default;

  // The newest membership, or null before the first one.
  virtual Membership::Ptr Current() const = 0;
  // Waits until Current() has at least `version` (any version for 0).
  // Errors: DeadlineExceeded saying which version is there and what the
  // connection says.
  virtual absl::Status WaitForVersion(Version version, absl::Duration timeout) = 0;
  // How long ago the server last said that this is the newest version. Infinite
  // when never.
  virtual absl::Duration Staleness() const = 0;
  // Live watchers of the keyspace by the server's word; at least 1.
  virtual uint32_t Watchers() const = 0;
  // Last trouble of the connection, Ok when connected.
  virtual absl::Status ConnectionStatus() const = 0;
};

}  // namespace warmring
