// Fleets that exist are adopted by a real warmringd through the command line, and a client then
// routes each key to where the original has it: a Redis Cluster of three that runs, libmemcached,
// and the rules of Cassandra and Envoy written out once more.

#include <libmemcached/memcached.h>
#include <xxhash.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/hashing/murmur3.h"
#include "tests/support/cli.h"
#include "tests/support/free_port.h"
#include "tests/support/redis_server.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait.h"
#include "tests/support/warmringd_server.h"
#include "warmring/client.h"

namespace warmring {
namespace {

using support::RedisReply;
using ::testing::HasSubstr;
using ::testing::Not;

class ImportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(server_, support::WarmringdServer::Start());
    ASSERT_OK_AND_ASSIGN(dir_, support::TempDir::Create("import"));
  }

  support::CliResult Run(const std::vector<std::string>& args) {
    support::CliOptions options;
    options.server = server_->Address();
    const auto result = support::RunCli(args, options);
    EXPECT_OK(result);
    return result.ok() ? *result : support::CliResult();
  }

  std::string File(const std::string& text) {
    const std::string path = dir_->File("source");
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  support::CliResult Import(const std::string& format, const std::string& source,
                            const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"keyspace", "import", "adopted", "--from", format, source};
    args.insert(args.end(), more.begin(), more.end());
    return Run(args);
  }

  // What a client sees of the adopted keyspace.
  std::unique_ptr<Client> Connect() {
    ClientOptions options;
    options.endpoints = {server_->Address()};
    options.keyspace = "adopted";
    options.client_name = "import-test";
    options.connect_timeout = support::kDefaultWait;
    auto client = Client::Connect(options);
    EXPECT_OK(client);
    return client.ok() ? *std::move(client) : nullptr;
  }

  // How many of `keys` the client routes elsewhere than `address_of` says.
  template <typename AddressOf>
  int CountMoved(const std::vector<std::string>& keys, AddressOf address_of) {
    const std::unique_ptr<Client> client = Connect();
    if (client == nullptr) return -1;
    int moved = 0;
    for (const std::string& key : keys) {
      const std::optional<Location> location = client->router().Locate(key);
      const std::string expected = address_of(key);
      if (location && location->address == expected) continue;
      if (++moved <= 5) {
        ADD_FAILURE() << key << " is at " << expected << " and is routed to "
                      << (location ? location->address : "nobody");
      }
    }
    return moved;
  }

  std::unique_ptr<support::WarmringdServer> server_;
  std::unique_ptr<support::TempDir> dir_;
};

std::vector<std::string> RandomKeys(int count) {
  std::mt19937_64 random(7);
  std::vector<std::string> keys;
  for (int i = 0; i < count; ++i) {
    std::string key(1 + random() % 40, ' ');
    for (char& c : key) c = static_cast<char>(random());
    keys.push_back(fmt::format("user:{}", random() % 100000));
    keys.push_back(fmt::format("{{tenant:{}}}:{}", random() % 100, i));
    keys.push_back(std::move(key));
  }
  return keys;
}

// Three masters on loopback, a third of the slots each in ranges that interleave.
class RedisCluster {
 public:
  void Start() {
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK_AND_ASSIGN(support::FreePort bus, support::FreePort::Reserve());
      support::RedisServerOptions options;
      options.directives = {{"cluster-enabled", "yes"},
                            {"cluster-port", std::to_string(bus.Port())},
                            {"cluster-node-timeout", "5000"}};
      ASSERT_OK_AND_ASSIGN(auto server, support::RedisServer::Start(options));
      buses_.push_back(std::move(bus));
      servers_.push_back(std::move(server));
    }
    for (int i = 0; i < 3; ++i) {
      std::vector<std::string> add = {"CLUSTER", "ADDSLOTSRANGE"};
      for (int first = i * 1000; first < 16384; first += 3000) {
        add.push_back(std::to_string(first));
        add.push_back(std::to_string(std::min(first + 999, 16383)));
      }
      Expect(i, add);
      Expect(i, {"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)});
    }
    for (int i = 1; i < 3; ++i) {
      Expect(0, {"CLUSTER", "MEET", "127.0.0.1", std::to_string(servers_[At(i)]->Port()),
                 std::to_string(buses_[At(i)].Port())});
    }
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK(support::WaitFor("the cluster to agree", support::kDefaultWait, [&] {
        const auto info = Command(i, {"CLUSTER", "INFO"});
        return info.text.find("cluster_state:ok") != std::string::npos &&
               info.text.find("cluster_size:3") != std::string::npos;
      }));
    }
  }

