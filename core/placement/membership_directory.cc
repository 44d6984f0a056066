#include "core/placement/membership_directory.h"

#include "core/membership/failure_domain.h"

namespace warmring {

static_assert(kNoNode == Directory::kNoNode);

DirectoryShape DirectoryShapeOf(const KeyspaceSpec& spec) {
  return {spec.directory_bits, spec.replication, !spec.domains.best_effort};
}

std::vector<DirectoryNode> DirectoryNodesOf(const KeyspaceSpec& spec,
                                            const std::vector<Node>& nodes) {
  std::vector<DirectoryNode> members;
  members.reserve(nodes.size());
  for (const Node& node : nodes) {
    members.push_back({node.id, node.weight_milli, DomainOf(node, spec.domains.level)});
  }
  return members;
}

Directory DirectoryOf(const Membership& membership) {
  Directory directory{DirectoryShapeOf(membership.spec()),
                      DirectoryNodesOf(membership.spec(), membership.nodes()),
                      {}};
  directory.owner.reserve(directory.shape.slots());
  for (size_t i = 0; i < membership.ranges().size(); ++i) {
    directory.owner.push_back(membership.ranges()[i].owner);
    for (const NodeIndex follower : membership.FollowersAt(i)) directory.owner.push_back(follower);
  }
  return directory;
}

}  // namespace warmring
