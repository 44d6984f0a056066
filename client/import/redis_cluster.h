#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "client/import/fleet.h"
#include "client/redis/redis_connection.h"

namespace warmring {

// The directory that a Redis Cluster's answer to CLUSTER SLOTS describes: 2^14 buckets, one a slot,
// owned by the masters; replicas are left out. `asked` is the host that answered, which stands in
// for a master that does not know its own address. Pure.
// Errors: InvalidArgument: another reply than CLUSTER SLOTS gives; a slot that nobody or more than
// one master has.
absl::StatusOr<Fleet> FleetOfSlots(const RedisReply& slots, std::string_view asked);

// Whether the answer to CLUSTER NODES of one node shows slots that move to or from it. Of other
// nodes it shows none: ask each.
bool SlotsMove(std::string_view nodes);

}  // namespace warmring
