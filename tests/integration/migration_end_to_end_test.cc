#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/membership/update.h"
#include "core/ownership/owner_view.h"
#include "tests/integration/product_testing.h"
#include "warmring/router.h"

// Nodes come and go under writes.

namespace warmring {
namespace {

TEST_F(MigrationTest, ANodeIsAddedUnderWritesAndRemovedAgain) {
  Fill(3000);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr before, cluster_->MembershipAt());
  ASSERT_OK(cluster_->SubmitAdd("add-c", "node-c", {.hold = {}, .soak = absl::Seconds(1)}));

  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int round = 0; !stop; ++round) {
      const std::string key = KeyOf((round * 7919) % 3000);
      if (round % 10 == 0) {
        Delete(key);
      } else {
        Write(key, "round " + std::to_string(round));
      }
    }
  });
  const v1::Migration added = AwaitEnd("add-c");
  stop = true;
  writer.join();
  EXPECT_EQ(added.state(), v1::MIGRATION_STATE_SUCCEEDED) << crash::Describe(added);
  EXPECT_GT(added.verify_compared(), 0u);
  EXPECT_EQ(added.verify_mismatched(), 0u);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr after, cluster_->MembershipAt());
  EXPECT_NEAR(after->OwnedBy("node-c").Share(), 1.0 / 3, 0.02);
  {
    SCOPED_TRACE("after the node was added");
    ExpectEverythingInItsPlace();
  }

  // A router that still believes in the old membership is refused by Redis itself, by the old owner
  // and by the new one.
  int tried = 0;
  for (int i = 0; i < 3000 && tried < 20; ++i) {
    const std::string key = KeyOf(i);
    const Route old_route = RouteKey(*before, key);
    const Route new_route = RouteKey(*after, key);
    const NodeId old_owner = before->nodes()[old_route.owner].id;
    const NodeId new_owner = after->nodes()[new_route.owner].id;
    if (old_owner == new_owner) continue;
    ++tried;
    const std::vector<std::string> stale = {
        "WR.WRITE", FormatEpochWord(before->history(), old_route.epoch), "SET", key, "stale"};
    ASSERT_OK_AND_ASSIGN(const RedisReply moved, cluster_->Find(old_owner).redis->Command(stale));
    EXPECT_TRUE(moved.text.starts_with("WRMOVED")) << moved.text;
    ASSERT_OK_AND_ASSIGN(const RedisReply refused, cluster_->Find(new_owner).redis->Command(stale));
    EXPECT_TRUE(refused.text.starts_with("WRSTALE")) << refused.text;
    ASSERT_OK_AND_ASSIGN(const RedisReply plain,
                         cluster_->Find(old_owner).redis->Command({"SET", key, "stale"}));
    EXPECT_TRUE(plain.text.starts_with("WRMOVED")) << plain.text;
  }
  EXPECT_EQ(tried, 20);

  ASSERT_OK(cluster_->SubmitRemove("remove-a", "node-a", {.hold = {}, .soak = {}}));
  const v1::Migration removed = AwaitEnd("remove-a");
  EXPECT_EQ(removed.state(), v1::MIGRATION_STATE_SUCCEEDED) << crash::Describe(removed);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr last, cluster_->MembershipAt());
  EXPECT_FALSE(last->FindNode("node-a").has_value());
  ExpectEverythingInItsPlace();
  EXPECT_EQ(DbSize("node-a"), 0);
}

