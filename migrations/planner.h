#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/membership/membership.h"
#include "core/membership/update.h"
#include "migrations/override_change.h"
#include "migrations/plan.h"

namespace warmring {

// Ranges that go from one node to another in one wave.
struct PlannedMove {
  uint32_t wave = 0;
  NodeId from;
  NodeId to;
  HashRangeSet ranges;
  friend bool operator==(const PlannedMove&, const PlannedMove&) = default;
};

// What is known about a node besides its membership; all optional, all for estimates and warnings.
struct NodeFact {
  bool has_session = false;
  uint64_t keys = 0;
  uint64_t bytes = 0;
  uint32_t rdb_version = 0;  // 0 = unknown
};

struct NodeShare {
  friend bool operator==(const NodeShare&, const NodeShare&) = default;
  NodeId node;
  double before = 0;  // share of hash space, 0..1
  double after = 0;
  double ideal_after = 0;
  uint64_t keys_out = 0;  // estimate, from the donor's counts; 0 = unknown
  uint64_t bytes_out = 0;
};

// The answer to a plan: exactly what the machine will execute, and its figures.
struct Preview {
  friend bool operator==(const Preview&, const Preview&) = default;
  KeyspaceId keyspace;
  Version base_version;
  uint32_t waves = 0;
  std::vector<PlannedMove> moves;  // sorted by (wave, from, to)
  std::vector<Node> nodes_added;
  std::vector<NodeId> nodes_removed;
  std::vector<HashPoint> splits;  // boundaries the prepare version inserts
  double moved_share = 0;
  double ideal_share = 0;           // the mathematical minimum for balanced ownership
  double modulo_share = 0;          // what hash-mod-N would have moved
  double plain_ring_share = 0;      // what a plain token ring would have moved
  double max_over_mean_before = 0;  // by weight
  double max_over_mean_after = 0;
  std::vector<NodeShare> shares;  // by node id
  uint64_t keys_moved = 0;        // estimates; 0 = unknown
  uint64_t bytes_moved = 0;
  std::vector<OverrideChange> overrides;  // sorted by plane; all in wave 0
  std::vector<std::string> warnings;
};

// Computes what a plan does to a membership. Pure and deterministic: the same inputs give the same
// preview, and the conductor executes the preview it was given, so what an operator saw is what
// happens. Errors:
//   InvalidArgument      the plan is malformed, names an unknown or duplicate node, removes the
//                        last node or one that an override gives keys to, mixes overrides with
//                        other changes, or changes nothing
//   FailedPrecondition   replication > 1; RDB versions of donor and recipient do not fit
//   Aborted              base_version is not current, or moves are already under way
absl::StatusOr<Preview> Plan(const Membership& membership, const MigrationPlan& plan,
                             const std::map<NodeId, NodeFact>& facts);

}  // namespace warmring
