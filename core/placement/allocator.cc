#include "core/placement/allocator.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "core/placement/directory_allocator.h"
#include "core/placement/member.h"
#include "core/placement/ring_allocator.h"

namespace warmring {
namespace {

// The map has one owner a bucket, so domains do not matter to it.
DirectoryNode DirectoryNodeOf(const Node& node) { return {node.id, node.weight_milli, ""}; }

std::vector<OwnedRange> InitialDirectory(const KeyspaceSpec& spec,
                                         const std::vector<Member>& members, Epoch epoch) {
  std::vector<DirectoryNode> nodes;
  for (const Member& member : members) nodes.push_back(DirectoryNodeOf(*member.node));
  const Directory directory = Allocate({spec.directory_bits, 1, true}, nodes).value();
  std::vector<OwnedRange> ranges(directory.shape.buckets());
  for (uint32_t bucket = 0; bucket < ranges.size(); ++bucket) {
    ranges[bucket] = {BucketEnd(spec.directory_bits, bucket), directory.OwnerOf(bucket, 0), epoch};
  }
  return ranges;
}

Reallocation ReallocateDirectory(const Membership& base, const std::vector<Member>& members,
                                 const std::vector<bool>& stays) {
  Directory before{{base.spec().directory_bits, 1, true}, {}, {}};
  for (const Node& node : base.nodes()) before.nodes.push_back(DirectoryNodeOf(node));
  for (const OwnedRange& range : base.ranges()) before.owner.push_back(range.owner);

  std::vector<DirectoryNode> nodes;
  std::map<std::string_view, uint32_t> member_of;
  for (uint32_t i = 0; i < members.size(); ++i) {
    if (!stays[i]) continue;
    nodes.push_back(DirectoryNodeOf(*members[i].node));
    member_of[members[i].node->id] = i;
  }
  ReallocateOptions options;
  options.balance = ReallocateOptions::Balance::kAddedOnly;
  const Directory after = Reallocate(before, nodes, options).value();

  Flows flows;
  for (uint32_t bucket = 0; bucket < before.owner.size(); ++bucket) {
    const uint32_t from = before.owner[bucket];
    const uint32_t to = member_of.at(after.nodes[after.owner[bucket]].id);
    if (from != to) flows[{from, to}].push_back(base.RangeAt(bucket));
  }
  return {{}, MovesOf(flows, members)};
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
      return InitialRing(spec, members, epoch);
    case PlacementKind::kDirectory:
      return InitialDirectory(spec, members, epoch);
  }
  return {};
}

Reallocation Reallocate(const Membership& base, const std::vector<Node>& added,
                        const std::vector<NodeId>& removed) {
  // Members: the nodes of base by their index, then the added ones.
  std::vector<Member> members;
  for (const Node& node : base.nodes()) members.push_back(MemberOf(node));
  for (const Node& node : added) members.push_back(MemberOf(node));
  std::vector<bool> stays(members.size(), true);
  for (const NodeId& id : removed) {
    if (const std::optional<NodeIndex> index = base.FindNode(id)) stays[*index] = false;
  }
  switch (base.spec().placement) {
    case PlacementKind::kRing:
      return ReallocateRing(base, members, stays);
    case PlacementKind::kDirectory:
      return ReallocateDirectory(base, members, stays);
  }
  return {};
}

}  // namespace warmring
