// Against the ring that Envoy's own tests print, and against routes of its formula computed in
// Python (package xxhash, whose floats are doubles too).

#include "client/import/envoy_ring.h"

#include <functional>

#include "client/import/fleet_testing.h"

namespace warmring {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

std::string Hosts(int count, std::string_view more) {
  std::string list;
  for (int i = 1; i <= count; ++i) {
    list += fmt::format(R"({}"10.0.0.{}:8080")", i == 1 ? "" : ",", i);
  }
  return fmt::format(R"({{"hosts":[{}]{}}})", list, more);
}

std::string Sized(int count, uint64_t minimum) {
  return Hosts(count, fmt::format(R"(,"minimum_ring_size":{})", minimum));
}

// ring_hash_lb_test.cc of Envoy, the test Basic: hosts 127.0.0.1:90 to :95, minimum_ring_size 12.
TEST(EnvoyRingTest, TheRingOfEnvoysOwnTest) {
  ASSERT_OK_AND_ASSIGN(
      const Fleet fleet,
      ParseEnvoyRing(R"({"hosts":["127.0.0.1:90","127.0.0.1:91","127.0.0.1:92","127.0.0.1:93",
                        "127.0.0.1:94","127.0.0.1:95"],"minimum_ring_size":12})"));
  const std::pair<int, HashPoint> expected[] = {
      {94, 833437586790550860u},   {92, 928266305478181108u},   {90, 1033482794131418490u},
      {95, 3551244743356806947u},  {93, 3851675632748031481u},  {91, 5583722120771150861u},
      {91, 6311230543546372928u},  {93, 7700377290971790572u},  {95, 13144177310400110813u},
      {92, 13444792449719432967u}, {94, 15516499411664133160u}, {90, 16117243373044804889u}};
  ASSERT_EQ(fleet.ranges.size(), std::size(expected));
  for (size_t i = 0; i < fleet.ranges.size(); ++i) {
    EXPECT_EQ(fleet.ranges[i].end, expected[i].second);
    EXPECT_EQ(fleet.nodes[fleet.ranges[i].owner].address,
              fmt::format("127.0.0.1:{}", expected[i].first));
  }
  const Membership::Ptr membership = MembershipOf(fleet);
  ASSERT_NE(membership, nullptr);
  const auto owner = [&](HashPoint hash) {
    return membership->nodes()[membership->RangeOf(hash).owner].address;
  };
  EXPECT_EQ(owner(0), "127.0.0.1:94");
  EXPECT_EQ(owner(UINT64_MAX), "127.0.0.1:94");
  EXPECT_EQ(owner(3551244743356806947u), "127.0.0.1:95");
  EXPECT_EQ(owner(3551244743356806948u), "127.0.0.1:93");
  EXPECT_EQ(owner(16117243373044804880u), "127.0.0.1:90");
}

TEST(EnvoyRingTest, RoutesLikeTheFormulaInPython) {
  const struct {
    int hosts;
    uint64_t minimum;
    size_t per_host;
    std::string digest;
  } cases[] = {{3, 1024, 342, "da660187c9d182fc78df9c3dd2bf98fc"},
               {6, 12, 2, "5e2464111b213ba650e324e5060a6a29"},
               {100, 1024, 11, "66fa219823580f63706ac834d942966a"},
               {7, 65537, 9363, "a66d286ca981ff4e903bfca7f9b95d5d"}};
  for (const auto& c : cases) {
    ASSERT_OK_AND_ASSIGN(const Fleet fleet, ParseEnvoyRing(Sized(c.hosts, c.minimum)));
    EXPECT_EQ(fleet.ranges.size(), c.per_host * static_cast<size_t>(c.hosts));
    EXPECT_EQ(RoutesDigest(fleet, NumberedKeys(5000), std::mem_fn(&Node::address)), c.digest);
    ASSERT_OK_AND_ASSIGN(
        const Fleet given,
        ParseEnvoyRing(Hosts(c.hosts, fmt::format(R"(,"hashes_per_host":{})", c.per_host))));
    EXPECT_EQ(given.ranges, fleet.ranges);
  }
}

