#include "warmring/router.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "client/base/membership_testing.h"
#include "gtest/gtest.h"

// A router says what the membership says, sees a new version on every thread at once, and its hot
// path allocates nothing.

namespace {
std::atomic<uint64_t> allocations = 0;
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* const memory = std::malloc(size);
  if (memory == nullptr) std::abort();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace warmring {
namespace {

using client_testing::KeyOwnedBy;
using client_testing::MakeMembership;
using client_testing::NextVersion;
using client_testing::TwoNodes;

TEST(RouterTest, KnowsNothingBeforeTheFirstMembership) {
  const Router router;
  EXPECT_FALSE(router.Locate("k").has_value());
  EXPECT_EQ(router.version(), Version(0));
  EXPECT_EQ(router.membership(), nullptr);
}

TEST(RouterTest, SaysWhatTheMembershipSays) {
  Router router;
  const Membership::Ptr membership = MakeMembership(TwoNodes(), Version(7));
  router.Install(membership);
  for (int i = 0; i < 1000; ++i) {
    const std::string key = "key-" + std::to_string(i);
    const Route route = RouteKey(*membership, key);
    const auto at = router.Locate(key);
    ASSERT_TRUE(at.has_value());
    EXPECT_EQ(at->node, membership->nodes()[route.owner].id);
    EXPECT_EQ(at->address, membership->nodes()[route.owner].address);
    EXPECT_EQ(at->hash, route.hash);
    EXPECT_EQ(at->epoch, Epoch(1));
    EXPECT_EQ(at->version, Version(7));
    EXPECT_EQ(at->EpochWord(), membership->history().Tag() + ":1");
    EXPECT_EQ(at->pending_node, "");
    EXPECT_EQ(at->previous_node, "");
  }
}

TEST(RouterTest, SaysWhatARingSays) {
  MembershipData data = client_testing::MakeData(TwoNodes());
  data.spec.placement = PlacementKind::kRing;
  data.ranges = {{1000, 0, Epoch(3)},
                 {uint64_t{1} << 62, 1, Epoch(4)},
                 {uint64_t{1} << 63, 0, Epoch(5)},
                 {(uint64_t{1} << 63) + 7, 1, Epoch(3)}};
  const Membership::Ptr membership = client_testing::Must(Membership::Create(data));
  Router router;
  router.Install(membership);
  for (int i = 0; i < 1000; ++i) {
    const std::string key = "key-" + std::to_string(i);
    const Route route = RouteKey(*membership, key);
    const OwnedRange& range = membership->RangeOf(route.hash);
    const auto at = router.Locate(key);
    ASSERT_TRUE(at.has_value());
    EXPECT_EQ(at->node, membership->nodes()[range.owner].id);
    EXPECT_EQ(at->epoch, range.epoch);
    EXPECT_EQ(at->hash, route.hash);
  }
}

TEST(RouterTest, NamesTheOtherSideOfAMove) {
  Router router;
  const Membership::Ptr base = MakeMembership(TwoNodes());
  const std::string key = KeyOwnedBy(*base, "a");
  router.Install(client_testing::WithPending(*base, key, "a", "b"));
  auto at = router.Locate(key);
  EXPECT_EQ(at->node, "a");
  EXPECT_EQ(at->pending_node, "b");
  EXPECT_EQ(at->pending_address, "127.0.0.1:7002");
  EXPECT_EQ(at->previous_node, "");

  router.Install(client_testing::WithGrace(*base, key, "a", "b", Epoch(2)));
  at = router.Locate(key);
  EXPECT_EQ(at->node, "b");
  EXPECT_EQ(at->epoch, Epoch(2));
  EXPECT_EQ(at->previous_node, "a");
  EXPECT_EQ(at->previous_address, "127.0.0.1:7001");
  EXPECT_EQ(at->pending_node, "");
}

std::string AddressOf(std::string_view id) {
  return "127.0.0.1:" + std::to_string(7000 + id.front() - 'a');
}

// `replication` copies of each bucket, in turn; of every seventh only the first of the two
// followers is there, of every eleventh only the second, and of every thirteenth neither.
MembershipData MakeCopies(uint32_t replication) {
  std::vector<Node> nodes;
  for (const char* const id : {"a", "b", "c", "d", "e"}) {
    nodes.push_back(client_testing::MakeNode(id, AddressOf(id)));
  }
  MembershipData data = client_testing::MakeData(std::move(nodes));
  data.spec.replication = replication;
  for (size_t i = 0; i < data.ranges.size(); ++i) {
    for (uint32_t rank = 1; rank < replication; ++rank) {
      const bool missing = i % 13 == 0 || (i % 7 == 0 && rank == 2) || (i % 11 == 0 && rank == 1);
      const auto node = static_cast<NodeIndex>((data.ranges[i].owner + rank) % 5);
      data.followers.push_back(missing ? kNoNode : node);
    }
  }
  return data;
}

void ExpectReplicas(const MembershipData& data) {
  const Membership::Ptr membership = client_testing::Must(Membership::Create(data));
  Router router;
  router.Install(membership);
  Followers followers;
  size_t shortest = Followers::kCapacity;
  size_t longest = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string key = "key-" + std::to_string(i);
    const auto at = router.LocateReplicas(key, followers);
    const auto owner = router.Locate(key);
    ASSERT_TRUE(at.has_value());
    EXPECT_EQ(at->node, owner->node);
    EXPECT_EQ(at->address, owner->address);
    EXPECT_EQ(at->hash, owner->hash);
    EXPECT_EQ(at->epoch, owner->epoch);
    EXPECT_EQ(at->version, owner->version);
    std::vector<std::string> expected;
    for (const NodeIndex node : membership->FollowersAt(membership->RangeIndexOf(at->hash))) {
      if (node != kNoNode) expected.push_back(membership->nodes()[node].id);
    }
    ASSERT_EQ(followers.size(), expected.size());
    EXPECT_EQ(followers.empty(), expected.empty());
    size_t rank = 0;
    for (const Follower& follower : followers) {
      EXPECT_EQ(follower.node, expected[rank]);
      EXPECT_EQ(follower.address, AddressOf(expected[rank]));
      EXPECT_EQ(followers[rank].node, follower.node);
      ++rank;
    }
    shortest = std::min(shortest, followers.size());
    longest = std::max(longest, followers.size());
  }
  EXPECT_EQ(shortest, 0U);
  EXPECT_EQ(longest, data.spec.replication - 1);
}

TEST(RouterTest, NamesTheFollowers) {
  for (const uint32_t replication : {1U, 2U, 3U}) {
    MembershipData data = MakeCopies(replication);
    ExpectReplicas(data);
    // A ring of the same ranges but one, so that nothing is uniform.
    data.spec.placement = PlacementKind::kRing;
    data.ranges.pop_back();
    data.followers.resize(data.ranges.size() * (replication - 1));
    ExpectReplicas(data);
  }
}

TEST(RouterTest, NamesAsManyFollowersAsThereCanBe) {
  std::vector<Node> nodes;
  for (char letter = 'a'; letter <= 'p'; ++letter) {
    nodes.push_back(client_testing::MakeNode(std::string(1, letter), "127.0.0.1:7001"));
  }
  MembershipData data = client_testing::MakeData(std::move(nodes));
  data.spec.replication = KeyspaceSpec::kMaxReplication;
  for (const OwnedRange& range : data.ranges) {
    for (NodeIndex step = 1; step < data.spec.replication; ++step) {
      data.followers.push_back((range.owner + step) % 16);
    }
  }
  Router router;
  router.Install(client_testing::Must(Membership::Create(std::move(data))));
  Followers followers;
  const auto at = router.LocateReplicas("k", followers);
  ASSERT_EQ(followers.size(), Followers::kCapacity);
  std::string names(at->node);
  for (const Follower& follower : followers) names += follower.node;
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, "abcdefghijklmnop");
}

TEST(RouterTest, ForgetsTheFollowersOfTheKeyBefore) {
  Followers followers;
  Router router;
  EXPECT_FALSE(router.LocateReplicas("k", followers).has_value());
  router.Install(client_testing::Must(Membership::Create(MakeCopies(3))));
  for (int i = 0; followers.empty(); ++i) {
    ASSERT_LT(i, 1000);
    router.LocateReplicas("key-" + std::to_string(i), followers);
  }
  router.Install(MakeMembership(TwoNodes()));
  EXPECT_TRUE(router.LocateReplicas("k", followers).has_value());
  EXPECT_TRUE(followers.empty());
}

TEST(RouterTest, FollowersComeWithTheMoves) {
  const Membership::Ptr base = client_testing::Must(Membership::Create(MakeCopies(2)));
  Router router;
  Followers followers;
  std::string key;
  for (int i = 0; followers.empty(); ++i) {
    key = KeyOwnedBy(*base, "a", "k" + std::to_string(i) + "-");
    router.Install(base);
    router.LocateReplicas(key, followers);
  }
  router.Install(client_testing::WithPending(*base, key, "a", "d"));
  const auto at = router.LocateReplicas(key, followers);
  EXPECT_EQ(at->node, "a");
  EXPECT_EQ(at->pending_node, "d");
  ASSERT_EQ(followers.size(), 1U);
  EXPECT_EQ(followers[0].node, "b");
}

TEST(RouterTest, ViewsOutliveTheMembershipThatTheyCameFrom) {
  Router router;
  std::optional<Location> at;
  {
    const Membership::Ptr first = MakeMembership(TwoNodes());
    router.Install(first);
    at = router.Locate("k");
  }
  Membership::Ptr other = MakeMembership({client_testing::MakeNode("z", "127.0.0.1:9999")});
  router.Install(other);
  EXPECT_EQ(router.Locate("k")->node, "z");
  EXPECT_TRUE(at->node == "a" || at->node == "b");
}

TEST(RouterTest, TheHotPathAllocatesNothing) {
  Router router;
  router.Install(MakeMembership(TwoNodes()));
  router.Locate("warm up");
  const uint64_t before = allocations.load();
  uint64_t sum = 0;
  for (int i = 0; i < 1000; ++i) sum += router.Locate("a key that is longer than most")->hash;
  EXPECT_EQ(allocations.load(), before);
  EXPECT_NE(sum, 0U);

  router.Install(client_testing::Must(Membership::Create(MakeCopies(3))));
  Followers followers;
  router.LocateReplicas("warm up", followers);
  const uint64_t before_replicas = allocations.load();
  size_t copies = 0;
  for (int i = 0; i < 1000; ++i) {
    router.LocateReplicas("a key that is longer than most", followers);
    copies += 1 + followers.size();
  }
  EXPECT_EQ(allocations.load(), before_replicas);
  EXPECT_GE(copies, 1000U);
}

TEST(RouterTest, RoutersOfOneThreadDoNotMixUp) {
  std::vector<std::unique_ptr<Router>> routers;
  for (uint64_t i = 1; i <= 20; ++i) {
    routers.push_back(std::make_unique<Router>());
    routers.back()->Install(MakeMembership(TwoNodes(), Version(i)));
  }
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 1; i <= 20; ++i) EXPECT_EQ(routers[i - 1]->version(), Version(i));
  }
}

