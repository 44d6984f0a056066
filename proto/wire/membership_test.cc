// Memberships cross the wire unchanged, and whatever a peer may send instead is refused with the
// field named.

#include "proto/wire/membership.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace warmring::wire {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

Node MakeNode(const std::string& id, uint32_t weight_milli = 1000) {
  Node node;
  node.id = id;
  node.address = id + ".example:6379";
  node.weight_milli = weight_milli;
  node.labels = {{"rack", "r1"}};
  return node;
}

// Two nodes, four ranges, the second one on its way from a to b.
MembershipData RingData() {
  MembershipData data;
  data.history.high = 1;
  data.history.low = 2;
  data.version = Version(7);
  data.spec.id = "sessions";
  data.spec.placement = PlacementKind::kRing;
  data.nodes = {MakeNode("a"), MakeNode("b", 1501)};
  data.nodes[1].hash_name = "b:11211";
  const HashPoint quarter = UINT64_MAX / 4;
  data.ranges = {{quarter, 0, Epoch(1)},
                 {2 * quarter, 0, Epoch(3)},
                 {3 * quarter, 1, Epoch(1)},
                 {UINT64_MAX - 5, 1, Epoch(2)}};
  data.moves = {
      {"mig-1", 0, "a", "b", MovePhase::kWarming, HashRangeSet({HashRange{quarter, 2 * quarter}})}};
  return data;
}

MembershipData DirectoryData() {
  MembershipData data = RingData();
  data.spec.placement = PlacementKind::kDirectory;
  data.spec.directory_bits = 10;
  data.moves.clear();
  data.ranges.clear();
  for (uint64_t i = 0; i < 1024; ++i) {
    data.ranges.push_back({((i + 1) << 54) - 1, static_cast<NodeIndex>(i % 2), Epoch(1 + i / 512)});
  }
  return data;
}

MembershipData ReplicatedData() {
  MembershipData data = RingData();
  data.moves.clear();
  data.nodes.push_back(MakeNode("c"));
  data.spec.replication = 3;
  data.spec.domains = {DomainLevel::kRack, true};
  data.followers = {1, 2, 2, 1, 0, kNoNode, kNoNode, kNoNode};
  return data;
}

TEST(WireMembershipTest, RoundTrip) {
  for (const MembershipData& data : {RingData(), DirectoryData(), ReplicatedData()}) {
    ASSERT_OK_AND_ASSIGN(const Membership::Ptr membership, Membership::Create(data));
    const v1::Membership proto = ToProto(*membership);
    ASSERT_OK_AND_ASSIGN(const Membership::Ptr back, MembershipFromProto(proto));
    EXPECT_EQ(back->data(), data);
    EXPECT_EQ(back->digest(), membership->digest());
  }
}

TEST(WireMembershipTest, PinsAndGrowthCrossTheWire) {
  MembershipData data = DirectoryData();
  data.pins = {{0, "a"}, {1023, "b"}};
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr membership, Membership::Create(data));
  const v1::Membership good = ToProto(*membership);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr back, MembershipFromProto(good));
  EXPECT_EQ(back->data(), data);

  v1::Membership bad = good;
  bad.mutable_pins(1)->set_bucket(1024);
  EXPECT_THAT(MembershipFromProto(bad), StatusIs(kInvalid, "pins[1].bucket: 1024"));
  bad = good;
  bad.mutable_pins(0)->set_node("nobody");
  EXPECT_THAT(MembershipFromProto(bad), StatusIs(kInvalid, "pins[0].node"));
  bad = good;
  bad.mutable_pins(1)->set_bucket(0);
  EXPECT_THAT(MembershipFromProto(bad), StatusIs(kInvalid, "pins[1].bucket"));
  bad = good;
  bad.mutable_pins(0)->set_node(std::string("\xff\0", 2));
  EXPECT_FALSE(MembershipFromProto(bad).ok());

  Delta delta;
  delta.from = Version(7);
  delta.to = Version(8);
  delta.update.directory_bits = 13;
  delta.update.put_pins = {{5, "a"}};
  delta.update.remove_pins = {9, 3};
  ASSERT_OK_AND_ASSIGN(const Delta delta_back, DeltaFromProto(ToProto(delta)));
  EXPECT_EQ(delta_back, delta);
  v1::Delta bad_delta = ToProto(delta);
  bad_delta.mutable_put_pins(0)->set_node("No Name");
  EXPECT_THAT(DeltaFromProto(bad_delta), StatusIs(kInvalid, "put_pins[0].node"));
}

