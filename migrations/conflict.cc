#include "migrations/conflict.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/membership/update.h"

namespace warmring {
namespace {

absl::Status InTheWay(const MigrationId& other, const std::string& what) {
  return WithReason(
      absl::AbortedError(fmt::format("migration '{}' has not ended, and {}: wait for it, abort it, "
                                     "or submit the plan with on_conflict: queue",
                                     other, what)),
      "MIGRATION_IN_PROGRESS", {{"migration", other}});
}

HashRangeSet RangesOf(const Preview& preview) {
  std::vector<HashRange> all;
  for (const PlannedMove& move : preview.moves) {
    const std::vector<HashRange> ranges = move.ranges.Ranges();
    all.insert(all.end(), ranges.begin(), ranges.end());
  }
  return HashRangeSet(all);
}

std::set<NodeId> TakePart(const Preview& preview) {
  std::set<NodeId> nodes;
  for (const PlannedMove& move : preview.moves) nodes.insert({move.from, move.to});
  return nodes;
}

// Nodes whose membership itself changes.
std::set<NodeId> JoinOrLeave(const Preview& preview) {
  std::set<NodeId> nodes(preview.nodes_removed.begin(), preview.nodes_removed.end());
  for (const Node& node : preview.nodes_added) nodes.insert(node.id);
  return nodes;
}

std::set<NodeId> Reweighted(const Preview& preview) {
  std::set<NodeId> nodes;
  for (const Reweight& reweight : preview.reweights) nodes.insert(reweight.node);
  return nodes;
}

std::set<uint32_t> Pinned(const Preview& preview) {
  std::set<uint32_t> buckets(preview.pins_removed.begin(), preview.pins_removed.end());
  for (const Pin& pin : preview.pins_put) buckets.insert(pin.bucket);
  return buckets;
}

template <typename T>
std::optional<T> FirstCommon(const std::set<T>& a, const std::set<T>& b) {
  for (const T& item : a) {
    if (b.contains(item)) return item;
  }
  return std::nullopt;
}

// A bucket whose pin changes in `pinning` and that moves in `moving`.
std::optional<uint32_t> PinnedWhileMoving(const Membership& membership, const Preview& pinning,
                                          const HashRangeSet& moving) {
  for (const uint32_t bucket : Pinned(pinning)) {
    if (bucket >= membership.ranges().size()) continue;
    if (moving.Contains(membership.RangeAt(bucket).end)) return bucket;
  }
  return std::nullopt;
}

std::optional<std::string> NodeConflict(const Preview& a, const Preview& b) {
  for (const auto& [one, two] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    std::set<NodeId> involved = TakePart(*two);
    involved.merge(JoinOrLeave(*two));
    involved.merge(Reweighted(*two));
    if (const std::optional<NodeId> node = FirstCommon(JoinOrLeave(*one), involved)) {
      return fmt::format("node '{}' joins or leaves while it takes part in the other", *node);
    }
  }
  if (const std::optional<NodeId> node = FirstCommon(Reweighted(a), Reweighted(b))) {
    return fmt::format("both change the weight of '{}'", *node);
  }
  for (const Node& one : a.nodes_added) {
    for (const Node& two : b.nodes_added) {
      if (one.address == two.address) {
        return fmt::format("'{}' and '{}', which it adds, have the same address '{}'", one.id,
                           two.id, Printable(one.address));
      }
    }
  }
  return std::nullopt;
}

// One server cannot be two nodes, also while one of them leaves.
std::optional<std::string> AddressConflict(const Membership& membership, const Preview& joining,
                                           const std::set<NodeId>& passing) {
  for (const Node& node : joining.nodes_added) {
    for (const Node& member : membership.nodes()) {
      if (member.address != node.address || member.id == node.id) continue;
      if (!passing.contains(member.id)) continue;
      return fmt::format("'{}' would have the address of '{}', {}", node.id, member.id,
                         Printable(member.address));
    }
  }
  return std::nullopt;
}

// The nodes that a change is about, beside those that it adds.
struct NamedBy {
  std::set<NodeId>& nodes;

