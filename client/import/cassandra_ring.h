#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/import/fleet.h"

namespace warmring {

// The ring of a Cassandra datacenter with the Murmur3Partitioner, from what `nodetool ring` prints
// or from lines of "address token". Pure. The owner of a key is the node that has its first
// replica; rack and datacenter of nodetool become the label "rack" and the zone. `port` is added to
// addresses that have none.
// Errors: InvalidArgument with the line: no such row; a token that is no signed 64-bit number; a
// node that joins, leaves or moves; more than one datacenter; a ring whose highest token is not the
// one that nodetool prints on top, so that it is cut off; what MakeRing refuses.
absl::StatusOr<Fleet> ParseCassandraRing(std::string_view text, uint16_t port);

}  // namespace warmring