// One node becomes heavier, the directory grows, buckets are pinned to the other: all under writes.
TEST_F(MigrationTest, WeightsAndPinnedBucketsMoveUnderWritesAndTheDirectoryGrows) {
  Fill(3000);
  std::jthread writer([&](const std::stop_token& stop) {
    for (int round = 0; !stop.stop_requested(); ++round) {
      Write(KeyOf((round * 7919) % 3000), "round " + std::to_string(round));
    }
  });
  const auto run = [&](const MigrationId& id, const v1::Change& change) {
    EXPECT_OK(cluster_->SubmitChange(id, change, {.hold = {}, .soak = absl::Milliseconds(100)}));
    const v1::Migration ended = AwaitEnd(id);
    EXPECT_EQ(ended.state(), v1::MIGRATION_STATE_SUCCEEDED) << crash::Describe(ended);
  };
  v1::Change weight;
  weight.mutable_set_weight()->set_node("node-b");
  weight.mutable_set_weight()->set_weight(3);
  run("weight-b", weight);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr reweighted, cluster_->MembershipAt());

  const uint32_t bits = reweighted->spec().directory_bits;
  ASSERT_OK(cluster_->Grow(bits + 1));
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr grown, cluster_->MembershipAt());

  v1::Change to_a;
  to_a.mutable_move_buckets()->set_to("node-a");
  to_a.mutable_move_buckets()->set_pin(true);
  for (uint32_t bucket = 0; bucket < 2000; ++bucket) {
    const NodeId& owner = grown->nodes()[grown->ranges()[bucket].owner].id;
    if (owner == "node-b") to_a.mutable_move_buckets()->add_buckets(bucket);
  }
  run("pin-a", to_a);
  writer.request_stop();
  writer.join();

  EXPECT_NEAR(reweighted->OwnedBy("node-b").Share(), 0.75, 0.001);
  EXPECT_TRUE(Diff(*reweighted, *grown).empty());
  EXPECT_EQ(grown->HighestEpoch(), reweighted->HighestEpoch());
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr last, cluster_->MembershipAt());
  EXPECT_EQ(last->spec().directory_bits, bits + 1);
  EXPECT_EQ(last->pins().size(), static_cast<size_t>(to_a.move_buckets().buckets_size()));
  for (uint32_t bucket = 0; bucket < 2000; ++bucket) {
    EXPECT_EQ(last->nodes()[last->ranges()[bucket].owner].id, "node-a") << bucket;
  }
  ExpectEverythingInItsPlace();
}

TEST_F(MigrationTest, AnAbortBeforeTheCommitLeavesNothingBehind) {
  Fill(2000);
  ASSERT_OK(
      cluster_->SubmitAdd("add-c", "node-c", {.hold = {}, .soak = {}, .keys_per_second = 200}));
  AwaitState("add-c", v1::MIGRATION_STATE_WARMING);
  ASSERT_OK(WaitFor("keys on their way", kDefaultWait, [this] { return DbSize("node-c") > 0; }));
  ASSERT_OK(cluster_->Abort("add-c"));
  const v1::Migration aborted = AwaitEnd("add-c");
  EXPECT_EQ(aborted.state(), v1::MIGRATION_STATE_ABORTED) << crash::Describe(aborted);
  ExpectEverythingInItsPlace();
  EXPECT_EQ(DbSize("node-c"), 0);
}

TEST_F(MigrationTest, AnUndoWhileSoakingLosesNoWrite) {
  Fill(2000);
  ASSERT_OK(cluster_->SubmitAdd("add-c", "node-c", {.hold = {}, .soak = absl::Minutes(10)}));
  AwaitState("add-c", v1::MIGRATION_STATE_SOAKING);
  for (int i = 0; i < 2000; i += 3) Write(KeyOf(i), "during the soak " + std::to_string(i));
  for (int i = 0; i < 2000; i += 7) Delete(KeyOf(i));
  Write("born:1", "during the soak");

  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int round = 0; !stop; ++round) {
      Write(KeyOf((round * 7919) % 2000), "round " + std::to_string(round));
    }
  });
  ASSERT_OK(cluster_->Undo("add-c"));
  const v1::Migration undone = AwaitEnd("add-c");
  stop = true;
  writer.join();
  EXPECT_EQ(undone.state(), v1::MIGRATION_STATE_ROLLED_BACK) << crash::Describe(undone);
  ExpectEverythingInItsPlace();
  EXPECT_EQ(DbSize("node-c"), 0);
}