  RedisReply Command(int server, const std::vector<std::string>& words) {
    const auto reply = servers_[At(server)]->Command(words);
    EXPECT_OK(reply);
    return reply.ok() ? *reply : RedisReply();
  }
  void Expect(int server, const std::vector<std::string>& words) {
    EXPECT_EQ(Command(server, words), RedisReply::Status("OK"));
  }
  std::string Address(int server) const { return servers_[At(server)]->Address(); }
  int ServerAt(const std::string& address) const {
    for (int i = 0; i < 3; ++i) {
      if (Address(i) == address) return i;
    }
    return -1;
  }

  // Who has each slot, by CLUSTER SHARDS.
  std::vector<std::string> SlotAddresses() {
    std::vector<std::string> addresses(16384);
    for (const RedisReply& shard : Command(1, {"CLUSTER", "SHARDS"}).elements) {
      // ["slots", [first, last, ...], "nodes", [["id", ..., "port", P, "ip", ...]]]
      const auto& slots = shard.elements[1].elements;
      const auto& node = shard.elements[3].elements[0].elements;
      int64_t port = 0;
      for (size_t i = 0; i + 1 < node.size(); i += 2) {
        if (node[i].text == "port") port = node[i + 1].integer;
      }
      for (size_t i = 0; i + 1 < slots.size(); i += 2) {
        for (int64_t slot = slots[i].integer; slot <= slots[i + 1].integer; ++slot) {
          addresses[static_cast<size_t>(slot)] = fmt::format("127.0.0.1:{}", port);
        }
      }
    }
    return addresses;
  }

 private:
  static size_t At(int server) { return static_cast<size_t>(server); }

  std::vector<support::FreePort> buses_;
  std::vector<std::unique_ptr<support::RedisServer>> servers_;
};

TEST_F(ImportTest, ARedisClusterThatRuns) {
  RedisCluster cluster;
  ASSERT_NO_FATAL_FAILURE(cluster.Start());
  const auto preview = Import("redis-cluster", cluster.Address(2), {"--dry-run"});
  ASSERT_EQ(preview.exit_code, 0) << preview.err;
  EXPECT_THAT(preview.out, HasSubstr("would be adopted: 3 nodes, 16384 ranges"));
  EXPECT_THAT(Run({"keyspace", "list"}).out, Not(HasSubstr("adopted")));
  const auto imported = Import("redis-cluster", cluster.Address(2),
                               {"--expect-nodes", "3", "--expect-ranges", "16384"});
  ASSERT_EQ(imported.exit_code, 0) << imported.err;

  const std::vector<std::string> addresses = cluster.SlotAddresses();
  const std::vector<std::string> keys = RandomKeys(1000);
  EXPECT_EQ(CountMoved(keys,
                       [&](const std::string& key) {
                         const RedisReply slot = cluster.Command(0, {"CLUSTER", "KEYSLOT", key});
                         return addresses[static_cast<size_t>(slot.integer)];
                       }),
            0);
  // The cluster itself takes each key where it is routed to, without a word of MOVED.
  const std::unique_ptr<Client> client = Connect();
  ASSERT_NE(client, nullptr);
  for (const std::string& key : keys) {
    const std::optional<Location> location = client->router().Locate(key);
    ASSERT_TRUE(location);
    cluster.Expect(cluster.ServerAt(std::string(location->address)), {"SET", key, "v"});
  }
}

