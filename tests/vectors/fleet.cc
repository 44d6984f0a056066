#include "tests/vectors/fleet.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/membership/update.h"
#include "core/placement/allocator.h"
#include "tests/vectors/vectors.h"

namespace warmring {
namespace {

constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";

Membership::Ptr OrAbort(absl::StatusOr<Membership::Ptr> membership) {
  if (!membership.ok()) {
    std::fprintf(stderr, "%s\n", membership.status().ToString().c_str());
    std::abort();
  }
  return *std::move(membership);
}

}  // namespace

using Json = nlohmann::ordered_json;

Node FleetNode(const std::string& id, uint32_t weight_milli, const std::string& zone) {
  Node node;
  node.id = id;
  node.address = id + ":6379";
  node.weight_milli = weight_milli;
  node.zone = zone;
  return node;
}

std::vector<Node> FleetNodes(const std::vector<std::string>& ids) {
  std::vector<Node> nodes;
  nodes.reserve(ids.size());
  for (const std::string& id : ids) nodes.push_back(FleetNode(id));
  return nodes;
}

KeyspaceSpec RingSpec(uint32_t tokens_per_node) {
  KeyspaceSpec spec;
  spec.id = "vectors";
  spec.placement = PlacementKind::kRing;
  spec.tokens_per_node = tokens_per_node;
  return spec;
}

KeyspaceSpec DirectorySpec(uint32_t bits) {
  KeyspaceSpec spec;
  spec.id = "vectors";
  spec.placement = PlacementKind::kDirectory;
  spec.directory_bits = bits;
  return spec;
}

Membership::Ptr FleetOf(const KeyspaceSpec& spec, std::vector<Node> nodes,
                        std::vector<OwnedRange> ranges, std::vector<Move> moves) {
  MembershipData data;
  data.history.high = 0xa1b2c3d400000000;
  data.history.low = 7;
  data.version = Version(1);
  data.spec = spec;
  data.nodes = std::move(nodes);
  data.ranges = std::move(ranges);
  data.moves = std::move(moves);
  std::sort(data.nodes.begin(), data.nodes.end(),
            [](const Node& a, const Node& b) { return a.id < b.id; });
  return OrAbort(Membership::Create(std::move(data)));
}

Membership::Ptr NewFleet(const KeyspaceSpec& spec, const std::vector<Node>& nodes) {
  return FleetOf(spec, nodes, InitialRanges(spec, nodes, Epoch(1)));
}

Membership::Ptr Changed(const Membership& base, const std::vector<Node>& added,
                        const std::vector<NodeId>& removed) {
  const Reallocation change = Reallocate(base, added, removed);
  Update update;
  update.put_nodes = added;
  update.split_at = change.splits;
  for (const RangeMove& move : change.moves) {
    update.assignments.push_back({move.ranges, move.to, Epoch(base.version().value + 1)});
  }
  update.remove_nodes = removed;
  return OrAbort(Apply(base, update));
}

Json NodesJson(const std::vector<Node>& nodes) {
  Json list = Json::array();
  for (const Node& node : nodes) {
    Json json = {{"id", node.id}, {"weight_milli", node.weight_milli}};
    if (!node.hash_name.empty()) json["hash_name"] = HexBytes(node.hash_name);
    if (!node.zone.empty()) json["zone"] = node.zone;
    if (node.labels.contains("rack")) json["rack"] = node.labels.at("rack");
    list.push_back(std::move(json));
  }
  return list;
}

Json OwnedRangesJson(const Membership& membership) {
  Json list = Json::array();
  for (const OwnedRange& range : membership.ranges()) {
    list.push_back({Hex(range.end), membership.nodes()[range.owner].id, Hex(range.epoch.value)});
  }
  return list;
}

std::string OwnersText(const Membership& directory) {
  std::string text;
  for (const OwnedRange& range : directory.ranges()) {
    text.push_back(kDigits[range.owner]);
  }
  return text;
}

Json SeatsJson(const std::vector<DirectoryNode>& nodes) {
  Json list = Json::array();
  for (const DirectoryNode& node : nodes) {
    Json json = {{"id", node.id}, {"weight_milli", node.weight_milli}};
    if (!node.domain.empty()) json["domain"] = node.domain;
    list.push_back(std::move(json));
  }
  return list;
}

std::string SlotsText(const Directory& directory) {
  std::string text;
  for (const uint32_t node : directory.owner) {
    text.push_back(node == Directory::kNoNode ? '.' : kDigits[node]);
  }
  return text;
}

}  // namespace warmring
