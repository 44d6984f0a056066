#pragma once

#include <memory>
#include <string>

#include "client/sync/membership_sync_machine.h"
#include "client/sync/watch_transport.h"

namespace warmring {

// The watch over gRPC (WatchService.WatchMembership), without transport
// security.
std::unique_ptr<WatchTransport> MakeGrpcWatchTransport(KeyspaceId keyspace,
                                                       std::string client_name);

// Decodes the serialised warmring.v1.Membership that snapshots carry.
SnapshotDecoder ProtoSnapshotDecoder();

}  // namespace warmring