TEST(WireMembershipTest, EveryHashFunctionCrossesTheWire) {
  using F = HashSpec::Function;
  for (const F function : {F::kXxh3, F::kXxh64, F::kMurmur3, F::kKetama, F::kCrc16}) {
    KeyspaceSpec spec = RingData().spec;
    spec.hash = {function, true};
    ASSERT_OK_AND_ASSIGN(const KeyspaceSpec back, KeyspaceSpecFromProto(ToProto(spec)));
    EXPECT_EQ(back, spec);
  }
  v1::KeyspaceSpec proto = ToProto(RingData().spec);
  proto.set_hash_function(v1::HASH_FUNCTION_CRC16);
  ASSERT_OK_AND_ASSIGN(const KeyspaceSpec redis, KeyspaceSpecFromProto(proto));
  EXPECT_TRUE(redis.hash.hash_tags);
  proto.set_hash_function(v1::HASH_FUNCTION_UNSPECIFIED);
  ASSERT_OK_AND_ASSIGN(const KeyspaceSpec unset, KeyspaceSpecFromProto(proto));
  EXPECT_EQ(unset.hash.function, HashSpec::Function::kXxh3);
  proto.set_hash_function(static_cast<v1::HashFunction>(6));
  EXPECT_THAT(KeyspaceSpecFromProto(proto), StatusIs(kInvalid, "spec.hash_function: 6 is unknown"));
}

TEST(WireMembershipTest, ADirectoryCarriesNoEnds) {
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr membership, Membership::Create(DirectoryData()));
  v1::Membership proto = ToProto(*membership);
  EXPECT_EQ(proto.range_ends_size(), 0);
  EXPECT_EQ(proto.range_owners_size(), 1024);
  proto.add_range_ends(7);
  EXPECT_THAT(MembershipFromProto(proto), StatusIs(kInvalid, "range_ends"));
}

TEST(WireMembershipTest, MalformedMembershipIsRefused) {
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr membership, Membership::Create(RingData()));
  const v1::Membership good = ToProto(*membership);

  v1::Membership bad = good;
  bad.set_history("0123");
  EXPECT_THAT(MembershipFromProto(bad), StatusIs(kInvalid, "history: '0123'"));
  bad = good;
  bad.mutable_range_epochs()->RemoveLast();
  EXPECT_THAT(MembershipFromProto(bad), StatusIs(kInvalid, "4 ranges have 4 owners and 3 epochs"));
  bad = good;
  bad.set_range_owners(0, 9);
  EXPECT_THAT(MembershipFromProto(bad), StatusIs(kInvalid));
  bad = good;
  bad.mutable_moves(0)->mutable_ranges()->add_starts(1);
  EXPECT_THAT(MembershipFromProto(bad), StatusIs(kInvalid, "moves[0].ranges: 2 starts but 1 ends"));
  bad = good;
  bad.mutable_moves(0)->set_phase(static_cast<v1::MovePhase>(9));
  EXPECT_THAT(MembershipFromProto(bad), StatusIs(kInvalid, "moves[0].phase: 9"));
  bad = good;
  bad.mutable_spec()->set_directory_bits(3'000'000'000u);
  EXPECT_THAT(MembershipFromProto(bad), StatusIs(absl::StatusCode::kDataLoss, "digest"));
  bad.mutable_spec()->set_placement(v1::PLACEMENT_KIND_DIRECTORY);
  EXPECT_THAT(MembershipFromProto(bad), StatusIs(kInvalid, "directory_bits: 3000000000"));
  bad = good;
  bad.add_range_followers(1);
  EXPECT_THAT(MembershipFromProto(bad), StatusIs(kInvalid, "followers: 1 for 4 ranges"));
  bad = good;
  bad.set_digest(1);
  EXPECT_THAT(MembershipFromProto(bad), StatusIs(absl::StatusCode::kDataLoss, "digest"));
}

TEST(WireMembershipTest, DeltaRoundTrip) {
  Delta delta;
  delta.history.low = 5;
  delta.from = Version(3);
  delta.to = Version(4);
  delta.digest = 0xabcdef;
  delta.update.put_nodes = {MakeNode("c")};
  delta.update.split_at = {10, 20};
  delta.update.assignments = {{HashRangeSet({HashRange{10, 20}}), "c", Epoch(9)}};
  delta.update.remove_moves = {"mig-1"};
  delta.update.put_moves = RingData().moves;
  delta.update.merge_at = {30};
  delta.update.remove_nodes = {"a"};
  ASSERT_OK_AND_ASSIGN(const Delta back, DeltaFromProto(ToProto(delta)));
  EXPECT_EQ(back, delta);
}

