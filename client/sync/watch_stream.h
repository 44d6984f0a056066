#pragma once

#include <memory>
#include <string>

#include "client/sync/membership_sync_machine.h"
#include "client/sync/watch_transport.h"

namespace warmring {

// Who subscribes to what.
struct WatchSubject {
  KeyspaceId keyspace;
  std::string client_name;
  bool observer = false;
};

// The watch over gRPC (WatchService.WatchMembership), without transport
// security.
std::unique_ptr<WatchTransport> MakeGrpcWatchTransport(WatchSubject subject);

// Decodes the serialised warmring.v1.Membership that snapshots carry.
SnapshotDecoder ProtoSnapshotDecoder();

}  // namespace warmring
