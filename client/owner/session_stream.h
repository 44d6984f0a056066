#pragma once

#include <memory>

#include "client/owner/session_transport.h"

namespace warmring {

// The owner's session over gRPC (OwnerService.Session), without transport security.
std::unique_ptr<SessionTransport> MakeGrpcSessionTransport(KeyspaceId keyspace, NodeId node);

}  // namespace warmring
