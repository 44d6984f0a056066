#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/membership/membership.h"
#include "core/membership/update.h"
#include "migrations/follower_change.h"
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
  double load_before = 0;  // share of the plan's load, 0..1; 0 without one
  double load_after = 0;
};

// A member that gets another weight.
struct Reweight {
  NodeId node;
  uint32_t before_milli = 0;
  uint32_t after_milli = 0;
  friend bool operator==(const Reweight&, const Reweight&) = default;
};

// What a plan with a load does to it.
struct LoadFigures {
  double moved_share = 0;           // of the load
  double ideal_share = 0;           // the least that gives every node its part by weight
  double max_over_mean_before = 0;  // by weight
  double max_over_mean_after = 0;
  friend bool operator==(const LoadFigures&, const LoadFigures&) = default;
};

// The answer to a plan: exactly what the machine will execute, and its figures.
//
// It may move nothing, when all it does is to pins, weights, or members that own nothing.
struct Preview {
  friend bool operator==(const Preview&, const Preview&) = default;
  KeyspaceId keyspace;
  Version base_version;
  uint32_t waves = 0;
  std::vector<PlannedMove> moves;  // sorted by (wave, from, to)
  std::vector<Node> nodes_added;
  std::vector<NodeId> nodes_removed;
  std::vector<NodeId> nodes_dead;      // of the removed ones: sorted; all donors, or none
  std::vector<Reweight> reweights;     // by node id; from the prepare version on
  std::vector<Pin> pins_put;           // by bucket; in the version that ends the migration
  std::vector<uint32_t> pins_removed;  // likewise; one that is replaced is not here
  std::vector<HashPoint> splits;       // boundaries the prepare version inserts
  double moved_share = 0;
  // The least that balances what the plan balances: the ownership by weight, of a plan that adds
  // or removes nodes; of one that names buckets only, it is what moves.
  double ideal_share = 0;
  double modulo_share = 0;          // what hash-mod-N would have moved
  double plain_ring_share = 0;      // what a plain token ring would have moved
  double max_over_mean_before = 0;  // by weight
  double max_over_mean_after = 0;
  std::vector<NodeShare> shares;  // by node id
  uint64_t keys_moved = 0;        // estimates; 0 = unknown
  uint64_t bytes_moved = 0;
  std::optional<LoadFigures> load;               // with a load
  std::vector<OverrideChange> overrides;         // sorted by plane; all in wave 0
  std::vector<FollowerChange> follower_changes;  // with replication > 1
  std::vector<std::string> warnings;
};

// A migration that is planned or under way beside the plan that is made.
struct OtherMigration {
  MigrationId id;
  const Preview* preview = nullptr;
};

// Computes what a plan does to a membership. Pure and deterministic: the same inputs give the same
// preview, and the conductor executes the preview it was given, so what an operator saw is what
// happens. Errors:
//   InvalidArgument      the plan is malformed, names an unknown or duplicate node or bucket,
//                        removes the last node or one that buckets are pinned to, moves a pinned
//                        bucket without saying what becomes of the pin, asks a ring for what only a
//                        directory can do, removes a node that an override gives keys to, has a
//                        load of the wrong size, leaves too few failure domains for the copies, or
//                        changes nothing
//   FailedPrecondition   overrides with replication > 1; RDB versions of donor and recipient do not
//                        fit
//   Aborted              base_version is not current, or another migration is in the way
//
// `others` are the migrations that have not ended, in any order. What they are about to do is taken
// as done where that is certain to be balanced by it: ranges that leave a node go to where they are
// going, and nodes that join or leave get nothing from this plan. A plan that is in the way of one
// of them is refused as ConflictWith (conflict.h) says.
absl::StatusOr<Preview> Plan(const Membership& membership, const MigrationPlan& plan,
                             const std::map<NodeId, NodeFact>& facts,
                             const std::vector<OtherMigration>& others = {});

// The same for a plan that waits for its turn: what it would be now, whatever is in its way.
absl::StatusOr<Preview> PlanForLater(const Membership& membership, const MigrationPlan& plan,
                                     const std::map<NodeId, NodeFact>& facts,
                                     const std::vector<OtherMigration>& others);

}  // namespace warmring
