#include "core/placement/simulation.h"

#include <string>
#include <vector>

#include "core/placement/initial.h"
#include "core/placement/preference.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

Node MakeNode(const std::string& id, const std::string& zone = "") {
  Node node;
  node.id = id;
  node.address = id + ":1";
  node.zone = zone;
  return node;
}

KeyspaceSpec DirectorySpec(uint32_t replication = 1) {
  KeyspaceSpec spec;
  spec.id = "sim";
  spec.directory_bits = 12;
  spec.replication = replication;
  if (replication > 1) spec.domains.level = DomainLevel::kZone;
  return spec;
}

KeyspaceSpec RingSpec(Allocator allocator = Allocator::kStandard) {
  KeyspaceSpec spec;
  spec.id = "sim";
  spec.placement = PlacementKind::kRing;
  spec.allocator = allocator;
  spec.tokens_per_node = 32;
  return spec;
}

Membership::Ptr Make(const KeyspaceSpec& spec, const std::vector<Node>& nodes) {
  MembershipData data;
  data.version = Version(1);
  data.spec = spec;
  data.nodes = nodes;
  absl::StatusOr<InitialPlacement> placement = PlaceInitially(spec, nodes, Epoch(1));
  EXPECT_TRUE(placement.ok()) << placement.status();
  data.ranges = placement->ranges;
  data.followers = placement->followers;
  absl::StatusOr<Membership::Ptr> made = Membership::Create(std::move(data));
  EXPECT_TRUE(made.ok()) << made.status();
  return made.value();
}

std::vector<Node> InZones(size_t count, size_t zones) {
  std::vector<Node> nodes;
  for (size_t i = 0; i < count; ++i) {
    nodes.push_back(MakeNode("n" + std::to_string(100 + i), "z" + std::to_string(i % zones)));
  }
  return nodes;
}

TEST(SimulationTest, AJoinMovesTheNewcomersShareAndIsMeasuredAgainstTheOthers) {
  const Membership::Ptr base = Make(DirectorySpec(), InZones(4, 1));
  ASSERT_OK_AND_ASSIGN(
      const SimulatedOutcome outcome,
      Simulate(*base, {.added = {MakeNode("new")}, .removed = {}, .weight_milli = {}}));
  EXPECT_NEAR(outcome.moved_share, 0.2, 1e-3);
  EXPECT_DOUBLE_EQ(outcome.copied_share, outcome.moved_share);
  EXPECT_DOUBLE_EQ(outcome.ideal_share, 0.2);
  EXPECT_DOUBLE_EQ(outcome.modulo_share, 0.8);
  EXPECT_NEAR(outcome.plain_ring_share, 0.2, 0.05);
  EXPECT_EQ(outcome.after->nodes().size(), 5u);
  EXPECT_NEAR(BalanceOf(*outcome.after).max_over_mean, 1, 2e-3);
  EXPECT_EQ(base->nodes().size(), 4u) << "nothing has changed";
}

TEST(SimulationTest, CopiesKeepToTheirZonesAndTravelNoMoreThanTheyMust) {
  const Membership::Ptr base = Make(DirectorySpec(3), InZones(9, 3));
  EXPECT_EQ(CountDomainViolations(*base), 0u);
  ASSERT_OK_AND_ASSIGN(const SimulatedOutcome outcome,
                       Simulate(*base, {.added = {}, .removed = {"n100"}, .weight_milli = {}}));
  EXPECT_EQ(CountDomainViolations(*outcome.after), 0u);
  // A third of the zone's copies, the zone having one of each.
  EXPECT_NEAR(outcome.copied_share, 1.0 / 3, 1e-3);
}

TEST(SimulationTest, AWeightChangesWhatTheNodeHolds) {
  const Membership::Ptr base = Make(DirectorySpec(), InZones(4, 1));
  ASSERT_OK_AND_ASSIGN(
      const SimulatedOutcome outcome,
      Simulate(*base, {.added = {}, .removed = {}, .weight_milli = {{"n100", 2000}}}));
  EXPECT_NEAR(outcome.moved_share, 0.15, 1e-3);  // from a quarter to two fifths
  EXPECT_NEAR(BalanceOf(*outcome.after).nodes[0].owned, 0.4, 1e-3);
}

