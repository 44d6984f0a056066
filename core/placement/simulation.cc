#include "core/placement/simulation.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/base/status_macros.h"
#include "core/placement/allocator.h"
#include "core/placement/directory_allocator.h"
#include "core/placement/initial.h"
#include "core/placement/membership_directory.h"
#include "core/placement/preference.h"
#include "core/placement/rendezvous.h"
#include "core/placement/yardstick.h"

namespace warmring {
namespace {

constexpr double kWholeSpace = 18446744073709551616.0;  // 2^64

double ShareOf(const HashRange& range) {
  return (static_cast<double>(range.SizeMinusOne()) + 1) / kWholeSpace;
}

absl::Status CheckPresent(const Membership& base, std::string_view field, const NodeId& id) {
  if (base.FindNode(id).has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{}: '{}' is not a node: there are {}", field,
                                                Printable(id), base.nodes().size()));
}

// The nodes that result, sorted by id.
absl::StatusOr<std::vector<Node>> NodesAfter(const Membership& base,
                                             const SimulatedChange& change) {
  std::set<NodeId> removed;
  for (const NodeId& id : change.removed) {
    RETURN_IF_ERROR(CheckPresent(base, "remove", id));
    if (!removed.insert(id).second) {
      return absl::InvalidArgumentError(fmt::format("remove: '{}' is named twice", id));
    }
  }
  for (const auto& [id, weight] : change.weight_milli) {
    RETURN_IF_ERROR(CheckPresent(base, "weight", id));
    if (removed.contains(id)) {
      return absl::InvalidArgumentError(fmt::format("weight: '{}' is removed as well", id));
    }
  }
  std::vector<Node> nodes;
  for (const Node& node : base.nodes()) {
    if (removed.contains(node.id)) continue;
    nodes.push_back(node);
    const auto weight = change.weight_milli.find(node.id);
    if (weight != change.weight_milli.end()) nodes.back().weight_milli = weight->second;
  }
  for (const Node& node : change.added) {
    if (base.FindNode(node.id).has_value()) {
      return absl::InvalidArgumentError(
          fmt::format("add: '{}' is a node already", Printable(node.id)));
    }
    nodes.push_back(node);
  }
  if (nodes.empty()) return absl::InvalidArgumentError("remove: the last node: keep one");
  for (const Node& node : nodes) RETURN_IF_ERROR(ValidateNode("node", node));
  std::sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) { return a.id < b.id; });
  for (size_t i = 1; i < nodes.size(); ++i) {
    if (nodes[i - 1].id == nodes[i].id) {
      return absl::InvalidArgumentError(fmt::format("add: '{}' is named twice", nodes[i].id));
    }
  }
  return nodes;
}

// What is pinned to nodes that stay.
ReallocateOptions PinsOf(const Membership& base, const std::vector<Node>& after) {
  ReallocateOptions options;
  for (const Pin& pin : base.pins()) {
    const bool stays = std::any_of(after.begin(), after.end(),
                                   [&](const Node& node) { return node.id == pin.node; });
    if (stays) options.pins.push_back({pin.bucket, ReallocateOptions::Seat{0, pin.node}});
  }
  return options;
}

absl::Status PlaceOnDirectory(const Membership& base, MembershipData& data) {
  const std::vector<DirectoryNode> nodes = DirectoryNodesOf(data.spec, data.nodes);
  ASSIGN_OR_RETURN(const Directory directory,
                   data.spec.allocator == Allocator::kRendezvous
                       ? AllocateByRendezvous(DirectoryShapeOf(data.spec), nodes)
                       : Reallocate(DirectoryOf(base), nodes, PinsOf(base, data.nodes)));
  InitialPlacement placement = PlacementOf(directory, Epoch(1));
  data.ranges = std::move(placement.ranges);
  data.followers = std::move(placement.followers);
  return absl::OkStatus();
}

