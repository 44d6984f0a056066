#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "core/membership/membership.h"
#include "core/placement/directory.h"

namespace warmring {

// The whole placement of a new keyspace: its ranges under `epoch`, and the followers of each, by
// the spec's placement, allocator, replication and rule of domains. An owner index counts `nodes`
// in order of their ids.
//   directory: "bucket take" (directory_allocator.h) or weighted rendezvous (rendezvous.h).
//   ring:      derived tokens or deliberate ones (allocator.h), followers by preference lists
//              (preference.h).
// Pure, any thread. REQUIRES: `spec` valid; nodes valid, not empty, ids unique.
// Errors, InvalidArgument: more tokens than a membership can have; a strict rule with fewer domains
// than copies, naming both counts and the way out.
struct InitialPlacement {
  std::vector<OwnedRange> ranges;
  std::vector<NodeIndex> followers;
};
absl::StatusOr<InitialPlacement> PlaceInitially(const KeyspaceSpec& spec, std::vector<Node> nodes,
                                                Epoch epoch);

// What `directory` says, as a membership has it, all ranges under `epoch`.
InitialPlacement PlacementOf(const Directory& directory, Epoch epoch);

}  // namespace warmring
