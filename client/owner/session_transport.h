#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/owner/owner_port.h"

// An owner's session as values: the seam between the driver and gRPC. docs/protocol.md section 3.

namespace warmring {

// Up: hello, renewals, reports.
using SessionRequest = std::variant<OwnerPort::Identity, OwnerPort::Renewal, TaskReport>;

// Down.
struct SessionWelcome {
  HistoryId history;
  Term term;
  absl::Duration lease;
};
struct SessionTasks {
  Term term;
  std::vector<Task> tasks;
};
// A message that cannot be understood.
struct SessionGarbage {
  absl::Status why;
};
using SessionResponse = std::variant<SessionWelcome, LeaseGrant, SessionTasks, SessionGarbage>;

// What an owner must know before it can say hello.
struct ServedKeyspace {
  HistoryId history;
  OnRestart on_restart = OnRestart::kPurge;
};

// One stream. One thread calls Start, then Read until it gives nothing, then Finish; one other may
// call Discover before, and Write between a true Start and Finish; any may Cancel.
class SessionStream {
 public:
  virtual ~SessionStream() = default;
  virtual absl::StatusOr<ServedKeyspace> Discover() = 0;
  // Connects. Blocks until then, or until it has failed; false: go to Finish.
  virtual bool Start() = 0;
  virtual bool Write(const SessionRequest& request) = 0;
  // Blocks. Nothing: the stream has ended.
  virtual std::optional<SessionResponse> Read() = 0;
  virtual absl::Status Finish() = 0;
  // Makes all of the others return soon.
  virtual void Cancel() = 0;
};

class SessionTransport {
 public:
  virtual ~SessionTransport() = default;
  virtual std::unique_ptr<SessionStream> Open(const std::string& endpoint) = 0;
};

}  // namespace warmring