// Two copies of each bucket, the second one kept by nobody: only where it is to be is looked at.
class CopiesTest : public MigrationTest {
 protected:
  void SetUp() override { Start(2); }

  // Who follows each bucket.
  static std::vector<NodeId> FollowersOf(const Membership& map) {
    std::vector<NodeId> followers;
    for (const NodeIndex node : map.data().followers) followers.push_back(map.nodes()[node].id);
    return followers;
  }
  // What clients are told.
  void ExpectClientsKnow(const Membership::Ptr& map) {
    Router router;
    router.Install(map);
    Followers followers;
    for (int i = 0; i < 1000; ++i) {
      const auto owner = router.LocateReplicas(KeyOf(i), followers);
      ASSERT_TRUE(owner.has_value());
      ASSERT_EQ(owner->node, map->nodes()[RouteKey(*map, KeyOf(i)).owner].id);
      ASSERT_EQ(followers.size(), 1u);
      ASSERT_NE(followers[0].node, owner->node);
      ASSERT_TRUE(map->FollowedBy(followers[0].node).Contains(owner->hash));
    }
  }
};

TEST_F(CopiesTest, OwnersAndFollowersMoveUnderWritesAndBackAndTheDeadAreFollowed) {
  Fill(2000);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr before, cluster_->MembershipAt());
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int round = 0; !stop; ++round) {
      Write(KeyOf((round * 7919) % 2000), "round " + std::to_string(round));
    }
  });
  ASSERT_OK(cluster_->SubmitAdd("add-1", "node-c", {.hold = {}, .soak = absl::Minutes(10)}));
  AwaitState("add-1", v1::MIGRATION_STATE_SOAKING);
  ASSERT_OK(cluster_->Undo("add-1"));
  const v1::Migration undone = AwaitEnd("add-1");
  EXPECT_EQ(undone.state(), v1::MIGRATION_STATE_ROLLED_BACK) << crash::Describe(undone);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr back, cluster_->MembershipAt());
  EXPECT_EQ(FollowersOf(*back), FollowersOf(*before));
  ExpectClientsKnow(back);

  ASSERT_OK(cluster_->SubmitAdd("add-2", "node-c", {.hold = {}, .soak = {}}));
  const v1::Migration added = AwaitEnd("add-2");
  stop = true;
  writer.join();
  EXPECT_EQ(added.state(), v1::MIGRATION_STATE_SUCCEEDED) << crash::Describe(added);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr grown, cluster_->MembershipAt());
  for (const Node& node : grown->nodes()) {
    EXPECT_NEAR(grown->OwnedBy(node.id).Share(), 1.0 / 3, 0.02) << node.id;
    EXPECT_NEAR(grown->FollowedBy(node.id).Share(), 1.0 / 3, 0.02) << node.id;
  }
  ExpectClientsKnow(grown);
  ExpectEverythingInItsPlace();

  cluster_->Find("node-b").agent->Kill9();
  cluster_->Find("node-b").redis->Kill9();
  v1::MigrationPlan plan;
  plan.add_changes()->mutable_remove()->set_node("node-b");
  plan.mutable_changes(0)->mutable_remove()->set_dead(true);
  ASSERT_OK(cluster_->Submit("dead-b", plan, {.hold = {}, .soak = {}}));
  const v1::Migration ended = AwaitEnd("dead-b");
  EXPECT_EQ(ended.state(), v1::MIGRATION_STATE_SUCCEEDED) << crash::Describe(ended);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr left, cluster_->MembershipAt());
  ExpectClientsKnow(left);
  for (size_t i = 0; i < left->ranges().size(); ++i) {
    NodeId owner = grown->nodes()[grown->ranges()[i].owner].id;
    if (owner == "node-b") owner = FollowersOf(*grown)[i];
    ASSERT_EQ(left->nodes()[left->ranges()[i].owner].id, owner) << "bucket " << i;
  }
  // Everybody writes again.
  for (int i = 0; i < 100; ++i) Write(KeyOf(i), "after the failover");
}

