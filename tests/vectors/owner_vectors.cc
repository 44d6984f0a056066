// owner.json: from a point of hash space to its owner, on each placement.

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "core/hashing/key_hash.h"
#include "tests/vectors/fleet.h"
#include "tests/vectors/vectors.h"

namespace warmring {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kKeys = 24;

// Both sides of each end of at most `most` ranges, the ends of the space, and points between.
std::vector<HashPoint> InterestingPoints(const Membership& membership, size_t most) {
  std::vector<HashPoint> points = {0, UINT64_MAX};
  const std::vector<OwnedRange>& ranges = membership.ranges();
  const size_t step = std::max<size_t>(ranges.size() / most, 1);
  const auto add = [&points](HashPoint end) {
    for (const HashPoint point : {end - 1, end, end + 1}) points.push_back(point);
  };
  for (size_t i = 0; i < ranges.size(); i += step) add(ranges[i].end);
  add(ranges.back().end);
  for (uint64_t i = 0; i < 8; ++i) points.push_back(SamplePoint(i));
  return points;
}

Json PointOwners(const Membership& membership, size_t most) {
  Json list = Json::array();
  for (const HashPoint point : InterestingPoints(membership, most)) {
    list.push_back({Hex(point), membership.nodes()[RoutePoint(membership, point).owner].id});
  }
  return list;
}

Json KeyOwners(const Membership& membership) {
  Json list = Json::array();
  for (uint64_t i = 0; i < kKeys; ++i) {
    const std::string key = fmt::format("user:{}", i);
    list.push_back({key, membership.nodes()[RouteKey(membership, key).owner].id});
  }
  return list;
}

// All tokens of a ring in one number: XXH3_64 of le64(token), le32(index of its owner) of each.
uint64_t TokensDigest(const Membership& ring) {
  std::string bytes;
  const auto append = [&bytes](uint64_t value, size_t size) {
    for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  };
  for (const OwnedRange& range : ring.ranges()) {
    append(range.end, 8);
    append(range.owner, 4);
  }
  return HashKey(HashSpec(), bytes);
}

Json Derived(const std::string& name, uint32_t tokens_per_node, std::vector<Node> nodes) {
  const Membership::Ptr ring = NewFleet(RingSpec(tokens_per_node), nodes);
  return {{"name", name},
          {"tokens_per_node", tokens_per_node},
          {"nodes", NodesJson(ring->nodes())},
          {"ranges", ring->ranges().size()},
          {"tokens_digest", Hex(TokensDigest(*ring))},
          {"points", PointOwners(*ring, 6)},
          {"keys", KeyOwners(*ring)}};
}

Node Twin(const std::string& id, const std::string& hash_name, uint32_t weight_milli) {
  Node node = FleetNode(id, weight_milli);
  node.hash_name = hash_name;
  return node;
}

std::vector<std::string> ManyNames(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(fmt::format("node-{:03}", i));
  return names;
}

Json DerivedRings() {
  Json list = Json::array();
  list.push_back(Derived("one node with one token owns everything", 1, {FleetNode("only")}));
  list.push_back(Derived("a token each", 1, FleetNodes({"a", "b", "c"})));
  list.push_back(Derived("the default number of tokens", 160, FleetNodes({"a", "b", "c", "d"})));
  list.push_back(
      Derived("the fleet of the incident", 256, FleetNodes({"n1", "n2", "n3", "n4", "n5"})));
  list.push_back(Derived("the fleet of the incident, and the sixth node", 256,
                         FleetNodes({"n1", "n2", "n3", "n4", "n5", "n6"})));
  list.push_back(Derived("weights are numbers of tokens, rounded half up, at least one", 50,
                         {FleetNode("heavy", 4000), FleetNode("light", 10), FleetNode("odd", 1490),
                          FleetNode("half", 250), FleetNode("feather", 29)}));
  list.push_back(Derived(
      "equal hash names: each token belongs to the node that comes first", 8,
      {Twin("cache-01", "twin", 1000), Twin("cache-02", "twin", 1000), FleetNode("cache-03")}));
  list.push_back(
      Derived("the loser of the ties keeps the tokens that nobody else has", 8,
              {Twin("n1", "twin", 2000), Twin("n2", "twin", 1000), Twin("n3", "twin", 3000)}));
  list.push_back(Derived("hash names are bytes", 16,
                         {Twin("x", std::string("\x00\xff\x7d", 3), 1000), Twin("y", "h:1", 1000),
                          Twin("z", "h:11", 1000)}));
  list.push_back(Derived("a hundred nodes", 40, FleetNodes(ManyNames(100))));
  return list;
}

// Ranges with owners and epochs of their own, and moves: what a client really routes by.
Json Routed(const std::string& name, const Membership& membership) {
  Json moves = Json::array();
  for (const Move& move : membership.moves()) {
    moves.push_back({{"from", move.from},
                     {"to", move.to},
                     {"phase", move.phase == MovePhase::kWarming ? "warming" : "grace"},
                     {"ranges", RangesJson(move.ranges)}});
  }
  Json points = Json::array();
  for (const HashPoint point : InterestingPoints(membership, 32)) {
    const Route route = RoutePoint(membership, point);
    const auto id = [&](std::optional<NodeIndex> node) {
      return node.has_value() ? Json(membership.nodes()[*node].id) : Json(nullptr);
    };
    points.push_back({Hex(point), id(route.owner), Hex(route.epoch.value), id(route.pending),
                      id(route.previous)});
  }
  return {{"name", name},
          {"ranges", OwnedRangesJson(membership)},
          {"moves", moves},
          {"points", points}};
}

// Ends that agree in their upper bits, some in all but the last few: what a search by top bits has
// to get right.
std::vector<OwnedRange> CloseRanges() {
  std::vector<OwnedRange> ranges;
  const auto add = [&ranges](HashPoint end) {
    ranges.push_back({end, static_cast<NodeIndex>(ranges.size() % 3), Epoch(ranges.size() + 1)});
  };
  add(3);
  for (HashPoint i = 0; i < 11; ++i) add(0x5555555500000000 + i * i);
  for (HashPoint i = 0; i < 4; ++i) add(0x5555555500100000 + (i << 24));
  add(0x5555555555555555);
  add(0xfffffffffffffff0);
  return ranges;
}

Json Memberships() {
  const KeyspaceSpec spec = RingSpec(1);
  const std::vector<Node> nodes = FleetNodes({"a", "b", "c"});
  constexpr HashPoint kQuarter = uint64_t{1} << 62;
  Json list = Json::array();
  list.push_back(Routed("one range is everything, wherever it ends",
                        *FleetOf(spec, FleetNodes({"a"}), {{0x1234, 0, Epoch(3)}})));
  list.push_back(Routed(
      "ends at both ends of the space",
      *FleetOf(spec, nodes, {{0, 0, Epoch(1)}, {5, 1, Epoch(2)}, {UINT64_MAX, 2, Epoch(9)}})));
  list.push_back(Routed(
      "ranges of one point, and a first range that wraps",
      *FleetOf(
          spec, nodes,
          {{10, 0, Epoch(1)}, {11, 1, Epoch(1)}, {12, 2, Epoch(1)}, {kQuarter, 1, Epoch(4)}})));
  list.push_back(Routed("ends close together, many in one place and far from the others",
                        *FleetOf(spec, nodes, CloseRanges())));
  list.push_back(Routed("moves: pending while warming, previous in grace",
                        *FleetOf(spec, nodes,
                                 {{kQuarter - 1, 0, Epoch(1)},
                                  {2 * kQuarter - 1, 2, Epoch(7)},
                                  {3 * kQuarter - 1, 1, Epoch(1)},
                                  {UINT64_MAX, 0, Epoch(1)}},
                                 {{"mig-1", 0, "b", "c", MovePhase::kGrace,
                                   HashRangeSet({{kQuarter - 1, 2 * kQuarter - 1}})},
                                  {"mig-1", 1, "a", "c", MovePhase::kWarming,
                                   HashRangeSet({{3 * kQuarter - 1, kQuarter - 1}})}})));
  return list;
}

Json Directory(const std::string& name, uint32_t bits, const std::vector<Node>& nodes) {
  const Membership::Ptr directory = NewFleet(DirectorySpec(bits), nodes);
  return {{"name", name},
          {"bits", bits},
          {"nodes", NodesJson(directory->nodes())},
          {"owners", OwnersText(*directory)},
          {"points", PointOwners(*directory, 16)},
          {"keys", KeyOwners(*directory)}};
}

Json CyclicDirectory(uint32_t bits, const std::vector<std::string>& ids) {
  std::vector<OwnedRange> ranges;
  for (uint64_t bucket = 0; bucket < uint64_t{1} << bits; ++bucket) {
    ranges.push_back(
        {BucketEnd(bits, bucket), static_cast<NodeIndex>(bucket % ids.size()), Epoch(1)});
  }
  const Membership::Ptr directory =
      FleetOf(DirectorySpec(bits), FleetNodes(ids), std::move(ranges));
  return {{"name", "owners in turn"},
          {"bits", bits},
          {"nodes", NodesJson(directory->nodes())},
          {"owners", OwnersText(*directory).substr(0, ids.size())},
          {"points", PointOwners(*directory, 16)},
          {"keys", KeyOwners(*directory)}};
}

Json Directories() {
  Json list = Json::array();
  list.push_back(Directory("one node", 10, FleetNodes({"only"})));
  list.push_back(
      Directory("weights", 10, {FleetNode("a", 1000), FleetNode("b", 2500), FleetNode("c", 10)}));
  list.push_back(CyclicDirectory(14, {"a", "b", "c", "d", "e"}));
  list.push_back(CyclicDirectory(20, {"a", "b", "c"}));
  return list;
}

}  // namespace

Json OwnerVectors() {
  return {{"about", "The owner of points of hash space and of keys"},
          {"derived_rings", DerivedRings()},
          {"memberships", Memberships()},
          {"directories", Directories()}};
}

}  // namespace warmring
