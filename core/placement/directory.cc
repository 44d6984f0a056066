#include "core/placement/directory.h"

#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "core/base/hash_range.h"
#include "core/base/status_macros.h"
#include "core/placement/directory_targets.h"

namespace warmring {
namespace {

absl::Status ValidateShape(const DirectoryShape& shape) {
  if (shape.bits > DirectoryShape::kMaxBits) {
    return absl::InvalidArgumentError(fmt::format("bits: {} is out of bounds: use 0 to {}",
                                                  shape.bits, DirectoryShape::kMaxBits));
  }
  if (shape.ranks < 1 || shape.ranks > DirectoryShape::kMaxRanks) {
    return absl::InvalidArgumentError(fmt::format("ranks: {} is out of bounds: use 1 to {}",
                                                  shape.ranks, DirectoryShape::kMaxRanks));
  }
  return absl::OkStatus();
}

// Whether `node` stands at any rank of the bucket.
bool Holds(const Directory& directory, uint32_t bucket, uint32_t node) {
  for (uint32_t r = 0; r < directory.shape.ranks; ++r) {
    if (directory.OwnerOf(bucket, r) == node) return true;
  }
  return false;
}

absl::Status ValidateOwners(const Directory& directory) {
  const DirectoryShape& shape = directory.shape;
  if (directory.owner.size() != shape.slots()) {
    return absl::InvalidArgumentError(
        fmt::format("owner: has {} entries: {} buckets with {} ranks need {}",
                    directory.owner.size(), shape.buckets(), shape.ranks, shape.slots()));
  }
  const auto placed = std::min<size_t>(directory.nodes.size(), shape.ranks);
  for (uint32_t bucket = 0; bucket < shape.buckets(); ++bucket) {
    for (uint32_t r = 0; r < shape.ranks; ++r) {
      const uint32_t node = directory.OwnerOf(bucket, r);
      if (node == Directory::kNoNode && r >= placed && !shape.strict) continue;
      if (node >= directory.nodes.size()) {
        return absl::InvalidArgumentError(
            fmt::format("owner: bucket {} rank {} has node {}: there are {} nodes", bucket, r, node,
                        directory.nodes.size()));
      }
      for (uint32_t other = 0; other < r; ++other) {
        if (directory.OwnerOf(bucket, other) != node) continue;
        return absl::InvalidArgumentError(
            fmt::format("owner: bucket {} has node '{}' at ranks {} and {}: ranks are different "
                        "nodes",
                        bucket, Printable(directory.nodes[node].id), other, r));
      }
    }
  }
  return absl::OkStatus();
}

// For each node of `before` its index in `after`, or kNoNode.
std::vector<uint32_t> Translate(const Directory& before, const Directory& after) {
  std::vector<uint32_t> result;
  size_t at = 0;
  for (const DirectoryNode& node : before.nodes) {
    while (at < after.nodes.size() && after.nodes[at].id < node.id) ++at;
    const bool found = at < after.nodes.size() && after.nodes[at].id == node.id;
    result.push_back(found ? static_cast<uint32_t>(at) : Directory::kNoNode);
  }
  return result;
}

// Calls f(bucket, bucket of before, rank, from, to) for each slot that changes hands.
template <typename F>
void ForEachChange(const Directory& before, const Directory& after, F&& f) {
  const std::vector<uint32_t> translation = Translate(before, after);
  const uint32_t finer = after.shape.bits - before.shape.bits;
  for (uint32_t bucket = 0; bucket < after.shape.buckets(); ++bucket) {
    for (uint32_t r = 0; r < after.shape.ranks; ++r) {
      const uint32_t from = before.OwnerOf(bucket >> finer, r);
      const uint32_t to = after.OwnerOf(bucket, r);
      const bool was_node = from != Directory::kNoNode;
      // A node that is gone is a change even if nobody took its place.
      if (was_node ? translation[from] == to && to != Directory::kNoNode
                   : to == Directory::kNoNode) {
        continue;
      }
      f(bucket, bucket >> finer, r, from, to);
    }
  }
}

}  // namespace

absl::Status ValidateDirectoryInput(const DirectoryShape& shape,
                                    const std::vector<DirectoryNode>& nodes) {
  RETURN_IF_ERROR(ValidateShape(shape));
  if (nodes.empty() || nodes.size() > Directory::kMaxNodes) {
    return absl::InvalidArgumentError(
        fmt::format("nodes: there are {}: use 1 to {}", nodes.size(), Directory::kMaxNodes));
  }
  std::vector<std::string_view> ids;
  for (const DirectoryNode& node : nodes) {
    if (node.id.empty()) return absl::InvalidArgumentError("nodes: an id is empty: name each node");
    if (node.weight_milli < DirectoryNode::kMinWeightMilli ||
        node.weight_milli > DirectoryNode::kMaxWeightMilli) {
      return absl::InvalidArgumentError(fmt::format(
          "nodes: the weight of '{}' is {} thousandths: use {} to {}, and remove a node that "
          "should own nothing",
          Printable(node.id), node.weight_milli, DirectoryNode::kMinWeightMilli,
          DirectoryNode::kMaxWeightMilli));
    }
    ids.push_back(node.id);
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end()) {
    return absl::InvalidArgumentError(
        fmt::format("nodes: '{}' is there twice: name each node once", Printable(*twice)));
  }
  return absl::OkStatus();
}

absl::Status ValidateDomains(const DirectoryShape& shape, const std::vector<DirectoryNode>& nodes) {
  const uint32_t domains = NumberDomains(nodes).count;
  if (!shape.strict || domains >= shape.ranks) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "ranks: {} replicas on distinct domains need as many domains, and {} nodes stand "
      "in {}: add nodes in other domains, lower the replication, or use the best-effort "
      "rule",
      shape.ranks, nodes.size(), domains));
}

