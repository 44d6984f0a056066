// rendezvous.json: the integer logarithm, and directories that are a function of their nodes.

#include <cstdio>
#include <cstdlib>

#include "core/placement/rendezvous.h"
#include "tests/vectors/fleet.h"
#include "tests/vectors/vectors.h"

namespace warmring {
namespace {

using Json = nlohmann::ordered_json;

Json Logarithms() {
  std::vector<uint64_t> values;
  // Around each power of two, where the table begins anew.
  for (uint32_t bit = 0; bit < 64; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    for (const uint64_t value : {power - 2, power - 1, power}) values.push_back(value);
  }
  values.push_back(UINT64_MAX);
  // Each entry of the table, and the ends of some of its steps.
  for (uint64_t i = 0; i < 256; ++i) values.push_back(((256 + i) << 55) - 1);
  for (uint64_t i = 0; i < 256; i += 15) values.push_back(((257 + i) << 55) - 2);
  for (uint64_t i = 0; i < 60; ++i) values.push_back(SamplePoint(i) >> i);
  Json list = Json::array();
  for (const uint64_t value : values) list.push_back({Hex(value), Hex(NegativeLog2(value))});
  return list;
}

Json DirectoryJson(const std::string& name, const DirectoryShape& shape,
                   const std::vector<DirectoryNode>& nodes) {
  const absl::StatusOr<Directory> directory = AllocateByRendezvous(shape, nodes);
  if (!directory.ok()) {
    std::fprintf(stderr, "rendezvous.json: %s: %s\n", name.c_str(),
                 directory.status().ToString().c_str());
    std::abort();
  }
  return {{"name", name},
          {"bits", shape.bits},
          {"ranks", shape.ranks},
          {"strict", shape.strict},
          {"nodes", SeatsJson(directory->nodes)},
          {"owners", SlotsText(*directory)}};
}

}  // namespace

Json RendezvousVectors() {
  const std::vector<DirectoryNode> weighted = {{"a", 1000, "z1"}, {"b", 2500, "z2"},
                                               {"c", 10, "z2"},   {"d", 1'000'000, "z3"},
                                               {"e", 7000, ""},   {"f", 333, "z1"}};
  std::vector<DirectoryNode> alone;
  for (const char* id : {"a", "b", "c", "d", "e"}) alone.push_back({id, 1000, ""});
  std::vector<DirectoryNode> four(alone.begin(), alone.end() - 1);
  Json directories = Json::array();
  directories.push_back(DirectoryJson("one node", {2, 1, true}, {{"a", 1, ""}}));
  directories.push_back(DirectoryJson("four nodes", {8, 1, true}, four));
  directories.push_back(
      DirectoryJson("a fifth one gets buckets and the others none", {8, 1, true}, alone));
  directories.push_back(DirectoryJson("weights", {9, 1, true}, weighted));
  directories.push_back(DirectoryJson("three ranks in distinct zones", {7, 3, true}, weighted));
  directories.push_back(
      DirectoryJson("best effort: fewer zones than ranks", {6, 5, false}, weighted));
  directories.push_back(DirectoryJson("best effort: fewer nodes than ranks", {4, 3, false},
                                      {{"a", 1000, "z1"}, {"b", 3000, "z1"}}));
  return {{"about", "Weighted rendezvous: what each node bids, and who owns what for it"},
          {"logarithms", Logarithms()},
          {"directories", directories}};
}

}  // namespace warmring
