#include <signal.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/integration/product_testing.h"

// A node dies, or is taken for dead; a node is replaced; two migrations run at once, and one waits
// for another.

namespace warmring {
namespace {

class FailoverProductTest : public MigrationTest {
 protected:
  v1::Change Replacement(const NodeId& node, const NodeId& by, bool dead) {
    v1::Change change;
    change.mutable_replace()->set_node(node);
    change.mutable_replace()->set_dead(dead);
    change.mutable_replace()->mutable_by()->set_id(by);
    change.mutable_replace()->mutable_by()->set_address(cluster_->Find(by).redis->Address());
    return change;
  }
  // `count` buckets of `from` to `to`, from bucket `begin` on.
  v1::MigrationPlan Moving(const NodeId& from, const NodeId& to, uint32_t begin, int count) {
    v1::MigrationPlan plan;
    v1::MoveBuckets* move = plan.add_changes()->mutable_move_buckets();
    move->set_to(to);
    const auto map = cluster_->MembershipAt();
    EXPECT_OK(map);
    for (uint32_t bucket = begin; move->buckets_size() < count; ++bucket) {
      if ((*map)->nodes()[(*map)->ranges()[bucket].owner].id == from) move->add_buckets(bucket);
    }
    return plan;
  }
  void ExpectSucceeded(const MigrationId& id) {
    const v1::Migration ended = AwaitEnd(id);
    EXPECT_EQ(ended.state(), v1::MIGRATION_STATE_SUCCEEDED) << crash::Describe(ended);
  }
  // What only `node` had is lost: an application would find it at its origin.
  void ForgetWhatWasAt(const Membership& map, const NodeId& node) {
    for (auto& [key, value] : expected_) {
      if (map.nodes()[RouteKey(map, key).owner].id == node) value = std::nullopt;
    }
  }
};

TEST_F(FailoverProductTest, ANodeIsReplacedUnderWrites) {
  Fill(2000);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr before, cluster_->MembershipAt());
  std::jthread writer([&](const std::stop_token& stop) {
    for (int round = 0; !stop.stop_requested(); ++round) {
      Write(KeyOf((round * 7919) % 2000), "round " + std::to_string(round));
    }
  });
  ASSERT_OK(cluster_->SubmitChange("replace", Replacement("node-a", "node-c", false),
                                   {.hold = {}, .soak = {}}));
  ExpectSucceeded("replace");
  writer.request_stop();
  writer.join();
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr after, cluster_->MembershipAt());
  EXPECT_EQ(after->OwnedBy("node-c"), before->OwnedBy("node-a"));
  EXPECT_EQ(after->OwnedBy("node-b"), before->OwnedBy("node-b"));
  ExpectEverythingInItsPlace();
  EXPECT_EQ(DbSize("node-a"), 0);
}

TEST_F(FailoverProductTest, OthersTakeOverFromADeadNode) {
  Fill(1000);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr before, cluster_->MembershipAt());
  cluster_->Find("node-b").redis->Kill9();
  cluster_->Find("node-b").agent->Kill9();
  ForgetWhatWasAt(*before, "node-b");
  v1::MigrationPlan plan;
  plan.add_changes()->mutable_remove()->set_node("node-b");
  plan.mutable_changes(0)->mutable_remove()->set_dead(true);
  ASSERT_OK(cluster_->Submit("failover", plan, {.hold = absl::Hours(1), .soak = absl::Hours(1)}));
  ExpectSucceeded("failover");
  ASSERT_OK_AND_ASSIGN(const v1::Migration ended, cluster_->Get("failover"));
  EXPECT_TRUE(ended.unclean());
  for (int i = 0; i < 1000; i += 3) Write(KeyOf(i), "afterwards");
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr after, cluster_->MembershipAt());
  EXPECT_FALSE(after->FindNode("node-b").has_value());
  EXPECT_DOUBLE_EQ(after->OwnedBy("node-a").Share(), 1.0);
  // It comes back with nothing to say, and is no owner.
  ASSERT_OK(cluster_->Find("node-b").redis->Restart());
  ASSERT_OK(cluster_->Find("node-b").agent->Restart());
  ExpectEverythingInItsPlace();
}

// The failover does not wait for the migration that the dead node takes part in.
TEST_F(FailoverProductTest, AFailoverMakesAMigrationMakeWay) {
  Fill(1000);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr before, cluster_->MembershipAt());
  ASSERT_OK(cluster_->SubmitAdd("add", "node-c",
                                {.hold = {}, .soak = absl::Minutes(10), .keys_per_second = 50}));
  AwaitState("add", v1::MIGRATION_STATE_WARMING);
  cluster_->Find("node-b").redis->Kill9();
  cluster_->Find("node-b").agent->Kill9();
  ForgetWhatWasAt(*before, "node-b");
  ASSERT_OK(cluster_->SubmitChange("failover", Replacement("node-b", "node-c", true), {}));
  ExpectSucceeded("failover");
  ASSERT_OK_AND_ASSIGN(const v1::Migration added, cluster_->Get("add"));
  EXPECT_EQ(added.state(), v1::MIGRATION_STATE_ABORTED) << crash::Describe(added);
  EXPECT_EQ(added.preempted_by(), "failover");
  for (int i = 0; i < 1000; i += 3) Write(KeyOf(i), "afterwards");
  ASSERT_OK(cluster_->Find("node-b").redis->Restart());
  ASSERT_OK(cluster_->Find("node-b").agent->Restart());
  ExpectEverythingInItsPlace();
}