TEST(WireMembershipTest, MalformedDeltaIsRefused) {
  v1::Delta delta;
  delta.set_history(std::string(32, '0'));
  delta.set_from_version(3);
  delta.set_to_version(5);
  EXPECT_THAT(DeltaFromProto(delta), StatusIs(kInvalid, "to_version: 5"));
  delta.set_from_version(0);
  delta.set_to_version(1);
  EXPECT_THAT(DeltaFromProto(delta), StatusIs(kInvalid, "to_version"));
  delta.set_from_version(UINT64_MAX);
  delta.set_to_version(0);
  EXPECT_FALSE(DeltaFromProto(delta).ok());
  delta.set_from_version(4);
  delta.set_to_version(5);
  delta.add_assignments()->set_owner("../x");
  EXPECT_THAT(DeltaFromProto(delta), StatusIs(kInvalid, "assignments[0].owner"));
}

TEST(WireMembershipTest, SpecDefaultsAndBounds) {
  v1::KeyspaceSpec proto;
  proto.set_id("sessions");
  ASSERT_OK_AND_ASSIGN(const KeyspaceSpec spec, KeyspaceSpecFromProto(proto));
  KeyspaceSpec expected;
  expected.id = "sessions";
  EXPECT_EQ(spec, expected);

  proto.set_placement(static_cast<v1::PlacementKind>(77));
  EXPECT_THAT(KeyspaceSpecFromProto(proto), StatusIs(kInvalid, "spec.placement: 77"));
  proto.set_placement(v1::PLACEMENT_KIND_RING);
  proto.set_tokens_per_node(5000);
  EXPECT_THAT(KeyspaceSpecFromProto(proto), StatusIs(kInvalid, "spec.tokens_per_node: 5000"));
  proto.set_tokens_per_node(0);
  proto.set_on_restart(static_cast<v1::OnRestart>(-1));
  EXPECT_THAT(KeyspaceSpecFromProto(proto), StatusIs(kInvalid, "spec.on_restart: -1"));
  proto.clear_on_restart();
  proto.set_replication(17);
  EXPECT_THAT(KeyspaceSpecFromProto(proto), StatusIs(kInvalid, "spec.replication: 17"));
  proto.set_replication(2);
  for (const int level : {-1, 4, 1'000'000}) {
    proto.set_failure_domain(static_cast<v1::DomainLevel>(level));
    EXPECT_THAT(KeyspaceSpecFromProto(proto), StatusIs(kInvalid, "spec.failure_domain: "));
  }
  proto.clear_failure_domain();
  proto.clear_id();
  EXPECT_THAT(KeyspaceSpecFromProto(proto), StatusIs(kInvalid, "spec.id"));
}

TEST(WireMembershipTest, WeightIsRoundedToThreeDecimals) {
  v1::Node proto;
  proto.set_id("a");
  proto.set_address("10.0.0.1:6379");
  for (const auto& [weight, milli] : std::vector<std::pair<double, uint32_t>>{
           {0.01, 10}, {0.29, 290}, {1.0004, 1000}, {1.0005, 1001}, {1000.0, 1'000'000}}) {
    proto.set_weight(weight);
    ASSERT_OK_AND_ASSIGN(const Node node, NodeFromProto("node", proto));
    EXPECT_EQ(node.weight_milli, milli) << weight;
  }
  proto.clear_weight();
  ASSERT_OK_AND_ASSIGN(const Node node, NodeFromProto("node", proto));
  EXPECT_EQ(node.weight_milli, 1000u);
}

TEST(WireMembershipTest, AbsurdWeightIsRefused) {
  v1::Node proto;
  proto.set_id("a");
  proto.set_address("10.0.0.1:6379");
  for (double weight :
       {0.0, -0.0, -1.0, 0.0099, 1000.1, 1e308, 5e-324, std::numeric_limits<double>::quiet_NaN(),
        std::numeric_limits<double>::infinity()}) {
    proto.set_weight(weight);
    EXPECT_THAT(NodeFromProto("nodes[2]", proto), StatusIs(kInvalid, "nodes[2].weight: "))
        << weight;
  }
}

TEST(WireMembershipTest, BadNodeIsRefusedWithItsField) {
  v1::Node proto;
  proto.set_id("cache/1");
  proto.set_address("10.0.0.1:6379");
  EXPECT_THAT(NodeFromProto("nodes[0]", proto), StatusIs(kInvalid, "nodes[0].id"));
  proto.set_id("cache-1");
  proto.set_address("10.0.0.1");
  EXPECT_THAT(NodeFromProto("nodes[0]", proto), StatusIs(kInvalid, "nodes[0].address"));
  proto.set_address("10.0.0.1:6379");
  for (int i = 0; i < 65; ++i) (*proto.mutable_labels())["label" + std::to_string(i)] = "x";
  EXPECT_THAT(NodeFromProto("nodes[0]", proto), StatusIs(kInvalid, "nodes[0].labels"));
}

