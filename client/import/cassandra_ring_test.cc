// Against routes that the Python driver of Cassandra gives for the same tokens, and against what
// nodetool prints.

#include "client/import/cassandra_ring.h"

#include <functional>
#include <limits>

#include "client/import/fleet_testing.h"
#include "core/hashing/murmur3.h"

namespace warmring {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr uint16_t kPort = 9042;

absl::StatusOr<Fleet> Parse(std::string_view text) { return ParseCassandraRing(text, kPort); }

constexpr std::string_view kNodetool = R"(
Datacenter: datacenter1
==========
Address          Rack        Status State   Load            Owns                Token
                                                                                3074457345618258602
10.0.0.1         rack1       Up     Normal  103.67 KiB      66.67%              -9223372036854775808
10.0.0.2         rack2       Down   Normal  ?               66.67%              -3074457345618258603
10.0.0.1         rack1       Up     Normal  103.67 KiB      66.67%              -1
10.0.0.3         rack1       Up     Normal  98.1 KiB        66.67%              3074457345618258602

  Warning: "nodetool ring" is used to output all the tokens of a node.
  To view status related info of a node use "nodetool status" instead.


)";

TEST(CassandraRingTest, ReadsWhatNodetoolPrints) {
  ASSERT_OK_AND_ASSIGN(const Fleet fleet, Parse(kNodetool));
  ASSERT_EQ(fleet.nodes.size(), 3u);
  EXPECT_EQ(fleet.nodes[1].id, "node-10-0-0-2");
  EXPECT_EQ(fleet.nodes[1].address, "10.0.0.2:9042");
  EXPECT_EQ(fleet.nodes[1].zone, "datacenter1");
  EXPECT_EQ(fleet.nodes[1].labels.at("rack"), "rack2");
  EXPECT_EQ(fleet.hash.function, HashSpec::Function::kMurmur3);
  ASSERT_EQ(fleet.ranges.size(), 4u);
  EXPECT_EQ(fleet.ranges[0], (OwnedRange{0, 0, Epoch(1)}));
  EXPECT_EQ(fleet.ranges[2].end, (uint64_t{1} << 63) - 1);
  EXPECT_EQ(fleet.ranges[3].owner, 2u);
  ASSERT_NE(MembershipOf(fleet), nullptr);
}

// Python: cassandra-driver 3.25, TokenMap over Murmur3Token; key-0 to key-4989 and ten keys of
// bytes above 0x7f. Token j of node i is the token of "t-<i>-<j>".
TEST(CassandraRingTest, RoutesLikeTheDriver) {
  const struct {
    int nodes;
    int tokens;
    std::string digest;
  } cases[] = {{3, 16, "43465def4a4de6ba1442ce14510d1544"},
               {20, 256, "2ebc34d4c89c466007c725ad562a8824"}};
  std::vector<std::string> keys = NumberedKeys(4990);
  for (size_t i = 0; i < 10; ++i) keys.emplace_back(i + 1, static_cast<char>(200 + i));
  for (const auto& c : cases) {
    std::string text;
    for (int i = 1; i <= c.nodes; ++i) {
      for (int j = 0; j < c.tokens; ++j) {
        text += fmt::format("10.0.0.{} {}\n", i, CassandraToken(fmt::format("t-{}-{}", i, j)));
      }
    }
    ASSERT_OK_AND_ASSIGN(const Fleet fleet, Parse(text));
    EXPECT_EQ(fleet.tokens_per_node, static_cast<uint32_t>(c.tokens));
    EXPECT_EQ(RoutesDigest(fleet, keys, std::mem_fn(&Node::hash_name)), c.digest);
  }
}

TEST(CassandraRingTest, AddressesGetAPort) {
  ASSERT_OK_AND_ASSIGN(const Fleet fleet,
                       Parse("cass-1.example -5\n::1 6\n10.0.0.1:19042 7\n[::2]:1 8\n"));
  EXPECT_EQ(fleet.nodes[0].address, "cass-1.example:9042");
  EXPECT_EQ(fleet.nodes[1].address, "[::1]:9042");
  EXPECT_EQ(fleet.nodes[2].address, "10.0.0.1:19042");
  EXPECT_EQ(fleet.nodes[3].address, "[::2]:1");
}

std::string Replaced(std::string_view from, std::string_view to) {
  std::string text(kNodetool);
  return text.replace(text.find(from), from.size(), to);
}

TEST(CassandraRingTest, RefusesWithLineAndReason) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "names none"},
      {"10.0.0.1 x\n", "line 1: token 'x': use a signed 64-bit number"},
      {"10.0.0.1 9223372036854775808\n", "line 1: token '9223372036854775808'"},
      {"10.0.0.1 -9223372036854775809\n", "line 1: token"},
      {"10.0.0.1 1.5\n", "line 1: token '1.5'"},
      {"10.0.0.1 +1\n", "line 1: token '+1'"},
      {"10.0.0.1 1 2\n", "line 1: '10.0.0.1 1 ...' is neither"},
      {"10.0.0.1 1\n5\n", "line 2: '5' stands alone"},
      {"what\n", "line 1: 'what' stands alone"},
      {"10.0.0.1 1\n10.0.0.2 1\n", "both have the token"},
      {"not/a/host 1\n", "line 1: node.address"},
      {"10.0.0.1 1\n10-0-0-1 2\n", "would both have the id 'node-10-0-0-1'"},
      {Replaced("Up     Normal  98.1", "Up     Joining 98.1"),
       "line 9: 10.0.0.3 is Joining: import a ring that stands still"},
      {std::string(kNodetool.substr(0, kNodetool.find("\n  Warning"))) + std::string(kNodetool),
       "a second datacenter"},
      {Replaced("3074457345618258602\n10", "3074457345618258603\n10"), "the file is cut off"},
      {"10.0.0.1 1", "the last line does not end"},
      {std::string("10.0.0.1 1\0\n", 12), "NUL"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(Parse(text), StatusIs(kInvalid, message)) << text;
  }
}

TEST(CassandraRingTest, ACutFileIsSeen) {
  ExpectCutTextIsSeen(kNodetool, Parse);
  ExpectCutTextIsSeen("10.0.0.1 -77\n10.0.0.2 88\n10.0.0.1 4611686018427387904\n", Parse);
  ExpectNoiseIsSurvived(kNodetool, Parse);
}

// nodetool's output says by itself where it ends: no beginning that lacks a token is taken.
TEST(CassandraRingTest, NodetoolNeedsNoExpectation) {
  ASSERT_OK_AND_ASSIGN(const Fleet whole, Parse(kNodetool));
  for (size_t length = 0; length < kNodetool.size(); ++length) {
    const auto fleet = Parse(std::string(kNodetool.substr(0, length)));
    if (!fleet.ok()) continue;
    EXPECT_EQ(fleet->ranges, whole.ranges) << length;
  }
}

}  // namespace
}  // namespace warmring
