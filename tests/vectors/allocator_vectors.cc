// allocator.json: who owns what on small directories and rings, step by step. History decides: the
// same nodes in another order of steps own other buckets, so that each step names all that it
// begins from.

#include <fmt/format.h>

#include "tests/vectors/fleet.h"
#include "tests/vectors/vectors.h"

namespace warmring {
namespace {

using Json = nlohmann::ordered_json;

struct Step {
  std::vector<Node> added;
  std::vector<NodeId> removed;
};

Json StepJson(const std::string& change, const Membership& membership, size_t moved) {
  return {{"change", change},
          {"nodes", NodesJson(membership.nodes())},
          {"owners", OwnersText(membership)},
          {"moved", moved}};
}

std::string Describe(const Step& step) {
  std::string text;
  for (const Node& node : step.added)
    text += fmt::format("{}add {}", text.empty() ? "" : ", ", node.id);
  for (const NodeId& id : step.removed)
    text += fmt::format("{}remove {}", text.empty() ? "" : ", ", id);
  return text;
}

Json Story(const std::string& name, uint32_t bits, const std::vector<Node>& first,
           const std::vector<Step>& steps) {
  Membership::Ptr present = NewFleet(DirectorySpec(bits), first);
  Json list = Json::array();
  list.push_back(StepJson("create", *present, 0));
  for (const Step& step : steps) {
    const Membership::Ptr next = Changed(*present, step.added, step.removed);
    const HashMeasure moved = Moved(Diff(*present, *next)) >> (64 - bits);
    list.push_back(StepJson(Describe(step), *next, static_cast<size_t>(moved)));
    present = next;
  }
  return {{"name", name}, {"bits", bits}, {"steps", list}};
}

Json RingStepJson(const std::string& change, const Membership& membership,
                  const std::vector<RangeMove>& moves) {
  Json ranges = Json::array();
  for (const OwnedRange& range : membership.ranges()) {
    ranges.push_back({Hex(range.end), membership.nodes()[range.owner].id});
  }
  return {{"change", change},
          {"nodes", NodesJson(membership.nodes())},
          {"ranges", ranges},
          {"moved", HexMeasure(Moved(moves))}};
}

Json RingStory(const std::string& name, Allocator allocator, uint32_t tokens_per_node,
               const std::vector<Node>& first, const std::vector<Step>& steps) {
  KeyspaceSpec spec = RingSpec(tokens_per_node);
  spec.allocator = allocator;
  Membership::Ptr present = NewFleet(spec, first);
  Json list = Json::array();
  list.push_back(RingStepJson("create", *present, {}));
  for (const Step& step : steps) {
    const Membership::Ptr next = Changed(*present, step.added, step.removed);
    list.push_back(RingStepJson(Describe(step), *next, Diff(*present, *next)));
    present = next;
  }
  return {{"name", name},
          {"allocator", allocator == Allocator::kDeliberate ? "deliberate" : "standard"},
          {"tokens_per_node", tokens_per_node},
          {"steps", list}};
}

Json RingStories() {
  const std::vector<Node> three = FleetNodes({"a", "b", "c"});
  const std::vector<Step> come_and_go = {
      {{FleetNode("d")}, {}}, {{}, {"b"}}, {{FleetNode("e", 2000)}, {"d"}}, {{FleetNode("b")}, {}}};
  Json list = Json::array();
  list.push_back(RingStory("derived tokens: what is left behind of a node that went is no token",
                           Allocator::kStandard, 5, three, come_and_go));
  list.push_back(RingStory("derived tokens: everybody is replaced, twice", Allocator::kStandard, 4,
                           FleetNodes({"a", "b"}),
                           {{FleetNodes({"c", "d"}), {"a", "b"}},
                            {{FleetNode("a"), FleetNode("e", 1500)}, {"c", "d"}}}));
  list.push_back(RingStory("chosen tokens", Allocator::kDeliberate, 4, three, come_and_go));
  list.push_back(RingStory(
      "chosen tokens: from one node, one at a time", Allocator::kDeliberate, 3, {FleetNode("a")},
      {{{FleetNode("b")}, {}}, {{FleetNode("c")}, {}}, {{FleetNode("d")}, {}}}));
  list.push_back(RingStory("chosen tokens: everybody is replaced", Allocator::kDeliberate, 2,
                           FleetNodes({"a", "b"}),
                           {{{FleetNode("c"), FleetNode("d", 500)}, {"a", "b"}}}));
  std::vector<Step> joins;
  for (const char* id : {"b", "c", "d", "e", "f", "g", "h"}) joins.push_back({{FleetNode(id)}, {}});
  list.push_back(RingStory("chosen tokens: from one node to eight", Allocator::kDeliberate, 4,
                           {FleetNode("a")}, joins));
  list.push_back(RingStory("chosen tokens: half of six leave, and are handed on",
                           Allocator::kDeliberate, 4, FleetNodes({"a", "b", "c", "d", "e", "f"}),
                           {{{}, {"a", "c", "f"}}, {{FleetNode("f"), FleetNode("g")}, {"d"}}}));
  list.push_back(
      RingStory("chosen tokens: weights", Allocator::kDeliberate, 5,
                {FleetNode("a", 1000), FleetNode("b", 2500), FleetNode("c", 40)},
                {{{FleetNode("d", 3300)}, {}}, {{}, {"b"}}, {{FleetNode("b", 700)}, {"a", "c"}}}));
  return list;
}

}  // namespace

Json AllocatorVectors() {
  Json stories = Json::array();
  stories.push_back(
      Story("from one node to four, one at a time", 10, {FleetNode("a")},
            {{{FleetNode("b")}, {}}, {{FleetNode("c")}, {}}, {{FleetNode("d")}, {}}}));
  stories.push_back(
      Story("the same nodes in another order", 10, {FleetNode("d")},
            {{{FleetNode("c")}, {}}, {{FleetNode("b")}, {}}, {{FleetNode("a")}, {}}}));
  stories.push_back(Story("a node leaves, and comes back", 10,
                          FleetNodes({"a", "b", "c", "d", "e"}),
                          {{{}, {"c"}}, {{FleetNode("c")}, {}}}));
  stories.push_back(Story("weights", 10, {FleetNode("a", 1000), FleetNode("b", 3000)},
                          {{{FleetNode("c", 2500), FleetNode("d", 10)}, {}}, {{}, {"b"}}}));
  stories.push_back(Story("a node is replaced in one step", 10, FleetNodes({"a", "b", "c"}),
                          {{{FleetNode("d")}, {"a"}}}));
  stories.push_back(Story("two leave at once", 10, FleetNodes({"a", "b", "c", "d", "e", "f", "g"}),
                          {{{}, {"b", "f"}}}));
  return {{"about", "Who owns what after each step of the allocator"},
          {"stories", stories},
          {"ring_stories", RingStories()}};
}

}  // namespace warmring