TEST(EnvoyRingTest, AHashKeyStandsForTheAddress) {
  ASSERT_OK_AND_ASSIGN(const Fleet fleet, ParseEnvoyRing(R"({"hosts":[
      {"address":"10.0.0.9:80","hash_key":"10.0.0.1:8080","weight":3},
      {"address":"10.0.0.8:80","hash_key":"10.0.0.2:8080","weight":3},
      {"address":"10.0.0.7:80","hash_key":"10.0.0.3:8080","weight":3}],
      "hash_function":"XX_HASH"})"));
  EXPECT_EQ(fleet.nodes[0].id, "node-10-0-0-9-80");
  EXPECT_EQ(RoutesDigest(fleet, NumberedKeys(5000), std::mem_fn(&Node::hash_name)),
            "da660187c9d182fc78df9c3dd2bf98fc");
}

// Python says that up to 1024 hosts with a minimum of 1024 there are 26 numbers for which Envoy's
// sums give hosts different numbers of points: 75, 77, 91, 93, 99, 105, 117, 150, 154, 182, ...
TEST(EnvoyRingTest, WhereTheSumsGoWrongTheRingIsRefused) {
  for (const int hosts : {75, 77, 91, 93, 99, 105, 117, 150, 154, 182}) {
    EXPECT_THAT(ParseEnvoyRing(Sized(hosts, 1024)),
                StatusIs(kInvalid, fmt::format("with {} hosts and 1024 the sums", hosts)));
    EXPECT_OK(ParseEnvoyRing(Hosts(hosts, R"(,"hashes_per_host":14)")));
  }
  for (const int hosts : {1, 2, 3, 64, 100, 128, 200})
    EXPECT_OK(ParseEnvoyRing(Sized(hosts, 1024)));
}

TEST(EnvoyRingTest, RefusesWithTheMember) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "not JSON, or it is cut off"},
      {"{}", "hosts: is missing"},
      {R"({"hosts":[]})", "hosts: is empty"},
      {R"({"hosts":[7]})", "hosts[0]: a number where an object is expected"},
      {R"({"hosts":["a"]})", "hosts[0].address"},
      {R"({"hosts":[""]})", "hosts[0].address"},
      {R"({"hosts":["a:1","a:1"]})", "would both have the id 'a-1'"},
      {R"({"hosts":[{"address":"a:1","hash_key":""}]})", "hosts[0].hash_key: is empty"},
      {R"({"hosts":[{"address":"a:1","port":1}]})", "hosts[0].port: this member is not known"},
      {R"({"hosts":[{"address":"a:1","weight":1},{"address":"b:1","weight":2}]})",
       "hosts[1].weight: 2 where the first host has 1"},
      {R"({"hosts":[{"address":"a:1","weight":0}]})", "hosts[0].weight: 0"},
      {R"({"hosts":[{"address":"a:1","weight":-1}]})", "hosts[0].weight: a number where a whole"},
      {R"({"hosts":[{"address":"a:1","weight":1e300}]})", "hosts[0].weight"},
      {R"({"hosts":["a:1"],"ring_size":1})", "ring_size: this member is not known"},
      {R"({"hosts":["a:1"],"hash_function":"MURMUR_HASH_2"})", "hash_function: 'MURMUR_HASH_2'"},
      {R"({"hosts":["a:1"],"minimum_ring_size":0})", "minimum_ring_size: 1 hosts with 0 points"},
      {R"({"hosts":["a:1"],"hashes_per_host":0})", "hashes_per_host: 1 hosts with 0 points"},
      {R"({"hosts":["a:1"],"hashes_per_host":18446744073709551615})", "hashes_per_host: 1 hosts"},
      {R"({"hosts":["a:1"],"hashes_per_host":8388609})", "hashes_per_host: 1 hosts"},
      {R"({"hosts":["a:1"],"hashes_per_host":1,"minimum_ring_size":2})", "leave those out"},
      {R"({"hosts":["a:1"],"maximum_ring_size":8388609})", "maximum_ring_size: 8388609 is over"},
      {R"({"hosts":["a:1"],"minimum_ring_size":20,"maximum_ring_size":10})",
       "minimum_ring_size: 20 is over maximum_ring_size 10"},
      {R"({"hosts":["a:1","b:1","c:1","d:1"],"minimum_ring_size":6,"maximum_ring_size":6})",
       "do not fit between 1 a host and maximum_ring_size 6"},
      {R"({"hosts":)" + std::string(1'000'000, '['), "nests its values too deep"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(ParseEnvoyRing(text), StatusIs(kInvalid, message)) << text.substr(0, 200);
  }
}

TEST(EnvoyRingTest, ACutFileIsSeen) {
  ExpectCutTextIsSeen(Sized(4, 16), ParseEnvoyRing);
  ExpectNoiseIsSurvived(Sized(3, 12), ParseEnvoyRing);
}

}  // namespace
}  // namespace warmring
