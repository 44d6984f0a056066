#include "core/placement/initial.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/base/status_macros.h"
#include "core/membership/failure_domain.h"
#include "core/placement/allocator.h"
#include "core/placement/directory_allocator.h"
#include "core/placement/membership_directory.h"
#include "core/placement/preference.h"
#include "core/placement/rendezvous.h"

namespace warmring {
namespace {

absl::Status CheckDomains(const KeyspaceSpec& spec, const std::vector<Node>& nodes) {
  if (spec.replication == 1 || spec.domains.best_effort) return absl::OkStatus();
  std::set<std::string> domains;
  for (const Node& node : nodes) domains.insert(DomainOf(node, spec.domains.level));
  if (domains.size() >= spec.replication) return absl::OkStatus();
  const std::string_view level = DomainLevelName(spec.domains.level);
  return absl::InvalidArgumentError(fmt::format(
      "spec.replication: {} copies need as many {}s, and the {} nodes stand in {}: add nodes in "
      "other {}s, lower the replication, or allow best effort",
      spec.replication, level, nodes.size(), domains.size(), level));
}

}  // namespace

absl::StatusOr<InitialPlacement> PlaceInitially(const KeyspaceSpec& spec, std::vector<Node> nodes,
                                                Epoch epoch) {
  RETURN_IF_ERROR(ValidatePlacementSize(spec, nodes));
  RETURN_IF_ERROR(CheckDomains(spec, nodes));
  std::sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) { return a.id < b.id; });
  if (spec.placement == PlacementKind::kRing) {
    InitialPlacement placement;
    placement.ranges = InitialRanges(spec, nodes, epoch);
    ASSIGN_OR_RETURN(placement.followers, PreferenceLists(spec, nodes, placement.ranges));
    return placement;
  }
  const DirectoryShape shape = DirectoryShapeOf(spec);
  const std::vector<DirectoryNode> members = DirectoryNodesOf(spec, nodes);
  ASSIGN_OR_RETURN(const Directory directory, spec.allocator == Allocator::kRendezvous
                                                  ? AllocateByRendezvous(shape, members)
                                                  : Allocate(shape, members));
  return PlacementOf(directory, epoch);
}

InitialPlacement PlacementOf(const Directory& directory, Epoch epoch) {
  const DirectoryShape& shape = directory.shape;
  InitialPlacement placement;
  placement.ranges.reserve(shape.buckets());
  placement.followers.reserve(shape.slots() - shape.buckets());
  for (uint32_t bucket = 0; bucket < shape.buckets(); ++bucket) {
    placement.ranges.push_back(
        {BucketEnd(shape.bits, bucket), directory.OwnerOf(bucket, 0), epoch});
    for (uint32_t rank = 1; rank < shape.ranks; ++rank) {
      placement.followers.push_back(directory.OwnerOf(bucket, rank));
    }
  }
  return placement;
}

}  // namespace warmring
