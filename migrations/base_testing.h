#pragma once

#include <fmt/format.h>

#include "core/membership/membership.h"
#include "core/placement/allocator.h"

// The keyspace that stories about migrations begin with.

namespace warmring {

// "cache-00", "cache-01" and so on.
inline Node MakeNode(int number) {
  Node node;
  node.id = fmt::format("cache-{:02}", number);
  node.address = fmt::format("10.0.0.{}:6379", number + 1);
  return node;
}

// Version 41 of keyspace "sessions": 1,024 buckets, or twelve tokens a node, all under epoch 3.
inline MembershipData BaseData(PlacementKind placement, int nodes = 3) {
  MembershipData data;
  data.version = Version(41);
  data.spec.id = "sessions";
  data.spec.placement = placement;
  data.spec.directory_bits = 10;
  data.spec.tokens_per_node = 12;
  for (int i = 0; i < nodes; ++i) data.nodes.push_back(MakeNode(i));
  data.ranges = InitialRanges(data.spec, data.nodes, Epoch(3));
  return data;
}

inline Membership::Ptr Base(PlacementKind placement, int nodes = 3) {
  return *Membership::Create(BaseData(placement, nodes));
}

}  // namespace warmring
