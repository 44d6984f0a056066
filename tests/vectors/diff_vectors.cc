// diff.json: what changes hands between two memberships, and how much of hash space that is.

#include <algorithm>
#include <set>
#include <tuple>

#include "core/membership/update.h"
#include "core/placement/allocator.h"
#include "tests/vectors/fleet.h"
#include "tests/vectors/vectors.h"

namespace warmring {
namespace {

using Json = nlohmann::ordered_json;

// [[end, owner], ...]
Json EndsJson(const Membership& membership) {
  Json list = Json::array();
  for (const OwnedRange& range : membership.ranges()) {
    list.push_back({Hex(range.end), membership.nodes()[range.owner].id});
  }
  return list;
}

Json Between(const std::string& name, const Membership& before, const Membership& after) {
  const std::vector<RangeMove> moves = Diff(before, after);
  return {{"name", name},
          {"before", EndsJson(before)},
          {"after", EndsJson(after)},
          {"moves", MovesJson(moves)},
          {"moved", HexMeasure(Moved(moves))}};
}

Json Memberships() {
  const KeyspaceSpec ring = RingSpec(1);
  constexpr HashPoint kQuarter = uint64_t{1} << 62;
  const auto fleet = [&ring](const std::vector<std::string>& ids,
                             const std::vector<std::pair<HashPoint, NodeIndex>>& ends) {
    std::vector<OwnedRange> ranges;
    ranges.reserve(ends.size());
    for (const auto& [end, owner] : ends) ranges.push_back({end, owner, Epoch(1)});
    return FleetOf(ring, FleetNodes(ids), std::move(ranges));
  };
  const Membership::Ptr halves = fleet({"a", "b"}, {{kQuarter, 0}, {3 * kQuarter, 1}});
  Json list = Json::array();
  list.push_back(Between("nothing changed", *halves, *halves));
  list.push_back(Between("a split without a new owner is no change", *halves,
                         *fleet({"a", "b"}, {{5, 0}, {kQuarter, 0}, {3 * kQuarter, 1}})));
  list.push_back(Between("the whole space", *fleet({"a"}, {{77, 0}}), *fleet({"b"}, {{12, 0}})));
  list.push_back(Between("a range that wraps comes last", *halves,
                         *fleet({"a", "b", "c"}, {{10, 2},
                                                  {kQuarter - 7, 0},
                                                  {kQuarter, 2},
                                                  {3 * kQuarter, 1},
                                                  {3 * kQuarter + 9, 0},
                                                  {UINT64_MAX - 3, 0},
                                                  {UINT64_MAX, 2}})));
  list.push_back(
      Between("arcs side by side are one maximal range",
              *fleet({"a", "b"}, {{100, 0}, {200, 0}, {300, 1}, {400, 0}, {500, 1}}),
              *fleet({"a", "b", "c"}, {{100, 2}, {200, 2}, {300, 2}, {350, 1}, {500, 1}})));
  list.push_back(Between("single points at the ends of the space",
                         *fleet({"a", "b"}, {{0, 0}, {UINT64_MAX - 1, 1}, {UINT64_MAX, 0}}),
                         *fleet({"a", "b"}, {{0, 1}, {UINT64_MAX - 1, 0}, {UINT64_MAX, 1}})));
  list.push_back(Between("two nodes change places", *halves,
                         *fleet({"a", "b"}, {{kQuarter, 1}, {3 * kQuarter, 0}})));
  return list;
}

// Ends of either ring whose arc changes its owner: what is moved when nothing is merged.
size_t MovedArcs(const Membership& before, const Membership& after) {
  std::set<HashPoint> ends;
  for (const OwnedRange& range : before.ranges()) ends.insert(range.end);
  for (const OwnedRange& range : after.ranges()) ends.insert(range.end);
  return static_cast<size_t>(std::count_if(ends.begin(), ends.end(), [&](HashPoint end) {
    return before.nodes()[RoutePoint(before, end).owner].id !=
           after.nodes()[RoutePoint(after, end).owner].id;
  }));
}

// Parts per million of hash space, rounded down.
uint64_t PartsPerMillion(HashMeasure measure) {
  return static_cast<uint64_t>((measure * 1'000'000) >> 64);
}

Json Rings(const std::string& name, uint32_t tokens_per_node, const std::vector<Node>& before,
           const std::vector<Node>& after) {
  const Membership::Ptr a = NewFleet(RingSpec(tokens_per_node), before);
  const Membership::Ptr b = NewFleet(RingSpec(tokens_per_node), after);
  const std::vector<RangeMove> moves = Diff(*a, *b);
  Json flows = Json::array();
  size_t ranges = 0;
  for (const RangeMove& move : moves) {
    flows.push_back({{"from", move.from},
                     {"to", move.to},
                     {"ranges", move.ranges.Ranges().size()},
                     {"measure", HexMeasure(move.ranges.Measure())}});
    ranges += move.ranges.Ranges().size();
  }
  return {{"name", name},
          {"tokens_per_node", tokens_per_node},
          {"before", NodesJson(a->nodes())},
          {"after", NodesJson(b->nodes())},
          {"moved_arcs", MovedArcs(*a, *b)},
          {"moved_ranges", ranges},
          {"moved", HexMeasure(Moved(moves))},
          {"moved_ppm", PartsPerMillion(Moved(moves))},
          {"flows", flows}};
}

Json DerivedRings() {
  const std::vector<Node> five = FleetNodes({"n1", "n2", "n3", "n4", "n5"});
  const std::vector<Node> six = FleetNodes({"n1", "n2", "n3", "n4", "n5", "n6"});
  Json list = Json::array();
  list.push_back(Rings("the incident: five nodes to six, 256 virtual nodes each", 256, five, six));
  list.push_back(Rings("and back", 256, six, five));
  list.push_back(Rings("one node more with one token each", 1, FleetNodes({"a", "b"}),
                       FleetNodes({"a", "b", "c"})));
  list.push_back(Rings("more weight is more tokens of the same node", 32,
                       {FleetNode("a"), FleetNode("b"), FleetNode("c")},
                       {FleetNode("a", 2000), FleetNode("b"), FleetNode("c")}));
  list.push_back(Rings("a node is replaced under another name", 32, FleetNodes({"a", "b", "c"}),
                       FleetNodes({"a", "b", "d"})));
  return list;
}

Json Directories() {
  const Membership::Ptr four = NewFleet(DirectorySpec(10), FleetNodes({"a", "b", "c", "d"}));
  const Membership::Ptr five = Changed(*four, {FleetNode("e")}, {});
  const Membership::Ptr after = Changed(*five, {}, {"b"});
  Json list = Json::array();
  for (const auto& [name, from, to] : {std::tuple("four nodes to five", four, five),
                                       std::tuple("one of five leaves", five, after)}) {
    const std::vector<RangeMove> moves = Diff(*from, *to);
    list.push_back({{"name", name},
                    {"bits", 10},
                    {"nodes_before", NodesJson(from->nodes())},
                    {"owners_before", OwnersText(*from)},
                    {"nodes_after", NodesJson(to->nodes())},
                    {"owners_after", OwnersText(*to)},
                    {"moves", MovesJson(moves)},
                    {"moved", HexMeasure(Moved(moves))}});
  }
  return list;
}

// What a fleet that routes by hash modulo the number of nodes moves. The first one is the example
// that everybody starts from: 16 of 20.
Json Modulo(uint64_t hashes, uint64_t before, uint64_t after) {
  uint64_t moved = 0;
  for (uint64_t hash = 0; hash < hashes; ++hash) {
    if (hash % before != hash % after) ++moved;
  }
  return {{"hashes_below", hashes},
          {"nodes_before", before},
          {"nodes_after", after},
          {"moved", moved},
          {"moved_percent", moved * 100 / hashes}};
}

}  // namespace

Json DiffVectors() {
  return {{"about", "What differs between two memberships"},
          {"memberships", Memberships()},
          {"derived_rings", DerivedRings()},
          {"directories", Directories()},
          {"modulo", {Modulo(20, 4, 5), Modulo(3000, 5, 6), Modulo(10100, 100, 101)}}};
}

}  // namespace warmring
