#include "core/placement/bucket_change.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "core/base/status_macros.h"
#include "core/membership/failure_domain.h"
#include "core/placement/member.h"
#include "core/placement/membership_directory.h"
#include "core/placement/rendezvous.h"

namespace warmring {
namespace {

using Balance = ReallocateOptions::Balance;

// Where a bucket has an owner and no followers, domains do not matter.
DirectoryNode DirectoryNodeOf(const KeyspaceSpec& spec, const Node& node) {
  return {node.id, node.weight_milli,
          spec.replication == 1 ? std::string() : DomainOf(node, spec.domains.level)};
}

Directory DirectoryBefore(const Membership& base) {
  Directory before = DirectoryOf(base);
  for (size_t i = 0; i < before.nodes.size(); ++i) {
    before.nodes[i] = DirectoryNodeOf(base.spec(), base.nodes()[i]);
  }
  if (before.shape.ranks == 1) before.shape.strict = true;
  return before;
}

std::vector<DirectoryNode> NodesAfter(const Membership& base, const BucketChange& change) {
  const std::set<std::string_view> removed(change.removed.begin(), change.removed.end());
  std::vector<DirectoryNode> nodes;
  for (const Node& node : base.nodes()) {
    if (removed.contains(node.id)) continue;
    nodes.push_back(DirectoryNodeOf(base.spec(), node));
    const auto weight = change.weight_milli.find(node.id);
    if (weight != change.weight_milli.end()) nodes.back().weight_milli = weight->second;
  }
  for (const Node& node : change.added) nodes.push_back(DirectoryNodeOf(base.spec(), node));
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

// Who has a copy of the bucket already changes places with its owner.
void PutFirst(uint32_t bucket, uint32_t node, Directory& directory) {
  const auto row =
      directory.owner.begin() + static_cast<std::ptrdiff_t>(size_t{bucket} * directory.shape.ranks);
  const auto end = row + static_cast<std::ptrdiff_t>(directory.shape.ranks);
  const auto at = std::find(row, end, node);
  if (at == end) {
    *row = node;
  } else {
    std::iter_swap(row, at);
  }
}

absl::StatusOr<Directory> Taken(Directory before, const std::vector<DirectoryNode>& nodes,
                                const std::vector<uint32_t>& kept, const BucketChange& change) {
  ReallocateOptions options;
  for (const BucketChange::Placed& placed : change.placed) {
    const uint32_t node = IndexOf(before.nodes, placed.to);
    if (node == Directory::kNoNode) continue;
    const auto row = before.owner.begin() +
                     static_cast<std::ptrdiff_t>(size_t{placed.bucket} * before.shape.ranks);
    const auto end = row + static_cast<std::ptrdiff_t>(before.shape.ranks);
    if (std::find(row, end, node) != end) PutFirst(placed.bucket, node, before);
  }
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
  const uint32_t ranks = before.shape.ranks;
  // The bucket as it is, or where one of its nodes is gone, at least its owner.
  const auto keep = [&](uint32_t bucket) {
    std::vector<uint32_t> row;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const uint32_t node = before.OwnerOf(bucket, rank);
      if (node != Directory::kNoNode && index_after[node] == Directory::kNoNode) break;
      row.push_back(node == Directory::kNoNode ? node : index_after[node]);
    }
    if (row.size() == ranks) {
      std::copy(row.begin(), row.end(),
                after.owner.begin() + static_cast<std::ptrdiff_t>(size_t{bucket} * ranks));
    } else if (!row.empty()) {
      PutFirst(bucket, row.front(), after);
    }
  };
  if (change.balance == Balance::kNothing) {
    for (uint32_t bucket = 0; bucket < after.shape.buckets(); ++bucket) keep(bucket);
  }
  for (const uint32_t bucket : kept) keep(bucket);
  for (const BucketChange::Placed& placed : change.placed) {
    PutFirst(placed.bucket, IndexOf(nodes, placed.to), after);
  }
  return after;
}

}  // namespace

absl::StatusOr<Directory> DirectoryAfter(const Membership& base, const BucketChange& change) {
  const Directory before = DirectoryBefore(base);
  const std::vector<DirectoryNode> nodes = NodesAfter(base, change);
  RETURN_IF_ERROR(CheckPlaced(change, before.shape.buckets(), nodes));
  const std::vector<uint32_t> kept = KeptPins(base, change);
  return base.spec().allocator == Allocator::kRendezvous ? Recomputed(before, nodes, kept, change)
                                                         : Taken(before, nodes, kept, change);
}

absl::StatusOr<Reallocation> ReallocateBuckets(const Membership& base, const BucketChange& change) {
  ASSIGN_OR_RETURN(const Directory after, DirectoryAfter(base, change));
  // Members: the nodes of base by their index, then the added ones.
  std::vector<Member> members;
  for (const Node& node : base.nodes()) members.push_back(MemberOf(node));
  for (const Node& node : change.added) members.push_back(MemberOf(node));
  std::map<std::string_view, uint32_t> member_of;
  for (uint32_t i = 0; i < members.size(); ++i) member_of[members[i].node->id] = i;
  std::vector<uint32_t> member_after;  // by index into after.nodes
  for (const DirectoryNode& node : after.nodes) member_after.push_back(member_of.at(node.id));

  Flows flows;
  for (uint32_t bucket = 0; bucket < after.shape.buckets(); ++bucket) {
    const uint32_t from = base.ranges()[bucket].owner;
    const uint32_t to = member_after[after.OwnerOf(bucket, 0)];
    if (from != to) flows[{from, to}].push_back(base.RangeAt(bucket));
  }
  return Reallocation{{}, MovesOf(flows, members)};
}

}  // namespace warmring
