// ranks.json: who holds each bucket at each rank, step by step, when buckets have several copies.
// Beside the result of a step stands, where nothing but the nodes asks for it, what each part of
// the allocator made: a reader that differs sees in which part it does.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "core/hashing/key_hash.h"
#include "core/placement/directory_allocator.h"
#include "core/placement/directory_board.h"
#include "core/placement/directory_steps.h"
#include "core/placement/directory_targets.h"
#include "tests/vectors/fleet.h"
#include "tests/vectors/vectors.h"

namespace warmring {
namespace {

using Json = nlohmann::ordered_json;
using Balance = ReallocateOptions::Balance;
using Nodes = std::vector<DirectoryNode>;

struct RankStep {
  std::string change;
  Nodes nodes;
  ReallocateOptions options = {};
  uint32_t grow_to = 0;  // bits, or 0
};

[[noreturn]] void Abort(const std::string& what) {
  std::fprintf(stderr, "ranks.json: %s\n", what.c_str());
  std::abort();
}

DirectoryNode Seat(const std::string& id, const std::string& domain = "",
                   uint32_t weight_milli = 1000) {
  return {id, weight_milli, domain};
}

Nodes With(Nodes nodes, const Nodes& more) {
  nodes.insert(nodes.end(), more.begin(), more.end());
  std::sort(nodes.begin(), nodes.end(),
            [](const DirectoryNode& a, const DirectoryNode& b) { return a.id < b.id; });
  return nodes;
}

Nodes Without(Nodes nodes, const std::string& id) {
  std::erase_if(nodes, [&](const DirectoryNode& node) { return node.id == id; });
  return nodes;
}

ReallocateOptions Pinned(std::vector<ReallocateOptions::Pin> pins) {
  ReallocateOptions options;
  options.pins = std::move(pins);
  return options;
}

ReallocateOptions Moved(uint32_t bucket, const NodeId& from, const NodeId& to) {
  ReallocateOptions options;
  options.moves = {{bucket, from, to}};
  return options;
}

ReallocateOptions Capped(std::vector<ReallocateOptions::Cap> nodes,
                         std::vector<ReallocateOptions::Cap> domains = {}) {
  ReallocateOptions options;
  options.node_caps = std::move(nodes);
  options.domain_caps = std::move(domains);
  return options;
}

Json OptionsJson(const ReallocateOptions& options) {
  Json json = Json::object();
  for (const ReallocateOptions::Pin& pin : options.pins) {
    json["pins"].push_back(pin.seat ? Json{pin.bucket, pin.seat->rank, pin.seat->node}
                                    : Json::array({pin.bucket}));
  }
  for (const ReallocateOptions::BucketMove& move : options.moves) {
    json["moves"].push_back({move.bucket, move.from, move.to});
  }
  for (const ReallocateOptions::Cap& cap : options.node_caps) {
    json["node_caps"][cap.name] = cap.slots;
  }
  for (const ReallocateOptions::Cap& cap : options.domain_caps) {
    json["domain_caps"][cap.name] = cap.slots;
  }
  if (options.balance == Balance::kAddedOnly) json["balance"] = "added_only";
  if (options.balance == Balance::kNothing) json["balance"] = "nothing";
  if (!options.heat.empty()) {
    json["heat"] = options.heat;
    json["heat_tolerance_ppm"] = options.heat_tolerance_ppm;
  }
  return json;
}

// The parts of the allocator one after the other, from what `base` keeps. REQUIRES: no domain is
// in a bucket more often than it may be, which would empty slots first.
class Parts {
 public:
  Parts(const DirectoryShape& shape, const Nodes& nodes, const Directory* base)
      : shape_(shape), nodes_(nodes), problem_(NaturalTargets(shape, nodes)), board_(MakeBoard()) {
    if (base != nullptr) Adopt(*base);
    SetTargets();
  }

  Json Run() {
    Json json = {{"targets", TargetsJson()}};
    PlaceForced(board_);
    Note("forced", json);
    Take(board_, false);
    Note("take", json);
    Exchange(board_);
    Note("exchange", json);
    BalanceRanks(board_);
    Note("ranks", json);
    return json;
  }

  const std::string& last() const { return last_; }

