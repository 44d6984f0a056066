// Replies of CLUSTER SLOTS as a server, a broken server or an enemy may send them. A real cluster
// is in tests/integration/import_test.cc.

#include "client/import/redis_cluster.h"

#include <functional>

#include "client/import/fleet_testing.h"

namespace warmring {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

RedisReply Text(std::string text) {
  RedisReply reply;
  reply.type = RedisReply::Type::kString;
  reply.text = std::move(text);
  return reply;
}

RedisReply Number(int64_t value) {
  RedisReply reply;
  reply.type = RedisReply::Type::kInteger;
  reply.integer = value;
  return reply;
}

RedisReply List(std::vector<RedisReply> elements) {
  RedisReply reply;
  reply.type = RedisReply::Type::kArray;
  reply.elements = std::move(elements);
  return reply;
}

RedisReply NodeAt(const std::string& host, int64_t port) {
  return List({Text(host), Number(port), Text(fmt::format("id-of-{}-{}", host, port)), List({})});
}

RedisReply Slots(int64_t first, int64_t last, const RedisReply& master) {
  return List({Number(first), Number(last), master, NodeAt("10.9.9.9", 1)});
}

TEST(RedisClusterTest, SlotsBecomeBuckets) {
  const RedisReply reply =
      List({Slots(5461, 16383, NodeAt("10.0.0.2", 7001)), Slots(0, 5000, NodeAt("10.0.0.1", 7000)),
            Slots(5001, 5460, NodeAt("", 7002))});
  ASSERT_OK_AND_ASSIGN(const Fleet fleet, FleetOfSlots(reply, "10.0.0.3"));
  ASSERT_EQ(fleet.nodes.size(), 3u);
  EXPECT_EQ(fleet.nodes[0].address, "10.0.0.2:7001");
  EXPECT_EQ(fleet.nodes[2].address, "10.0.0.3:7002");
  EXPECT_EQ(fleet.hash, (HashSpec{HashSpec::Function::kCrc16, true}));
  const Membership::Ptr membership = MembershipOf(fleet);
  ASSERT_NE(membership, nullptr);
  // Slots of the Redis Cluster specification: CRC16("123456789") is 0x31c3 = 12739.
  EXPECT_EQ(OwnerOf(*membership, "123456789").address, "10.0.0.2:7001");
  EXPECT_EQ(OwnerOf(*membership, "{123456789}.x").address, "10.0.0.2:7001");
  EXPECT_EQ(membership->RangeIndexOf(HashKey(fleet.hash, "123456789")), 12739u);
  EXPECT_DOUBLE_EQ(fleet.Shares()[2], 460 / 16384.0);
}

TEST(RedisClusterTest, RefusesWhatIsNoWholeCluster) {
  RedisReply error = Text("ERR This instance has cluster support disabled");
  error.type = RedisReply::Type::kError;
  RedisReply nil;
  const RedisReply master = NodeAt("10.0.0.1", 7000);
  const std::pair<RedisReply, std::string> cases[] = {
      {error, "the server says 'ERR This instance has cluster support disabled'"},
      {nil, "the answer is no list"},
      {Number(7), "the answer is no list"},
      {List({}), "nobody has slot 0"},
      {List({Slots(0, 16382, master)}), "nobody has slot 16383"},
      {List({Slots(1, 16383, master)}), "nobody has slot 0"},
      {List({Slots(0, 16384, master)}), "entry 0 has slots out of bounds"},
      {List({Slots(-1, 16383, master)}), "entry 0 has slots out of bounds"},
      {List({Slots(INT64_MIN, INT64_MAX, master)}), "entry 0 has slots out of bounds"},
      {List({Slots(9, 8, master)}), "entry 0 has slots out of bounds"},
      {List({Slots(0, 16383, master), Slots(7, 7, NodeAt("10.0.0.2", 1))}),
       "slot 7 is there twice"},
      {List({List({Number(0), Number(16383)})}), "entry 0 has not the form [first, last, master"},
      {List({Number(0)}), "entry 0 has not the form"},
      {List({Slots(0, 16383, Text("10.0.0.1:7000"))}), "entry 0 has not the form [..., [host"},
      {List({Slots(0, 16383, List({Text("a"), Number(1)}))}),
       "entry 0 has not the form [..., [host"},
      {List({Slots(0, 16383, NodeAt("10.0.0.1", 0))}), "entry 0 has no port"},
      {List({Slots(0, 16383, NodeAt("10.0.0.1", 65536))}), "entry 0 has no port"},
      {List({Slots(0, 16383, List({Number(1), Number(1), Text("id")}))}), "entry 0 has no host"},
      {List({Slots(0, 16383, NodeAt("not a host", 1))}), "is not a valid address"},
      {List({Slots(0, 16383, NodeAt(std::string("\0\xff", 2), 1))}), "is not a valid address"},
      {List({Slots(0, 1, List({Text("a"), Number(1), Text("x")})),
             Slots(2, 16383, List({Text("a"), Number(1), Text("y")}))}),
       "two masters are at a:1"},
      {List(std::vector<RedisReply>(16385, Number(1))), "16385 entries for 16384 slots"},
  };
  for (const auto& [reply, message] : cases) {
    EXPECT_THAT(FleetOfSlots(reply, "10.0.0.3"), StatusIs(kInvalid, message));
  }
  EXPECT_FALSE(FleetOfSlots(List({Slots(0, 16383, NodeAt("", 1))}), "").ok());
}

TEST(RedisClusterTest, SeesSlotsThatMove) {
  const std::string steady =
      "07c3 127.0.0.1:30004@31004,host myself,master - 0 0 1 connected 0-5460\n";
  EXPECT_FALSE(SlotsMove(steady));
  EXPECT_FALSE(SlotsMove(""));
  EXPECT_TRUE(SlotsMove("07c3 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-9 [93-<-292f8b]\n"));
  EXPECT_TRUE(SlotsMove("07c3 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-9 [77->-e7d1ee]\n"));
}

}  // namespace
}  // namespace warmring