  void operator()(const AddNode&) const {}
  void operator()(const RemoveNode& remove) const { nodes.insert(remove.node); }
  void operator()(const ReplaceNode& replace) const { nodes.insert(replace.node); }
  void operator()(const SetWeight& set) const { nodes.insert(set.node); }
  void operator()(const MoveBuckets& move) const { nodes.insert(move.to); }
  void operator()(const Unpin&) const {}
  void operator()(const Rebalance&) const {}
  void operator()(const SetOverride& set) const {
    nodes.insert(set.nodes.begin(), set.nodes.end());
  }
  void operator()(const RemoveOverride&) const {}
};

absl::Status NoLongerFits(const std::string& what) {
  return absl::AbortedError(fmt::format("{}: plan again", what));
}

absl::Status CheckNodesStillFit(const Preview& preview, const Membership& head) {
  std::set<NodeId> added;
  for (const Node& node : preview.nodes_added) {
    added.insert(node.id);
    if (head.FindNode(node.id).has_value()) {
      return NoLongerFits(fmt::format("'{}' has become a node by now", node.id));
    }
    for (const Node& member : head.nodes()) {
      if (member.address != node.address) continue;
      return NoLongerFits(fmt::format("'{}' has the address of '{}'", member.id, node.id));
    }
  }
  for (const PlannedMove& move : preview.moves) {
    if (added.contains(move.to) || head.FindNode(move.to).has_value()) continue;
    return NoLongerFits(fmt::format("'{}', which would get a part, is no node any more", move.to));
  }
  for (const NodeId& node : preview.nodes_removed) {
    if (!head.FindNode(node).has_value()) {
      return NoLongerFits(fmt::format("'{}' is no node any more", node));
    }
  }
  for (const Reweight& reweight : preview.reweights) {
    const std::optional<NodeIndex> index = head.FindNode(reweight.node);
    if (!index.has_value() || head.nodes()[*index].weight_milli != reweight.before_milli) {
      return NoLongerFits(fmt::format("'{}' has another weight by now", reweight.node));
    }
  }
  return absl::OkStatus();
}

// Applies what others do to who owns what, ends of ranges first. What a named node has that joins
// or leaves by them stays with it: the plan is about that.
Update UpdateOf(const Membership& membership, const std::vector<OtherMigration>& others,
                const std::set<NodeId>& named, Epoch epoch) {
  HashRangeSet stay;
  for (const NodeId& node : named) {
    const bool passes = std::any_of(others.begin(), others.end(), [&](const OtherMigration& other) {
      return JoinOrLeave(*other.preview).contains(node);
    });
    if (!passes) continue;
    const std::optional<NodeIndex> index = membership.FindNode(node);
    if (index.has_value()) stay = stay.Union(membership.OwnedOn(kCommonPlane, *index));
  }
  Update update;
  for (const OtherMigration& other : others) {
    const Preview& preview = *other.preview;
    update.split_at.insert(update.split_at.end(), preview.splits.begin(), preview.splits.end());
    std::set<NodeId> joining;
    for (const Node& node : preview.nodes_added) joining.insert(node.id);
    for (const PlannedMove& move : preview.moves) {
      const HashRangeSet common = move.ranges.On(kCommonPlane).Minus(stay);
      if (common.empty()) continue;
      update.assignments.push_back(
          {common, joining.contains(move.to) ? move.from : move.to, epoch});
    }
  }
  return update;
}

}  // namespace

absl::Status ConflictWith(const Membership& membership, const Preview& preview,
                          const OtherMigration& other) {
  if (!preview.overrides.empty() || !other.preview->overrides.empty()) {
    return InTheWay(other.id, "overrides change while nothing else does");
  }
  if (membership.spec().replication > 1) {
    return InTheWay(other.id, "a keyspace with copies runs one migration at a time");
  }
  const HashRangeSet mine = RangesOf(preview);
  const HashRangeSet theirs = RangesOf(*other.preview);
  if (mine.Intersects(theirs)) {
    return InTheWay(other.id, fmt::format("{:.3f}% of hash space would move in both",
                                          mine.Intersection(theirs).Share() * 100));
  }
  if (std::optional<std::string> node = NodeConflict(preview, *other.preview)) {
    return InTheWay(other.id, *node);
  }
  std::set<NodeId> passing = JoinOrLeave(*other.preview);
  passing.merge(JoinOrLeave(preview));
  for (const Preview* joining : {&preview, other.preview}) {
    if (std::optional<std::string> address = AddressConflict(membership, *joining, passing)) {
      return InTheWay(other.id, *address);
    }
  }
  if (const std::optional<uint32_t> bucket = FirstCommon(Pinned(preview), Pinned(*other.preview))) {
    return InTheWay(other.id, fmt::format("both change the pin of bucket {}", *bucket));
  }
  for (const auto& bucket : {PinnedWhileMoving(membership, preview, theirs),
                             PinnedWhileMoving(membership, *other.preview, mine)}) {
    if (!bucket.has_value()) continue;
    return InTheWay(other.id,
                    fmt::format("bucket {} moves in one and is pinned in the other", *bucket));
  }
  return absl::OkStatus();
}

absl::Status CheckStillFits(const Preview& preview, const Membership& head) {
  if (!preview.overrides.empty() && head.version() != preview.base_version) {
    return NoLongerFits(fmt::format("the membership moved on from version {} to {}",
                                    preview.base_version.value, head.version().value));
  }
  if (!preview.follower_changes.empty() && head.version() != preview.base_version) {
    return NoLongerFits(fmt::format("the followers were planned for version {}, and it is {} now",
                                    preview.base_version.value, head.version().value));
  }
  RETURN_IF_ERROR(CheckNodesStillFit(preview, head));
  std::map<NodeId, std::vector<HashRange>> by_donor;
  for (const PlannedMove& move : preview.moves) {
    const std::vector<HashRange> ranges = move.ranges.On(kCommonPlane).Ranges();
    by_donor[move.from].insert(by_donor[move.from].end(), ranges.begin(), ranges.end());
  }
  for (const auto& [donor, ranges] : by_donor) {
    const std::optional<NodeIndex> index = head.FindNode(donor);
    if (!index.has_value() || !head.OwnedOn(kCommonPlane, *index).Includes(HashRangeSet(ranges))) {
      return NoLongerFits(fmt::format("'{}' does not own all any more that it would give", donor));
    }
  }
  const HashRangeSet mine = RangesOf(preview);
  for (const Move& move : head.moves()) {
    if (!move.ranges.Intersects(mine)) continue;
    return NoLongerFits(
        fmt::format("a range of it moves in migration '{}' by now", move.migration));
  }
  std::set<uint32_t> pinned;
  for (const Pin& pin : head.pins()) pinned.insert(pin.bucket);
  for (const uint32_t bucket : preview.pins_removed) {
    if (pinned.contains(bucket)) continue;
    return NoLongerFits(fmt::format("bucket {} is not pinned any more", bucket));
  }
  return absl::OkStatus();
}

std::set<NodeId> NamedNodes(const MigrationPlan& plan) {
  std::set<NodeId> nodes;
  for (const Change& change : plan.changes) std::visit(NamedBy{nodes}, change);
  return nodes;
}

absl::Status CheckNamedNodes(const MigrationPlan& plan, const std::vector<OtherMigration>& others) {
  const std::set<NodeId> named = NamedNodes(plan);
  for (const OtherMigration& other : others) {
    if (const std::optional<NodeId> node = FirstCommon(named, JoinOrLeave(*other.preview))) {
      return InTheWay(other.id, fmt::format("node '{}' joins or leaves by it", *node));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Membership::Ptr> ExpectedMembership(const Membership& membership,
                                                   const std::vector<OtherMigration>& others,
                                                   const std::set<NodeId>& named) {
  MembershipData data = membership.data();
  data.moves.clear();
  ASSIGN_OR_RETURN(const Membership::Ptr still, Membership::CreateAfter(membership, data));
  ASSIGN_OR_RETURN(
      const Membership::Ptr moved,
      Apply(*still, UpdateOf(membership, others, named, membership.HighestEpoch().Next())));
  std::set<NodeId> passing;
  for (const OtherMigration& other : others) passing.merge(JoinOrLeave(*other.preview));
  Update update;
  for (const Node& node : moved->nodes()) {
    if (!passing.contains(node.id) || named.contains(node.id)) continue;
    if (!moved->OwnedBy(node.id).empty()) continue;
    update.remove_nodes.push_back(node.id);
    for (const Pin& pin : moved->pins()) {
      if (pin.node == node.id) update.remove_pins.push_back(pin.bucket);
    }
  }
  return Apply(*moved, update);
}

}  // namespace warmring
