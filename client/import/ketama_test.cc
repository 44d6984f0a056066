// An adopted ketama fleet against the libraries that made it: libmemcached itself, and routes that
// uhashring gave.

#include "client/import/ketama.h"

#include <libmemcached/memcached.h>

#include <functional>
#include <memory>

#include "client/import/fleet_testing.h"

namespace warmring {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kLibmemcached = KetamaLibrary::kLibmemcached;
constexpr auto kOther = KetamaLibrary::kOther;

struct Server {
  std::string host;
  in_port_t port = 0;
  std::string Address() const { return fmt::format("{}:{}", host, port); }
};

// 10.0.0.1:11211, 10.0.0.2:11212, 10.0.0.3:11210, ...: each third one has the default port.
std::vector<Server> Servers(int count) {
  std::vector<Server> servers;
  for (int i = 1; i <= count; ++i) {
    servers.push_back({fmt::format("10.0.0.{}", i), static_cast<in_port_t>(11210 + i % 3)});
  }
  return servers;
}

std::string ListOf(const std::vector<Server>& servers, std::string_view rest = "") {
  std::string text = "# host:port\n";
  for (const Server& server : servers) text += fmt::format("{}{}\n", server.Address(), rest);
  return text;
}

class Libmemcached {
 public:
  explicit Libmemcached(const std::vector<Server>& servers, uint32_t weight = 0)
      : memcached_(memcached_create(nullptr)) {
    memcached_behavior_set(memcached_, MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1);
    // As one list: it makes its ring anew each time that servers are added.
    memcached_server_list_st list = nullptr;
    memcached_return_t result = MEMCACHED_SUCCESS;
    for (const Server& server : servers) {
      list = memcached_server_list_append_with_weight(list, server.host.c_str(), server.port,
                                                      weight, &result);
      EXPECT_EQ(result, MEMCACHED_SUCCESS);
    }
    EXPECT_EQ(memcached_server_push(memcached_, list), MEMCACHED_SUCCESS);
    EXPECT_EQ(memcached_server_count(memcached_), servers.size());
    memcached_server_list_free(list);
  }
  ~Libmemcached() { memcached_free(memcached_); }
  Libmemcached(const Libmemcached&) = delete;
  Libmemcached& operator=(const Libmemcached&) = delete;

  // The index of the server that it would ask for `key`.
  uint32_t ServerOf(const std::string& key) const {
    return memcached_generate_hash(memcached_, key.data(), key.size());
  }

