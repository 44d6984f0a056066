#include "core/placement/directory.h"

#include <string>

#include <gtest/gtest.h>

// A directory is a value, and what is said of it (balance, violations, movement) is exact.

namespace warmring {
namespace {

// Four buckets with two ranks on three nodes:
//   bucket 0: a b · 1: b c · 2: c a · 3: a b
Directory Example() {
  return {
      {2, 2, true}, {{"a", 1000, ""}, {"b", 1000, ""}, {"c", 1000, ""}}, {0, 1, 1, 2, 2, 0, 0, 1}};
}

bool Equals(const Ratio& a, uint64_t numerator, uint64_t denominator) {
  return a.numerator * denominator == numerator * a.denominator;
}

TEST(DirectoryTest, CountsSlotsPerNode) {
  EXPECT_EQ(SlotsPerNode(Example(), std::nullopt), (std::vector<uint64_t>{3, 3, 2}));
  EXPECT_EQ(SlotsPerNode(Example(), 0), (std::vector<uint64_t>{2, 1, 1}));
  EXPECT_EQ(SlotsPerNode(Example(), 1), (std::vector<uint64_t>{1, 2, 1}));
}

// The share of each node is 8/3 slots, and 4/3 of each rank.
TEST(DirectoryTest, BalanceIsAnExactRatio) {
  const DirectoryBalance all = BalanceOf(Example(), std::nullopt);
  EXPECT_TRUE(Equals(all.max, 9, 8));
  EXPECT_EQ(all.max_node, 0u);
  EXPECT_TRUE(Equals(all.min, 6, 8));
  EXPECT_EQ(all.min_node, 2u);
  const DirectoryBalance primaries = BalanceOf(Example(), 0);
  EXPECT_TRUE(Equals(primaries.max, 3, 2));
  EXPECT_EQ(primaries.max_node, 0u);
  EXPECT_TRUE(Equals(primaries.min, 3, 4));
  EXPECT_EQ(primaries.min_node, 1u);
}

// A node cannot hold a bucket twice: the heavy one's share is 4 of the 8 slots, not 8 * 8/10.
TEST(DirectoryTest, BalanceKnowsWhatIsPossible) {
  Directory heavy = Example();
  heavy.nodes[0].weight_milli = 8000;
  heavy.owner = {0, 1, 0, 2, 1, 0, 2, 0};
  EXPECT_TRUE(Equals(BalanceOf(heavy, std::nullopt).max, 1, 1));
  EXPECT_TRUE(Equals(BalanceOf(heavy, std::nullopt).min, 1, 1));
}

TEST(DirectoryTest, CountsViolations) {
  Directory directory = Example();
  EXPECT_EQ(CountViolations(directory), 0u);
  directory.nodes[0].domain = directory.nodes[1].domain = "zone-1";
  EXPECT_EQ(CountViolations(directory), 2u);  // buckets 0 and 3
  directory.owner[1] = Directory::kNoNode;
  EXPECT_EQ(CountViolations(directory), 2u);  // one has no second owner, 3 still violates
  directory.nodes[0].domain = "";
  EXPECT_EQ(CountViolations(directory), 1u);
}

TEST(DirectoryTest, AnEmptyDomainEqualsNoOther) {
  const DomainNumbers numbers =
      NumberDomains({{"a", 1, ""}, {"b", 1, "z"}, {"c", 1, ""}, {"d", 1, "z"}, {"e", 1, "y"}});
  EXPECT_EQ(numbers.of_node, (std::vector<uint32_t>{0, 1, 2, 1, 3}));
  EXPECT_EQ(numbers.count, 4u);
}

// Bucket 0 swaps its ranks; in bucket 1 a replica goes from c to the new node; in bucket 3 one goes
// from b to c.
TEST(DirectoryTest, ChangesAndMovement) {
  const Directory before = Example();
  Directory after = before;
  after.nodes.insert(after.nodes.begin() + 1, {"ab", 1000, ""});
  after.owner = {2, 0, 2, 1, 3, 0, 0, 3};
  EXPECT_EQ(ChangesBetween(before, after),
            (std::vector<SlotChange>{
                {0, 0, "a", "b"}, {0, 1, "b", "a"}, {1, 1, "c", "ab"}, {3, 1, "b", "c"}}));
  const DirectoryMovement movement = MovementBetween(before, after);
  EXPECT_EQ(movement.moved_slots, 2u);
  EXPECT_EQ(movement.role_changes, 2u);
}

TEST(DirectoryTest, NobodyIsAnEndOfAChange) {
  const Directory one = {{0, 2, false}, {{"a", 1000, ""}}, {0, Directory::kNoNode}};
  const Directory two = {{0, 2, false}, {{"a", 1000, ""}, {"b", 1000, ""}}, {0, 1}};
  EXPECT_TRUE(ValidateDirectory(one).ok());
  EXPECT_EQ(ChangesBetween(one, two), (std::vector<SlotChange>{{0, 1, "", "b"}}));
  EXPECT_EQ(ChangesBetween(two, one), (std::vector<SlotChange>{{0, 1, "b", ""}}));
  EXPECT_EQ(MovementBetween(one, two).moved_slots, 1u);
  EXPECT_EQ(MovementBetween(two, one).moved_slots, 0u);
}

TEST(DirectoryTest, GrowingCopiesOwnersAndMovesNothing) {
  const Directory grown = Grow(Example(), 3).value();
  EXPECT_EQ(grown.shape, (DirectoryShape{3, 2, true}));
  EXPECT_EQ(grown.owner, (std::vector<uint32_t>{0, 1, 0, 1, 1, 2, 1, 2, 2, 0, 2, 0, 0, 1, 0, 1}));
  EXPECT_TRUE(ChangesBetween(Example(), grown).empty());
  EXPECT_EQ(Grow(Example(), 2).value(), Example());
}

TEST(DirectoryTest, GrowingHasBounds) {
  EXPECT_EQ(Grow(Example(), 1).status().message(),
            "bits: 1 is less than the 2 that the directory has: it only grows");
  EXPECT_EQ(Grow(Example(), 21).status().message(), "bits: 21 is out of bounds: use 0 to 20");
}

std::string Refusal(const Directory& directory) {
  const absl::Status status = ValidateDirectory(directory);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(DirectoryTest, ValidatesOwners) {
  EXPECT_TRUE(ValidateDirectory(Example()).ok());
  Directory directory = Example();
  directory.owner.pop_back();
  EXPECT_EQ(Refusal(directory), "owner: has 7 entries: 4 buckets with 2 ranks need 8");
  directory = Example();
  directory.owner[5] = 3;
  EXPECT_EQ(Refusal(directory), "owner: bucket 2 rank 1 has node 3: there are 3 nodes");
  directory.owner[5] = Directory::kNoNode;
  EXPECT_EQ(Refusal(directory), "owner: bucket 2 rank 1 has node 4294967295: there are 3 nodes");
  directory.owner[5] = 2;
  EXPECT_EQ(Refusal(directory),
            "owner: bucket 2 has node 'c' at ranks 0 and 1: ranks are different nodes");
  directory = Example();
  std::swap(directory.nodes[0], directory.nodes[1]);
  EXPECT_EQ(Refusal(directory), "nodes: 'a' stands after 'b': sort them by id");
}

TEST(DirectoryTest, ValidatesNodes) {
  Directory directory = Example();
  directory.nodes[1].weight_milli = 0;
  EXPECT_EQ(Refusal(directory),
            "nodes: the weight of 'b' is 0 thousandths: use 1 to 1000000, and remove a node that "
            "should own nothing");
  directory.nodes[1].weight_milli = 1'000'001;
  EXPECT_NE(Refusal(directory).find("is 1000001 thousandths"), std::string::npos);
  directory = Example();
  directory.nodes[1].id = "a";
  EXPECT_EQ(Refusal(directory), "nodes: 'a' is there twice: name each node once");
  directory.nodes[1].id = "";
  EXPECT_EQ(Refusal(directory), "nodes: an id is empty: name each node");
  directory.nodes.clear();
  EXPECT_EQ(Refusal(directory), "nodes: there are 0: use 1 to 100000");
}

TEST(DirectoryTest, ValidatesTheShape) {
  Directory directory = Example();
  directory.shape.bits = 21;
  EXPECT_EQ(Refusal(directory), "bits: 21 is out of bounds: use 0 to 20");
  directory.shape = {2, 0, true};
  EXPECT_EQ(Refusal(directory), "ranks: 0 is out of bounds: use 1 to 16");
  directory.shape = {2, 17, true};
  EXPECT_EQ(Refusal(directory), "ranks: 17 is out of bounds: use 1 to 16");
}

}  // namespace
}  // namespace warmring