std::string TenantKey(int i) { return "tenant7:" + std::to_string(i); }

v1::MigrationPlan TenantTo(const std::vector<NodeId>& nodes) {
  v1::MigrationPlan plan;
  v1::SetOverride* set = plan.add_changes()->mutable_set_override();
  set->mutable_rule()->set_prefix("tenant7:");
  for (const NodeId& node : nodes) set->add_nodes(node);
  return plan;
}

class OverrideTest : public MigrationTest {
 protected:
  void FillTenant(int keys) {
    for (int i = 0; i < keys; ++i) Write(TenantKey(i), "value " + std::to_string(i));
  }
  std::set<NodeId> OwnersOfTenant(const Membership& map) {
    std::set<NodeId> owners;
    for (int i = 0; i < 300; ++i) {
      owners.insert(map.nodes()[RouteKey(map, TenantKey(i)).owner].id);
    }
    return owners;
  }
  void Settle(const MigrationId& id) {
    const v1::Migration migration = AwaitEnd(id);
    EXPECT_EQ(migration.state(), v1::MIGRATION_STATE_SUCCEEDED) << crash::Describe(migration);
  }
};

// A tenant gets a node of its own under writes, keeps it while the fleet grows, and goes back.
TEST_F(OverrideTest, ATenantIsIsolatedAndGoesBack) {
  Fill(1000);
  FillTenant(600);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr before, cluster_->MembershipAt());
  EXPECT_EQ(OwnersOfTenant(*before), (std::set<NodeId>{"node-a", "node-b"}));

  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int round = 0; !stop; ++round) {
      const std::string key =
          round % 2 == 0 ? TenantKey((round * 7919) % 600) : KeyOf((round * 7919) % 1000);
      if (round % 10 == 0) {
        Delete(key);
      } else {
        Write(key, "round " + std::to_string(round));
      }
    }
  });
  EXPECT_OK(cluster_->Submit("isolate", TenantTo({"node-b"}), {.hold = {}, .soak = {}}));
  Settle("isolate");
  stop = true;
  writer.join();
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr isolated, cluster_->MembershipAt());
  EXPECT_EQ(OwnersOfTenant(*isolated), (std::set<NodeId>{"node-b"}));
  {
    SCOPED_TRACE("after the tenant was isolated");
    ExpectEverythingInItsPlace();
  }

  // Who does not know the rule is refused by the node that had the key.
  int tried = 0;
  for (int i = 0; i < 600 && tried < 20; ++i) {
    const std::string key = TenantKey(i);
    const Route old_route = RouteKey(*before, key);
    if (before->nodes()[old_route.owner].id == "node-b") continue;
    ++tried;
    ASSERT_OK_AND_ASSIGN(
        const RedisReply moved,
        cluster_->Find("node-a").redis->Command(
            {"WR.WRITE", FormatEpochWord(before->history(), old_route.epoch), "SET", key, "old"}));
    EXPECT_TRUE(moved.text.starts_with("WRMOVED")) << moved.text;
    ASSERT_OK_AND_ASSIGN(const RedisReply plain,
                         cluster_->Find("node-a").redis->Command({"SET", key, "old"}));
    EXPECT_TRUE(plain.text.starts_with("WRMOVED")) << plain.text;
  }
  EXPECT_EQ(tried, 20);

  ASSERT_OK(cluster_->SubmitAdd("add-c", "node-c", {.hold = {}, .soak = {}}));
  Settle("add-c");
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr grown, cluster_->MembershipAt());
  EXPECT_EQ(OwnersOfTenant(*grown), (std::set<NodeId>{"node-b"}));
  EXPECT_NEAR(grown->OwnedBy("node-c").Share(), 1.0 / 3, 0.02);
  EXPECT_FALSE(cluster_->SubmitRemove("remove-b", "node-b", {}).ok()) << "it has the tenant";

  v1::MigrationPlan back;
  back.add_changes()->mutable_remove_override()->mutable_rule()->set_prefix("tenant7:");
  ASSERT_OK(cluster_->Submit("back", back, {.hold = {}, .soak = absl::Seconds(1)}));
  Settle("back");
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr last, cluster_->MembershipAt());
  EXPECT_TRUE(last->overrides().empty()) << "all members know";
  EXPECT_EQ(OwnersOfTenant(*last), (std::set<NodeId>{"node-a", "node-b", "node-c"}));
  ExpectEverythingInItsPlace();
}

