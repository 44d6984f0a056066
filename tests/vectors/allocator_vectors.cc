// allocator.json: who owns each bucket of small directories, step by step. History decides: the
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
  return {{"about", "The owners of a directory's buckets, step by step"}, {"stories", stories}};
}

}  // namespace warmring