TEST_F(ImportTest, ARedisClusterThatDoesNotStandStillIsRefused) {
  RedisCluster cluster;
  ASSERT_NO_FATAL_FAILURE(cluster.Start());
  const RedisReply id = cluster.Command(2, {"CLUSTER", "MYID"});
  cluster.Expect(0, {"CLUSTER", "SETSLOT", "0", "MIGRATING", id.text});
  const auto moving = Import("redis-cluster", cluster.Address(1));
  EXPECT_EQ(moving.exit_code, 1);
  EXPECT_THAT(moving.err, HasSubstr("slots move to or from " + cluster.Address(0)));
  cluster.Expect(0, {"CLUSTER", "SETSLOT", "0", "STABLE"});
  cluster.Expect(0, {"CLUSTER", "DELSLOTS", "0"});
  const auto hole = Import("redis-cluster", cluster.Address(0));
  EXPECT_EQ(hole.exit_code, 2);
  EXPECT_THAT(hole.err, HasSubstr("nobody has slot 0"));
  // The others still believe that somebody has it.
  const auto disputed = Import("redis-cluster", cluster.Address(1));
  EXPECT_NE(disputed.exit_code, 0);
  EXPECT_THAT(Run({"keyspace", "list"}).out, Not(HasSubstr("adopted")));
}

TEST_F(ImportTest, ARedisThatIsNoClusterIsRefused) {
  ASSERT_OK_AND_ASSIGN(auto redis, support::RedisServer::Start());
  const auto alone = Import("redis-cluster", redis->Address());
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.err, HasSubstr("cluster support disabled"));
  ASSERT_OK(redis->Stop());
  EXPECT_EQ(Import("redis-cluster", redis->Address()).exit_code, 9);
  EXPECT_NE(Import("redis-cluster", "nowhere").exit_code, 0);
}

TEST_F(ImportTest, AKetamaFleetRoutesLikeLibmemcached) {
  std::string text;
  memcached_st* memcached = memcached_create(nullptr);
  memcached_behavior_set(memcached, MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1);
  std::vector<std::string> addresses;
  for (int i = 1; i <= 25; ++i) {
    const std::string host = fmt::format("cache{}.example", i);
    const auto port = static_cast<in_port_t>(11210 + i % 3);
    memcached_server_add(memcached, host.c_str(), port);
    addresses.push_back(fmt::format("{}:{}", host, port));
    text += addresses.back() + "\n";
  }
  ASSERT_EQ(Import("ketama", File(text)).exit_code, 0);
  EXPECT_EQ(
      CountMoved(RandomKeys(2000),
                 [&](const std::string& key) {
                   return addresses[memcached_generate_hash(memcached, key.data(), key.size())];
                 }),
      0);
  memcached_free(memcached);
  // What was adopted goes on as any keyspace does: it survives a restart, and changes are planned.
  ASSERT_OK(server_->Restart());
  const auto plan =
      Run({"node", "add", "cache26-example", "--address", "cache26.example:11211", "--dry-run"});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("cache26-example"));
}

TEST_F(ImportTest, ACassandraRingRoutesLikeItsTokens) {
  std::mt19937_64 random(11);
  std::map<int64_t, std::string> ring;
  std::string text;
  for (int node = 1; node <= 9; ++node) {
    for (int token = 0; token < 64; ++token) {
      const auto at = static_cast<int64_t>(random());
      ring[at] = fmt::format("10.1.0.{}:9042", node);
      text += fmt::format("10.1.0.{} {}\n", node, at);
    }
  }
  ASSERT_EQ(Import("cassandra-tokens", File(text)).exit_code, 0);
  EXPECT_EQ(CountMoved(RandomKeys(2000),
                       [&](const std::string& key) {
                         const auto at = ring.lower_bound(CassandraToken(key));
                         return at == ring.end() ? ring.begin()->second : at->second;
                       }),
            0);
}

TEST_F(ImportTest, AnEnvoyRingRoutesLikeItsPoints) {
  std::map<uint64_t, std::string> ring;
  std::string hosts;
  for (int host = 1; host <= 12; ++host) {
    const std::string address = fmt::format("10.2.0.{}:8080", host);
    hosts += fmt::format("{}\"{}\"", host == 1 ? "" : ", ", address);
    for (int i = 0; i < 86; ++i) {  // ceil(1024 / 12)
      const std::string point = fmt::format("{}_{}", address, i);
      ring[XXH64(point.data(), point.size(), 0)] = address;
    }
  }
  ASSERT_EQ(Import("envoy", File(fmt::format(R"({{"hosts": [{}]}})", hosts))).exit_code, 0);
  EXPECT_EQ(CountMoved(RandomKeys(2000),
                       [&](const std::string& key) {
                         const auto at = ring.lower_bound(XXH64(key.data(), key.size(), 0));
                         return at == ring.end() ? ring.begin()->second : at->second;
                       }),
            0);
}

