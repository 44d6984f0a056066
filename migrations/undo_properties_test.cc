// A plan that is undone leaves every key with whom it was, whatever the plan was: nodes that come
// and go, weights, buckets, pins, overrides. Drawn at random, with the seed printed at the start.

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "core/placement/initial.h"
#include "migrations/base_testing.h"
#include "migrations/machine_world_testing.h"

namespace warmring {
namespace {

using Random = std::mt19937_64;

Membership::Ptr DrawBase(Random& random) {
  MembershipData data;
  data.version = Version(41);
  data.spec.id = "sessions";
  data.spec.placement = random() % 3 == 0 ? PlacementKind::kRing : PlacementKind::kDirectory;
  data.spec.directory_bits = 10;
  data.spec.tokens_per_node = 8;
  const int nodes = 2 + static_cast<int>(random() % 3);
  for (int i = 0; i < nodes; ++i) data.nodes.push_back(MakeNode(i));
  data.spec.replication = 1 + static_cast<uint32_t>(random() % 3);
  data.spec.domains.best_effort = data.spec.replication > 1;
  InitialPlacement placement = *PlaceInitially(data.spec, data.nodes, Epoch(3));
  data.ranges = std::move(placement.ranges);
  data.followers = std::move(placement.followers);
  if (data.spec.replication == 1 && random() % 2 == 0) {
    data.overrides = {{1, {OverrideRule::Match::kPrefix, "tenant-"}, {}, Epoch(random() % 9)}};
    data.next_plane = 2;
    if (random() % 2 == 0) {
      data.overrides[0].ranges = {{UINT64_MAX, 0}};
      data.overrides[0].epoch = Epoch(9);
    }
  }
  if (data.spec.placement == PlacementKind::kDirectory && random() % 2 == 0) {
    data.pins = {{7, data.nodes[data.ranges[7].owner].id}};
  }
  return *Membership::Create(std::move(data));
}

// A plan of one kind; it may not fit.
MigrationPlan DrawPlan(const Membership& base, Random& random) {
  MigrationPlan plan;
  plan.keyspace = "sessions";
  plan.strategy.soak = absl::Minutes(10);
  const NodeId node = base.nodes()[random() % base.nodes().size()].id;
  switch (random() % 7) {
    case 0:
      plan.changes = {AddNode{MakeNode(9)}};
      break;
    case 1:
      plan.changes = {RemoveNode{node}};
      break;
    case 2:
      plan.changes = {AddNode{MakeNode(9)}, RemoveNode{node}};
      break;
    case 3:
      plan.changes = {SetWeight{node, static_cast<uint32_t>(300 + random() % 3000)}};
      break;
    case 4:
      plan.changes = {MoveBuckets{{1, 2, 3, 700}, node, random() % 2 == 0}};
      break;
    case 5:
      plan.changes = {SetOverride{{OverrideRule::Match::kPrefix, "tenant-"}, {node}},
                      SetOverride{{OverrideRule::Match::kPrefix, "tenant-1"},
                                  {base.nodes()[0].id, base.nodes()[1].id}}};
      break;
    default:
      plan.changes = {RemoveOverride{{OverrideRule::Match::kPrefix, "tenant-"}}};
      break;
  }
  return plan;
}

RC_GTEST_PROP(UndoProperties, AnUndonePlanLeavesEveryKeyWhereItWas, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  const Membership::Ptr base = DrawBase(random);
  const MigrationPlan plan = DrawPlan(*base, random);
  const auto preview = Plan(*base, plan, {});
  RC_CLASSIFY(preview.ok(), "the plan fits");
  if (!preview.ok() || preview->moves.empty()) return;
  MachineWorld world(base, plan, random());
  RC_ASSERT(world.RunToStage(Stage::kSoaking));
  RC_ASSERT(world.Command(OperatorCommand::kUndo).ok());
  RC_ASSERT(world.RunToEnd());
  RC_ASSERT(world.faults().empty());
  RC_ASSERT(world.record().stage == Stage::kRolledBack);
  const Membership& after = world.head();
  RC_ASSERT(after.nodes() == base->nodes());
  RC_ASSERT(after.pins() == base->pins());
  for (int i = 0; i < 300; ++i) {
    const std::string key = fmt::format("{}-{}", i % 2 == 0 ? "key" : "tenant", i);
    const Route was = RouteKey(*base, key);
    const Route is = RouteKey(after, key);
    RC_ASSERT(after.nodes()[is.owner].id == base->nodes()[was.owner].id);
    RC_ASSERT(is.epoch >= was.epoch);
    RC_ASSERT(!is.pending.has_value() && !is.previous.has_value());
    const auto followers_were = base->FollowersAt(base->RangeIndexOf(was.hash));
    const auto followers_are = after.FollowersAt(after.RangeIndexOf(is.hash));
    RC_ASSERT(std::equal(followers_were.begin(), followers_were.end(), followers_are.begin(),
                         followers_are.end()));
  }
}

}  // namespace
}  // namespace warmring
