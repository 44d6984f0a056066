// A plan file is read through the proto's descriptor: every field reads in its friendly form, and
// every mistake is named with its place and a way out.

#include "client/cli/plan_file.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cli/plan_flags.h"
#include "warmring/v1/migration_service.pb.h"

namespace warmring::cli {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const std::string& text) {
  v1::MigrationPlan plan;
  const absl::Status status = ParseYaml("plan.yaml", text, &plan);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

TEST(PlanFile, ReadsEveryKindOfField) {
  v1::MigrationPlan plan;
  const absl::Status status = ParseYaml("plan.yaml", R"(
apiVersion: warmring.io/v1
kind: MigrationPlan
name: add-cache-05
keyspace: sessions
reason: "INC-4211: memory headroom below 15 %"
baseVersion: 41
changes:
  - add: {node: {id: cache-05, address: "127.0.0.1:7005", weight: 1.5, labels: {team: infra}}}
  - remove: {node: cache-01}
strategy:
  commitSteps: [10%, 0.5, 100%]
  hold: 90s
  soak: 1h30m
  await_promotion: true
  verifySample: 0
  fencePolicy: ack_or_lease
limits:
  bytesPerSecond: 80MiB/s
  keysPerSecond: 5000/s
)",
                                        &plan);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(plan.name(), "add-cache-05");
  EXPECT_EQ(plan.base_version(), 41u);
  ASSERT_EQ(plan.changes_size(), 2);
  EXPECT_EQ(plan.changes(0).add().node().id(), "cache-05");
  EXPECT_EQ(plan.changes(0).add().node().weight(), 1.5);
  EXPECT_EQ(plan.changes(0).add().node().labels().at("team"), "infra");
  EXPECT_EQ(plan.changes(1).remove().node(), "cache-01");
  ASSERT_EQ(plan.strategy().commit_steps_size(), 3);
  EXPECT_EQ(plan.strategy().commit_steps(0), 0.1);
  EXPECT_EQ(plan.strategy().commit_steps(1), 0.5);
  EXPECT_EQ(plan.strategy().commit_steps(2), 1.0);
  EXPECT_EQ(plan.strategy().hold().seconds(), 90);
  EXPECT_EQ(plan.strategy().soak().seconds(), 5400);
  EXPECT_TRUE(plan.strategy().await_promotion());
  EXPECT_TRUE(plan.strategy().has_verify_sample());
  EXPECT_EQ(plan.strategy().fence_policy(), v1::FENCE_POLICY_ACK_OR_LEASE);
  EXPECT_EQ(plan.limits().bytes_per_second(), 80u << 20);
  EXPECT_EQ(plan.limits().keys_per_second(), 5000u);
}

TEST(PlanFile, NamesPlaceFieldValueAndWayOut) {
  EXPECT_EQ(Refusal("keyspace: a\nlimits:\n  bytesPerSecond: 80MB/sec\n"),
            "plan.yaml:3:19: limits.bytesPerSecond '80MB/sec' is not a rate (try 80MiB/s or "
            "5000/s)");
  EXPECT_EQ(Refusal("keyspace: a\nlimits: {bytesPerSecnd: 1}\n"),
            "plan.yaml:2:10: limits.bytesPerSecnd is not a known key; did you mean "
            "'bytesPerSecond'?");
  EXPECT_THAT(Refusal("zzzzzzzzzz: 1"), HasSubstr("known here: name, keyspace, reason"));
  EXPECT_THAT(Refusal("strategy: {hold: 5 minutes}"), HasSubstr("'5 minutes' is not a duration"));
  EXPECT_THAT(Refusal("strategy: {hold: -5s}"), HasSubstr("out of range"));
  EXPECT_THAT(Refusal("strategy: {hold: inf}"), HasSubstr("out of range"));
  EXPECT_THAT(Refusal("strategy: {commitSteps: [nan]}"), HasSubstr("'nan' is not a number"));
  EXPECT_THAT(Refusal("strategy: {awaitPromotion: yes}"), HasSubstr("not true or false"));
  EXPECT_THAT(Refusal("strategy: {fencePolicy: ack_onyl}"), HasSubstr("did you mean 'ack_only'"));
  EXPECT_THAT(Refusal("baseVersion: -1"), HasSubstr("baseVersion '-1'"));
  EXPECT_THAT(Refusal("baseVersion: 18446744073709551616"), HasSubstr("not a whole number"));
}

TEST(PlanFile, RefusesWrongShapes) {
  EXPECT_THAT(Refusal("changes: {add: 1}"), HasSubstr("changes must be a list"));
  EXPECT_THAT(Refusal("changes: [5]"), HasSubstr("changes[0] must be a map"));
  EXPECT_THAT(Refusal("name: [a]"), HasSubstr("name must be a single value"));
  EXPECT_THAT(Refusal("name: a\nname: b"), HasSubstr("given twice"));
  EXPECT_THAT(Refusal("keyspace: a\n---\nkeyspace: b"), HasSubstr("2 YAML documents"));
  EXPECT_THAT(Refusal(""), HasSubstr("0 YAML documents"));
  EXPECT_THAT(Refusal("kind: Deployment\nname: a"), HasSubstr("kind must be 'MigrationPlan'"));
  EXPECT_THAT(Refusal("a: [1"), HasSubstr("plan.yaml:"));
  EXPECT_THAT(Refusal(std::string((1 << 20) + 1, '#')), HasSubstr("at most 1048576 bytes"));
}