TEST_F(ImportTest, ATokenListRoutesLikeItsTokens) {
  std::mt19937_64 random(13);
  std::map<uint64_t, std::string> ring;
  std::string nodes;
  std::string tokens;
  for (int node = 0; node < 7; ++node) {
    nodes += fmt::format(R"({}{{"id":"n{}","address":"10.3.0.{}:1"}})", node == 0 ? "" : ",", node,
                         node);
    for (int i = 0; i <= 20 * node; ++i) {
      const uint64_t at = random();
      ring[at] = fmt::format("10.3.0.{}:1", node);
      tokens += fmt::format(R"({}{{"token":"{:016x}","node":"n{}"}})", tokens.empty() ? "" : ",",
                            at, node);
    }
  }
  const std::string text = fmt::format(R"({{"nodes":[{}],"tokens":[{}]}})", nodes, tokens);
  ASSERT_EQ(Import("tokens", File(text)).exit_code, 0);
  EXPECT_EQ(CountMoved(RandomKeys(2000),
                       [&](const std::string& key) {
                         const auto at = ring.lower_bound(XXH3_64bits(key.data(), key.size()));
                         return at == ring.end() ? ring.begin()->second : at->second;
                       }),
            0);
}

TEST_F(ImportTest, WrongSourcesAreUsageErrorsAndChangeNothing) {
  const auto cut = Import("ketama", File("10.0.0.1:11211\n10.0.0.2:112"));
  EXPECT_EQ(cut.exit_code, 2);
  EXPECT_THAT(cut.err, HasSubstr("may be cut off"));
  const auto weights = Import("ketama", File("a:1 1\nb:1 2\n"));
  EXPECT_EQ(weights.exit_code, 2);
  EXPECT_THAT(weights.err, HasSubstr("float formula"));
  const auto few = Import("ketama", File("a:1\n"), {"--expect-nodes", "2"});
  EXPECT_EQ(few.exit_code, 2);
  EXPECT_THAT(few.err, HasSubstr("names 1 where 2 are expected"));
  const auto unknown = Import("mystery", File("a:1\n"));
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("--from: 'mystery' is not known"));
  EXPECT_EQ(Import("ketama", dir_->File("nothere")).exit_code, 2);
  EXPECT_EQ(Import("ketama", dir_->Path()).exit_code, 2);
  EXPECT_EQ(Import("tokens", File(std::string(size_t{33} << 20, '['))).exit_code, 2);
  EXPECT_THAT(Run({"keyspace", "list"}).out, Not(HasSubstr("adopted")));

  ASSERT_EQ(Import("ketama", File("a:1\n")).exit_code, 0);
  const auto twice = Import("ketama", File("a:1\n"));
  EXPECT_EQ(twice.exit_code, 1);
  EXPECT_THAT(twice.err, HasSubstr("keyspace 'adopted' exists"));
}

TEST_F(ImportTest, AFleetThatNoRequestHoldsIsRefusedBeforeItIsSent) {
  std::string hosts;
  for (int host = 0; host < 60; ++host) {
    hosts += fmt::format("{}\"h{}:1\"", host == 0 ? "" : ",", host);
  }
  const auto huge =
      Import("envoy", File(fmt::format(R"({{"hosts":[{}],"hashes_per_host":10000}})", hosts)));
  EXPECT_EQ(huge.exit_code, 2);
  EXPECT_THAT(huge.err, HasSubstr("the fleet has 600000 ranges"));
}

TEST_F(ImportTest, AKeyspaceIsCreatedOverAnyHash) {
  for (const std::string hash : {"xxh64", "murmur3", "ketama", "crc16"}) {
    EXPECT_EQ(Run({"keyspace", "create", "over-" + hash, "--hash", hash, "--add", "a=127.0.0.1:1"})
                  .exit_code,
              0);
  }
  EXPECT_EQ(Run({"keyspace", "create", "x", "--hash", "md5", "--add", "a=127.0.0.1:1"}).exit_code,
            2);
  EXPECT_THAT(Run({"keyspace", "locate", "-k", "over-crc16", "123456789"}).out,
              HasSubstr("c70c000000000000"));
}

}  // namespace
}  // namespace warmring
