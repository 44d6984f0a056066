// invalid.json: what is refused, and which field the refusal names. Beside each refusal stands,
// where there is one, the nearest value that is accepted (field null).

#include <functional>
#include <limits>

#include <fmt/format.h>

#include "core/membership/update.h"
#include "core/placement/allocator.h"
#include "proto/wire/membership.h"
#include "tests/vectors/fleet.h"
#include "tests/vectors/vectors.h"

namespace warmring {
namespace {

using Json = nlohmann::ordered_json;

// A message begins with the field that it refuses.
Json FieldOf(const absl::Status& status) {
  if (status.ok()) return nullptr;
  const std::string message(status.message());
  return message.substr(0, message.find(": "));
}

Json Verdict(Json vector, const absl::Status& status) {
  vector["code"] = absl::StatusCodeToString(status.code());
  vector["field"] = FieldOf(status);
  return vector;
}

Json Ids() {
  std::vector<std::string> ids = {"a",    "",  "a-b", "0a",  "-a", "a-",
                                  "a--b", "A", "a_b", "a.b", "a b"};
  for (const size_t size : {62u, 63u, 64u}) ids.push_back(std::string(size, 'x'));
  for (int byte = 0; byte < 256; ++byte) {
    ids.push_back(std::string("a") + static_cast<char>(byte) + "z");
  }
  Json list = Json::array();
  for (const std::string& id : ids) {
    list.push_back(Verdict({{"id", HexBytes(id)}}, ValidateId("id", id)));
  }
  return list;
}

Json Specs() {
  const auto spec_case = [](const Json& fields, const std::function<void(KeyspaceSpec&)>& change) {
    KeyspaceSpec spec = fields.contains("placement") && fields["placement"] == "ring"
                            ? RingSpec(160)
                            : DirectorySpec(KeyspaceSpec::kDefaultDirectoryBits);
    change(spec);
    return Verdict(fields, ValidateKeyspaceSpec(spec));
  };
  Json list = Json::array();
  for (const uint32_t bits : {0u, 9u, 10u, 20u, 21u, 64u, UINT32_MAX}) {
    list.push_back(spec_case({{"placement", "directory"}, {"directory_bits", bits}},
                             [bits](KeyspaceSpec& spec) { spec.directory_bits = bits; }));
  }
  for (const uint32_t tokens : {0u, 1u, 4096u, 4097u, UINT32_MAX}) {
    list.push_back(spec_case({{"placement", "ring"}, {"tokens_per_node", tokens}},
                             [tokens](KeyspaceSpec& spec) { spec.tokens_per_node = tokens; }));
  }
  for (const uint32_t replication : {0u, 1u, 16u, 17u, UINT32_MAX}) {
    list.push_back(
        spec_case({{"placement", "ring"}, {"replication", replication}},
                  [replication](KeyspaceSpec& spec) { spec.replication = replication; }));
  }
  for (const uint32_t grace : {0u, 86'400'000u, 86'400'001u}) {
    list.push_back(spec_case({{"placement", "directory"}, {"grace_ms", grace}},
                             [grace](KeyspaceSpec& spec) { spec.grace_ms = grace; }));
  }
  for (const auto allocator :
       {Allocator::kStandard, Allocator::kRendezvous, Allocator::kDeliberate}) {
    for (const char* placement : {"directory", "ring"}) {
      list.push_back(
          spec_case({{"placement", placement}, {"allocator", static_cast<uint32_t>(allocator)}},
                    [allocator](KeyspaceSpec& spec) { spec.allocator = allocator; }));
    }
  }
  for (const uint32_t replication : {1u, 2u}) {
    list.push_back(
        spec_case({{"placement", "ring"}, {"replication", replication}, {"failure_domain", "zone"}},
                  [replication](KeyspaceSpec& spec) {
                    spec.replication = replication;
                    spec.domains.level = DomainLevel::kZone;
                  }));
  }
  list.push_back(spec_case({{"placement", "directory"}, {"id", "Vectors"}},
                           [](KeyspaceSpec& spec) { spec.id = "Vectors"; }));
  return list;
}

// A weight is a floating point number on the wire; it counts in thousandths, half away from zero.
Json Weights() {
  const std::pair<const char*, double> weights[] = {
      {"nan", std::numeric_limits<double>::quiet_NaN()},
      {"inf", std::numeric_limits<double>::infinity()},
      {"-inf", -std::numeric_limits<double>::infinity()},
      {"-1", -1.0},
      {"-0", -0.0},
      {"0", 0.0},
      {"1e-300", 1e-300},
      {"0.009", 0.009},
      {"0.0099999", 0.0099999},
      {"0.01", 0.01},
      {"0.0155", 0.0155},
      {"1", 1.0},
      {"1.2345", 1.2345},
      {"999.9996", 999.9996},
      {"1000", 1000.0},
      {"1000.0001", 1000.0001},
      {"1e300", 1e300},
  };
  Json list = Json::array();
  for (const auto& [text, weight] : weights) {
    v1::Node proto;
    proto.set_id("a");
    proto.set_address("a:1");
    proto.set_weight(weight);
    const absl::StatusOr<Node> node = wire::NodeFromProto("node", proto);
    Json vector = {{"weight", text}};
    vector["weight_milli"] = node.ok() ? Json(node->weight_milli) : Json(nullptr);
    list.push_back(Verdict(vector, node.status()));
  }
  return list;
}

Json Nodes() {
  const auto node_case = [](const Json& fields, const std::function<void(Node&)>& change) {
    Node node = FleetNode("a");
    change(node);
    return Verdict(fields, ValidateNode("node", node));
  };
  Json list = Json::array();
  for (const uint32_t weight : {0u, 9u, 10u, 1'000'000u, 1'000'001u, UINT32_MAX}) {
    list.push_back(node_case({{"weight_milli", weight}},
                             [weight](Node& node) { node.weight_milli = weight; }));
  }
  for (const size_t size : {0u, 255u, 256u}) {
    const std::string name(size, '\xff');
    list.push_back(
        node_case({{"hash_name", HexBytes(name)}}, [&name](Node& node) { node.hash_name = name; }));
  }
  for (const std::string_view zone : {"eu-1a", "zone with spaces", "z\xc3\xbcrich", "tab\there"}) {
    list.push_back(node_case({{"zone", HexBytes(zone)}}, [zone](Node& node) { node.zone = zone; }));
  }
  for (const std::string_view address :
       {"a:1", "10.0.0.1:6379", "[::1]:6379", "", "a", "a:", ":1", "a:0", "a:65535", "a:65536",
        "a:-1", "::1:6379", "[::1]", "256.0.0.1:1", "a b:1", "-a:1"}) {
    list.push_back(
        node_case({{"address", address}}, [address](Node& node) { node.address = address; }));
  }
  return list;
}

// Whether so many nodes of one weight fit on a ring at all.
Json RingSizes() {
  const struct {
    uint32_t tokens_per_node;
    size_t nodes;
    uint32_t weight_milli;
  } cases[] = {{4096, 2048, 1000},   {4096, 2049, 1000},  {4096, 2, 1'000'000},
               {4096, 3, 1'000'000}, {160, 52'428, 1000}, {160, 52'429, 1000}};
  Json list = Json::array();
  for (const auto& c : cases) {
    const std::vector<Node> nodes(c.nodes, FleetNode("a", c.weight_milli));
    list.push_back(Verdict({{"tokens_per_node", c.tokens_per_node},
                            {"nodes", c.nodes},
                            {"weight_milli", c.weight_milli}},
                           ValidatePlacementSize(RingSpec(c.tokens_per_node), nodes)));
  }
  return list;
}

Json RangesCase(const std::string& what, const std::vector<std::string>& ids,
                const std::vector<OwnedRange>& ranges) {
  MembershipData data = FleetOf(RingSpec(1), FleetNodes({"a"}), {{0, 0, Epoch(1)}})->data();
  data.nodes = FleetNodes(ids);
  data.ranges = ranges;
  Json list = Json::array();
  for (const OwnedRange& range : ranges) {
    list.push_back({Hex(range.end), range.owner, Hex(range.epoch.value)});
  }
  return Verdict({{"what", what}, {"nodes", ids}, {"ranges", list}},
                 Membership::Create(std::move(data)).status());
}

// Here owners are indices into the nodes, as in the encoding.
Json Memberships() {
  const Epoch one(1);
  Json list = Json::array();
  list.push_back(RangesCase("one range", {"a"}, {{5, 0, one}}));
  list.push_back(RangesCase("no node", {}, {{5, 0, one}}));
  list.push_back(RangesCase("no range", {"a"}, {}));
  list.push_back(RangesCase("a node twice", {"a", "a"}, {{5, 0, one}}));
  list.push_back(RangesCase("nodes out of order", {"b", "a"}, {{5, 0, one}}));
  list.push_back(RangesCase("an end twice", {"a", "b"}, {{5, 0, one}, {5, 1, one}}));
  list.push_back(RangesCase("ends out of order", {"a", "b"}, {{6, 0, one}, {5, 1, one}}));
  list.push_back(RangesCase("an owner that is no node", {"a"}, {{5, 0, one}, {6, 1, one}}));
  list.push_back(RangesCase("epoch 0", {"a"}, {{5, 0, Epoch(0)}}));
  return list;
}

// Deltas against version 41 of a history.
Json Deltas() {
  MembershipData data = FleetOf(RingSpec(1), FleetNodes({"a", "b"}), {{5, 0, Epoch(3)}})->data();
  data.version = Version(41);
  const Membership::Ptr base = *Membership::Create(data);
  Update fits;
  fits.assignments.push_back({HashRangeSet::Whole(), "b", Epoch(4)});
  Update stale_epoch;
  stale_epoch.assignments.push_back({HashRangeSet::Whole(), "b", Epoch(3)});
  HistoryId other;
  other.low = 1;
  const uint64_t digest = (*Apply(*base, fits))->digest();
  const struct {
    const char* what;
    Delta delta;
  } cases[] = {
      {"on its base", {base->history(), Version(41), Version(42), fits, digest}},
      {"of another history", {other, Version(41), Version(42), fits, digest}},
      {"on an older base", {base->history(), Version(40), Version(41), fits, digest}},
      {"on a newer base", {base->history(), Version(42), Version(43), fits, digest}},
      {"over two versions", {base->history(), Version(41), Version(43), fits, digest}},
      {"with the digest of something else",
       {base->history(), Version(41), Version(42), fits, digest + 1}},
      {"with an epoch that is not greater",
       {base->history(), Version(41), Version(42), stale_epoch, digest}},
  };
  Json list = Json::array();
  for (const auto& c : cases) {
    list.push_back(Verdict({{"what", c.what},
                            {"base", {base->history().ToString(), Hex(base->version().value)}},
                            {"history", c.delta.history.ToString()},
                            {"from", Hex(c.delta.from.value)},
                            {"to", Hex(c.delta.to.value)}},
                           ApplyDelta(*base, c.delta).status()));
  }
  return list;
}

}  // namespace

Json InvalidVectors() {
  return {
      {"about", "What is refused, and the field that the refusal names; null where it is accepted"},
      {"ids", Ids()},
      {"specs", Specs()},
      {"weights", Weights()},
      {"nodes", Nodes()},
      {"ring_sizes", RingSizes()},
      {"memberships", Memberships()},
      {"deltas", Deltas()}};
}

}  // namespace warmring
