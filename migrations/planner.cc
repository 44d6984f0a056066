#include "migrations/planner.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "absl/strings/str_join.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/placement/allocator.h"
#include "core/placement/yardstick.h"

namespace warmring {
namespace {

// Keeps the delta of one wave, which names its ranges twice, well below 512 KiB.
constexpr size_t kMaxRangesPerWave = 8192;
constexpr uint32_t kWholePpm = 1'000'000;
constexpr double kWholeSpace = 18446744073709551616.0;  // 2^64

// What a plan changes, checked against the membership.
struct Changes {
  std::vector<Node> added;      // sorted by id
  std::vector<NodeId> removed;  // sorted
  std::vector<Node> after;      // members when all is done, sorted by id
};

absl::Status CheckBase(const Membership& membership, const MigrationPlan& plan) {
  const KeyspaceSpec& spec = membership.spec();
  if (plan.keyspace != spec.id) {
    return absl::InvalidArgumentError(
        fmt::format("keyspace: '{}' is not '{}', the keyspace of this membership",
                    Printable(plan.keyspace), spec.id));
  }
  if (spec.replication > 1) {
    return WithReason(absl::FailedPreconditionError(fmt::format(
                          "keyspace '{}' has replication {}: moving replicas is not possible yet, "
                          "since promoting "
                          "one to owner is not built; use a keyspace with replication 1",
                          spec.id, spec.replication)),
                      "UNSUPPORTED", {{"replication", std::to_string(spec.replication)}});
  }
  if (!membership.moves().empty()) {
    const MigrationId& other = membership.moves().front().migration;
    return WithReason(
        absl::AbortedError(fmt::format("migration '{}' is under way in keyspace '{}': wait for its "
                                       "end, abort it or undo it first",
                                       other, spec.id)),
        "MIGRATION_IN_PROGRESS", {{"migration", other}});
  }
  if (plan.base_version != Version() && plan.base_version != membership.version()) {
    return WithReason(
        absl::AbortedError(fmt::format(
            "base_version: the plan is for version {} and the membership is at {}: plan again",
            plan.base_version.value, membership.version().value)),
        "VERSION_MISMATCH",
        {{"base_version", std::to_string(plan.base_version.value)},
         {"version", std::to_string(membership.version().value)}});
  }
  return absl::OkStatus();
}

absl::Status CheckAdd(const Membership& membership, const std::string& field, const Node& node) {
  if (membership.FindNode(node.id).has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("{}.id: '{}' is already a node of keyspace '{}': choose another id", field,
                    node.id, membership.spec().id));
  }
  for (const Node& member : membership.nodes()) {
    if (member.address == node.address) {
      return absl::InvalidArgumentError(
          fmt::format("{}.address: '{}' is the address of '{}': one server cannot be two nodes",
                      field, Printable(node.address), member.id));
    }
  }
  return absl::OkStatus();
}

// Nodes that end up together must differ in address, and on a ring in the name of their tokens.
absl::Status CheckTogether(const KeyspaceSpec& spec, const std::vector<Node>& after) {
  std::map<std::string_view, std::string_view> addresses;
  std::map<std::string_view, std::string_view> names;
  for (const Node& node : after) {
    const auto [address, new_address] = addresses.emplace(node.address, node.id);
    if (!new_address) {
      return absl::InvalidArgumentError(
          fmt::format("changes: '{}' and '{}' have the same address '{}': one server cannot be "
                      "two nodes",
                      address->second, node.id, Printable(node.address)));
    }
    const auto [name, new_name] = names.emplace(node.HashName(), node.id);
    if (!new_name && spec.placement == PlacementKind::kRing) {
      return absl::InvalidArgumentError(
          fmt::format("changes: '{}' and '{}' would have the same tokens, since both are "
                      "hashed as '{}': give one another hash_name",
                      name->second, node.id, Printable(node.HashName())));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOwnsNoOverride(const Membership& membership, const std::string& field,
                                 const NodeId& id) {
  for (const Override& item : membership.overrides()) {
    for (const OverrideRange& range : item.ranges) {
      if (membership.nodes()[range.owner].id != id) continue;
      return absl::InvalidArgumentError(
          fmt::format("{}: '{}' has the keys of the override for {}: give them to other nodes or "
                      "remove the override first",
                      field, id, item.rule.ToString()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Changes> CollectChanges(const Membership& membership, const MigrationPlan& plan) {
  Changes changes;
  for (size_t i = 0; i < plan.changes.size(); ++i) {
    if (const auto* add = std::get_if<AddNode>(&plan.changes[i])) {
      RETURN_IF_ERROR(CheckAdd(membership, fmt::format("changes[{}].add.node", i), add->node));
      changes.added.push_back(add->node);
      continue;
    }
    const NodeId& id = std::get<RemoveNode>(plan.changes[i]).node;
    if (!membership.FindNode(id).has_value()) {
      return absl::InvalidArgumentError(
          fmt::format("changes[{}].remove.node: '{}' is not a node of keyspace '{}'", i, id,
                      membership.spec().id));
    }
    RETURN_IF_ERROR(CheckOwnsNoOverride(membership, fmt::format("changes[{}].remove.node", i), id));
    changes.removed.push_back(id);
  }
  const auto by_id = [](const Node& a, const Node& b) { return a.id < b.id; };
  std::sort(changes.added.begin(), changes.added.end(), by_id);
  std::sort(changes.removed.begin(), changes.removed.end());
  changes.after = changes.added;
  for (const Node& node : membership.nodes()) {
    if (!std::binary_search(changes.removed.begin(), changes.removed.end(), node.id)) {
      changes.after.push_back(node);
    }
  }
  std::sort(changes.after.begin(), changes.after.end(), by_id);
  if (changes.after.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("changes: they remove the last node of keyspace '{}': add another one in "
                    "the same plan, or keep one",
                    membership.spec().id));
  }
  RETURN_IF_ERROR(CheckTogether(membership.spec(), changes.after));
  RETURN_IF_ERROR(ValidatePlacementSize(membership.spec(), changes.after));
  return changes;
}

absl::Status CheckRdbVersions(const std::vector<RangeMove>& moves,
                              const std::map<NodeId, NodeFact>& facts) {
  for (const RangeMove& move : moves) {
    const auto from = facts.find(move.from);
    const auto to = facts.find(move.to);
    if (from == facts.end() || to == facts.end()) continue;
    const uint32_t donor = from->second.rdb_version;
    const uint32_t recipient = to->second.rdb_version;
    if (donor == 0 || recipient == 0 || donor <= recipient) continue;
    return absl::FailedPreconditionError(fmt::format(
        "'{}' writes RDB version {} and '{}' reads up to {}: it would refuse the copied values; "
        "upgrade the server of '{}' first",
        move.from, donor, move.to, recipient, move.to));
  }
  return absl::OkStatus();
}

// One range of the prepared membership on its way from one node to another.
struct Unit {
  uint32_t progress = 0;  // of its move, where its middle lies: 0 = begin, 2^32 - 1 = end
  int move = 0;
  HashRange range;
  HashMeasure measure = 0;
};

// All that moves, in the order in which it is committed: each move advances evenly.
std::vector<Unit> OrderedUnits(const Membership& prepared) {
  std::vector<HashMeasure> totals(prepared.moves().size(), 0);
  for (size_t i = 0; i < prepared.moves().size(); ++i) {
    totals[i] = prepared.moves()[i].ranges.Measure();
  }
  std::vector<HashMeasure> before(totals.size(), 0);
  std::vector<Unit> units;
  for (size_t i = 0; i < prepared.ranges().size(); ++i) {
    const int move = prepared.MoveAt(i);
    if (move < 0) continue;
    const auto m = static_cast<size_t>(move);
    const HashRange range = prepared.RangeAt(i);
    const HashMeasure measure = static_cast<HashMeasure>(range.SizeMinusOne()) + 1;
    const HashMeasure middle = before[m] + measure / 2;
    units.push_back(
        {static_cast<uint32_t>(((middle << 32) - 1) / totals[m]), move, range, measure});
    before[m] += measure;
  }
  std::stable_sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) {
    return std::tie(a.progress, a.move) < std::tie(b.progress, b.move);
  });
  return units;
}

// Gives each unit its wave: a wave ends where the next unit would pass its step's share of all that
// moves, so the first is no larger than asked for unless a single range is.
std::vector<uint32_t> WavesOf(const std::vector<Unit>& units, const std::vector<uint32_t>& steps) {
  HashMeasure total = 0;
  for (const Unit& unit : units) total += unit.measure;
  std::vector<uint32_t> waves;
  HashMeasure done = 0;
  size_t step = 0;
  uint32_t wave = 0;
  size_t in_wave = 0;
  for (const Unit& unit : units) {
    done += unit.measure;
    const bool passes = done * kWholePpm > total * steps[step];
    if (in_wave > 0 && (passes || in_wave == kMaxRangesPerWave)) {
      ++wave;
      in_wave = 0;
    }
    if (in_wave == 0) {
      while (step + 1 < steps.size() && done * kWholePpm > total * steps[step]) ++step;
    }
    waves.push_back(wave);
    ++in_wave;
  }
  return waves;
}

std::vector<PlannedMove> CutIntoWaves(const Membership& prepared,
                                      const std::vector<uint32_t>& steps) {
  const std::vector<Unit> units = OrderedUnits(prepared);
  const std::vector<uint32_t> waves = WavesOf(units, steps);
  // Moves of the prepared membership are sorted by (from, to), so their index sorts as they do.
  std::map<std::pair<uint32_t, int>, std::vector<HashRange>> cut;
  for (size_t i = 0; i < units.size(); ++i) {
    cut[{waves[i], units[i].move}].push_back(units[i].range);
  }
  std::vector<PlannedMove> moves;
  for (const auto& [key, ranges] : cut) {
    const Move& move = prepared.moves()[static_cast<size_t>(key.second)];
    moves.push_back(
        {key.first, move.from, move.to, WithKeysAsHashed(prepared, HashRangeSet(ranges))});
  }
  return moves;
}

// The membership with all boundaries and everything that moves in one wave: for cutting it.
absl::StatusOr<Membership::Ptr> Prepared(const Membership& membership, const Changes& changes,
                                         const Reallocation& reallocation) {
  Update update;
  update.put_nodes = changes.added;
  update.split_at = reallocation.splits;
  for (const RangeMove& move : reallocation.moves) {
    update.put_moves.push_back({"plan", 0, move.from, move.to, MovePhase::kWarming, move.ranges});
  }
  return Apply(membership, update);
}

double WeightOf(const std::vector<Node>& nodes) {
  double weight = 0;
  for (const Node& node : nodes) weight += node.weight_milli;
  return weight;
}

uint64_t PartOf(uint64_t count, double share, double of) {
  if (count == 0 || of <= 0) return 0;
  return static_cast<uint64_t>(std::llround(static_cast<double>(count) * share / of));
}

std::vector<NodeShare> SharesOf(const Membership& membership, const Changes& changes,
                                const std::vector<RangeMove>& moves,
                                const std::map<NodeId, NodeFact>& facts) {
  std::map<NodeId, NodeShare> shares;
  std::vector<HashMeasure> owned(membership.nodes().size(), 0);
  for (size_t i = 0; i < membership.ranges().size(); ++i) {
    owned[membership.ranges()[i].owner] +=
        static_cast<HashMeasure>(membership.RangeAt(i).SizeMinusOne()) + 1;
  }
  for (size_t i = 0; i < owned.size(); ++i) {
    shares[membership.nodes()[i].id].before = static_cast<double>(owned[i]) / kWholeSpace;
  }
  std::map<NodeId, double> given;
  std::map<NodeId, double> got;
  for (const RangeMove& move : moves) {
    given[move.from] += move.ranges.Share();
    got[move.to] += move.ranges.Share();
  }
  const double weight = WeightOf(changes.after);
  for (const Node& node : changes.after) shares[node.id].ideal_after = node.weight_milli / weight;
  std::vector<NodeShare> sorted;
  for (auto& [id, share] : shares) {
    share.node = id;
    share.after = std::max(0.0, share.before - given[id] + got[id]);
    if (const auto fact = facts.find(id); fact != facts.end()) {
      share.keys_out = PartOf(fact->second.keys, given[id], share.before);
      share.bytes_out = PartOf(fact->second.bytes, given[id], share.before);
    }
    sorted.push_back(share);
  }
  return sorted;
}

double MaxOverMean(const std::vector<Node>& nodes, const std::map<NodeId, double>& shares) {
  const double weight = WeightOf(nodes);
  double worst = 0;
  for (const Node& node : nodes) {
    worst = std::max(worst, shares.at(node.id) / (node.weight_milli / weight));
  }
  return worst;
}

void FillFigures(const Membership& membership, const Changes& changes,
                 const std::vector<RangeMove>& moves, const std::map<NodeId, NodeFact>& facts,
                 Preview& preview) {
  preview.shares = SharesOf(membership, changes, moves, facts);
  std::map<NodeId, double> before;
  std::map<NodeId, double> after;
  for (const NodeShare& share : preview.shares) {
    before[share.node] = share.before;
    after[share.node] = share.after;
    preview.keys_moved += share.keys_out;
    preview.bytes_moved += share.bytes_out;
  }
  for (const RangeMove& move : moves) preview.moved_share += move.ranges.Share();
  preview.ideal_share = IdealShare(membership.nodes(), changes.after);
  preview.modulo_share = ModuloShare(membership.nodes(), changes.after);
  preview.plain_ring_share = PlainRingShare(membership.nodes(), changes.after);
  preview.max_over_mean_before = MaxOverMean(membership.nodes(), before);
  preview.max_over_mean_after = MaxOverMean(changes.after, after);
}

std::vector<std::string> WarningsOf(const Changes& changes, const MigrationPlan& plan,
                                    const std::vector<RangeMove>& moves,
                                    const std::map<NodeId, NodeFact>& facts) {
  const std::string timeout = absl::FormatDuration(plan.strategy.warm_timeout);
  std::set<NodeId> involved;
  for (const Node& node : changes.added) involved.insert(node.id);
  for (const RangeMove& move : moves) involved.insert({move.from, move.to});
  std::vector<std::string> warnings;
  std::vector<NodeId> unknown_rdb;
  for (const NodeId& id : involved) {
    const auto fact = facts.find(id);
    if (fact != facts.end() && fact->second.has_session) {
      if (fact->second.rdb_version == 0) unknown_rdb.push_back(id);
      continue;
    }
    const bool added = std::any_of(changes.added.begin(), changes.added.end(),
                                   [&](const Node& node) { return node.id == id; });
    warnings.push_back(
        fmt::format("{} has no session{}: start its agent, the migration waits up to {}", id,
                    added ? " yet" : " now", timeout));
  }
  if (!unknown_rdb.empty()) {
    warnings.push_back(
        fmt::format("RDB version unknown: {}: a server refuses values that a newer one has "
                    "written, and only the "
                    "transfer will tell",
                    absl::StrJoin(unknown_rdb, ", ")));
  }
  return warnings;
}

}  // namespace

namespace {

// A plan about overrides moves nothing of the common plane: every figure of balance stays.
absl::StatusOr<Preview> PreviewOverrides(const Membership& membership, const MigrationPlan& plan,
                                         const std::map<NodeId, NodeFact>& facts) {
  ASSIGN_OR_RETURN(OverridePlan overrides, PlanOverrides(membership, plan));
  RETURN_IF_ERROR(CheckRdbVersions(overrides.moves, facts));
  Changes changes;
  changes.after = membership.nodes();
  Preview preview;
  preview.keyspace = membership.spec().id;
  preview.base_version = membership.version();
  preview.waves = 1;
  for (const RangeMove& move : overrides.moves) {
    preview.moves.push_back({0, move.from, move.to, move.ranges});
  }
  preview.overrides = std::move(overrides.changes);
  FillFigures(membership, changes, {}, facts, preview);
  preview.warnings = WarningsOf(changes, plan, overrides.moves, facts);
  preview.warnings.push_back(
      "how many keys the rules match is known when their donors have looked through all they hold");
  return preview;
}

}  // namespace

absl::StatusOr<Preview> Plan(const Membership& membership, const MigrationPlan& plan,
                             const std::map<NodeId, NodeFact>& facts) {
  RETURN_IF_ERROR(ValidatePlan(plan));
  RETURN_IF_ERROR(CheckBase(membership, plan));
  if (IsAboutOverrides(plan)) return PreviewOverrides(membership, plan, facts);
  ASSIGN_OR_RETURN(const Changes changes, CollectChanges(membership, plan));
  const Reallocation reallocation = Reallocate(membership, changes.added, changes.removed);
  if (reallocation.moves.empty()) {
    return absl::InvalidArgumentError(
        "changes: nothing would move: an added node is too light for a single range; raise "
        "its "
        "weight");
  }
  RETURN_IF_ERROR(CheckRdbVersions(reallocation.moves, facts));
  ASSIGN_OR_RETURN(const Membership::Ptr prepared, Prepared(membership, changes, reallocation));

  Preview preview;
  preview.keyspace = membership.spec().id;
  preview.base_version = membership.version();
  preview.moves = CutIntoWaves(*prepared, plan.strategy.commit_steps_ppm);
  preview.waves = preview.moves.back().wave + 1;
  preview.nodes_added = changes.added;
  preview.nodes_removed = changes.removed;
  preview.splits = reallocation.splits;
  FillFigures(membership, changes, reallocation.moves, facts, preview);
  preview.warnings = WarningsOf(changes, plan, reallocation.moves, facts);
  return preview;
}

}  // namespace warmring