TEST_F(FailoverProductTest, TwoMigrationsAtOnceAndOneThatWaits) {
  Fill(2000);
  const crash::MigrationTerms slow = {.hold = {}, .soak = absl::Seconds(5)};
  ASSERT_OK(cluster_->Submit("to-b", Moving("node-a", "node-b", 0, 200), slow));
  ASSERT_OK(cluster_->Submit("to-a", Moving("node-b", "node-a", 500, 200), slow));
  v1::MigrationPlan plan = Moving("node-a", "node-b", 0, 100);
  plan.mutable_changes(0)->mutable_move_buckets()->set_to("node-a");
  plan.mutable_strategy()->set_on_conflict(v1::ON_CONFLICT_QUEUE);
  ASSERT_OK_AND_ASSIGN(const v1::Migration waiting, cluster_->Submit("back", plan, slow));
  EXPECT_TRUE(waiting.queued());
  EXPECT_NE(waiting.held().find("migration 'to-b' has not ended"), std::string::npos)
      << waiting.held();
  std::jthread writer([&](const std::stop_token& stop) {
    for (int round = 0; !stop.stop_requested(); ++round) {
      Write(KeyOf((round * 7919) % 2000), "round " + std::to_string(round));
    }
  });
  for (const char* id : {"to-b", "to-a", "back"}) ExpectSucceeded(id);
  writer.request_stop();
  writer.join();
  ExpectEverythingInItsPlace();
}

// The donor's agent hangs: nobody acknowledges, and an operator who knows better goes on.
TEST_F(FailoverProductTest, AFenceIsForced) {
  Fill(1000);
  ASSERT_OK(cluster_->RestartServer("p5.after=stop@1"));
  ASSERT_OK(cluster_->WaitUntilServing(kDefaultWait));
  ASSERT_OK(cluster_->SubmitAdd("add", "node-c",
                                {.hold = {}, .soak = {}, .fence_timeout = absl::Minutes(5)}));
  support::Process& server = cluster_->Server().Server().Latest();
  ASSERT_OK(server.WaitUntilStopped(kDefaultWait));
  support::Process& agent = cluster_->Find("node-a").agent->Server().Latest();
  ASSERT_OK(agent.Kill(SIGSTOP));
  ASSERT_OK(agent.WaitUntilStopped(kDefaultWait));
  ASSERT_OK(server.Kill(SIGCONT));
  AwaitState("add", v1::MIGRATION_STATE_FENCING);
  EXPECT_THAT(cluster_->Force("add", "node-a", "", true),
              StatusIs(absl::StatusCode::kInvalidArgument, "reason: it has 0 bytes"));
  EXPECT_THAT(cluster_->Force("add", "node-c", "it hangs", true),
              StatusIs(absl::StatusCode::kInvalidArgument, "gives nothing now"));
  // Its lease is a second; Redis refuses what comes after it.
  ASSERT_OK(support::WaitUntilOk("the fence to be forced", kDefaultWait, [&] {
    return cluster_->Force("add", "node-a", "it hangs", false).status();
  }));
  AwaitState("add", v1::MIGRATION_STATE_FENCING);  // of the second wave: it hangs still
  ASSERT_OK(agent.Kill(SIGCONT));
  ExpectSucceeded("add");
  ASSERT_OK_AND_ASSIGN(const v1::Migration ended, cluster_->Get("add"));
  ASSERT_EQ(ended.forced_size(), 1);
  EXPECT_EQ(ended.forced(0).donor(), "node-a");
  EXPECT_EQ(ended.forced(0).reason(), "it hangs");
  EXPECT_EQ(ended.forced(0).lease_left().seconds(), 0);
  EXPECT_TRUE(ended.unclean());
  // What node-c got in the first wave is gone, whoever gave it.
  application_->ForgetRoutes();
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr after, cluster_->MembershipAt());
  for (auto& [key, value] : expected_) {
    if (after->nodes()[RouteKey(*after, key).owner].id != "node-c") continue;
    ASSERT_OK_AND_ASSIGN(const RedisReply reply, application_->Do({"GET", key}));
    if (reply.IsNil()) value = std::nullopt;
  }
  ExpectEverythingInItsPlace();
}

TEST(ForceFenceRoleTest, NeedsARoleOfItsOwn) {
  auto cluster = Cluster::Start(
      {.keyspace = "shop", .nodes = 1, .members = 1, .server_args = {"--dev-roles", "operator"}});
  ASSERT_OK(cluster);
  EXPECT_THAT((*cluster)->Force("add", "node-a", "it hangs", true),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       "MigrationService/ForceFence needs the role safety-override"));
}

}  // namespace
}  // namespace warmring