TEST(RouterTest, EveryThreadSeesVersionsGoForwardOnly) {
  Router router;
  Membership::Ptr membership = MakeMembership(TwoNodes());
  router.Install(membership);
  std::atomic<bool> stop = false;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      Version seen;
      while (!stop) {
        const auto at = router.Locate("k");
        ASSERT_GE(at->version, seen);
        seen = at->version;
      }
      ASSERT_EQ(router.Locate("k")->version, Version(50));
    });
  }
  while (membership->version() < Version(50)) {
    membership = NextVersion(*membership);
    router.Install(membership);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

TEST(RouterTest, AnOverrideWinsOverTheHash) {
  Router router;
  MembershipData data = MakeMembership(TwoNodes(), Version(7))->data();
  data.overrides = {{1, {OverrideRule::Match::kPrefix, "tenant-"}, {{UINT64_MAX, 1}}, Epoch(5)},
                    {2, {OverrideRule::Match::kKey, "tenant-0"}, {{UINT64_MAX, 0}}, Epoch(6)}};
  data.next_plane = 3;
  const Membership::Ptr membership = *Membership::Create(data);
  router.Install(membership);
  for (int i = 0; i < 500; ++i) {
    const auto tenant = router.Locate("tenant-" + std::to_string(i));
    ASSERT_TRUE(tenant.has_value());
    EXPECT_EQ(tenant->node, i == 0 ? "a" : "b");
    EXPECT_EQ(tenant->epoch, Epoch(i == 0 ? 6 : 5));
    const std::string key = "key-" + std::to_string(i);
    const auto other = router.Locate(key);
    const Route route = RouteKey(*membership, key);
    EXPECT_EQ(other->node, membership->nodes()[route.owner].id);
    EXPECT_EQ(other->epoch, Epoch(1));
  }
  const uint64_t before = allocations.load();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(router.Locate("tenant-12345").has_value());
  EXPECT_EQ(allocations.load(), before) << "the path of overrides allocates nothing either";
  Followers followers;
  EXPECT_EQ(router.LocateReplicas("tenant-3", followers)->node, "b");
  EXPECT_EQ(followers.size(), 0u);
}

TEST(RouterTest, AnOverrideOnItsWayNamesBothNodes) {
  Router router;
  MembershipData data = MakeMembership(TwoNodes(), Version(7))->data();
  data.overrides = {{1, {OverrideRule::Match::kPrefix, "tenant-"}, {}, Epoch()}};
  data.next_plane = 2;
  const HashRangeSet from_a = (*Membership::Create(data))->OwnedOn(1, 0);
  data.moves = {{"m1", 0, "a", "b", MovePhase::kWarming, from_a}};
  router.Install(*Membership::Create(data));
  int moving = 0;
  for (int i = 0; i < 200; ++i) {
    const auto at = router.Locate("tenant-" + std::to_string(i));
    EXPECT_EQ(at->pending_node, at->node == "a" ? "b" : "");
    moving += at->pending_node.empty() ? 0 : 1;
    EXPECT_EQ(router.Locate("key-" + std::to_string(i))->pending_node, "");
  }
  EXPECT_GT(moving, 20);
  data.moves[0].phase = MovePhase::kGrace;
  data.overrides[0] = {1, data.overrides[0].rule, {{UINT64_MAX, 1}}, Epoch(9)};
  router.Install(*Membership::Create(data));
  EXPECT_EQ(router.Locate("tenant-1")->node, "b");
  int graced = 0;
  for (int i = 0; i < 200; ++i) {
    graced += router.Locate("tenant-" + std::to_string(i))->previous_node == "a" ? 1 : 0;
  }
  EXPECT_EQ(graced, moving);
}

}  // namespace
}  // namespace warmring
