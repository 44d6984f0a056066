#include "core/placement/preference.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <fmt/format.h>

#include "core/membership/failure_domain.h"

namespace warmring {
namespace {

// Domains of one level as small numbers, by node.
struct Domains {
  std::vector<uint32_t> of_node;
  size_t count = 0;  // of those that own a range
};

Domains DomainsOf(const std::vector<Node>& nodes, const std::vector<bool>& owns,
                  DomainLevel level) {
  Domains domains;
  std::map<std::string, uint32_t> numbers;
  std::set<uint32_t> owning;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto next = static_cast<uint32_t>(numbers.size());
    const uint32_t number = numbers.emplace(DomainOf(nodes[i], level), next).first->second;
    domains.of_node.push_back(number);
    if (owns[i]) owning.insert(number);
  }
  domains.count = owning.size();
  return domains;
}

// The levels that are tried one after the other.
std::vector<Domains> LevelsOf(const KeyspaceSpec& spec, const std::vector<Node>& nodes,
                              const std::vector<OwnedRange>& ranges) {
  std::vector<bool> owns(nodes.size(), false);
  for (const OwnedRange& range : ranges) owns[range.owner] = true;
  std::vector<Domains> levels;
  for (const DomainLevel level : {DomainLevel::kZone, DomainLevel::kRack, DomainLevel::kNode}) {
    if (level > spec.domains.level) continue;
    levels.push_back(DomainsOf(nodes, owns, level));
    if (!spec.domains.best_effort) break;
  }
  return levels;
}

class Walk {
 public:
  Walk(const std::vector<OwnedRange>& ranges, const std::vector<Domains>& levels, size_t copies)
      : ranges_(ranges), levels_(levels), copies_(copies) {}

  // The copies of range `first`, its owner in front; fewer where there are no more nodes.
  const std::vector<NodeIndex>& Of(size_t first) {
    list_ = {ranges_[first].owner};
    for (const Domains& domains : levels_) {
      if (list_.size() < copies_) Fill(first, domains);
    }
    return list_;
  }

 private:
  // A walk ends early once every domain of the level is on the list.
  void Fill(size_t first, const Domains& domains) {
    used_.clear();
    for (const NodeIndex node : list_) AddUsed(domains.of_node[node]);
    for (size_t step = 1; step < ranges_.size(); ++step) {
      if (list_.size() == copies_ || used_.size() == domains.count) return;
      const size_t at =
          first + step < ranges_.size() ? first + step : first + step - ranges_.size();
      const NodeIndex node = ranges_[at].owner;
      if (AddUsed(domains.of_node[node])) list_.push_back(node);
    }
  }

  bool AddUsed(uint32_t domain) {
    if (std::find(used_.begin(), used_.end(), domain) != used_.end()) return false;
    used_.push_back(domain);
    return true;
  }

  const std::vector<OwnedRange>& ranges_;
  const std::vector<Domains>& levels_;
  const size_t copies_;
  std::vector<NodeIndex> list_;
  std::vector<uint32_t> used_;  // at most as many as copies: a scan is faster than a set
};

}  // namespace

absl::StatusOr<std::vector<NodeIndex>> PreferenceLists(const KeyspaceSpec& spec,
                                                       const std::vector<Node>& nodes,
                                                       const std::vector<OwnedRange>& ranges) {
  const size_t followers = spec.replication - 1;
  if (followers == 0) return std::vector<NodeIndex>();
  const std::vector<Domains> levels = LevelsOf(spec, nodes, ranges);
  if (!spec.domains.best_effort && levels.front().count < spec.replication) {
    return absl::InvalidArgumentError(fmt::format(
        "spec.replication: {} copies need as many {}s, and {} own a range: add nodes in other {}s, "
        "lower the replication, or allow best effort",
        spec.replication, DomainLevelName(spec.domains.level), levels.front().count,
        DomainLevelName(spec.domains.level)));
  }
  std::vector<NodeIndex> lists(ranges.size() * followers, kNoNode);
  Walk walk(ranges, levels, spec.replication);
  for (size_t i = 0; i < ranges.size(); ++i) {
    const std::vector<NodeIndex>& list = walk.Of(i);
    std::copy(list.begin() + 1, list.end(),
              lists.begin() + static_cast<std::ptrdiff_t>(i * followers));
  }
  return lists;
}

size_t CountDomainViolations(const Membership& membership) {
  if (membership.spec().replication == 1) return 0;
  std::vector<std::string> domains;
  for (const Node& node : membership.nodes()) {
    domains.push_back(DomainOf(node, membership.spec().domains.level));
  }
  size_t violations = 0;
  std::vector<NodeIndex> copies;
  for (size_t i = 0; i < membership.ranges().size(); ++i) {
    copies = {membership.ranges()[i].owner};
    for (const NodeIndex follower : membership.FollowersAt(i)) {
      const bool broken =
          follower == kNoNode || std::any_of(copies.begin(), copies.end(), [&](NodeIndex copy) {
            return domains[copy] == domains[follower];
          });
      if (broken) ++violations;
      if (follower != kNoNode) copies.push_back(follower);
    }
  }
  return violations;
}

}  // namespace warmring
