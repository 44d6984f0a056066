#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "agent/engine/cache_engine.h"
#include "agent/transfer/donor_stream.h"
#include "core/membership/membership.h"

namespace warmring {

struct TransferServerOptions {
  std::string listen;  // host:port; port 0 takes a free one
  KeyspaceId keyspace;
  NodeId node;
  // The membership that is installed in the engine, or null.
  std::function<Membership::Ptr()> membership;
  // Where the log stood when these ranges were fenced for this migration; empty if they are not.
  std::function<std::optional<LogPosition>(const MigrationId&, const HashRangeSet&)> fenced;
  DonorStreamOptions stream;
};

// Serves this node's keys to the agents of recipients (proto TransferService). A thread per stream;
// a slow reader holds up only its own. Thread-safe.
//
// A pull is refused with InvalidArgument when the order is malformed or for another keyspace, and
// with FailedPrecondition when this node's membership does not (yet, or any more) give the ranges
// to that recipient: the recipient tries again.
class TransferServer {
 public:
  // `engine` must outlive the server.
  // Error: Unavailable naming the address, when it cannot be listened on.
  static absl::StatusOr<std::unique_ptr<TransferServer>> Start(TransferServerOptions options,
                                                               CacheEngine* engine);
  virtual ~TransferServer() = default;  // ends all streams

  virtual int port() const = 0;
  // Every stream looks at the change log now: a fence was raised.
  virtual void Nudge() = 0;
};

}  // namespace warmring
