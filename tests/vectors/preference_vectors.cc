// preference.json: which nodes keep the copies of a range, on distinct failure domains.

#include <fmt/format.h>

#include "core/hashing/key_hash.h"
#include "core/placement/allocator.h"
#include "core/placement/preference.h"
#include "tests/vectors/fleet.h"
#include "tests/vectors/vectors.h"

namespace warmring {
namespace {

using Json = nlohmann::ordered_json;

struct Rule {
  uint32_t replication = 1;
  DomainLevel level = DomainLevel::kNode;
  bool best_effort = false;
};

// A node in "zone" or in "zone/rack"; "" says neither.
Node Placed(const std::string& id, const std::string& place) {
  const size_t slash = place.find('/');
  Node node = FleetNode(id, 1000, place.substr(0, slash));
  if (slash != std::string::npos) node.labels["rack"] = place.substr(slash + 1);
  return node;
}

// a, b, c, ...
std::vector<Node> PlacedNodes(const std::vector<std::string>& places) {
  std::vector<Node> nodes;
  nodes.reserve(places.size());
  for (const std::string& place : places) {
    nodes.push_back(Placed(std::string(1, static_cast<char>('a' + nodes.size())), place));
  }
  return nodes;
}

KeyspaceSpec SpecOf(const Rule& rule, uint32_t tokens_per_node) {
  KeyspaceSpec spec = RingSpec(tokens_per_node);
  spec.replication = rule.replication;
  spec.domains = {rule.level, rule.best_effort};
  return spec;
}

Json RuleJson(const std::string& name, const Rule& rule, const std::vector<Node>& nodes) {
  return {{"name", name},
          {"replication", rule.replication},
          {"level", DomainLevelName(rule.level)},
          {"best_effort", rule.best_effort},
          {"nodes", NodesJson(nodes)}};
}

// The owner and the followers; null is nobody.
Json ListJson(const std::vector<Node>& nodes, const std::vector<OwnedRange>& ranges,
              const std::vector<NodeIndex>& followers, size_t range) {
  const size_t count = followers.size() / ranges.size();
  Json list = {nodes[ranges[range].owner].id};
  for (size_t i = range * count; i < (range + 1) * count; ++i) {
    list.push_back(followers[i] == kNoNode ? Json(nullptr) : Json(nodes[followers[i]].id));
  }
  return list;
}

// Ranges of owners in clockwise order, one letter each.
Json Walk(const std::string& name, const Rule& rule, const std::vector<std::string>& places,
          const std::string& owners) {
  const std::vector<Node> nodes = PlacedNodes(places);
  std::vector<OwnedRange> ranges;
  for (const char owner : owners) {
    ranges.push_back({(ranges.size() + 1) << 56, static_cast<NodeIndex>(owner - 'a'), Epoch(1)});
  }
  Json vector = RuleJson(name, rule, nodes);
  vector["owners"] = owners;
  const auto followers = PreferenceLists(SpecOf(rule, 1), nodes, ranges);
  if (!followers.ok()) {
    const std::string message(followers.status().message());
    vector["refused"] = message.substr(0, message.find(": "));
    return vector;
  }
  vector["lists"] = Json::array();
  for (size_t i = 0; i < ranges.size(); ++i) {
    vector["lists"].push_back(ListJson(nodes, ranges, *followers, i));
  }
  return vector;
}

Json Walks() {
  const Rule pair_of_nodes = {2, DomainLevel::kNode, false};
  const Rule three_nodes = {3, DomainLevel::kNode, false};
  const Rule three_zones = {3, DomainLevel::kZone, false};
  const Rule three_racks = {3, DomainLevel::kRack, false};
  const Rule best_zones = {3, DomainLevel::kZone, true};
  Json list = Json::array();
  list.push_back(Walk("one copy", {}, {"", ""}, "abab"));
  list.push_back(Walk("the next other node", pair_of_nodes, {"", "", ""}, "aabbcc"));
  list.push_back(Walk("the next other nodes, past those on the list", three_nodes, {"", "", "", ""},
                      "aabacdabdc"));
  list.push_back(Walk("the walk wraps", three_nodes, {"", "", ""}, "bbca"));
  list.push_back(Walk("nodes of a used zone are passed over", three_zones,
                      {"x", "x", "x", "y", "y", "z"}, "abcdefdbeafc"));
  list.push_back(Walk("a node without a zone is a zone of its own", three_zones, {"x", "x", "", ""},
                      "abcdabcd"));
  list.push_back(Walk("a rack of the same name in another zone is another rack", three_racks,
                      {"x/1", "x/1", "x/2", "y/1"}, "abcdbadc"));
  list.push_back(Walk("a node without a rack is a rack of its own", three_racks,
                      {"x/1", "x/1", "x", "x"}, "abcdabcd"));
  list.push_back(Walk("a rack without a zone is no node", {2, DomainLevel::kRack, false},
                      {"/b", "", "/c", "/c"}, "abcdab"));
  list.push_back(Walk("best effort with enough zones is the strict list", best_zones,
                      {"x", "x", "y", "z"}, "abcdbadc"));
  list.push_back(Walk("best effort goes down to racks, then to nodes", best_zones,
                      {"x/1", "x/1", "x/2", "x/2"}, "abcdabdc"));
  list.push_back(Walk("best effort with two zones: the other zone comes first, then the other rack",
                      {4, DomainLevel::kZone, true}, {"x/1", "x/1", "x/2", "y/1", "y/1"},
                      "abcdeabced"));
  list.push_back(
      Walk("best effort with too few nodes ends in nobody", best_zones, {"x", "y"}, "abba"));
  list.push_back(
      Walk("a node that owns nothing is on no list", best_zones, {"x", "y", "z"}, "abab"));
  list.push_back(Walk("strict with too few zones", three_zones, {"x", "x", "y"}, "abc"));
  list.push_back(
      Walk("strict with too few zones that own something", three_zones, {"x", "y", "z"}, "abab"));
  list.push_back(Walk("strict with too few nodes", three_nodes, {"", ""}, "ab"));
  return list;
}

// All lists of a ring in one number: XXH3_64 of le32(index of the node) of each place, in order;
// nobody is 0xffffffff.
uint64_t ListsDigest(const std::vector<OwnedRange>& ranges,
                     const std::vector<NodeIndex>& followers) {
  std::string bytes;
  const auto append = [&bytes](uint32_t value) {
    for (size_t i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  };
  const size_t count = followers.size() / ranges.size();
  for (size_t range = 0; range < ranges.size(); ++range) {
    append(ranges[range].owner);
    for (size_t i = range * count; i < (range + 1) * count; ++i) append(followers[i]);
  }
  return HashKey(HashSpec(), bytes);
}

Json Derived(const std::string& name, const Rule& rule, uint32_t tokens_per_node,
             const std::vector<std::string>& places) {
  const std::vector<Node> nodes = PlacedNodes(places);
  const KeyspaceSpec spec = SpecOf(rule, tokens_per_node);
  const Membership::Ptr ring = NewFleet(RingSpec(tokens_per_node), nodes);
  const std::vector<NodeIndex> followers = *PreferenceLists(spec, ring->nodes(), ring->ranges());
  Json vector = RuleJson(name, rule, ring->nodes());
  vector["tokens_per_node"] = tokens_per_node;
  vector["lists_digest"] = Hex(ListsDigest(ring->ranges(), followers));
  vector["points"] = Json::array();
  for (uint64_t i = 0; i < 12; ++i) {
    const size_t range = ring->RangeIndexOf(SamplePoint(i));
    vector["points"].push_back(
        {Hex(SamplePoint(i)), ListJson(ring->nodes(), ring->ranges(), followers, range)});
  }
  return vector;
}

Json DerivedRings() {
  Json list = Json::array();
  list.push_back(
      Derived("three copies on nodes", {3, DomainLevel::kNode, false}, 160, {"", "", "", "", ""}));
  list.push_back(Derived("three copies on zones", {3, DomainLevel::kZone, false}, 64,
                         {"x", "x", "x", "x", "y", "y", "z", "z", "z"}));
  list.push_back(Derived("five copies on two zones and four racks, best effort",
                         {5, DomainLevel::kZone, true}, 16,
                         {"x/1", "x/1", "x/2", "y/1", "y/2", "y/2"}));
  return list;
}

}  // namespace

Json PreferenceVectors() {
  return {{"about", "The owner of each range and the nodes that keep its other copies"},
          {"walks", Walks()},
          {"derived_rings", DerivedRings()}};
}

}  // namespace warmring
