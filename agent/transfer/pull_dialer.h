#pragma once

#include "agent/transfer/pull.h"

namespace warmring {

// Opens streams to TransferServers over gRPC, each on a connection of its own. Thread-safe.
PullDialer GrpcPullDialer();

}  // namespace warmring
