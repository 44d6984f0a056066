#pragma once

#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/membership/membership.h"
#include "migrations/planner.h"

// Several migrations of one keyspace at a time: when they are in each other's way, and what a plan
// takes as done that others are about to do. Pure.

namespace warmring {

// Ok, or Aborted MIGRATION_IN_PROGRESS naming the other migration, what is in the way and the way
// out. Two migrations are in each other's way when
//   - a range moves in both,
//   - a node that joins, leaves or is given another weight in one takes part in the other (of
//     weights: is given another weight in the other),
//   - a bucket is pinned or unpinned in one and moves, or is, in the other,
//   - a node that joins has the id or the address of another that joins or leaves,
//   - one of them is about overrides, whose keys may be anywhere, or the keyspace has copies.
absl::Status ConflictWith(const Membership& membership, const Preview& preview,
                          const OtherMigration& other);

// Ok, or Aborted naming what is no longer as the preview has it: an owner of a range that moves, a
// node that gives, gets, joins or leaves, an address, a weight, a pin; or a range of it moves
// already.
absl::Status CheckStillFits(const Preview& preview, const Membership& head);

// `membership` as the allocators may take it while `others` are under way: no moves; what leaves a
// node is where it goes, unless that joins in the same migration; nodes that join or leave are not
// there, as far as they own nothing; but for those that are `named`, by the plan that is made.
// REQUIRES: every move of `membership` is of one of `others`.
absl::StatusOr<Membership::Ptr> ExpectedMembership(const Membership& membership,
                                                   const std::vector<OtherMigration>& others,
                                                   const std::set<NodeId>& named);

// Ok, or as ConflictWith: a node that `plan` names joins or leaves by one of `others`.
absl::Status CheckNamedNodes(const MigrationPlan& plan, const std::vector<OtherMigration>& others);
// Members that the plan is about: removed, replaced, given another weight, given buckets or keys.
std::set<NodeId> NamedNodes(const MigrationPlan& plan);

}  // namespace warmring