 private:
  memcached_st* memcached_;
};

std::vector<std::string> ManyKeys(int count) {
  std::vector<std::string> keys = NumberedKeys(count);
  // Lengths around MD5's blocks, and bytes of every kind.
  for (size_t length = 1; length <= 240; ++length) keys.emplace_back(length, 'k');
  for (int byte = 1; byte < 256; ++byte)
    keys.push_back(fmt::format("b{}", static_cast<char>(byte)));
  return keys;
}

void ExpectRoutesLikeLibmemcached(int count, uint32_t weight, int key_count) {
  SCOPED_TRACE(fmt::format("{} servers, weight {}", count, weight));
  const std::vector<Server> servers = Servers(count);
  const std::string rest = weight == 0 ? "" : fmt::format(" {}", weight);
  ASSERT_OK_AND_ASSIGN(const Fleet fleet, ParseKetama(ListOf(servers, rest), kLibmemcached));
  const Membership::Ptr membership = MembershipOf(fleet);
  ASSERT_NE(membership, nullptr);
  const Libmemcached original(servers, weight);
  int wrong = 0;
  for (const std::string& key : ManyKeys(key_count)) {
    const std::string expected = servers[original.ServerOf(key)].Address();
    if (OwnerOf(*membership, key).address != expected) ++wrong;
  }
  EXPECT_EQ(wrong, 0);
}

TEST(KetamaTest, RoutesLikeLibmemcachedWithEveryNumberOfServers) {
  for (int count = 1; count <= 99; ++count) ExpectRoutesLikeLibmemcached(count, 0, 1500);
}

TEST(KetamaTest, EqualWeightsAreNoWeights) {
  for (const uint32_t weight : {1u, 2u, 3u, 7u, 100u, 1024u}) {
    for (const int count : {3, 10, 47, 99}) ExpectRoutesLikeLibmemcached(count, weight, 1000);
  }
}

TEST(KetamaTest, RoutesLikeUhashring) {
  // uhashring 2.1: HashRing([...], hash_fn="ketama"), get_node of key-0 to key-4999.
  const std::pair<int, std::string> expected[] = {{3, "8e2b5eebd236d163c0b0c5b40caf755a"},
                                                  {10, "102f72aae8be84c9ee95157ca6dea382"},
                                                  {99, "0417065a567d057b0638fc8bd294ef7f"}};
  for (const auto& [count, digest] : expected) {
    ASSERT_OK_AND_ASSIGN(const Fleet fleet, ParseKetama(ListOf(Servers(count)), kOther));
    EXPECT_EQ(fleet.ranges.size(), static_cast<size_t>(160 * count));
    EXPECT_EQ(RoutesDigest(fleet, NumberedKeys(5000), std::mem_fn(&Node::address)), digest);
  }
}

TEST(KetamaTest, NodesKeepTheNameThatTheirPointsComeFrom) {
  ASSERT_OK_AND_ASSIGN(const Fleet fleet,
                       ParseKetama("a.example:11211\na.example:11212\n", kLibmemcached));
  EXPECT_EQ(fleet.nodes[0].id, "a-example-11211");
  EXPECT_EQ(fleet.nodes[0].hash_name, "a.example");
  EXPECT_EQ(fleet.nodes[1].hash_name, "a.example:11212");
  EXPECT_EQ(fleet.tokens_per_node, 160u);
  EXPECT_EQ(fleet.hash.function, HashSpec::Function::kKetama);
  ASSERT_OK_AND_ASSIGN(const Fleet full, ParseKetama("a.example:11211\n", kOther));
  EXPECT_EQ(full.nodes[0].hash_name, "a.example:11211");
}

TEST(KetamaTest, RefusesWithLineAndReason) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "names none"},
      {"# nothing\n", "names none"},
      {"10.0.0.1\n", "line 1: node.address: '10.0.0.1' is not a valid address: the port"},
      {"a:1\na:0\n", "line 2: node.address"},
      {"a:1\nb:2 2\n",
       "line 2: weight 2 where the first server has 1: the original derives the "
       "number of points from weights by a float formula"},
      {"a:1 0\n", "line 1: weight '0': use a whole number from 1 to 65535"},
      {"a:1 -1\n", "line 1: weight '-1'"},
      {"a:1 1e300\n", "line 1: weight '1e300'"},
      {"a:1 nan\n", "line 1: weight 'nan'"},
      {"a:1 99999999999999999999\n", "line 1: weight"},
      {"a:1 1 1\n", "line 1: '1' is too much"},
      {"a:1\na:1\n", "would both have the id 'a-1'"},
      {"a.b:1\na-b:1\n", "'a.b:1' and 'a-b:1' would both have the id 'a-b-1'"},
      {"[::1]:11211\n", "line 1: libmemcached's name of an IPv6 server is not known"},
      {std::string(300, 'a') + ":1\n", "line 1: node."},
      {"a:1\nb:2", "the last line does not end"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(ParseKetama(text, kLibmemcached), StatusIs(kInvalid, message)) << text;
  }
  EXPECT_OK(ParseKetama("[::1]:11211\n", kOther));
}

TEST(KetamaTest, ACutListIsSeen) {
  const auto parse = [](std::string_view text) { return ParseKetama(text, kLibmemcached); };
  ExpectCutTextIsSeen(ListOf(Servers(5)), parse);
  ExpectCutTextIsSeen(ListOf(Servers(4), " 100"), parse);
  ExpectNoiseIsSurvived(ListOf(Servers(3), " 7"), parse);
}

TEST(KetamaTest, AHugeListIsRefusedBeforeItsPointsAreMade) {
  std::string text;
  for (int i = 0; i < 60'000; ++i) text += fmt::format("h{}:1\n", i);
  EXPECT_THAT(ParseKetama(text, kOther), StatusIs(kInvalid, "60000 servers have more points"));
}

}  // namespace
}  // namespace warmring
