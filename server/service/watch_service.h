#pragma once

#include <memory>

#include "server/service/gate.h"
#include "server/watch/watch_hub.h"

namespace grpc {
class ServerBuilder;
}

namespace warmring {

// warmring.v1.WatchService: one write at a time on each stream, of bytes that all streams share.
// The hub decides what comes next. Any thread; nothing blocks.
class WatchService {
 public:
  // Both must outlive the service.
  WatchService(const Gate* gate, WatchHub* hub);
  ~WatchService();

  void Register(grpc::ServerBuilder& builder);
  // Ends every stream with UNAVAILABLE, also those that come later; before the server shuts down.
  void EndStreams();

 private:
  class Implementation;
  const std::unique_ptr<Implementation> implementation_;
};

}  // namespace warmring
