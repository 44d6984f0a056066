#include "migrations/plan.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

// What a plan may say before anybody looks at the membership: one clear error for the first thing
// that is wrong, with the field's path, the value and the bound.

namespace warmring {
namespace {

AddNode Add(const std::string& id) {
  AddNode add;
  add.node.id = id;
  add.node.address = "10.0.0.5:6379";
  return add;
}

MigrationPlan Good() {
  MigrationPlan plan;
  plan.name = "add cache-05";
  plan.keyspace = "sessions";
  plan.changes = {Add("cache-05"), RemoveNode{"cache-02"}};
  return plan;
}

void ExpectError(const MigrationPlan& plan, const std::string& message) {
  const absl::Status status = ValidatePlan(plan);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()), message);
}

TEST(PlanTest, TheDefaultsAreGood) {
  EXPECT_TRUE(ValidatePlan(Good()).ok()) << ValidatePlan(Good());
}

TEST(PlanTest, NameReasonAndKeyspace) {
  MigrationPlan plan = Good();
  plan.name = std::string(256, 'n');
  ExpectError(plan, "name: '" + Printable(plan.name, 40) + "' has 256 bytes: use at most 255");
  plan = Good();
  plan.reason = std::string(1025, 'r');
  ExpectError(plan,
              "reason: '" + Printable(plan.reason, 40) + "' has 1025 bytes: use at most 1024");
  plan = Good();
  plan.keyspace = "Sessions";
  EXPECT_EQ(std::string(ValidatePlan(plan).message()).rfind("keyspace: ", 0), 0u);
  plan = Good();
  plan.name = std::string(255, 'n');
  plan.reason = std::string(1024, 'r');
  EXPECT_TRUE(ValidatePlan(plan).ok());
}

