#include "core/placement/allocator.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "core/placement/bucket_change.h"
#include "core/placement/deliberate_ring.h"
#include "core/placement/directory_allocator.h"
#include "core/placement/member.h"
#include "core/placement/rendezvous.h"
#include "core/placement/ring_allocator.h"

namespace warmring {
namespace {

// The map has one owner a bucket, so domains do not matter to it.
DirectoryNode DirectoryNodeOf(const Node& node) { return {node.id, node.weight_milli, ""}; }

std::vector<OwnedRange> InitialDirectory(const KeyspaceSpec& spec,
                                         const std::vector<Member>& members, Epoch epoch) {
  std::vector<DirectoryNode> nodes;
  for (const Member& member : members) nodes.push_back(DirectoryNodeOf(*member.node));
  const DirectoryShape shape{spec.directory_bits, 1, true};
  const Directory directory = spec.allocator == Allocator::kRendezvous
                                  ? AllocateByRendezvous(shape, nodes).value()
                                  : Allocate(shape, nodes).value();
  std::vector<OwnedRange> ranges(directory.shape.buckets());
  for (uint32_t bucket = 0; bucket < ranges.size(); ++bucket) {
    ranges[bucket] = {BucketEnd(spec.directory_bits, bucket), directory.OwnerOf(bucket, 0), epoch};
  }
  return ranges;
}

}  // namespace

uint32_t TokensOf(const KeyspaceSpec& spec, const Node& node) {
  const uint64_t tokens = (uint64_t{spec.tokens_per_node} * node.weight_milli + 500) / 1000;
  return static_cast<uint32_t>(std::max<uint64_t>(tokens, 1));
}

absl::Status ValidatePlacementSize(const KeyspaceSpec& spec, const std::vector<Node>& nodes) {
  if (spec.placement == PlacementKind::kDirectory) return absl::OkStatus();
  uint64_t tokens = 0;
  for (const Node& node : nodes) tokens += TokensOf(spec, node);
  if (tokens <= Membership::kMaxRanges) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "tokens: {} nodes with {} tokens for weight 1 need {} tokens, over the limit of {}: lower "
      "tokens_per_node or the weights",
      nodes.size(), spec.tokens_per_node, tokens, Membership::kMaxRanges));
}

std::vector<OwnedRange> InitialRanges(const KeyspaceSpec& spec, const std::vector<Node>& nodes,
                                      Epoch epoch) {
  std::vector<Member> members;
  for (const Node& node : nodes) members.push_back(MemberOf(node));
  std::sort(members.begin(), members.end(),
            [](const Member& a, const Member& b) { return a.node->id < b.node->id; });
  switch (spec.placement) {
    case PlacementKind::kRing:
      return spec.allocator == Allocator::kDeliberate ? InitialDeliberateRing(spec, members, epoch)
                                                      : InitialRing(spec, members, epoch);
    case PlacementKind::kDirectory:
      return InitialDirectory(spec, members, epoch);
  }
  return {};
}

Reallocation Reallocate(const Membership& base, const std::vector<Node>& added,
                        const std::vector<NodeId>& removed) {
  if (base.spec().placement == PlacementKind::kDirectory) {
    BucketChange change;
    change.added = added;
    change.removed = removed;
    return ReallocateBuckets(base, change).value();
  }
  // Members: the nodes of base by their index, then the added ones.
  std::vector<Member> members;
  for (const Node& node : base.nodes()) members.push_back(MemberOf(node));
  for (const Node& node : added) members.push_back(MemberOf(node));
  std::vector<bool> stays(members.size(), true);
  for (const NodeId& id : removed) {
    if (const std::optional<NodeIndex> index = base.FindNode(id)) stays[*index] = false;
  }
  return base.spec().allocator == Allocator::kDeliberate
             ? ReallocateDeliberateRing(base, members, stays)
             : ReallocateRing(base, members, stays);
}

}  // namespace warmring
