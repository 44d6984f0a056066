// Which nodes and addresses are accepted, and what a refusal names.

#include "core/membership/node.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

using absl::StatusCode;

TEST(ValidateAddressTest, AcceptsHostAndPort) {
  for (const std::string address :
       {"localhost:6379", "127.0.0.1:1", "cache-0.cache.default.svc.cluster.local:65535",
        "redis_1:6379", "0.0.0.0:6379", "a:6379", "example.org.:80", "[::]:1", "[::1]:6379",
        "[2001:db8::1]:6379", "[1:2:3:4:5:6:7:8]:6379", "[::ffff:10.0.0.1]:6379",
        "[1:2:3:4:5:6:10.0.0.1]:6379", "[1:2:3:4:5:6:7::]:6379", "[fe80::1%eth0]:6379"}) {
    EXPECT_OK(ValidateAddress("address", address)) << address;
  }
}

TEST(ValidateAddressTest, RefusesWithTheReason) {
  const struct {
    std::string address;
    std::string reason;
  } cases[] = {
      {"", "it is empty"},
      {"localhost", "the port is missing"},
      {"[::1]", "the port is missing"},
      {"localhost:", "number from 1 to 65535"},
      {"localhost:0", "number from 1 to 65535"},
      {"localhost:65536", "number from 1 to 65535"},
      {"localhost:99999999999", "number from 1 to 65535"},
      {"localhost:-1", "number from 1 to 65535"},
      {"localhost:+80", "number from 1 to 65535"},
      {"localhost:6379 ", "number from 1 to 65535"},
      {"localhost:redis", "number from 1 to 65535"},
      {":6379", "DNS name"},
      {"a b:6379", "DNS name"},
      {"-a:6379", "DNS name"},
      {"a..b:6379", "DNS name"},
      {"256.1.1.1:6379", "DNS name"},
      {"1.2.3:6379", "DNS name"},
      {"host\n:6379", "DNS name"},
      {std::string(64, 'a') + ":6379", "DNS name"},
      {"::1:6379", "in brackets"},
      {"redis://host:6379", "in brackets"},
      {"[::1:6379", "not an IPv6 address"},
      {"[]:6379", "not an IPv6 address"},
      {"[localhost]:6379", "not an IPv6 address"},
      {"[1:2:3:4:5:6:7]:6379", "not an IPv6 address"},
      {"[1:2:3:4:5:6:7:8:9]:6379", "not an IPv6 address"},
      {"[1:2:3:4::5:6:7:8]:6379", "not an IPv6 address"},
      {"[1::2::3]:6379", "not an IPv6 address"},
      {"[:1::2]:6379", "not an IPv6 address"},
      {"[::12345]:6379", "not an IPv6 address"},
      {"[::g]:6379", "not an IPv6 address"},
      {"[10.0.0.1::]:6379", "not an IPv6 address"},
      {"[::10.0.0.256]:6379", "not an IPv6 address"},
      {"[fe80::1%]:6379", "not an IPv6 address"},
      {std::string(255, 'a') + ":1", "257 bytes: use at most 255"},
  };
  for (const auto& c : cases) {
    const absl::Status status = ValidateAddress("nodes[2].address", c.address);
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "nodes[2].address: '")) << c.address;
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, c.reason)) << c.address;
  }
}

Node GoodNode() {
  Node node;
  node.id = "cache-0";
  node.address = "127.0.0.1:6379";
  node.zone = "eu-1a";
  node.labels = {{"tier", "gold"}};
  return node;
}

TEST(ValidateNodeTest, AcceptsTheBounds) {
  Node node = GoodNode();
  EXPECT_OK(ValidateNode("node", node));
  node.weight_milli = Node::kMinWeightMilli;
  EXPECT_OK(ValidateNode("node", node));
  node.weight_milli = Node::kMaxWeightMilli;
  node.hash_name = std::string(255, '\xff');
  node.zone = std::string(255, 'z');
  node.labels.clear();
  for (int i = 0; i < 64; ++i) {
    node.labels[std::string(254, 'k') + static_cast<char>('0' + i / 10) +
                static_cast<char>('0' + i % 10)] = std::string(256, 'v');
  }
  EXPECT_OK(ValidateNode("node", node));
}

TEST(ValidateNodeTest, RefusesWithTheField) {
  struct Case {
    std::string message;
    std::function<void(Node&)> spoil;
  };
  const Case cases[] = {
      {"node.id: 'Cache'", [](Node& n) { n.id = "Cache"; }},
      {"node.id: ''", [](Node& n) { n.id.clear(); }},
      {"node.address: 'nowhere'", [](Node& n) { n.address = "nowhere"; }},
      {"node.weight: 0 is out of bounds: use 0.01 to 1000", [](Node& n) { n.weight_milli = 0; }},
      {"node.weight: 0.009 is", [](Node& n) { n.weight_milli = 9; }},
      {"node.weight: 1000.001 is", [](Node& n) { n.weight_milli = 1'000'001; }},
      {"node.hash_name:", [](Node& n) { n.hash_name.assign(256, 'h'); }},
      {"node.zone: 'eu\\x0a'", [](Node& n) { n.zone = "eu\n"; }},
      {"node.zone:", [](Node& n) { n.zone.assign(256, 'z'); }},
      {"node.labels: '' = 'x': a label needs a key", [](Node& n) { n.labels[""] = "x"; }},
      {"has 257 bytes: use at most 256", [](Node& n) { n.labels[std::string(257, 'k')] = ""; }},
      {"node.labels[k]: 'vvv", [](Node& n) { n.labels["k"].assign(257, 'v'); }},
      {"node.labels[k]: '\\xff': use printable", [](Node& n) { n.labels["k"] = "\xff"; }},
      {"node.labels: 65 labels: use at most 64",
       [](Node& n) {
         n.labels.clear();
         for (int i = 0; i < 65; ++i) n.labels["k" + std::to_string(i)] = "";
       }},
  };
  for (const Case& c : cases) {
    Node node = GoodNode();
    c.spoil(node);
    EXPECT_THAT(ValidateNode("node", node), StatusIs(StatusCode::kInvalidArgument, c.message));
  }
}

TEST(NodeTest, HashNameIsTheIdUnlessItIsGiven) {
  Node node = GoodNode();
  EXPECT_EQ(node.HashName(), "cache-0");
  node.hash_name = "10.0.0.1:11211";
  EXPECT_EQ(node.HashName(), "10.0.0.1:11211");
}

}  // namespace
}  // namespace warmring
