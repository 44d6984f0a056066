#pragma once

#include <memory>

#include "server/conductor/keyspace_runtime.h"
#include "server/service/gate.h"

namespace grpc {
class ServerBuilder;
}

namespace warmring {

// warmring.v1.OwnerService: the streams of owners' sessions. They have a completion queue with a
// thread of its own, because acknowledged fences are on the path on which writes wait, and an idle
// reader of the callback API may be woken 100 ms late. Any thread; nothing blocks.
class OwnerService {
 public:
  // Both must outlive the service.
  OwnerService(const Gate* gate, KeyspaceRuntimes* runtimes);
  // REQUIRES: if the server was started, Stop was called.
  ~OwnerService();

  // Takes calls as soon as the server that is built with it has started.
  void Register(grpc::ServerBuilder& builder);
  // Ends every stream with UNAVAILABLE, also those that come later; before the server shuts down.
  void EndStreams();
  // Takes everything out of the completion queue, which uses the server for that. Call it after the
  // server was shut down and before it is destroyed; again is harmless.
  void Stop();

 private:
  class Implementation;
  const std::unique_ptr<Implementation> implementation_;
};

}  // namespace warmring