absl::Status ValidateDirectory(const Directory& directory) {
  RETURN_IF_ERROR(ValidateDirectoryInput(directory.shape, directory.nodes));
  for (size_t i = 1; i < directory.nodes.size(); ++i) {
    if (directory.nodes[i].id < directory.nodes[i - 1].id) {
      return absl::InvalidArgumentError(
          fmt::format("nodes: '{}' stands after '{}': sort them by id",
                      Printable(directory.nodes[i].id), Printable(directory.nodes[i - 1].id)));
    }
  }
  return ValidateOwners(directory);
}

DomainNumbers NumberDomains(const std::vector<DirectoryNode>& nodes) {
  DomainNumbers numbers;
  std::map<std::string_view, uint32_t> named;
  for (const DirectoryNode& node : nodes) {
    if (node.domain.empty()) {
      numbers.of_node.push_back(numbers.count++);
      continue;
    }
    const auto [at, added] = named.emplace(node.domain, numbers.count);
    if (added) ++numbers.count;
    numbers.of_node.push_back(at->second);
  }
  return numbers;
}

bool operator<(const Ratio& a, const Ratio& b) {
  using Wide = HashMeasure;
  return Wide{a.numerator} * b.denominator < Wide{b.numerator} * a.denominator;
}

std::vector<uint64_t> SlotsPerNode(const Directory& directory, std::optional<uint32_t> rank) {
  std::vector<uint64_t> slots(directory.nodes.size(), 0);
  const size_t step = rank.has_value() ? directory.shape.ranks : 1;
  for (size_t i = rank.value_or(0); i < directory.owner.size(); i += step) {
    if (directory.owner[i] != Directory::kNoNode) ++slots[directory.owner[i]];
  }
  return slots;
}

DirectoryBalance BalanceOf(const Directory& directory, std::optional<uint32_t> rank) {
  const std::vector<uint64_t> slots = SlotsPerNode(directory, rank);
  const std::vector<Ratio> shares = FillShares(NaturalTargets(directory.shape, directory.nodes));
  const uint64_t parts =
      rank.has_value() ? std::min<uint64_t>(directory.shape.ranks, directory.nodes.size()) : 1;
  DirectoryBalance balance;
  for (uint32_t i = 0; i < slots.size(); ++i) {
    const Ratio ratio{slots[i] * shares[i].denominator * parts, shares[i].numerator};
    if (i == 0 || balance.max < ratio) {
      balance.max = ratio;
      balance.max_node = i;
    }
    if (i == 0 || ratio < balance.min) {
      balance.min = ratio;
      balance.min_node = i;
    }
  }
  return balance;
}

uint64_t CountViolations(const Directory& directory) {
  const DomainNumbers domains = NumberDomains(directory.nodes);
  uint64_t violations = 0;
  for (uint32_t bucket = 0; bucket < directory.shape.buckets(); ++bucket) {
    for (uint32_t r = 0; r < directory.shape.ranks; ++r) {
      const uint32_t node = directory.OwnerOf(bucket, r);
      bool violated = node == Directory::kNoNode;
      for (uint32_t other = 0; other < r && !violated; ++other) {
        const uint32_t with = directory.OwnerOf(bucket, other);
        violated = with != Directory::kNoNode && domains.of_node[with] == domains.of_node[node];
      }
      if (violated) ++violations;
    }
  }
  return violations;
}

std::vector<SlotChange> ChangesBetween(const Directory& before, const Directory& after) {
  std::vector<SlotChange> changes;
  ForEachChange(before, after,
                [&](uint32_t bucket, uint32_t, uint32_t rank, uint32_t from, uint32_t to) {
                  SlotChange change{bucket, rank, {}, {}};
                  if (from != Directory::kNoNode) change.from = before.nodes[from].id;
                  if (to != Directory::kNoNode) change.to = after.nodes[to].id;
                  changes.push_back(std::move(change));
                });
  return changes;
}

DirectoryMovement MovementBetween(const Directory& before, const Directory& after) {
  const std::vector<uint32_t> back = Translate(after, before);
  DirectoryMovement movement;
  ForEachChange(
      before, after, [&](uint32_t, uint32_t bucket_before, uint32_t, uint32_t, uint32_t to) {
        if (to == Directory::kNoNode) return;
        const bool held = back[to] != Directory::kNoNode && Holds(before, bucket_before, back[to]);
        ++(held ? movement.role_changes : movement.moved_slots);
      });
  return movement;
}

absl::StatusOr<Directory> Grow(const Directory& directory, uint32_t bits) {
  DirectoryShape shape = directory.shape;
  shape.bits = bits;
  RETURN_IF_ERROR(ValidateShape(shape));
  if (bits < directory.shape.bits) {
    return absl::InvalidArgumentError(
        fmt::format("bits: {} is less than the {} that the directory has: it only grows", bits,
                    directory.shape.bits));
  }
  Directory grown{shape, directory.nodes, {}};
  grown.owner.reserve(shape.slots());
  const uint32_t finer = bits - directory.shape.bits;
  for (uint32_t bucket = 0; bucket < shape.buckets(); ++bucket) {
    for (uint32_t r = 0; r < shape.ranks; ++r) {
      grown.owner.push_back(directory.OwnerOf(bucket >> finer, r));
    }
  }
  return grown;
}

}  // namespace warmring
