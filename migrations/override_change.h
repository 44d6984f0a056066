#pragma once

#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/hash_range.h"
#include "core/base/ids.h"
#include "core/membership/membership.h"
#include "core/membership/override.h"
#include "core/membership/update.h"
#include "migrations/plan.h"

// What a plan does to overrides: which keys get nodes of their own, or share those of all others
// again. Pure, any thread.

namespace warmring {

// One override on its way. It is handed over as a whole, in one wave: what it had before and what
// it has afterwards is its plane's ranges, empty where every key is as hashed.
struct OverrideChange {
  Plane plane = kCommonPlane;
  OverrideRule rule;
  bool is_new = false;      // put, as hashed, by the version that prepares the migration
  bool is_removed = false;  // as hashed again, until the rule can be removed
  std::vector<PutOverride::Range> before;
  std::vector<PutOverride::Range> after;
  friend bool operator==(const OverrideChange&, const OverrideChange&) = default;
};

struct OverridePlan {
  std::vector<OverrideChange> changes;  // sorted by plane
  std::vector<RangeMove> moves;         // on the planes of the changes, sorted by (from, to)
};

// Whether a plan is about overrides. Then it is about nothing else: such plans are not mixed with
// others, since their keys are counted apart from everything that balance is about.
bool IsAboutOverrides(const MigrationPlan& plan);

// What goes with a move of `ranges` of the common plane: the same hashes on the planes of overrides
// that are as hashed, whose keys follow.
HashRangeSet WithKeysAsHashed(const Membership& membership, const HashRangeSet& ranges);

// REQUIRES: ValidatePlan is ok, IsAboutOverrides, no moves are under way.
// Errors: InvalidArgument: a node that is no member, an override that is to be removed and is not
// there, more overrides than OverrideTable::kMaxRules, a change that would move nothing.
absl::StatusOr<OverridePlan> PlanOverrides(const Membership& membership, const MigrationPlan& plan);

// What becomes of the overrides that give keys to nodes that leave without being asked: replaced
// ones, or dead ones. Their parts go to `heirs` of the node, one after the other; the parts of
// others stay. `joining` are the heirs that are no members yet.
// REQUIRES: no moves are under way; each node has an heir, which is a member or joins.
// Errors: those of Apply.
absl::StatusOr<OverridePlan> PassOverridesOn(const Membership& membership,
                                             const std::map<NodeId, std::vector<NodeId>>& heirs,
                                             const std::vector<Node>& joining);

// `change` as the membership holds it under `epoch`, before it or afterwards.
PutOverride OverrideBefore(const OverrideChange& change, Epoch epoch);
PutOverride OverrideAfter(const OverrideChange& change, Epoch epoch);

}  // namespace warmring
