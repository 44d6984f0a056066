#include "migrations/override_change.h"

#include <algorithm>
#include <cstddef>
#include <variant>

#include <fmt/format.h>

#include "core/base/status_macros.h"

namespace warmring {
namespace {

const Override* FindOverride(const Membership& membership, const OverrideRule& rule) {
  const std::vector<Override>& all = membership.overrides();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Override& item) { return item.rule == rule; });
  return found == all.end() ? nullptr : &*found;
}

// The plane in as many parts of one size as there are nodes, in their order.
std::vector<PutOverride::Range> EvenRanges(const std::vector<NodeId>& nodes) {
  std::vector<PutOverride::Range> ranges;
  const auto parts = static_cast<HashMeasure>(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    const HashMeasure end = ((static_cast<HashMeasure>(i) + 1) << 64) / parts - 1;
    ranges.push_back({static_cast<HashPoint>(end), nodes[i]});
  }
  return ranges;
}

std::vector<PutOverride::Range> RangesOf(const Membership& membership, const Override& item) {
  std::vector<PutOverride::Range> ranges;
  for (const OverrideRange& range : item.ranges) {
    ranges.push_back({range.end, membership.nodes()[range.owner].id});
  }
  return ranges;
}

absl::Status CheckMembers(const Membership& membership, const std::string& field,
                          const std::vector<NodeId>& nodes) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (membership.FindNode(nodes[i]).has_value()) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}.nodes[{}]: '{}' is not a node of keyspace '{}': add it first, in a plan of "
                    "its own",
                    field, i, nodes[i], membership.spec().id));
  }
  return absl::OkStatus();
}

absl::StatusOr<OverrideChange> ChangeFor(const Membership& membership, const std::string& field,
                                         const SetOverride& set, Plane& next_plane) {
  RETURN_IF_ERROR(CheckMembers(membership, field + ".set_override", set.nodes));
  OverrideChange change;
  change.rule = set.rule;
  change.after = EvenRanges(set.nodes);
  const Override* present = FindOverride(membership, set.rule);
  change.is_new = present == nullptr;
  if (change.is_new) {
    change.plane = next_plane++;
  } else {
    change.plane = present->plane;
    change.before = RangesOf(membership, *present);
  }
  return change;
}

absl::StatusOr<OverrideChange> ChangeFor(const Membership& membership, const std::string& field,
                                         const RemoveOverride& remove) {
  const Override* present = FindOverride(membership, remove.rule);
  if (present == nullptr) {
    return absl::InvalidArgumentError(fmt::format(
        "{}.remove_override: keyspace '{}' has no override for {}: list them with 'warmring "
        "override list'",
        field, membership.spec().id, remove.rule.ToString()));
  }
  OverrideChange change;
  change.plane = present->plane;
  change.rule = present->rule;
  change.is_removed = true;
  change.before = RangesOf(membership, *present);
  return change;
}

absl::Status CheckCount(const Membership& membership, const std::vector<OverrideChange>& changes) {
  const auto added = static_cast<size_t>(std::count_if(
      changes.begin(), changes.end(), [](const OverrideChange& change) { return change.is_new; }));
  const size_t count = membership.overrides().size() + added;
  if (count <= OverrideTable::kMaxRules) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("changes: keyspace '{}' would have {} overrides, and at most {} are possible: "
                  "remove some first",
                  membership.spec().id, count, OverrideTable::kMaxRules));
}

// What `changes` move, by the memberships before and after.
absl::StatusOr<std::vector<RangeMove>> MovesOf(const Membership& membership,
                                               const std::vector<OverrideChange>& changes,
                                               const std::vector<Node>& joining) {
  Update update;
  update.put_nodes = joining;
  const Epoch epoch = membership.HighestEpoch().Next();
  for (const OverrideChange& change : changes) {
    if (change.is_new) update.put_overrides.push_back({change.plane, change.rule, {}, Epoch()});
  }
  for (const OverrideChange& change : changes) {
    update.put_overrides.push_back(OverrideAfter(change, epoch));
  }
  ASSIGN_OR_RETURN(const Membership::Ptr after, Apply(membership, update));
  return Diff(membership, *after);
}

}  // namespace

