#include "client/import/token_list.h"

#include "client/import/fleet_testing.h"

namespace warmring {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

constexpr char kNodes[] =
    R"("nodes":[{"id":"a","address":"10.0.0.1:6379","zone":"z1"},{"id":"b","address":"b:1"}])";

std::string Document(std::string_view tokens, std::string_view more = "") {
  return fmt::format(R"({{{}{},"tokens":[{}]}})", more, kNodes, tokens);
}

constexpr char kTokens[] = R"({"token":"4000000000000000","node":"b"},{"token":"0","node":"a"},)"
                           R"({"token":"FFffffffffffffff","node":"b"})";

TEST(TokenListTest, TokensOwnWhatLiesBeforeThem) {
  ASSERT_OK_AND_ASSIGN(const Fleet fleet, ParseTokenList(Document(kTokens)));
  EXPECT_EQ(fleet.hash, HashSpec());
  EXPECT_EQ(fleet.nodes[0].zone, "z1");
  ASSERT_EQ(fleet.ranges.size(), 3u);
  EXPECT_EQ(fleet.ranges[0], (OwnedRange{0, 0, Epoch(1)}));
  EXPECT_EQ(fleet.ranges[1], (OwnedRange{0x4000000000000000, 1, Epoch(1)}));
  EXPECT_EQ(fleet.ranges[2], (OwnedRange{UINT64_MAX, 1, Epoch(1)}));
  ASSERT_NE(MembershipOf(fleet), nullptr);
  EXPECT_DOUBLE_EQ(fleet.Shares()[1], 1.0);
}

TEST(TokenListTest, EveryHashCanBeNamed) {
  using F = HashSpec::Function;
  const std::pair<const char*, HashSpec> cases[] = {{"xxh3", {F::kXxh3, false}},
                                                    {"xxh64", {F::kXxh64, false}},
                                                    {"murmur3", {F::kMurmur3, false}},
                                                    {"ketama", {F::kKetama, false}},
                                                    {"crc16", {F::kCrc16, true}}};
  for (const auto& [name, hash] : cases) {
    ASSERT_OK_AND_ASSIGN(const Fleet fleet,
                         ParseTokenList(Document(kTokens, fmt::format(R"("hash":"{}",)", name))));
    EXPECT_EQ(fleet.hash, hash) << name;
    ASSERT_NE(MembershipOf(fleet), nullptr);
  }
  ASSERT_OK_AND_ASSIGN(const Fleet tags, ParseTokenList(Document(kTokens, R"("hash_tags":true,)")));
  EXPECT_TRUE(tags.hash.hash_tags);
}

TEST(TokenListTest, RefusesWithTheMember) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "not JSON, or it is cut off"},
      {"[]", "the file: a array where an object is expected"},
      {"{}", "nodes: is missing"},
      {fmt::format("{{{}}}", kNodes), "tokens: is missing"},
      {R"({"nodes":1,"tokens":[]})", "nodes: a number where a list is expected"},
      {R"({"nodes":[1],"tokens":[]})", "nodes[0]: a number where an object is expected"},
      {R"({"nodes":[{"id":"a"}],"tokens":[]})", "nodes[0].address: is missing"},
      {R"({"nodes":[{"id":"A!","address":"a:1"}],"tokens":[]})", "nodes[0].id"},
      {R"({"nodes":[{"id":"a","address":"a:1","wieght":1}],"tokens":[]})",
       "nodes[0].wieght: this member is not known: use id, address, zone"},
      {R"({"nodes":[],"tokens":[]})", "names none"},
      {Document(""), "tokens: 'a' has none"},
      {Document(R"({"token":"1","node":"a"})"), "tokens: 'b' has none"},
      {Document(R"({"token":"1","node":"c"})"), "tokens[0].node: 'c' is not among the nodes"},
      {Document(R"({"token":1,"node":"a"})"), "tokens[0].token: a number where a string"},
      {Document(R"({"token":"","node":"a"})"), "tokens[0].token: '': use 1 to 16 hex digits"},
      {Document(R"({"token":"-1","node":"a"})"), "tokens[0].token: '-1'"},
      {Document(R"({"token":"0x1","node":"a"})"), "tokens[0].token: '0x1'"},
      {Document(R"({"token":"00000000000000001","node":"a"})"), "tokens[0].token"},
      {Document(R"({"token":"1","node":"a"},{"token":"01","node":"b"})"),
       "'a' and 'b' both have the token 0000000000000001"},
      {Document(kTokens, R"("hash":"md5",)"), "hash: 'md5' is unknown"},
      {Document(kTokens, R"("hash":3,)"), "hash: a number where a string"},
      {Document(kTokens, R"("hash_tags":"yes",)"), "hash_tags: use true or false"},
      {Document(kTokens, "\"hash\":\"\xff\","), "not JSON"},
      {std::string(100'000, '['), "nests its values too deep"},
      {R"({"nodes":)" + std::string(5'000'000, '['), "nests its values too deep"},
      {std::string(Fleet::kMaxSourceBytes + 1, ' '), "33554433 bytes"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(ParseTokenList(text), StatusIs(kInvalid, message)) << text.substr(0, 200);
  }
}

TEST(TokenListTest, ACutFileIsSeen) {
  ExpectCutTextIsSeen(Document(kTokens), ParseTokenList);
  ExpectNoiseIsSurvived(Document(kTokens), ParseTokenList);
}

}  // namespace
}  // namespace warmring
