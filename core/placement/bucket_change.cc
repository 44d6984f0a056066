#include "core/placement/bucket_change.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "core/base/status_macros.h"
#include "core/placement/member.h"
#include "core/placement/rendezvous.h"

namespace warmring {
namespace {

using Balance = ReallocateOptions::Balance;

// The map has one owner a bucket, so domains do not matter to it.
DirectoryNode DirectoryNodeOf(const Node& node) { return {node.id, node.weight_milli, ""}; }

Directory DirectoryBefore(const Membership& base) {
  Directory before{{base.spec().directory_bits, 1, true}, {}, {}};
  for (const Node& node : base.nodes()) before.nodes.push_back(DirectoryNodeOf(node));
  for (const OwnedRange& range : base.ranges()) before.owner.push_back(range.owner);
  return before;
}

std::vector<DirectoryNode> NodesAfter(const Membership& base, const BucketChange& change) {
  const std::set<std::string_view> removed(change.removed.begin(), change.removed.end());
  std::vector<DirectoryNode> nodes;
  for (const Node& node : base.nodes()) {
    if (removed.contains(node.id)) continue;
    nodes.push_back(DirectoryNodeOf(node));
    const auto weight = change.weight_milli.find(node.id);
    if (weight != change.weight_milli.end()) nodes.back().weight_milli = weight->second;
  }
  for (const Node& node : change.added) nodes.push_back(DirectoryNodeOf(node));
  std::sort(nodes.begin(), nodes.end(),
            [](const DirectoryNode& a, const DirectoryNode& b) { return a.id < b.id; });
  return nodes;
}

uint32_t IndexOf(const std::vector<DirectoryNode>& nodes, std::string_view id) {
  const auto at = std::lower_bound(
      nodes.begin(), nodes.end(), id,
      [](const DirectoryNode& node, std::string_view key) { return node.id < key; });
  return at == nodes.end() || at->id != id ? Directory::kNoNode
                                           : static_cast<uint32_t>(at - nodes.begin());
}

absl::Status CheckPlaced(const BucketChange& change, uint32_t buckets,
                         const std::vector<DirectoryNode>& nodes) {
  std::set<uint32_t> seen;
  for (const BucketChange::Placed& placed : change.placed) {
    if (placed.bucket >= buckets) {
      return absl::InvalidArgumentError(
          fmt::format("placed: there is no bucket {}: use 0 to {}", placed.bucket, buckets - 1));
    }
    if (!seen.insert(placed.bucket).second) {
      return absl::InvalidArgumentError(
          fmt::format("placed: bucket {} is placed twice", placed.bucket));
    }
    if (IndexOf(nodes, placed.to) == Directory::kNoNode) {
      return absl::InvalidArgumentError(
          fmt::format("placed: there is no node '{}' after this change", Printable(placed.to)));
    }
  }
  return absl::OkStatus();
}

// Pins of the base that hold and are not overruled: sorted buckets.
std::vector<uint32_t> KeptPins(const Membership& base, const BucketChange& change) {
  std::set<uint32_t> overruled(change.unpinned.begin(), change.unpinned.end());
  for (const BucketChange::Placed& placed : change.placed) overruled.insert(placed.bucket);
  std::vector<uint32_t> kept;
  for (const Pin& pin : base.pins()) {
    if (!overruled.contains(pin.bucket)) kept.push_back(pin.bucket);
  }
  return kept;
}

absl::StatusOr<Directory> Taken(const Directory& before, const std::vector<DirectoryNode>& nodes,
                                const std::vector<uint32_t>& kept, const BucketChange& change) {
  ReallocateOptions options;
  for (const BucketChange::Placed& placed : change.placed) {
    options.pins.push_back({placed.bucket, ReallocateOptions::Seat{0, placed.to}});
  }
  for (const uint32_t bucket : kept) options.pins.push_back({bucket, std::nullopt});
  options.balance = change.balance;
  options.heat = change.load;
  options.heat_tolerance_ppm = change.load_tolerance_ppm;
  return Reallocate(before, nodes, options);
}

absl::StatusOr<Directory> Recomputed(const Directory& before,
                                     const std::vector<DirectoryNode>& nodes,
                                     const std::vector<uint32_t>& kept,
                                     const BucketChange& change) {
  if (!change.load.empty()) {
    return absl::InvalidArgumentError(
        "load: rendezvous decides by names and weights alone: use the standard allocator");
  }
  ASSIGN_OR_RETURN(Directory after, AllocateByRendezvous(before.shape, nodes));
  std::vector<uint32_t> index_after;  // of the nodes before
  for (const DirectoryNode& node : before.nodes) index_after.push_back(IndexOf(nodes, node.id));
  const auto keep = [&](uint32_t bucket) {
    const uint32_t stays = index_after[before.owner[bucket]];
    if (stays != Directory::kNoNode) after.owner[bucket] = stays;
  };
  if (change.balance == Balance::kNothing) {
    for (uint32_t bucket = 0; bucket < after.owner.size(); ++bucket) keep(bucket);
  }
  for (const uint32_t bucket : kept) keep(bucket);
  for (const BucketChange::Placed& placed : change.placed) {
    after.owner[placed.bucket] = IndexOf(nodes, placed.to);
  }
  return after;
}

}  // namespace

absl::StatusOr<Reallocation> ReallocateBuckets(const Membership& base, const BucketChange& change) {
  const Directory before = DirectoryBefore(base);
  const std::vector<DirectoryNode> nodes = NodesAfter(base, change);
  RETURN_IF_ERROR(CheckPlaced(change, before.shape.buckets(), nodes));
  const std::vector<uint32_t> kept = KeptPins(base, change);
  ASSIGN_OR_RETURN(const Directory after, base.spec().allocator == Allocator::kRendezvous
                                              ? Recomputed(before, nodes, kept, change)
                                              : Taken(before, nodes, kept, change));
  // Members: the nodes of base by their index, then the added ones.
  std::vector<Member> members;
  for (const Node& node : base.nodes()) members.push_back(MemberOf(node));
  for (const Node& node : change.added) members.push_back(MemberOf(node));
  std::map<std::string_view, uint32_t> member_of;
  for (uint32_t i = 0; i < members.size(); ++i) member_of[members[i].node->id] = i;
  std::vector<uint32_t> member_after;  // by index into after.nodes
  for (const DirectoryNode& node : after.nodes) member_after.push_back(member_of.at(node.id));

  Flows flows;
  for (uint32_t bucket = 0; bucket < before.owner.size(); ++bucket) {
    const uint32_t from = before.owner[bucket];
    const uint32_t to = member_after[after.owner[bucket]];
    if (from != to) flows[{from, to}].push_back(base.RangeAt(bucket));
  }
  return Reallocation{{}, MovesOf(flows, members)};
}

}  // namespace warmring
