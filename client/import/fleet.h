#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/hashing/key_hash.h"
#include "core/membership/keyspace_spec.h"
#include "core/membership/membership.h"
#include "core/membership/node.h"

namespace warmring {

// An existing fleet in the terms of a keyspace: how it hashes, who its nodes are, and who owns
// what, so that each key stays where it is. Plain value.
struct Fleet {
  // What is read from outside is refused before it costs more memory than this many bytes of text.
  static constexpr size_t kMaxSourceBytes = size_t{32} << 20;

  PlacementKind placement = PlacementKind::kRing;
  HashSpec hash;
  uint32_t directory_bits = KeyspaceSpec::kDefaultDirectoryBits;   // directory only
  uint32_t tokens_per_node = KeyspaceSpec::kDefaultTokensPerNode;  // ring only: the mean
  std::vector<Node> nodes;         // unique ids, each owns something
  std::vector<OwnedRange> ranges;  // sorted by end; owners are indices into `nodes`

  // What each node owns of hash space, by index; for people.
  std::vector<double> Shares() const;
};

// A token of the original ring.
struct FleetToken {
  HashPoint point = 0;
  NodeIndex node = 0;
};

// An id for the node that the original calls `name`: "10.0.0.1:11211" is node-10-0-0-1-11211.
// Total; different names may give one id, which MakeRing refuses.
NodeId NodeIdOf(std::string_view name);

// A node that the original calls `name`, which becomes its hash name, at `address`.
// Error: InvalidArgument: ValidateNode.
absl::StatusOr<Node> MakeFleetNode(std::string_view name, std::string_view address);

// The ring of these tokens, in any order. A node's token may be there twice.
// Errors: InvalidArgument: no node, or too many; two nodes with one id; a node without a token;
// two nodes with one token, since which of them the original prefers depends on how it sorts.
absl::StatusOr<Fleet> MakeRing(const HashSpec& hash, std::vector<Node> nodes,
                               std::vector<FleetToken> tokens);

// How large the user knows the fleet to be. A list that was cut off between two lines is a smaller
// list, which nothing but this shows.
struct FleetSize {
  std::optional<uint64_t> nodes;
  std::optional<uint64_t> ranges;
};
// Error: InvalidArgument naming what is there and what was expected.
absl::Status CheckSize(const Fleet& fleet, const FleetSize& expected);

}  // namespace warmring
