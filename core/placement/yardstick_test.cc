#include "core/placement/yardstick.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace warmring {
namespace {

std::vector<Node> Nodes(const std::string& ids, uint32_t weight_milli = 1000) {
  std::vector<Node> nodes;
  for (const char id : ids) {
    Node node;
    node.id = std::string(1, id);
    node.weight_milli = weight_milli;
    nodes.push_back(node);
  }
  return nodes;
}

TEST(YardstickTest, TheIdealIsTheNewcomersShare) {
  EXPECT_DOUBLE_EQ(IdealShare(Nodes("abcd"), Nodes("abcde")), 0.2);
  EXPECT_DOUBLE_EQ(IdealShare(Nodes("abcd"), Nodes("abc")), 0.25);
  EXPECT_DOUBLE_EQ(IdealShare(Nodes("abcd"), Nodes("abcd")), 0);
  std::vector<Node> after = Nodes("abcd");
  after[3].weight_milli = 2000;  // from a quarter to two fifths
  EXPECT_DOUBLE_EQ(IdealShare(Nodes("abcd"), after), 0.15);
}

// Counted by hand for the hashes 0..19 (one period): of four nodes to five, 4 of 20 stay.
TEST(YardstickTest, ModuloMovesNearlyAll) {
  EXPECT_DOUBLE_EQ(ModuloShare(Nodes("abcd"), Nodes("abcde")), 0.8);
  EXPECT_DOUBLE_EQ(ModuloShare(Nodes("ab"), Nodes("abcd")), 0.5);
  EXPECT_DOUBLE_EQ(ModuloShare(Nodes("abcd"), Nodes("abcd")), 0);
  EXPECT_DOUBLE_EQ(ModuloShare(Nodes("abc"), Nodes("xyz")), 1);
}

TEST(YardstickTest, ModuloAgreesWithCounting) {
  for (size_t n = 1; n <= 9; ++n) {
    for (size_t m = 1; m <= 9; ++m) {
      const std::string all = "abcdefghi";
      size_t moved = 0;
      for (size_t hash = 0; hash < n * m; ++hash) moved += all[hash % n] != all[hash % m] ? 1u : 0u;
      EXPECT_DOUBLE_EQ(ModuloShare(Nodes(all.substr(0, n)), Nodes(all.substr(0, m))),
                       static_cast<double>(moved) / static_cast<double>(n * m));
    }
  }
}

// About the newcomer's share, and off by what random tokens are off: with 160 tokens some 8 %.
TEST(YardstickTest, APlainRingMovesAboutTheShare) {
  EXPECT_NEAR(PlainRingShare(Nodes("abcd"), Nodes("abcde")), 0.2, 0.05);
  EXPECT_NEAR(PlainRingShare(Nodes("abcde"), Nodes("abcd")), 0.2, 0.05);
  EXPECT_DOUBLE_EQ(PlainRingShare(Nodes("abcd"), Nodes("dcba")), 0);
  EXPECT_DOUBLE_EQ(PlainRingShare(Nodes("a"), Nodes("b")), 1);
}

}  // namespace
}  // namespace warmring
