#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "core/membership/update.h"

// The membership watch as values: the seam between the machine and its driver
// on one side and gRPC on the other. docs/protocol.md section 5.

namespace warmring {

// Up.
struct WatchSubscribe {
  HistoryId history;
  Version version;  // what the client has; 0 asks for a snapshot
  friend bool operator==(const WatchSubscribe&, const WatchSubscribe&) = default;
};
struct WatchAcknowledge {
  Version version;
  friend bool operator==(const WatchAcknowledge&, const WatchAcknowledge&) = default;
};
using WatchRequest = std::variant<WatchSubscribe, WatchAcknowledge>;

// Down.
struct SnapshotPiece {
  Version version;
  uint32_t index = 0;
  uint32_t count = 0;
  std::string data;
};
struct WatchProgress {
  Version version;
  uint32_t watchers = 0;
};
// The server has ended the subscription.
struct WatchRefusal {
  std::string reason;  // by name of ErrorReason
  std::string message;
};
// A message that cannot be understood.
struct WatchGarbage {
  absl::Status why;
};
using WatchMessage = std::variant<SnapshotPiece, Delta, WatchProgress, WatchRefusal, WatchGarbage>;

// One stream, for one keyspace. One thread calls Start, then Read until it
// gives nothing, then Finish; one other may Write between a true Start and
// Finish; any may Cancel.
class WatchStream {
 public:
  virtual ~WatchStream() = default;
  // Connects. Blocks until then, or until it has failed; false: go to Finish.
  virtual bool Start() = 0;
  virtual bool Write(const WatchRequest& request) = 0;
  // Blocks. Nothing: the stream has ended.
  virtual std::optional<WatchMessage> Read() = 0;
  // Why it ended.
  virtual absl::Status Finish() = 0;
  // Makes all of the others return soon.
  virtual void Cancel() = 0;
};

class WatchTransport {
 public:
  virtual ~WatchTransport() = default;
  virtual std::unique_ptr<WatchStream> Open(const std::string& endpoint) = 0;
};

}  // namespace warmring
