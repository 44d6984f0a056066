#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/owner/owner_port.h"

namespace warmring {

struct OwnerSessionOptions {
  std::vector<std::string> endpoints;  // host:port of servers; tried in turn
  KeyspaceId keyspace;
  NodeId node;
  absl::Duration backoff_min = absl::Milliseconds(50);
  absl::Duration backoff_max = absl::Seconds(2);
};

// Keeps one owner's session with the server: hello, renewals every quarter of the lease, grants and
// tasks down, reports up (docs/protocol.md section 3). Owns its threads; reconnects for ever.
// Thread-safe.
class OwnerSession {
 public:
  // `port` must outlive the session. Errors: InvalidArgument.
  static absl::StatusOr<std::unique_ptr<OwnerSession>> Start(OwnerSessionOptions options,
                                                             OwnerPort* port);
  virtual ~OwnerSession() = default;  // ends the stream and joins the threads

  // The port has reports to take.
  virtual void Notify() = 0;
  virtual bool Connected() const = 0;
  virtual absl::Status LastStatus() const = 0;
};

}  // namespace warmring
