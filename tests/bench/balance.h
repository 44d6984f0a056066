#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// How even a placement is and what a join moves, beside what others do.

namespace warmring::bench {

struct BalanceRow {
  std::string placement;
  uint32_t nodes = 0;
  // Largest share of a node over the mean share: with `nodes` nodes, and the worst on the way
  // there.
  double max_mean = 0;
  double worst_max_mean = 0;
  // Share that a join moved over 1 / (nodes after it): the worst of all joins.
  double worst_movement = 0;
  // Buckets with two replicas in one zone; none where the row has no replicas.
  std::optional<uint64_t> violations;
};

// A directory of 2^bits buckets with so many replicas, on nodes of so many zones, that grows by
// single joins from `ranks` nodes to `nodes`.
struct DirectoryCase {
  uint32_t bits = 16;
  uint32_t ranks = 1;
  uint32_t zones = 0;  // 0: each node fails alone
  uint32_t nodes = 100;
};
BalanceRow GrowDirectory(const DirectoryCase& wanted);

// A ring of derived tokens, `tokens` a node.
BalanceRow GrowRing(uint32_t tokens, uint32_t nodes);

// libmemcached's weighted ketama, by `samples` keys; the joins at some sizes only.
BalanceRow GrowKetama(uint32_t nodes, uint32_t samples);

}  // namespace warmring::bench