bool IsAboutOverrides(const MigrationPlan& plan) {
  return std::any_of(plan.changes.begin(), plan.changes.end(), [](const Change& change) {
    return std::holds_alternative<SetOverride>(change) ||
           std::holds_alternative<RemoveOverride>(change);
  });
}

absl::StatusOr<OverridePlan> PlanOverrides(const Membership& membership,
                                           const MigrationPlan& plan) {
  OverridePlan result;
  Plane next_plane = membership.data().next_plane;
  for (size_t i = 0; i < plan.changes.size(); ++i) {
    const std::string field = fmt::format("changes[{}]", i);
    if (const auto* set = std::get_if<SetOverride>(&plan.changes[i])) {
      ASSIGN_OR_RETURN(OverrideChange change, ChangeFor(membership, field, *set, next_plane));
      result.changes.push_back(std::move(change));
    } else {
      const auto& remove = std::get<RemoveOverride>(plan.changes[i]);
      ASSIGN_OR_RETURN(OverrideChange change, ChangeFor(membership, field, remove));
      result.changes.push_back(std::move(change));
    }
  }
  RETURN_IF_ERROR(CheckCount(membership, result.changes));
  std::sort(result.changes.begin(), result.changes.end(),
            [](const OverrideChange& a, const OverrideChange& b) { return a.plane < b.plane; });
  ASSIGN_OR_RETURN(result.moves, MovesOf(membership, result.changes, {}));
  // Rules that are as hashed already are removed without a move.
  const bool only_ends = std::all_of(
      result.changes.begin(), result.changes.end(),
      [](const OverrideChange& change) { return change.is_removed && change.before.empty(); });
  if (result.moves.empty() && !only_ends) {
    return absl::InvalidArgumentError(
        "changes: nothing would move: the keys of these overrides are where they are to be");
  }
  return result;
}

absl::StatusOr<OverridePlan> PassOverridesOn(const Membership& membership,
                                             const std::map<NodeId, std::vector<NodeId>>& heirs,
                                             const std::vector<Node>& joining) {
  OverridePlan result;
  for (const Override& item : membership.overrides()) {
    OverrideChange change;
    change.plane = item.plane;
    change.rule = item.rule;
    change.before = RangesOf(membership, item);
    // Whoever has other keys of the rule comes first.
    std::vector<NodeId> stay;
    for (const PutOverride::Range& range : change.before) {
      const bool leaves = heirs.contains(range.owner);
      if (!leaves && std::find(stay.begin(), stay.end(), range.owner) == stay.end()) {
        stay.push_back(range.owner);
      }
    }
    size_t turn = 0;
    for (PutOverride::Range range : change.before) {
      if (const auto of_node = heirs.find(range.owner); of_node != heirs.end()) {
        const bool joins = std::any_of(joining.begin(), joining.end(), [&](const Node& node) {
          return node.id == of_node->second.front();
        });
        const std::vector<NodeId>& list = joins || stay.empty() ? of_node->second : stay;
        range.owner = list[turn++ % list.size()];
      }
      if (!change.after.empty() && change.after.back().owner == range.owner) {
        change.after.pop_back();
      }
      change.after.push_back(std::move(range));
    }
    // The first wraps, so it is the last one's neighbour, too.
    if (change.after.size() > 1 && change.after.front().owner == change.after.back().owner) {
      change.after.pop_back();
    }
    if (change.after.size() == 1) change.after.front().end = UINT64_MAX;
    if (turn > 0) result.changes.push_back(std::move(change));
  }
  ASSIGN_OR_RETURN(result.moves, MovesOf(membership, result.changes, joining));
  return result;
}

HashRangeSet WithKeysAsHashed(const Membership& membership, const HashRangeSet& ranges) {
  HashRangeSet all = ranges;
  for (const Override& item : membership.overrides()) {
    if (membership.SourceOf(item.plane) == kCommonPlane) {
      all = all.Union(ranges.CarriedTo(item.plane));
    }
  }
  return all;
}

PutOverride OverrideBefore(const OverrideChange& change, Epoch epoch) {
  return {change.plane, change.rule, change.before, epoch};
}

PutOverride OverrideAfter(const OverrideChange& change, Epoch epoch) {
  return {change.plane, change.rule, change.after, epoch};
}

}  // namespace warmring
