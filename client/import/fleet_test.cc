// The parts that every format shares: names become ids, tokens become a ring, text becomes lines.

#include "client/import/fleet.h"

#include <algorithm>

#include "client/import/fleet_testing.h"
#include "client/import/text_lines.h"

namespace warmring {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

std::vector<Node> Nodes(int count) {
  std::vector<Node> nodes;
  for (int i = 0; i < count; ++i) {
    const std::string address = fmt::format("10.0.0.{}:6379", i);
    auto node = MakeFleetNode(address, address);
    EXPECT_OK(node);
    nodes.push_back(*node);
  }
  return nodes;
}

TEST(NodeIdTest, EveryNameBecomesAnId) {
  EXPECT_EQ(NodeIdOf("10.0.0.1:11211"), "node-10-0-0-1-11211");
  EXPECT_EQ(NodeIdOf("Cache-01.Example:6379"), "cache-01-example-6379");
  EXPECT_EQ(NodeIdOf("[::1]:80"), "node-1-80");
  EXPECT_EQ(NodeIdOf("a--b__c"), "a-b-c");
  EXPECT_EQ(NodeIdOf("x-"), "x");
  for (const std::string& name :
       {std::string(), std::string("::"), std::string("\x00\xff", 2), std::string(500, 'a'),
        std::string(500, '.'), std::string(62, 'a') + "..b", std::string(70, '9')}) {
    EXPECT_OK(ValidateId("id", NodeIdOf(name))) << name;
  }
}

TEST(MakeRingTest, SortsTokensAndMeasuresShares) {
  ASSERT_OK_AND_ASSIGN(
      const Fleet fleet,
      MakeRing({}, Nodes(2), {{UINT64_MAX, 0}, {UINT64_MAX / 4, 1}, {UINT64_MAX / 4, 1}}));
  ASSERT_EQ(fleet.ranges.size(), 2u);
  EXPECT_EQ(fleet.ranges[0].owner, 1u);
  EXPECT_EQ(fleet.tokens_per_node, 1u);
  EXPECT_DOUBLE_EQ(fleet.Shares()[0], 0.75);
  EXPECT_DOUBLE_EQ(fleet.Shares()[1], 0.25);
  ASSERT_OK_AND_ASSIGN(const Fleet alone, MakeRing({}, Nodes(1), {{7, 0}}));
  EXPECT_DOUBLE_EQ(alone.Shares()[0], 1.0);
}

TEST(MakeRingTest, RefusesWhatWouldMoveKeys) {
  EXPECT_THAT(MakeRing({}, {}, {}), StatusIs(kInvalid, "nodes: the source names none"));
  EXPECT_THAT(MakeRing({}, Nodes(2), {{5, 0}, {5, 1}}),
              StatusIs(kInvalid,
                       "'10.0.0.0:6379' and '10.0.0.1:6379' both have the token "
                       "0000000000000005"));
  EXPECT_THAT(MakeRing({}, Nodes(2), {{5, 0}}),
              StatusIs(kInvalid, "tokens: '10.0.0.1:6379' has none"));
  std::vector<Node> twins = Nodes(1);
  twins.push_back(twins[0]);
  EXPECT_THAT(MakeRing({}, twins, {{5, 0}, {6, 1}}),
              StatusIs(kInvalid, "would both have the id 'node-10-0-0-0-6379'"));
}

TEST(CheckSizeTest, TellsWhatIsThere) {
  ASSERT_OK_AND_ASSIGN(const Fleet fleet, MakeRing({}, Nodes(2), {{5, 0}, {6, 1}}));
  EXPECT_OK(CheckSize(fleet, {}));
  EXPECT_OK(CheckSize(fleet, {2, 2}));
  EXPECT_THAT(CheckSize(fleet, {3, {}}),
              StatusIs(kInvalid, "nodes: the source names 2 where 3 are expected"));
  EXPECT_THAT(CheckSize(fleet, {{}, 1}),
              StatusIs(kInvalid, "ranges: the source gives 2 where 1 are expected"));
}

TEST(ReadLinesTest, WordsAndNumbersOfLines) {
  ASSERT_OK_AND_ASSIGN(const auto lines, ReadLines("\n# all\na b\t c\r\n   \n d # rest\n"));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].number, 3u);
  EXPECT_EQ(lines[0].words, (std::vector<std::string_view>{"a", "b", "c"}));
  EXPECT_EQ(lines[1].number, 5u);
  EXPECT_EQ(lines[1].words, (std::vector<std::string_view>{"d"}));
  ASSERT_OK_AND_ASSIGN(const auto none, ReadLines(""));
  EXPECT_TRUE(none.empty());
}

TEST(ReadLinesTest, RefusesWhatIsNoWholeText) {
  EXPECT_THAT(ReadLines("a\nb"), StatusIs(kInvalid, "the last line does not end"));
  EXPECT_THAT(ReadLines(std::string_view("a\0\n", 3)), StatusIs(kInvalid, "NUL"));
  EXPECT_THAT(ReadLines(std::string(Fleet::kMaxSourceBytes + 1, '\n')),
              StatusIs(kInvalid, "33554433 bytes"));
}

}  // namespace
}  // namespace warmring
