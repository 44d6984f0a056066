#pragma once

#include <memory>

#include "client/sync/membership_sync_machine.h"
#include "client/sync/membership_watch.h"
#include "client/sync/watch_transport.h"

namespace warmring {

// What MembershipWatch::Start reaches through gRPC, as arguments for tests.
struct WatchSeams {
  std::unique_ptr<WatchTransport> transport;
  SnapshotDecoder decode;
  uint64_t seed = 0;
};
absl::StatusOr<std::unique_ptr<MembershipWatch>> StartWatch(MembershipWatchOptions options,
                                                            MembershipWatch::Listener listener,
                                                            WatchSeams seams);

}  // namespace warmring
