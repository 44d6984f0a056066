// override.json: which rule a key falls under, and who owns it then.

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/membership/membership.h"
#include "tests/vectors/fleet.h"
#include "tests/vectors/vectors.h"

namespace warmring {
namespace {

using Json = nlohmann::ordered_json;

Override Rule(Plane plane, OverrideRule::Match match, std::string bytes,
              std::vector<OverrideRange> ranges, uint64_t epoch) {
  return {plane, {match, std::move(bytes)}, std::move(ranges), Epoch(epoch)};
}

constexpr auto kKey = OverrideRule::Match::kKey;
constexpr auto kPrefix = OverrideRule::Match::kPrefix;

// Four equal ranges over a, b, a, c.
MembershipData Quarters() {
  MembershipData data;
  data.version = Version(1);
  data.spec.id = "vectors";
  data.spec.placement = PlacementKind::kRing;
  data.nodes = FleetNodes({"a", "b", "c"});
  constexpr uint64_t kQuarter = uint64_t{1} << 62;
  const NodeIndex owners[] = {0, 1, 0, 2};
  for (uint64_t i = 0; i < 4; ++i) {
    data.ranges.push_back({(i + 1) * kQuarter - 1, owners[i], Epoch(i + 1)});
  }
  return data;
}

Json RulesJson(const Membership& membership) {
  Json list = Json::array();
  for (const Override& item : membership.overrides()) {
    Json ranges = Json::array();
    for (const OverrideRange& range : item.ranges) {
      ranges.push_back({Hex(range.end), membership.nodes()[range.owner].id});
    }
    list.push_back({{"plane", item.plane},
                    {"match", item.rule.match == kKey ? "key" : "prefix"},
                    {"bytes", HexBytes(item.rule.bytes)},
                    {"ranges", std::move(ranges)},
                    {"epoch", item.epoch.value}});
  }
  return list;
}

Json MovesOf(const Membership& membership) {
  Json list = Json::array();
  for (const Move& move : membership.moves()) {
    Json ranges = Json::array();
    for (const HashRange& range : move.ranges.Ranges()) {
      ranges.push_back({range.plane, Hex(range.start), Hex(range.end)});
    }
    list.push_back({{"from", move.from},
                    {"to", move.to},
                    {"phase", move.phase == MovePhase::kWarming ? "warming" : "grace"},
                    {"ranges", std::move(ranges)}});
  }
  return list;
}

Json NameOf(const Membership& membership, std::optional<NodeIndex> node) {
  return node ? Json(membership.nodes()[*node].id) : Json();
}

Json Case(const std::string& name, const MembershipData& data,
          const std::vector<std::string>& keys) {
  const Membership::Ptr membership = Membership::Create(data).value();
  Json ranges = Json::array();
  for (const OwnedRange& range : membership->ranges()) {
    ranges.push_back({Hex(range.end), membership->nodes()[range.owner].id, range.epoch.value});
  }
  Json routes = Json::array();
  for (const std::string& key : keys) {
    const Route route = RouteKey(*membership, key);
    routes.push_back({HexBytes(key), route.plane, membership->nodes()[route.owner].id,
                      route.epoch.value, NameOf(*membership, route.pending),
                      NameOf(*membership, route.previous)});
  }
  return {{"name", name},
          {"ranges", std::move(ranges)},
          {"overrides", RulesJson(*membership)},
          {"moves", MovesOf(*membership)},
          {"keys", std::move(routes)}};
}

std::vector<std::string> Keys(std::string_view prefix, int count) {
  std::vector<std::string> keys;
  for (int i = 0; i < count; ++i) keys.push_back(fmt::format("{}{}", prefix, i));
  return keys;
}

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Json Cases() {
  constexpr HashPoint kHalf = (uint64_t{1} << 63) - 1;
  Json list = Json::array();
  MembershipData data = Quarters();
  data.next_plane = 9;
  data.overrides = {Rule(1, kPrefix, "tenant:", {{UINT64_MAX, 2}}, 9)};
  list.push_back(Case("a tenant on one node", data,
                      Keys("tenant:", 4) + Keys("user:", 4) + std::vector<std::string>{"tenant"}));
  data.overrides = {Rule(1, kPrefix, "tenant:", {{kHalf, 1}, {UINT64_MAX, 2}}, 9)};
  list.push_back(Case("a tenant on two nodes", data, Keys("tenant:", 10)));
  data.overrides = {Rule(1, kPrefix, "tenant:", {{5, 1}, {kHalf, 0}}, 9)};
  list.push_back(Case("the first range of a plane wraps", data, Keys("tenant:", 10)));
  data.overrides = {
      Rule(1, kPrefix, "t", {{UINT64_MAX, 0}}, 9), Rule(2, kPrefix, "t:b:", {{UINT64_MAX, 1}}, 10),
      Rule(3, kKey, "t:b:1", {{UINT64_MAX, 2}}, 11), Rule(4, kKey, "t:b:", {{UINT64_MAX, 2}}, 12),
      Rule(5, kPrefix, std::string("\0\xff", 2), {{UINT64_MAX, 2}}, 13)};
  list.push_back(
      Case("a key wins over prefixes, the longest prefix over others", data,
           {"t", "t:", "t:b", "t:b:", "t:b:1", "t:b:12", "x", "", std::string("\0\xff", 2),
            std::string("\0\xff\x01", 3), std::string("\0", 1)}));
  data.overrides = {Rule(1, kPrefix, "tenant:", {}, 0), Rule(2, kPrefix, "user:", {}, 3)};
  list.push_back(Case("as hashed, under no epoch and under one of its own", data,
                      Keys("tenant:", 8) + Keys("user:", 8)));
  data.overrides = {Rule(1, kPrefix, "t:", {{UINT64_MAX, 1}}, 9), Rule(2, kPrefix, "t:b:", {}, 7),
                    Rule(3, kKey, "t:b:1", {}, 12)};
  list.push_back(
      Case("as hashed means as the next rule has it", data, {"t:a", "t:b:0", "t:b:1", "t:b:2"}));
  data.overrides = {Rule(1, kPrefix, "tenant:", {}, 0)};
  const Membership::Ptr hashed = Membership::Create(data).value();
  data.moves = {{"m1", 0, "a", "c", MovePhase::kWarming, hashed->OwnedOn(1, 0)},
                {"m1", 0, "b", "c", MovePhase::kWarming, hashed->OwnedOn(1, 1)}};
  list.push_back(Case("a rule that is being warmed", data, Keys("tenant:", 8) + Keys("user:", 4)));
  for (Move& move : data.moves) move.phase = MovePhase::kGrace;
  data.overrides = {Rule(1, kPrefix, "tenant:", {{UINT64_MAX, 2}}, 9)};
  list.push_back(Case("a rule in grace", data, Keys("tenant:", 8) + Keys("user:", 4)));
  return list;
}

}  // namespace

Json OverrideVectors() {
  return {{"about", "Which override a key falls under, and who owns it"}, {"cases", Cases()}};
}

}  // namespace warmring