MembershipData OverriddenData() {
  MembershipData data = DirectoryData();
  data.overrides = {{2,
                     {OverrideRule::Match::kPrefix, std::string("t\0", 2)},
                     {{7, 0}, {UINT64_MAX, 1}},
                     Epoch(9)},
                    {3, {OverrideRule::Match::kKey, "\xff"}, {}, Epoch()}};
  data.next_plane = 5;
  data.pins = {{1, "b"}, {8, "a"}};
  data.moves = {
      {"mig-1", 0, "a", "b", MovePhase::kWarming, HashRangeSet({HashRange{UINT64_MAX, 7, 2}})}};
  return data;
}

TEST(WireMembershipTest, OverridesAndPinsRoundTrip) {
  const Membership::Ptr membership = *Membership::Create(OverriddenData());
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr back, MembershipFromProto(ToProto(*membership)));
  EXPECT_EQ(back->data(), membership->data());
  Delta delta;
  delta.history = membership->history();
  delta.from = Version(7);
  delta.to = Version(8);
  delta.update.directory_bits = 12;
  delta.update.put_overrides = {
      {3, {OverrideRule::Match::kKey, "\xff"}, {{UINT64_MAX, "a"}}, Epoch(10)}};
  delta.update.remove_overrides = {2};
  delta.update.remove_pins = {8};
  delta.update.put_pins = {{2, "a"}};
  ASSERT_OK_AND_ASSIGN(const Delta delta_back, DeltaFromProto(ToProto(delta)));
  EXPECT_EQ(delta_back, delta);
}

TEST(WireMembershipTest, FollowersThatChangeRoundTrip) {
  Delta delta;
  delta.from = Version(7);
  delta.to = Version(8);
  delta.update.put_followers = {{HashRangeSet({{100, 200}}), {"b", ""}},
                                {HashRangeSet({{200, 300}}), {"a", "b"}}};
  const v1::Delta proto = ToProto(delta);
  EXPECT_EQ(proto.follower_ids_size(), 2);
  ASSERT_OK_AND_ASSIGN(const Delta back, DeltaFromProto(proto));
  EXPECT_EQ(back, delta);
  v1::Delta bad = proto;
  bad.mutable_put_followers(1)->set_followers(0, 3);
  EXPECT_THAT(DeltaFromProto(bad),
              StatusIs(kInvalid, "put_followers[1].followers: 3 is no number of one of the 2"));
  bad = proto;
  bad.set_follower_ids(0, "No Name");
  EXPECT_THAT(DeltaFromProto(bad), StatusIs(kInvalid, "follower_ids[0]"));
}

TEST(WireMembershipTest, MalformedOverridesAreRefused) {
  const v1::Membership good = ToProto(**Membership::Create(OverriddenData()));
  const auto refused = [&](auto change) {
    v1::Membership bad = good;
    change(&bad);
    return MembershipFromProto(bad).status();
  };
  EXPECT_THAT(refused([](auto* m) { m->mutable_overrides(0)->clear_rule(); }),
              StatusIs(kInvalid, "overrides[0].rule: set its key or its prefix"));
  EXPECT_THAT(refused([](auto* m) { m->mutable_overrides(0)->mutable_rule()->set_prefix(""); }),
              StatusIs(kInvalid, "overrides[0].rule: it is empty"));
  EXPECT_THAT(refused([](auto* m) { m->mutable_overrides(0)->add_range_ends(9); }),
              StatusIs(kInvalid, "3 range_ends have 2 range_owners"));
  EXPECT_THAT(refused([](auto* m) { m->mutable_overrides(0)->set_range_owners(1, 2); }),
              StatusIs(kInvalid, "overrides[0].ranges[1].owner: 2"));
  EXPECT_THAT(refused([](auto* m) { m->set_next_plane(3); }),
              StatusIs(kInvalid, "overrides[1].plane"));
  EXPECT_THAT(refused([](auto* m) { m->mutable_moves(0)->mutable_ranges()->add_planes(2); }),
              StatusIs(kInvalid, "1 starts but 2 planes"));
  EXPECT_THAT(refused([](auto* m) { m->mutable_pins(1)->set_bucket(1024); }),
              StatusIs(kInvalid, "pins[1].bucket: 1024"));
  EXPECT_THAT(refused([](auto* m) { m->mutable_pins(1)->set_node("z"); }),
              StatusIs(kInvalid, "pins[1].node: 'z' is not a node"));
  EXPECT_THAT(refused([](auto* m) { m->clear_overrides(); }),
              StatusIs(kInvalid, "no override has plane 2"));
  EXPECT_THAT(refused([](auto* m) { m->clear_pins(); }),
              StatusIs(absl::StatusCode::kDataLoss, "digest"));
}

}  // namespace
}  // namespace warmring::wire