TEST(PlanTest, ChangesAreCounted) {
  MigrationPlan plan = Good();
  plan.changes.clear();
  ExpectError(plan, "changes: it is empty: name at least one change");
  for (int i = 0; i < 10'000; ++i) plan.changes.push_back(RemoveNode{fmt::format("n{}", i)});
  EXPECT_TRUE(ValidatePlan(plan).ok());
  plan.changes.push_back(RemoveNode{"one-more"});
  ExpectError(plan, "changes: 10001 changes are over the limit of 10000: split the plan");
}

TEST(PlanTest, ANodeIsNamedOnce) {
  MigrationPlan plan = Good();
  plan.changes = {RemoveNode{"cache-02"}, Add("cache-05"), Add("cache-02")};
  ExpectError(plan,
              "changes[2]: node 'cache-02' is named by an earlier change too: name each node "
              "once");
}

TEST(PlanTest, NodesAreChecked) {
  for (const uint32_t weight : {0u, 9u, 1'000'001u}) {
    MigrationPlan plan = Good();
    std::get<AddNode>(plan.changes[0]).node.weight_milli = weight;
    EXPECT_EQ(std::string(ValidatePlan(plan).message()).rfind("changes[0].add.node.weight: ", 0),
              0u)
        << ValidatePlan(plan);
  }
  MigrationPlan plan = Good();
  std::get<AddNode>(plan.changes[0]).node.address = "10.0.0.5";
  EXPECT_EQ(std::string(ValidatePlan(plan).message()).rfind("changes[0].add.node.address: ", 0),
            0u);
  plan = Good();
  plan.changes[1] = RemoveNode{"../etc"};
  EXPECT_EQ(std::string(ValidatePlan(plan).message()).rfind("changes[1].remove.node: ", 0), 0u);
}

TEST(PlanTest, ChangesOfADirectoryAreChecked) {
  using By = Rebalance::By;
  const struct {
    Change change;
    std::string error;
  } kCases[] = {
      {SetWeight{"Cache", 1000}, "changes[1].set_weight.node: 'Cache' is not a valid id"},
      {SetWeight{"cache-02", 9}, "changes[1].set_weight.weight: 0.009 is out of bounds"},
      {SetWeight{"cache-02", 1'000'001}, "changes[1].set_weight.weight: 1000.001 is out of bounds"},
      {SetWeight{"cache-05", 2000}, "changes[1]: node 'cache-05' is named by an earlier change"},
      {MoveBuckets{{}, "cache-02"}, "changes[1].move_buckets.buckets: none is named"},
      {MoveBuckets{{1}, ""}, "changes[1].move_buckets.to: '' is not a valid id"},
      {MoveBuckets{{1, 1u << 20}, "cache-02"},
       "changes[1].move_buckets.buckets[1]: 1048576 is no bucket: use 0 to 1048575"},
      {MoveBuckets{{7, 8, 7}, "cache-02"},
       "changes[1].move_buckets.buckets[2]: bucket 7 is named before"},
      {Unpin{{}}, "changes[1].unpin.buckets: none is named"},
      {Unpin{{3, 3}}, "changes[1].unpin.buckets[1]: bucket 3 is named before"},
      {Rebalance{By::kLoad, {}}, "changes[1].rebalance.bucket_load: it is empty"},
      {Rebalance{By::kShare, {1}}, "changes[1].rebalance.bucket_load: it is given and by is share"},
      {Rebalance{static_cast<By>(3), {1}}, "changes[1].rebalance.by: 3 is unknown"},
      {Rebalance{By::kLoad, {1, (uint64_t{1} << 40) + 1}},
       "changes[1].rebalance.bucket_load[1]: 1099511627777 is over the limit"},
      {Rebalance{By::kLoad, {1}, 1'000'001},
       "changes[1].rebalance.tolerance_ppm: 1000001 is out of bounds: use 0 to 1000000"},
  };
  for (const auto& c : kCases) {
    MigrationPlan plan = Good();
    plan.changes[1] = c.change;
    const absl::Status status = ValidatePlan(plan);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.error;
    EXPECT_EQ(std::string(status.message()).substr(0, c.error.size()), c.error);
  }
}

TEST(PlanTest, BucketsAndRebalanceAreNamedOnce) {
  MigrationPlan plan = Good();
  plan.changes = {MoveBuckets{{1, 2}, "cache-02"}, Unpin{{1}}, MoveBuckets{{3}, "cache-02", true},
                  SetWeight{"cache-02", 500}, Rebalance{}};
  EXPECT_TRUE(ValidatePlan(plan).ok()) << "a bucket may be unpinned and moved, a node be both";
  plan.changes.push_back(MoveBuckets{{4, 2}, "cache-02"});
  ExpectError(
      plan, "changes[5].move_buckets.buckets[1]: bucket 2 is named before: name each bucket once");
  plan.changes.back() = Rebalance{};
  ExpectError(plan, "changes[5]: an earlier change rebalances too: rebalance once");
}

TEST(PlanTest, WhatStandsInAPlanOfItsOwn) {
  MigrationPlan plan = Good();
  Node by = std::get<AddNode>(plan.changes[0]).node;
  plan.changes = {ReplaceNode{"cache-02", by}};
  EXPECT_TRUE(ValidatePlan(plan).ok()) << ValidatePlan(plan);
  EXPECT_FALSE(IsFailover(plan));
  plan.changes = {ReplaceNode{"cache-02", by}, RemoveNode{"cache-03"}};
  ExpectError(plan,
              "changes[1]: nodes are replaced in a plan of their own, in which nothing else moves: "
              "submit two plans");
  plan.changes = {ReplaceNode{"cache-02", by}, RemoveNode{by.id}};
  ExpectError(plan,
              fmt::format("changes[1]: node '{}' is named by an earlier change too: name each node "
                          "once",
                          by.id));
  plan.changes = {ReplaceNode{"../x", by}};
  EXPECT_EQ(std::string(ValidatePlan(plan).message()).rfind("changes[0].replace.node: ", 0), 0u);
  by.address = "nowhere";
  plan.changes = {ReplaceNode{"cache-02", by}};
  EXPECT_EQ(std::string(ValidatePlan(plan).message()).rfind("changes[0].replace.by.address: ", 0),
            0u);
  plan.changes = {RemoveNode{"cache-02", true}, RemoveNode{"cache-03", true}};
  EXPECT_TRUE(ValidatePlan(plan).ok());
  EXPECT_TRUE(IsFailover(plan));
  plan.changes = {RemoveNode{"cache-02", true}, RemoveNode{"cache-03", false}};
  ExpectError(
      plan,
      "changes[1]: what takes over from dead nodes stands in a plan of its own, which waits "
      "for nobody: submit two plans");
}

TEST(PlanTest, FailedWavesAndConflicts) {
  for (const uint32_t attempts : {0u, 101u, UINT32_MAX}) {
    MigrationPlan plan = Good();
    plan.strategy.wave_attempts = attempts;
    ExpectError(plan,
                fmt::format("strategy.wave_attempts: {} is out of bounds: use 1 to 100", attempts));
  }
  MigrationPlan plan = Good();
  plan.strategy.on_wave_failure = static_cast<WaveFailure>(3);
  ExpectError(plan, "strategy.on_wave_failure: 3 is unknown: use undo (1) or pause (2)");
  plan = Good();
  plan.strategy.on_conflict = static_cast<OnConflict>(0);
  ExpectError(plan, "strategy.on_conflict: 0 is unknown: use refuse (1) or queue (2)");
}

TEST(PlanTest, CommitStepsAscendToTheWhole) {
  const struct {
    std::vector<uint32_t> steps;
    std::string error;
  } kCases[] = {
      {{}, ": it is empty: give ascending shares that end with 100%"},
      {{0, 1'000'000}, "[0]: 0% does not ascend: use a share above 0% and up to 100%"},
      {{100'000, 100'000, 1'000'000},
       "[1]: 10% does not ascend: use a share above 10% and up to 100%"},
      {{500'000, 100'000, 1'000'000},
       "[1]: 10% does not ascend: use a share above 50% and up to 100%"},
      {{100'000, 1'000'001},
       "[1]: 100.0001% does not ascend: use a share above 10% and up to 100%"},
      {{100'000, 500'000}, "[1]: the last step is 50%: it must be 100%"},
  };
  for (const auto& c : kCases) {
    MigrationPlan plan = Good();
    plan.strategy.commit_steps_ppm = c.steps;
    ExpectError(plan, "strategy.commit_steps" + c.error);
  }
  MigrationPlan plan = Good();
  plan.strategy.commit_steps_ppm.clear();
  for (uint32_t i = 1; i < 256; ++i) plan.strategy.commit_steps_ppm.push_back(i);
  plan.strategy.commit_steps_ppm.push_back(1'000'000);
  EXPECT_TRUE(ValidatePlan(plan).ok());
  plan.strategy.commit_steps_ppm.insert(plan.strategy.commit_steps_ppm.end() - 1, 256);
  ExpectError(plan, "strategy.commit_steps: 257 steps are over the limit of 256");
}

TEST(PlanTest, DurationsAreBounded) {
  MigrationPlan plan = Good();
  plan.strategy.hold = -absl::Seconds(1);
  ExpectError(plan, "strategy.hold: -1s is out of bounds: use 0 to 720h");
  plan = Good();
  plan.strategy.soak = absl::InfiniteDuration();
  ExpectError(plan, "strategy.soak: inf is out of bounds: use 0 to 720h");
  plan = Good();
  plan.strategy.warm_timeout = absl::ZeroDuration();
  ExpectError(plan, "strategy.warm_timeout: 0 is out of bounds: use 1ms to 720h");
  plan = Good();
  plan.strategy.fence_timeout = absl::Hours(721);
  ExpectError(plan, "strategy.fence_timeout: 721h is out of bounds: use 1ms to 720h");
  plan = Good();
  plan.strategy.hold = plan.strategy.soak = absl::ZeroDuration();
  plan.strategy.warm_timeout = absl::Hours(720);
  EXPECT_TRUE(ValidatePlan(plan).ok());
}

TEST(PlanTest, VerificationCannotBeTurnedOff) {
  MigrationPlan plan = Good();
  plan.strategy.verify_sample = 0;
  ExpectError(plan, "strategy.verify_sample: 0 is out of bounds: use 1 to 1000000");
  plan.strategy.verify_sample = 1'000'001;
  ExpectError(plan, "strategy.verify_sample: 1000001 is out of bounds: use 1 to 1000000");
  plan.strategy.verify_sample = 10;
  plan.strategy.verify_max_mismatch = 11;
  ExpectError(plan,
              "strategy.verify_max_mismatch: 11 is more than verify_sample, which is 10: lower "
              "it");
}

TEST(PlanTest, TheFencePolicyIsKnown) {
  MigrationPlan plan = Good();
  plan.strategy.fence_policy = static_cast<FencePolicy>(7);
  ExpectError(plan, "strategy.fence_policy: 7 is unknown: use ack_only (1) or ack_or_lease (2)");
}

}  // namespace
}  // namespace warmring