TEST_F(OverrideTest, AnUndoWhileSoakingLosesNoWrite) {
  Fill(500);
  FillTenant(600);
  ASSERT_OK(
      cluster_->Submit("isolate", TenantTo({"node-a"}), {.hold = {}, .soak = absl::Minutes(10)}));
  AwaitState("isolate", v1::MIGRATION_STATE_SOAKING);
  for (int i = 0; i < 600; i += 3) Write(TenantKey(i), "during the soak " + std::to_string(i));
  for (int i = 0; i < 600; i += 7) Delete(TenantKey(i));
  Write("tenant7:born", "during the soak");

  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int round = 0; !stop; ++round) {
      Write(TenantKey((round * 7919) % 600), "round " + std::to_string(round));
    }
  });
  ASSERT_OK(cluster_->Undo("isolate"));
  const v1::Migration undone = AwaitEnd("isolate");
  stop = true;
  writer.join();
  EXPECT_EQ(undone.state(), v1::MIGRATION_STATE_ROLLED_BACK) << crash::Describe(undone);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr map, cluster_->MembershipAt());
  EXPECT_EQ(OwnersOfTenant(*map), (std::set<NodeId>{"node-a", "node-b"}));
  ASSERT_EQ(map->overrides().size(), 1u);
  EXPECT_TRUE(map->overrides()[0].IsAsHashed());
  ExpectEverythingInItsPlace();

  // The keys that are as hashed go along when the fleet changes, and the rule is gone after that.
  ASSERT_OK(cluster_->SubmitAdd("add-c", "node-c", {.hold = {}, .soak = absl::Seconds(1)}));
  Settle("add-c");
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr grown, cluster_->MembershipAt());
  EXPECT_TRUE(grown->overrides().empty());
  EXPECT_EQ(OwnersOfTenant(*grown), (std::set<NodeId>{"node-a", "node-b", "node-c"}));
  ExpectEverythingInItsPlace();
}

TEST_F(OverrideTest, OneKeyAndATenantThatIsSpread) {
  Fill(300);
  FillTenant(300);
  ASSERT_OK(cluster_->SubmitAdd("add-c", "node-c", {.hold = {}, .soak = {}}));
  Settle("add-c");
  v1::MigrationPlan plan = TenantTo({"node-c", "node-a"});
  v1::SetOverride* key = plan.add_changes()->mutable_set_override();
  key->mutable_rule()->set_key(TenantKey(5));
  key->add_nodes("node-b");
  ASSERT_OK(cluster_->Submit("spread", plan, {.hold = {}, .soak = {}}));
  Settle("spread");
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr map, cluster_->MembershipAt());
  EXPECT_EQ(map->nodes()[RouteKey(*map, TenantKey(5)).owner].id, "node-b");
  for (int i = 0; i < 300; ++i) {
    if (i == 5) continue;
    const NodeId& owner = map->nodes()[RouteKey(*map, TenantKey(i)).owner].id;
    EXPECT_NE(owner, "node-b") << i;
  }
  ExpectEverythingInItsPlace();
}

}  // namespace
}  // namespace warmring
