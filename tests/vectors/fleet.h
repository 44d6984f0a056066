#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/membership/membership.h"
#include "core/placement/directory.h"

// Memberships for the vectors, and how the files write them. A fault of ours here aborts.

namespace warmring {

Node FleetNode(const std::string& id, uint32_t weight_milli = 1000, const std::string& zone = "");
std::vector<Node> FleetNodes(const std::vector<std::string>& ids);
KeyspaceSpec RingSpec(uint32_t tokens_per_node);
KeyspaceSpec DirectorySpec(uint32_t bits);

// A membership of version 1 of an arbitrary history.
Membership::Ptr FleetOf(const KeyspaceSpec& spec, std::vector<Node> nodes,
                        std::vector<OwnedRange> ranges, std::vector<Move> moves = {});
// The same with the ranges that a new keyspace gets.
Membership::Ptr NewFleet(const KeyspaceSpec& spec, const std::vector<Node>& nodes);

// What becomes of `base` when the allocator adds and removes nodes.
Membership::Ptr Changed(const Membership& base, const std::vector<Node>& added,
                        const std::vector<NodeId>& removed);

// {"id", "weight_milli", and only when they are set "hash_name" (hex bytes), "zone" and "rack"}.
nlohmann::ordered_json NodesJson(const std::vector<Node>& nodes);
// [[end, owner, epoch], ...]
nlohmann::ordered_json OwnedRangesJson(const Membership& membership);
// The owners of a directory's buckets, one base-36 digit each: the index of the node.
std::string OwnersText(const Membership& directory);

// The same of what the allocators work on: {"id", "weight_milli", "domain" where it has a name},
// and a digit for each slot, by bucket and then by rank, '.' for nobody.
nlohmann::ordered_json SeatsJson(const std::vector<DirectoryNode>& nodes);
std::string SlotsText(const Directory& directory);

}  // namespace warmring