 private:
  Board MakeBoard() {
    const DomainNumbers domains = NumberDomains(nodes_);
    std::vector<DirectorySeat> seats;
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      DirectorySeat seat;
      seat.id = nodes_[i].id;
      seat.order = NodeOrderKey(seat.id);
      seat.weight = nodes_[i].weight_milli;
      seat.domain = domains.of_node[i];
      seat.node = i;
      seats.push_back(std::move(seat));
    }
    std::sort(seats.begin(), seats.end(), [](const DirectorySeat& a, const DirectorySeat& b) {
      return std::tie(a.order, a.id) < std::tie(b.order, b.id);
    });
    std::vector<uint32_t> depths;
    for (const uint64_t cap : problem_.domain_caps) {
      depths.push_back(static_cast<uint32_t>(cap >> shape_.bits));
    }
    return Board(shape_.buckets(), static_cast<uint32_t>(problem_.slots >> shape_.bits),
                 std::move(seats), std::move(depths));
  }

  SeatIndex SeatOf(const NodeId& id) const {
    for (SeatIndex i = 0; i < board_.seats().size(); ++i) {
      if (board_.seat(i).id == id) return i;
    }
    return Board::kNoSeat;
  }

  void Adopt(const Directory& base) {
    const bool close_up = board_.ranks() < shape_.ranks;
    for (uint32_t bucket = 0; bucket < shape_.buckets(); ++bucket) {
      uint32_t next = 0;
      for (uint32_t r = 0; r < shape_.ranks; ++r) {
        const uint32_t node = base.OwnerOf(bucket, r);
        if (node == Directory::kNoNode) continue;
        const SeatIndex seat = SeatOf(base.nodes[node].id);
        if (seat != Board::kNoSeat) board_.Put(bucket, close_up ? next++ : r, seat);
      }
    }
  }

  void SetTargets() {
    TargetProblem problem = problem_;
    for (SeatIndex i = 0; i < board_.seats().size(); ++i) {
      const DirectorySeat& seat = board_.seat(i);
      problem.nodes[i] = {seat.weight, seat.domain, shape_.buckets(), 0, seat.owned};
    }
    const std::vector<uint64_t> targets = RoundShares(problem, FillShares(problem));
    for (SeatIndex i = 0; i < targets.size(); ++i) board_.seat(i).target = targets[i];
    board_.SetRankTargets(SplitByRank(targets, board_.rank_owned(), board_.ranks()));
  }

  Json TargetsJson() const {
    std::vector<Json> by_node(nodes_.size());
    for (SeatIndex i = 0; i < by_node.size(); ++i) {
      Json& targets = by_node[board_.seat(i).node];
      for (uint32_t r = 0; r < board_.ranks(); ++r) targets.push_back(board_.TargetAt(i, r));
    }
    return by_node;
  }

  // The slots after a part that changed any.
  void Note(const char* part, Json& json) {
    Directory directory{shape_, nodes_, {}};
    for (uint32_t bucket = 0; bucket < shape_.buckets(); ++bucket) {
      for (uint32_t r = 0; r < shape_.ranks; ++r) {
        directory.owner.push_back(r < board_.ranks() ? board_.seat(board_.At(bucket, r)).node
                                                     : Directory::kNoNode);
      }
    }
    const std::string text = SlotsText(directory);
    if (text != last_) json[part] = text;
    last_ = text;
  }