TEST(SimulationTest, RingsToo) {
  for (const Allocator allocator : {Allocator::kStandard, Allocator::kDeliberate}) {
    const Membership::Ptr base = Make(RingSpec(allocator), InZones(4, 1));
    ASSERT_OK_AND_ASSIGN(
        const SimulatedOutcome outcome,
        Simulate(*base, {.added = {MakeNode("new")}, .removed = {"n101"}, .weight_milli = {}}));
    EXPECT_EQ(outcome.after->nodes().size(), 4u);
    EXPECT_FALSE(outcome.after->FindNode("n101").has_value());
    EXPECT_GT(outcome.moved_share, 0.15);
    EXPECT_THAT(Simulate(*base, {.added = {}, .removed = {}, .weight_milli = {{"n100", 2000}}}),
                StatusIs(absl::StatusCode::kInvalidArgument, "weight: the tokens of a ring"));
  }
}

TEST(SimulationTest, ARingsCopiesFollowTheNewRing) {
  KeyspaceSpec spec = RingSpec();
  spec.replication = 2;
  spec.domains.level = DomainLevel::kZone;
  const Membership::Ptr base = Make(spec, InZones(6, 3));
  ASSERT_OK_AND_ASSIGN(
      const SimulatedOutcome outcome,
      Simulate(*base, {.added = {MakeNode("new", "z1")}, .removed = {}, .weight_milli = {}}));
  EXPECT_EQ(CountDomainViolations(*outcome.after), 0u);
  EXPECT_GE(outcome.copied_share, outcome.moved_share);
}

TEST(SimulationTest, RefusesWhatMakesNoSense) {
  const Membership::Ptr base = Make(DirectorySpec(), InZones(2, 1));
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const struct {
    SimulatedChange change;
    std::string message;
  } cases[] = {
      {{{}, {"nope"}, {}}, "remove: 'nope' is not a node"},
      {{{}, {"n100", "n100"}, {}}, "remove: 'n100' is named twice"},
      {{{}, {"n100", "n101"}, {}}, "remove: the last node"},
      {{{MakeNode("n100")}, {}, {}}, "add: 'n100' is a node already"},
      {{{MakeNode("x"), MakeNode("x")}, {}, {}}, "add: 'x' is named twice"},
      {{{MakeNode("not valid!")}, {}, {}}, "node"},
      {{{}, {}, {{"nope", 1000}}}, "weight: 'nope' is not a node"},
      {{{}, {"n100"}, {{"n100", 1000}}}, "weight: 'n100' is removed as well"},
      {{{}, {}, {{"n100", 0}}}, "weight"},
      {{{}, {}, {{"n100", 4'000'000'000}}}, "weight"},
  };
  for (const auto& bad : cases) {
    EXPECT_THAT(Simulate(*base, bad.change), StatusIs(kInvalid, bad.message));
  }
  const Membership::Ptr copies = Make(DirectorySpec(2), InZones(2, 2));
  EXPECT_THAT(Simulate(*copies, {{}, {"n100"}, {}}), StatusIs(kInvalid, ""));
}

TEST(BalanceTest, SharesOfASmallRing) {
  MembershipData data;
  data.version = Version(1);
  data.spec = RingSpec();
  data.nodes = {MakeNode("a"), MakeNode("b")};
  data.nodes[1].weight_milli = 3000;
  const HashPoint half = uint64_t{1} << 63;
  data.ranges = {{half - 1, 0, Epoch(1)}, {UINT64_MAX, 1, Epoch(1)}};
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr membership, Membership::Create(data));
  const Balance balance = BalanceOf(*membership);
  EXPECT_DOUBLE_EQ(balance.nodes[0].owned, 0.5);
  EXPECT_DOUBLE_EQ(balance.nodes[0].ideal, 0.25);
  EXPECT_DOUBLE_EQ(balance.max_over_mean, 2);
  EXPECT_DOUBLE_EQ(balance.min_over_mean, 0.5 / 0.75);
}

}  // namespace
}  // namespace warmring
