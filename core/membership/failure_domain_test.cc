#include "core/membership/failure_domain.h"

#include "core/membership/keyspace_spec.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

Node At(const std::string& id, const std::string& zone, const std::string& rack = "") {
  Node node;
  node.id = id;
  node.zone = zone;
  if (!rack.empty()) node.labels["rack"] = rack;
  return node;
}

TEST(FailureDomainTest, NodesOfOneZoneShareIt) {
  EXPECT_EQ(DomainOf(At("a", "eu-1"), DomainLevel::kZone),
            DomainOf(At("b", "eu-1", "r1"), DomainLevel::kZone));
  EXPECT_NE(DomainOf(At("a", "eu-1"), DomainLevel::kZone),
            DomainOf(At("a", "eu-2"), DomainLevel::kZone));
}

TEST(FailureDomainTest, ARackIsOneOfItsZone) {
  EXPECT_EQ(DomainOf(At("a", "eu-1", "r1"), DomainLevel::kRack),
            DomainOf(At("b", "eu-1", "r1"), DomainLevel::kRack));
  EXPECT_NE(DomainOf(At("a", "eu-1", "r1"), DomainLevel::kRack),
            DomainOf(At("a", "eu-2", "r1"), DomainLevel::kRack));
}

TEST(FailureDomainTest, WhoSaysNothingIsADomainOfItsOwn) {
  for (const DomainLevel level : {DomainLevel::kZone, DomainLevel::kRack, DomainLevel::kNode}) {
    EXPECT_NE(DomainOf(At("a", ""), level), DomainOf(At("b", ""), level));
    // Nor is it the zone, or the rack, that has its name.
    EXPECT_NE(DomainOf(At("a", ""), level), DomainOf(At("b", "a", "a"), level));
    EXPECT_NE(DomainOf(At("a", ""), level), DomainOf(At("b", "", "a"), level));
  }
}

TEST(FailureDomainTest, TheRuleIsOneOfThree) {
  EXPECT_OK(ValidateDomainRule("f", {DomainLevel::kRack, true}));
  EXPECT_THAT(ValidateDomainRule("spec.failure_domain", {static_cast<DomainLevel>(4), false}),
              StatusIs(absl::StatusCode::kInvalidArgument, "spec.failure_domain: 4 is unknown"));
}

TEST(FailureDomainTest, WithoutCopiesThereIsNoRule) {
  KeyspaceSpec spec;
  spec.id = "sessions";
  spec.domains.level = DomainLevel::kZone;
  EXPECT_THAT(ValidateKeyspaceSpec(spec), StatusIs(absl::StatusCode::kInvalidArgument,
                                                   "spec.failure_domain: zone with replication 1"));
  spec.replication = 2;
  EXPECT_OK(ValidateKeyspaceSpec(spec));
}

}  // namespace
}  // namespace warmring
