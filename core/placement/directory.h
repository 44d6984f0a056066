#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/ids.h"

// The bucket directory: who holds each of 2^bits buckets at each replica rank. Plain values and
// exact measures of them; pure, any thread. Who decides it: directory_allocator.h, rendezvous.h.

namespace warmring {

struct DirectoryShape {
  static constexpr uint32_t kMaxBits = 20;
  static constexpr uint32_t kMaxRanks = 16;

  uint32_t bits = 14;  // 0..kMaxBits; the bucket of a hash is its top bits
  uint32_t ranks = 1;  // 1..kMaxRanks; rank 0 is the primary
  // Strict: never two ranks of a bucket in one domain. Otherwise only where there is no other way.
  bool strict = true;

  uint32_t buckets() const { return uint32_t{1} << bits; }
  uint64_t slots() const { return uint64_t{buckets()} * ranks; }
  friend bool operator==(const DirectoryShape&, const DirectoryShape&) = default;
};

// A node as the allocators see it.
struct DirectoryNode {
  static constexpr uint32_t kMinWeightMilli = 1;
  static constexpr uint32_t kMaxWeightMilli = 1'000'000;

  NodeId id;
  uint32_t weight_milli = 1000;
  // What fails together (a zone, a rack). Empty: the node alone; it equals no other domain.
  std::string domain;
  friend bool operator==(const DirectoryNode&, const DirectoryNode&) = default;
};

struct Directory {
  static constexpr uint32_t kNoNode = UINT32_MAX;
  static constexpr size_t kMaxNodes = 100'000;

  DirectoryShape shape;
  std::vector<DirectoryNode> nodes;  // sorted by id, unique, at least one
  // owner[bucket * ranks + rank] is an index into nodes. The ranks of a bucket are different nodes.
  // kNoNode only in the last ranks, when there are fewer nodes than ranks and it is not strict.
  std::vector<uint32_t> owner;

  uint32_t OwnerOf(uint32_t bucket, uint32_t rank) const {
    return owner[size_t{bucket} * shape.ranks + rank];
  }
  friend bool operator==(const Directory&, const Directory&) = default;
};

// Ok, or InvalidArgument: bits or ranks out of bounds; no node, too many, an empty id, one that is
// there twice, or a weight out of bounds; naming the field, the value and the bound. The order of
// the nodes does not matter.
absl::Status ValidateDirectoryInput(const DirectoryShape& shape,
                                    const std::vector<DirectoryNode>& nodes);

// Ok unless it is strict and there are fewer domains than ranks: InvalidArgument with both counts
// and the ways out. REQUIRES: ValidateDirectoryInput is ok.
absl::Status ValidateDomains(const DirectoryShape& shape, const std::vector<DirectoryNode>& nodes);

// A directory as it should be: the input, the order of the nodes, every owner. Domains may be
// violated: see CountViolations.
absl::Status ValidateDirectory(const Directory& directory);

// Domain of each node as a number from 0; nodes with an empty domain have one each.
// `count` is how many there are.
struct DomainNumbers {
  std::vector<uint32_t> of_node;
  uint32_t count = 0;
};
DomainNumbers NumberDomains(const std::vector<DirectoryNode>& nodes);

// numerator / denominator, not reduced; both below 2^62.
struct Ratio {
  uint64_t numerator = 0;
  uint64_t denominator = 1;
};
bool operator<(const Ratio& a, const Ratio& b);

// Number of slots that each node holds, at one rank or at all.
std::vector<uint64_t> SlotsPerNode(const Directory& directory, std::optional<uint32_t> rank);

// What the fullest and the emptiest node hold, relative to their shares (by weight, within what
// the domains allow: see directory_targets.h): 1/1 is perfect. max is the "max/mean" of the
// literature when weights are equal.
struct DirectoryBalance {
  Ratio max;
  Ratio min;
  uint32_t max_node = 0;  // the first with that ratio
  uint32_t min_node = 0;
};
// REQUIRES: `directory` valid.
DirectoryBalance BalanceOf(const Directory& directory, std::optional<uint32_t> rank);

// Slots whose domain also holds a lower rank of the same bucket, plus slots without an owner.
uint64_t CountViolations(const Directory& directory);

// A slot whose owner differs; nodes are named by their ids, empty for kNoNode.
struct SlotChange {
  uint32_t bucket = 0;
  uint32_t rank = 0;
  NodeId from;
  NodeId to;
  friend bool operator==(const SlotChange&, const SlotChange&) = default;
};
// In the order of (bucket, rank), in buckets of `after`. REQUIRES: both valid, the same number of
// ranks, `before` has at most the bits of `after`.
std::vector<SlotChange> ChangesBetween(const Directory& before, const Directory& after);

// How much that is. A moved slot is a bucket that a node did not hold at any rank and now does:
// its data has to travel. A slot that changes hands between two holders of the bucket is a role
// change and moves nothing.
struct DirectoryMovement {
  uint64_t moved_slots = 0;
  uint64_t role_changes = 0;
};
// REQUIRES: as for ChangesBetween.
DirectoryMovement MovementBetween(const Directory& before, const Directory& after);

// The same owners with 2^bits buckets; moves nothing. Error: InvalidArgument when `bits` is less
// than the directory has, or above kMaxBits.
absl::StatusOr<Directory> Grow(const Directory& directory, uint32_t bits);

}  // namespace warmring