absl::Status PlaceOnRing(const Membership& base, const SimulatedChange& change,
                         MembershipData& data) {
  if (!change.weight_milli.empty()) {
    return absl::InvalidArgumentError(
        "weight: the tokens of a ring stay where they are: remove the node and add it again, or "
        "use a directory");
  }
  RETURN_IF_ERROR(ValidatePlacementSize(data.spec, data.nodes));
  const Reallocation reallocation = Reallocate(base, change.added, change.removed);
  // Without followers, which are found anew for the ring that results.
  MembershipData bare = base.data();
  bare.spec.replication = 1;
  bare.spec.domains = {};
  bare.followers.clear();
  bare.moves.clear();
  bare.overrides.clear();
  for (OwnedRange& range : bare.ranges) range.epoch = Epoch(1);
  ASSIGN_OR_RETURN(const Membership::Ptr before, Membership::Create(std::move(bare)));
  Update update;
  update.put_nodes = change.added;
  update.split_at = reallocation.splits;
  for (const RangeMove& move : reallocation.moves) {
    update.assignments.push_back({move.ranges, move.to, Epoch(2)});
  }
  update.remove_nodes = change.removed;
  ASSIGN_OR_RETURN(const Membership::Ptr after, Apply(*before, update));
  data.ranges = after->ranges();
  ASSIGN_OR_RETURN(data.followers, PreferenceLists(data.spec, data.nodes, data.ranges));
  return absl::OkStatus();
}

// The copies of the range that holds `point`, by id.
std::set<std::string_view> HoldersAt(const Membership& membership, HashPoint point) {
  const size_t range = membership.RangeIndexOf(point);
  std::set<std::string_view> holders = {membership.nodes()[membership.ranges()[range].owner].id};
  for (const NodeIndex follower : membership.FollowersAt(range)) {
    if (follower != kNoNode) holders.insert(membership.nodes()[follower].id);
  }
  return holders;
}

double CopiedShare(const Membership& before, const Membership& after) {
  std::vector<HashPoint> ends;
  for (const Membership* membership : {&before, &after}) {
    for (const OwnedRange& range : membership->ranges()) ends.push_back(range.end);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  double copied = 0;
  HashPoint start = ends.back();
  for (const HashPoint end : ends) {
    const std::set<std::string_view> had = HoldersAt(before, end);
    const std::set<std::string_view> has = HoldersAt(after, end);
    const auto fresh = std::count_if(has.begin(), has.end(),
                                     [&](std::string_view id) { return !had.contains(id); });
    copied += static_cast<double>(fresh) * ShareOf({start, end});
    start = end;
  }
  return copied;
}

}  // namespace

absl::StatusOr<SimulatedOutcome> Simulate(const Membership& base, const SimulatedChange& change) {
  MembershipData data;
  data.history = base.history();
  data.version = base.version().Next();
  data.spec = base.spec();
  ASSIGN_OR_RETURN(data.nodes, NodesAfter(base, change));
  RETURN_IF_ERROR(data.spec.placement == PlacementKind::kDirectory
                      ? PlaceOnDirectory(base, data)
                      : PlaceOnRing(base, change, data));
  SimulatedOutcome outcome;
  ASSIGN_OR_RETURN(outcome.after, Membership::Create(std::move(data)));
  MembershipData common = base.data();
  common.moves.clear();
  common.overrides.clear();
  ASSIGN_OR_RETURN(const Membership::Ptr before, Membership::Create(std::move(common)));
  outcome.moves = Diff(*before, *outcome.after);
  for (const RangeMove& move : outcome.moves) outcome.moved_share += move.ranges.Share();
  outcome.copied_share = CopiedShare(base, *outcome.after);
  outcome.ideal_share = IdealShare(base.nodes(), outcome.after->nodes());
  outcome.modulo_share = ModuloShare(base.nodes(), outcome.after->nodes());
  outcome.plain_ring_share = PlainRingShare(base.nodes(), outcome.after->nodes());
  return outcome;
}

Balance BalanceOf(const Membership& membership) {
  double weights = 0;
  for (const Node& node : membership.nodes()) weights += node.weight_milli;
  Balance balance;
  for (NodeIndex i = 0; i < membership.nodes().size(); ++i) {
    balance.nodes.push_back({i, 0, membership.nodes()[i].weight_milli / weights, 0, 0});
  }
  for (size_t i = 0; i < membership.ranges().size(); ++i) {
    const double share = ShareOf(membership.RangeAt(i));
    NodeBalance& owner = balance.nodes[membership.ranges()[i].owner];
    owner.owned += share;
    ++owner.ranges;
    for (const NodeIndex follower : membership.FollowersAt(i)) {
      if (follower != kNoNode) balance.nodes[follower].followed += share;
    }
  }
  balance.min_over_mean = 1;
  for (const NodeBalance& node : balance.nodes) {
    balance.max_over_mean = std::max(balance.max_over_mean, node.owned / node.ideal);
    balance.min_over_mean = std::min(balance.min_over_mean, node.owned / node.ideal);
  }
  return balance;
}

}  // namespace warmring
