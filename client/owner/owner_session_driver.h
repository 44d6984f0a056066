#pragma once

#include <memory>

#include "client/owner/owner_session.h"
#include "client/owner/session_transport.h"

namespace warmring {

// What OwnerSession::Start reaches through gRPC, as arguments for tests.
struct SessionSeams {
  std::unique_ptr<SessionTransport> transport;
  uint64_t seed = 0;
};
absl::StatusOr<std::unique_ptr<OwnerSession>> StartSession(OwnerSessionOptions options,
                                                           OwnerPort* port, SessionSeams seams);

}  // namespace warmring