  DirectoryShape shape_;
  Nodes nodes_;
  TargetProblem problem_;
  Board board_;
  std::string last_;
};

// The depth of a domain may have fallen, or a node may have gone to another domain.
bool IsCrowded(const Directory& base, const Nodes& nodes) {
  for (const DirectoryNode& node : nodes) {
    for (const DirectoryNode& before : base.nodes) {
      if (node.id == before.id && node.domain != before.domain) return true;
    }
  }
  return CountViolations(base) != 0;
}

Json Story(const std::string& name, const DirectoryShape& shape,
           const std::vector<RankStep>& steps) {
  std::optional<Directory> present;
  Json list = Json::array();
  for (const RankStep& step : steps) {
    Json json = {{"change", step.change}, {"nodes", SeatsJson(step.nodes)}};
    const Json options = OptionsJson(step.options);
    if (!options.empty()) json["options"] = options;
    const absl::StatusOr<Directory> next = step.grow_to != 0 ? Grow(*present, step.grow_to)
                                           : present
                                               ? Reallocate(*present, step.nodes, step.options)
                                               : Allocate(shape, step.nodes);
    if (!next.ok()) {
      const std::string message(next.status().message());
      json["refused"] = message.substr(0, message.find(": "));
      list.push_back(std::move(json));
      continue;
    }
    if (step.grow_to != 0) json["bits"] = step.grow_to;
    if (step.grow_to == 0 && options.empty() && !(present && IsCrowded(*present, step.nodes))) {
      Parts parts(next->shape, step.nodes, present ? &*present : nullptr);
      json["parts"] = parts.Run();
      if (parts.last() != SlotsText(*next)) Abort(name + ": " + step.change + ": parts differ");
    } else {
      json["owners"] = SlotsText(*next);
    }
    if (present) {
      const DirectoryMovement movement = MovementBetween(*present, *next);
      json["moved"] = movement.moved_slots;
      json["role_changes"] = movement.role_changes;
    }
    json["violations"] = CountViolations(*next);
    list.push_back(std::move(json));
    present = *next;
  }
  return {{"name", name},
          {"bits", shape.bits},
          {"ranks", shape.ranks},
          {"strict", shape.strict},
          {"steps", list}};
}

Json ThreeZones() {
  const Nodes three = {Seat("a", "z1"), Seat("b", "z2"), Seat("c", "z3")};
  const Nodes four = With(three, {Seat("d", "z1")});
  const Nodes six = With(four, {Seat("e", "z2", 2000), Seat("f", "z3", 500)});
  const Nodes five = Without(six, "a");
  Nodes heavier = five;
  heavier[1].weight_milli = 3000;
  return Story("three zones, strict", {6, 3, true},
               {{"create", three},
                {"add d", four},
                {"add e, add f", six},
                {"remove a", five},
                {"weight of c", heavier},
                {"c leaves, a comes back", With(Without(heavier, "c"), {Seat("a", "z1")})},
                {"z3 leaves", {Seat("b", "z2"), Seat("d", "z1"), Seat("e", "z2", 2000)}}});
}

Json TwoRanks() {
  Nodes nodes;
  std::vector<RankStep> steps;
  for (const char* id : {"a", "b", "c", "d", "e"}) {
    nodes = With(nodes, {Seat(id)});
    if (nodes.size() < 2) continue;
    steps.push_back({nodes.size() == 2 ? "create" : fmt::format("add {}", id), nodes});
  }
  steps.push_back({"remove b", nodes = Without(nodes, "b")});
  steps.push_back({"remove e, add f", nodes = With(Without(nodes, "e"), {Seat("f", "", 2500)})});
  steps.push_back({"grow", nodes, {}, 7});
  steps.push_back({"add g", With(nodes, {Seat("g")})});
  return Story("two ranks, each node alone", {5, 2, true}, steps);
}

Json BestEffort() {
  const Nodes pair = {Seat("a", "z1"), Seat("b", "z1")};
  const Nodes four = With(pair, {Seat("c", "z1"), Seat("d", "z2")});
  const Nodes crowd = {Seat("a", "z1"), Seat("b", "z1", 2000), Seat("c", "z1", 4000),
                       Seat("d", "z1", 8000)};
  const Nodes eight =
      With(crowd, {Seat("e", "z2"), Seat("f", "z3"), Seat("g", "z4"), Seat("h", "z4")});
  ReallocateOptions nothing;
  nothing.balance = Balance::kNothing;
  Nodes gathered = eight;
  gathered[1].domain = "z2";
  ReallocateOptions pins;
  for (uint32_t bucket = 0; bucket < 16; ++bucket) pins.pins.push_back({bucket, {}});
  return Story("best effort: fewer nodes than ranks, fewer zones than ranks", {6, 4, false},
               {{"create", pair},
                {"add c, add d", four},
                {"remove b", Without(four, "b")},
                {"all in one zone", crowd},
                {"a zone for each rank, nothing else moves", eight, nothing},
                {"all is balanced", eight},
                {"b goes to z2, and some buckets stay as they are", gathered, pins},
                {"back to two", pair}});
}

Json Shares() {
  const Nodes uneven = {Seat("a", "z1", 8000), Seat("b", "z1"),      Seat("c", "z2"),
                        Seat("d", "z2", 10),   Seat("e", "z3", 700), Seat("f", "z3"),
                        Seat("g", "z3", 5000)};
  ReallocateOptions stays = Capped({{"a", 20}});
  stays.balance = Balance::kNothing;
  ReallocateOptions domain_stays = Capped({}, {{"z3", 20}});
  domain_stays.balance = Balance::kNothing;
  return Story("weights beyond what a node may hold, and caps", {6, 2, true},
               {{"create", uneven},
                {"caps", uneven, Capped({{"a", 40}, {"g", 30}}, {{"z2", 45}})},
                {"caps without room", uneven, Capped({{"a", 10}}, {{"z2", 20}, {"z3", 20}})},
                {"a cap below what stays", uneven, stays},
                {"a cap of a domain below what stays", uneven, domain_stays},
                {"a cap of nobody", uneven, Capped({{"x", 1}})},
                {"a cap of no domain", uneven, Capped({}, {{"x", 1}})},
                {"no caps, remove g", Without(uneven, "g")}});
}

Json PinsAndMoves() {
  const Nodes five = {Seat("a", "z1"), Seat("b", "z2"), Seat("c", "z3"), Seat("d", "z1"),
                      Seat("e", "z2")};
  const Nodes six = With(five, {Seat("f", "z3")});
  ReallocateOptions pins;
  pins.pins = {{0, {}},         {1, {{0, "d"}}}, {1, {{1, "c"}}},
               {2, {{1, "a"}}}, {3, {{0, "e"}}}, {7, {{1, "f"}}}};
  ReallocateOptions many;
  for (uint32_t bucket = 0; bucket < 24; ++bucket) many.pins.push_back({bucket, {{0, "a"}}});
  ReallocateOptions added;
  added.balance = Balance::kAddedOnly;
  ReallocateOptions nothing;
  nothing.balance = Balance::kNothing;
  std::vector<RankStep> steps = {{"create", five},
                                 {"pins while f comes", six, pins},
                                 {"many pins on one node", six, many},
                                 {"only g takes", With(six, {Seat("g", "z1")}), added},
                                 {"g leaves, nothing else moves", six, nothing}};
  // A listed move is to name who holds the bucket, which the steps before it decide.
  std::optional<Directory> present;
  for (const RankStep& step : steps) {
    present = present ? *Reallocate(*present, step.nodes, step.options)
                      : *Allocate({5, 2, true}, step.nodes);
  }
  ReallocateOptions moves = nothing;
  ReallocateOptions moves_and_balance;
  for (uint32_t bucket = 0; bucket < 6; ++bucket) {
    const uint32_t rank = bucket % 2;
    const DirectoryNode& from = present->nodes[present->OwnerOf(bucket, rank)];
    const DirectoryNode& other = present->nodes[present->OwnerOf(bucket, 1 - rank)];
    for (const DirectoryNode& to : present->nodes) {
      if (to.id == from.id || to.domain == other.domain) continue;
      (bucket < 3 ? moves : moves_and_balance).moves.push_back({bucket, from.id, to.id});
      break;
    }
  }
  const ReallocateOptions::BucketMove& move = moves.moves[0];
  ReallocateOptions twice = moves;
  twice.moves.push_back({move.bucket, move.to, move.from});
  const NodeId other = present->nodes[present->OwnerOf(move.bucket, 1)].id;
  steps.push_back({"a move that is listed twice", six, twice});
  steps.push_back({"a move to who holds the bucket", six, Moved(0, move.from, other)});
  steps.push_back(
      {"a move from who does not hold the bucket", six, Moved(move.bucket, move.to, move.from)});
  steps.push_back({"a move to nobody", six, Moved(0, move.from, "x")});
  steps.push_back({"moves", six, moves});
  steps.push_back({"moves, and all is balanced", six, moves_and_balance});
  steps.push_back(
      {"one node pinned twice in a bucket", six, Pinned({{4, {{0, "a"}}}, {4, {{1, "a"}}}})});
  steps.push_back(
      {"two of one zone pinned in a bucket", six, Pinned({{4, {{0, "a"}}}, {4, {{1, "d"}}}})});
  steps.push_back(
      {"two nodes pinned to one slot", six, Pinned({{4, {{0, "a"}}}, {4, {{0, "b"}}}})});
  Nodes gathered = six;
  for (DirectoryNode& node : gathered) node.domain = node.id == "a" ? "z2" : "z1";
  std::vector<ReallocateOptions::Pin> all_buckets;
  for (uint32_t bucket = 0; bucket < 32; ++bucket) all_buckets.push_back({bucket, {}});
  steps.push_back(
      {"buckets pinned whose owners come into one zone", gathered, Pinned(all_buckets)});
  steps.push_back({"a rank that does not exist", six, Pinned({{4, {{2, "a"}}}})});
  steps.push_back({"a bucket that does not exist", six, Pinned({{32, {}}})});
  ReallocateOptions pinned_above = many;
  pinned_above.node_caps = {{"a", 23}};
  steps.push_back({"a cap below what is pinned", six, pinned_above});
  ReallocateOptions pinned_domain = many;
  pinned_domain.domain_caps = {{"z1", 23}};
  steps.push_back({"a cap of a domain below what is pinned", six, pinned_domain});
  return Story("pins and listed moves", {5, 2, true}, steps);
}

// Few buckets carry most of the load, as in life: the n-th largest 1/n of the first.
std::vector<uint64_t> HeatOf(uint32_t buckets, uint64_t salt) {
  std::vector<uint64_t> heat;
  for (uint32_t bucket = 0; bucket < buckets; ++bucket) {
    heat.push_back(1'000'000 / (1 + (bucket * 37 + salt) % buckets));
  }
  return heat;
}

Json ByLoad() {
  const Nodes five = {Seat("a", "z1"), Seat("b", "z2"), Seat("c", "z3"), Seat("d", "z1", 2000),
                      Seat("e", "z2")};
  const Nodes six = With(five, {Seat("f", "z3")});
  ReallocateOptions heat;
  heat.heat = HeatOf(64, 5);
  ReallocateOptions fine = heat;
  fine.heat_tolerance_ppm = 0;
  fine.node_caps = {{"a", 24}};
  fine.pins = {{3, {}}, {5, {{1, "c"}}}};
  ReallocateOptions added = heat;
  added.heat = HeatOf(64, 11);
  added.balance = Balance::kAddedOnly;
  ReallocateOptions nothing = heat;
  nothing.balance = Balance::kNothing;
  ReallocateOptions short_heat;
  short_heat.heat = HeatOf(63, 5);
  ReallocateOptions large;
  large.heat = HeatOf(64, 5);
  large.heat[9] = (uint64_t{1} << 40) + 1;
  return Story("by load", {6, 2, true},
               {{"create", five},
                {"by load", five, heat},
                {"f comes, and only f gets", six, added},
                {"by load to the last, with a cap and pins", six, fine},
                {"b leaves, nothing else moves", Without(six, "b"), nothing},
                {"a load for too few buckets", six, short_heat},
                {"a load beyond the bound", six, large}});
}

// Where domains stand in the way of the takers, so that slots pass along chains of nodes.
Json Chains() {
  return Story("chains: nobody can take from those that have too much", {3, 4, false},
               {{"create",
                 {Seat("a", "z", 5032), Seat("b", "z", 3000), Seat("c", "z", 3438),
                  Seat("d", "z", 17557), Seat("e", "z", 3000), Seat("f", "z", 5220)}},
                {"all alike",
                 {Seat("a", "z"), Seat("b", "z"), Seat("c", "z"), Seat("d", "z"), Seat("e", "z"),
                  Seat("f", "z")}}});
}

Json RankChains() {
  const Nodes five = {Seat("a"), Seat("b", "z"), Seat("c", "z"), Seat("d"), Seat("e")};
  const Nodes six = With(five, {Seat("f", "z")});
  ReallocateOptions options = Capped({{"g", 4}});
  options.pins = {{6, {}}, {2, {}}, {0, {{1, "g"}}}, {4, {}}};
  return Story("chains: ranks pass through several buckets", {3, 4, false},
               {{"create", five}, {"add f", six}, {"add g", With(six, {Seat("g", "z")}), options}});
}

Json Large() {
  Nodes nine;
  for (const char* id : {"a", "b", "c", "d", "e", "f", "g", "h", "i"}) {
    nine.push_back(Seat(id, fmt::format("z{}", nine.size() % 3)));
  }
  const Nodes ten = With(nine, {Seat("j", "z0")});
  return Story("nine nodes to ten and back", {10, 3, true},
               {{"create", nine}, {"add j", ten}, {"remove e", Without(ten, "e")}});
}

}  // namespace

Json RanksVectors() {
  return {{"about", "Who holds each bucket at each rank after each step of the allocator"},
          {"stories", Json::array({ThreeZones(), TwoRanks(), BestEffort(), Shares(), PinsAndMoves(),
                                   Chains(), RankChains(), ByLoad(), Large()})}};
}

}  // namespace warmring