TEST(PlanFile, ReadsChangesOfADirectory) {
  v1::MigrationPlan plan;
  const absl::Status status = ParseYaml("plan.yaml", R"(
keyspace: sessions
changes:
  - setWeight: {node: cache-02, weight: 2.5}
  - moveBuckets: {buckets: [1, 2, 5-9], to: cache-03, pin: true}
  - unpin: {buckets: ["12"]}
  - rebalance: {by: load, bucketLoad: [0, 10, 1099511627776], tolerancePpm: 5000}
)",
                                        &plan);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(plan.changes(0).set_weight().weight(), 2.5);
  const auto& buckets = plan.changes(1).move_buckets().buckets();
  EXPECT_EQ(std::vector<uint32_t>(buckets.begin(), buckets.end()),
            (std::vector<uint32_t>{1, 2, 5, 6, 7, 8, 9}));
  EXPECT_TRUE(plan.changes(1).move_buckets().pin());
  EXPECT_EQ(plan.changes(2).unpin().buckets(0), 12u);
  EXPECT_EQ(plan.changes(3).rebalance().by(), v1::REBALANCE_BY_LOAD);
  EXPECT_EQ(plan.changes(3).rebalance().bucket_load(2), uint64_t{1} << 40);
  EXPECT_EQ(plan.changes(3).rebalance().tolerance_ppm(), 5000u);
}

TEST(PlanFile, RefusesBadChangesOfADirectory) {
  EXPECT_EQ(Refusal("changes: [{moveBuckets: {buckets: [1, 9-5], to: a}}]"),
            "plan.yaml:1:39: changes[0].moveBuckets.buckets[1] '9-5' is neither a bucket (7) nor a "
            "span of buckets (5-9)");
  EXPECT_THAT(Refusal("changes: [{moveBuckets: {buckets: 5, to: a}}]"),
              HasSubstr("buckets must be a list"));
  EXPECT_THAT(Refusal("changes: [{unpin: {buckets: [0-1048575, 0-1048575]}}]"),
              HasSubstr("has more than 1048576 buckets"));
  EXPECT_THAT(Refusal("changes: [{rebalance: {by: laod}}]"), HasSubstr("did you mean 'load'"));
  EXPECT_THAT(Refusal("changes: [{rebalance: {bucketLoad: [1, -2]}}]"),
              HasSubstr("changes[0].rebalance.bucketLoad[1] '-2'"));
  EXPECT_THAT(Refusal("changes: [{setWeight: {node: a, weight: heavy}}]"),
              HasSubstr("'heavy' is not a number"));
  EXPECT_THAT(Refusal("changes: [{setWieght: {node: a}}]"), HasSubstr("did you mean 'setWeight'"));
}

TEST(PlanFlags, UseTheSameReader) {
  PlanFlags flags;
  flags.steps = {"25%", "100%"};
  flags.soak = "2s";
  flags.bytes_per_second = "1MiB/s";
  const auto plan = flags.ToPlan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->strategy().commit_steps(0), 0.25);
  EXPECT_EQ(plan->strategy().soak().seconds(), 2);
  EXPECT_FALSE(plan->strategy().has_hold());
  EXPECT_EQ(plan->limits().bytes_per_second(), 1048576u);

  flags.soak = "soon";
  EXPECT_THAT(std::string(flags.ToPlan().status().message()),
              HasSubstr("strategy.soak 'soon' is not a duration"));
}

TEST(PlanFile, RulesOfOverrides) {
  v1::MigrationPlan plan;
  const absl::Status status = ParseYaml("plan.yaml", R"(
keyspace: sessions
changes:
  - setOverride: {rule: {prefix: "tenant-7:"}, nodes: [cache-01, cache-02]}
  - removeOverride: {rule: {key: !!binary "AP8="}}
)",
                                        &plan);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(plan.changes(0).set_override().rule().prefix(), "tenant-7:");
  EXPECT_EQ(plan.changes(0).set_override().nodes(1), "cache-02");
  EXPECT_EQ(plan.changes(1).remove_override().rule().key(), std::string("\0\xff", 2));
  EXPECT_THAT(Refusal("changes: [{setOverride: {rule: {prefix: a, key: b}}}]"),
              HasSubstr("changes[0].setOverride.rule.key is given beside another"));
  EXPECT_THAT(Refusal("changes: [{setOverride: {}, removeOverride: {}}]"),
              HasSubstr("changes[0].removeOverride is given beside another"));
  EXPECT_THAT(Refusal("changes: [{setOverride: {rule: {key: !!binary \"?\"}}}]"),
              HasSubstr("'?' is not base64"));
}

}  // namespace
}  // namespace warmring::cli
