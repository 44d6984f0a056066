// Plans come in checked, migrations go out whole.

#include "proto/wire/migration.h"

#include <cmath>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace warmring::wire {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

MigrationPlan FullPlan() {
  MigrationPlan plan;
  plan.name = "add-cache-5";
  plan.reason = "headroom";
  plan.keyspace = "sessions";
  plan.base_version = Version(41);
  AddNode add;
  add.node.id = "cache-5";
  add.node.address = "10.0.0.5:6379";
  add.node.weight_milli = 1250;
  Rebalance rebalance;
  rebalance.by = Rebalance::By::kLoad;
  rebalance.bucket_load = {0, 7, uint64_t{1} << 40};
  rebalance.tolerance_ppm = 0;
  plan.changes = {add,
                  RemoveNode{"cache-1"},
                  SetWeight{"cache-2", 2500},
                  MoveBuckets{{0, 9, 1023}, "cache-5", true},
                  MoveBuckets{{5}, "cache-2", false},
                  Unpin{{5, 6}},
                  rebalance,
                  RemoveNode{"cache-3", true},
                  ReplaceNode{"cache-4", add.node, true}};
  plan.strategy.commit_steps_ppm = {1, 333'333, 1'000'000};
  plan.strategy.hold = absl::Milliseconds(1500);
  plan.strategy.fence_timeout = absl::Seconds(3);
  plan.strategy.await_promotion = true;
  plan.strategy.verify_sample = 10;
  plan.strategy.verify_max_mismatch = 2;
  plan.strategy.fence_policy = FencePolicy::kAckOrLease;
  plan.strategy.wave_attempts = 7;
  plan.strategy.on_wave_failure = WaveFailure::kPause;
  plan.strategy.on_conflict = OnConflict::kQueue;
  plan.limits = {1000, 1 << 20};
  return plan;
}

TEST(WireMigrationTest, PlanRoundTrip) {
  ASSERT_OK_AND_ASSIGN(const MigrationPlan back, MigrationPlanFromProto(ToProto(FullPlan())));
  EXPECT_EQ(back, FullPlan());
}

TEST(WireMigrationTest, UnsetStrategyGetsTheDefaults) {
  v1::MigrationPlan proto;
  proto.set_keyspace("sessions");
  proto.add_changes()->mutable_remove()->set_node("cache-1");
  ASSERT_OK_AND_ASSIGN(const MigrationPlan plan, MigrationPlanFromProto(proto));
  EXPECT_EQ(plan.strategy, Strategy());
  EXPECT_EQ(plan.limits, TransferLimits());
}

TEST(WireMigrationTest, AbsurdPlanIsRefusedInThePlansWords) {
  const v1::MigrationPlan good = ToProto(FullPlan());
  v1::MigrationPlan bad = good;
  bad.mutable_strategy()->set_commit_steps(1, std::nan(""));
  EXPECT_THAT(MigrationPlanFromProto(bad), StatusIs(kInvalid, "strategy.commit_steps[1]: nan"));
  bad.mutable_strategy()->set_commit_steps(1, 1e300);
  EXPECT_THAT(MigrationPlanFromProto(bad), StatusIs(kInvalid, "strategy.commit_steps[1]"));
  bad = good;
  bad.mutable_strategy()->mutable_soak()->set_seconds(-1);
  EXPECT_THAT(MigrationPlanFromProto(bad), StatusIs(kInvalid, "strategy.soak: -1 seconds"));
  bad.mutable_strategy()->mutable_soak()->set_seconds(INT64_MAX);
  EXPECT_THAT(MigrationPlanFromProto(bad), StatusIs(kInvalid, "strategy.soak"));
  bad = good;
  bad.mutable_strategy()->set_fence_policy(static_cast<v1::FencePolicy>(42));
  EXPECT_THAT(MigrationPlanFromProto(bad), StatusIs(kInvalid, "strategy.fence_policy: 42"));
  bad = good;
  bad.mutable_strategy()->set_on_wave_failure(static_cast<v1::WaveFailure>(42));
  EXPECT_THAT(MigrationPlanFromProto(bad), StatusIs(kInvalid, "strategy.on_wave_failure: 42"));
  bad = good;
  bad.mutable_strategy()->set_on_conflict(static_cast<v1::OnConflict>(-1));
  EXPECT_THAT(MigrationPlanFromProto(bad), StatusIs(kInvalid, "strategy.on_conflict: -1"));
  bad = good;
  bad.mutable_changes(8)->mutable_replace()->set_node("");
  EXPECT_THAT(MigrationPlanFromProto(bad), StatusIs(kInvalid, "changes[8].replace.node"));
  bad = good;
  bad.mutable_changes(8)->mutable_replace()->mutable_by()->set_weight(-1);
  EXPECT_THAT(MigrationPlanFromProto(bad), StatusIs(kInvalid, "changes[8].replace.by.weight: -1"));
  bad = good;
  bad.mutable_changes(0)->mutable_add()->mutable_node()->set_weight(0);
  EXPECT_THAT(MigrationPlanFromProto(bad), StatusIs(kInvalid, "changes[0].add.node.weight: 0"));
  bad = good;
  bad.mutable_changes(1)->mutable_remove()->set_node("a b");
  EXPECT_THAT(MigrationPlanFromProto(bad), StatusIs(kInvalid, "changes[1].remove.node"));
  bad = good;
  bad.add_changes();
  EXPECT_THAT(MigrationPlanFromProto(bad), StatusIs(kInvalid, "changes[9]: it is empty"));
  bad = good;
  for (int i = 0; i < 10'001; ++i) bad.add_changes();
  EXPECT_THAT(MigrationPlanFromProto(bad), StatusIs(kInvalid, "10010 changes"));
}

TEST(WireMigrationTest, ChangesOfADirectoryAreRefusedInThePlansWords) {
  const v1::MigrationPlan good = ToProto(FullPlan());
  v1::MigrationPlan bad = good;
  bad.mutable_changes(2)->mutable_set_weight()->set_node("");
  EXPECT_THAT(MigrationPlanFromProto(bad), StatusIs(kInvalid, "changes[2].set_weight.node"));
  for (const double weight : {0.0, -1.0, 1e9, std::nan(""), HUGE_VAL}) {
    bad = good;
    bad.mutable_changes(2)->mutable_set_weight()->set_weight(weight);
    EXPECT_THAT(MigrationPlanFromProto(bad), StatusIs(kInvalid, "changes[2].set_weight.weight: "));
  }
  bad = good;
  bad.mutable_changes(3)->mutable_move_buckets()->set_to("../x");
  EXPECT_THAT(MigrationPlanFromProto(bad), StatusIs(kInvalid, "changes[3].move_buckets.to"));
  bad = good;
  bad.mutable_changes(6)->mutable_rebalance()->set_by(static_cast<v1::RebalanceBy>(9));
  EXPECT_THAT(MigrationPlanFromProto(bad), StatusIs(kInvalid, "changes[6].rebalance.by: 9"));
  bad = good;
  bad.mutable_changes(6)->mutable_rebalance()->set_by(v1::REBALANCE_BY_SHARE);
  EXPECT_THAT(MigrationPlanFromProto(bad), StatusIs(kInvalid, "rebalance.tolerance_ppm"));
}

TEST(WireMigrationTest, RebalanceWithoutSayingByWhat) {
  v1::MigrationPlan proto;
  proto.set_keyspace("sessions");
  v1::Rebalance* rebalance = proto.add_changes()->mutable_rebalance();
  ASSERT_OK_AND_ASSIGN(const MigrationPlan by_share, MigrationPlanFromProto(proto));
  EXPECT_EQ(by_share.changes[0], Change(Rebalance()));
  rebalance->add_bucket_load(3);
  ASSERT_OK_AND_ASSIGN(const MigrationPlan by_load, MigrationPlanFromProto(proto));
  EXPECT_EQ(by_load.changes[0], Change(Rebalance{Rebalance::By::kLoad, {3}}));
}

TEST(WireMigrationTest, PreviewShowsWeightsPinsAndLoad) {
  Preview preview;
  preview.reweights = {{"cache-2", 1000, 2500}};
  preview.pins_put = {{7, "cache-2"}};
  preview.pins_removed = {3, 9};
  v1::Preview proto = ToProto(preview, RangeDetail::kOmit);
  EXPECT_FALSE(proto.has_load());
  EXPECT_EQ(proto.reweights(0).before(), 1.0);
  EXPECT_EQ(proto.reweights(0).after(), 2.5);
  EXPECT_EQ(proto.pins_put(0).bucket(), 7u);
  EXPECT_EQ(proto.pins_put(0).node(), "cache-2");
  EXPECT_EQ(proto.pins_removed(1), 9u);

  preview.load = {0.25, 0.125, 2.0, 1.01};
  preview.shares = {{"cache-2", 0.5, 0.4, 0.5, 0, 0, 0.75, 0.5}};
  proto = ToProto(preview, RangeDetail::kOmit);
  EXPECT_EQ(proto.load().moved_share(), 0.25);
  EXPECT_EQ(proto.load().ideal_share(), 0.125);
  EXPECT_EQ(proto.load().max_over_mean_before(), 2.0);
  EXPECT_EQ(proto.load().max_over_mean_after(), 1.01);
  EXPECT_EQ(proto.shares(0).load_before(), 0.75);
  EXPECT_EQ(proto.shares(0).load_after(), 0.5);
}

TEST(WireMigrationTest, MigrationShowsRecordAndProgress) {
  MigrationRecord record;
  record.id = "mig-1";
  record.author = "dev";
  record.plan = FullPlan();
  record.preview.keyspace = "sessions";
  record.preview.waves = 3;
  record.preview.moves = {{0, "a", "b", HashRangeSet({HashRange{1, 2}, HashRange{10, 30}})}};
  record.preview.warnings = {"no session"};
  record.stage = Stage::kFencing;
  record.wave = 1;
  record.waves_committed = 1;
  record.created = absl::FromUnixMillis(1'800'000'000'250);
  record.history = {{Stage::kPlanned, 0, record.created, "submitted"}};
  record.verify_compared = 5;
  record.revision = 9;
  MigrationProgress progress;
  progress.keys_done = 10;
  progress.held = "waits for cache-5";
  progress.transfers = {{"a", "b", 10, 20, true}};

  const v1::Migration proto = ToProto(record, progress, RangeDetail::kShow);
  EXPECT_EQ(proto.keyspace(), "sessions");
  EXPECT_EQ(proto.state(), v1::MIGRATION_STATE_FENCING);
  EXPECT_EQ(proto.waves(), 3u);
  EXPECT_FALSE(proto.ended());
  EXPECT_EQ(proto.held(), "waits for cache-5");
  EXPECT_EQ(proto.create_time().nanos(), 250'000'000);
  EXPECT_EQ(proto.stages(0).note(), "submitted");
  EXPECT_EQ(proto.transfer().transfers(0).keys(), 10u);
  EXPECT_TRUE(proto.transfer().transfers(0).caught_up());
  EXPECT_EQ(proto.preview().ranges_moved(), 2u);
  EXPECT_EQ(proto.preview().moves(0).ranges().ends(1), 30u);
  EXPECT_EQ(proto.revision(), 9u);

  const v1::Migration brief = ToProto(record, progress, RangeDetail::kOmit);
  EXPECT_EQ(brief.preview().moves(0).ranges().ends_size(), 0);
  EXPECT_EQ(proto.plan().changes(6).rebalance().bucket_load_size(), 3);
  EXPECT_EQ(brief.plan().changes(6).rebalance().bucket_load_size(), 0);
  EXPECT_EQ(brief.plan().changes(6).rebalance().by(), v1::REBALANCE_BY_LOAD);
  EXPECT_EQ(brief.preview().ranges_moved(), 2u);
}

TEST(WireMigrationTest, EveryStageHasAState) {
  for (Stage stage : kAllStages) EXPECT_NE(ToProto(stage), v1::MIGRATION_STATE_UNSPECIFIED);
}

}  // namespace
}  // namespace warmring::wire
