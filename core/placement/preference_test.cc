#include "core/placement/preference.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/membership/failure_domain.h"
#include "core/placement/allocator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

using testing::ElementsAre;

struct Fleet {
  KeyspaceSpec spec;
  std::vector<Node> nodes;

  // Nodes a, b, c, ... in these zones; rack by rack when a zone is written "zone/rack".
  Fleet(uint32_t replication, DomainRule rule, const std::vector<std::string>& places) {
    spec.id = "sessions";
    spec.placement = PlacementKind::kRing;
    spec.tokens_per_node = 16;
    spec.replication = replication;
    spec.domains = rule;
    for (size_t i = 0; i < places.size(); ++i) {
      Node node;
      node.id = std::string(1, static_cast<char>('a' + i));
      node.address = node.id + ":6379";
      const size_t slash = places[i].find('/');
      node.zone = places[i].substr(0, slash);
      if (slash != std::string::npos) node.labels["rack"] = places[i].substr(slash + 1);
      nodes.push_back(node);
    }
  }

  // Ranges of equal size with these owners, in clockwise order.
  std::vector<OwnedRange> Ranges(const std::string& owners) const {
    std::vector<OwnedRange> ranges;
    for (size_t i = 0; i < owners.size(); ++i) {
      ranges.push_back({(i + 1) * 100, static_cast<NodeIndex>(owners[i] - 'a'), Epoch(1)});
    }
    return ranges;
  }

  // The followers as text: "bc" is b, then c; "-" is nobody.
  std::vector<std::string> Lists(const std::string& owners) const {
    const absl::StatusOr<std::vector<NodeIndex>> lists =
        PreferenceLists(spec, nodes, Ranges(owners));
    if (!lists.ok()) return {std::string(lists.status().message())};
    std::vector<std::string> texts(owners.size());
    for (size_t i = 0; i < lists->size(); ++i) {
      texts[i / (spec.replication - 1)] +=
          (*lists)[i] == kNoNode ? '-' : static_cast<char>('a' + (*lists)[i]);
    }
    return texts;
  }
};

constexpr DomainRule kNodes = {DomainLevel::kNode, false};
constexpr DomainRule kZones = {DomainLevel::kZone, false};
constexpr DomainRule kZonesIfPossible = {DomainLevel::kZone, true};

TEST(PreferenceTest, TheNextOtherNodesClockwise) {
  EXPECT_THAT(Fleet(3, kNodes, {"", "", ""}).Lists("aabca"),
              ElementsAre("bc", "bc", "ca", "ab", "bc"));
}

TEST(PreferenceTest, OneCopyHasNoFollowers) {
  const Fleet fleet(1, {}, {"", ""});
  ASSERT_OK_AND_ASSIGN(const auto lists,
                       PreferenceLists(fleet.spec, fleet.nodes, fleet.Ranges("ab")));
  EXPECT_TRUE(lists.empty());
}

TEST(PreferenceTest, NodesOfAZoneThatIsTakenAreSkipped) {
  EXPECT_THAT(Fleet(2, kZones, {"x", "x", "y"}).Lists("abc"), ElementsAre("c", "c", "a"));
  EXPECT_THAT(Fleet(3, kZones, {"x", "x", "y", "y", "z"}).Lists("abcde"),
              ElementsAre("ce", "ce", "ea", "ea", "ac"));
}

TEST(PreferenceTest, AStrictRuleWithTooFewZonesIsRefusedWithTheCounts) {
  EXPECT_THAT(Fleet(3, kZones, {"x", "x", "y"}).Lists("abc"),
              ElementsAre(testing::AllOf(testing::HasSubstr("3 copies need as many zones"),
                                         testing::HasSubstr("2 own a range"))));
  // A zone whose nodes own nothing cannot be walked to.
  EXPECT_THAT(Fleet(2, kZones, {"x", "y"}).Lists("aa"),
              ElementsAre(testing::HasSubstr("1 own a range")));
}

TEST(PreferenceTest, BestEffortGoesDownToRacksAndThenToNodes) {
  // One zone: c stands in another rack than a and b, and comes before b.
  EXPECT_THAT(Fleet(3, kZonesIfPossible, {"x/1", "x/1", "x/2"}).Lists("abc"),
              ElementsAre("cb", "ca", "ab"));
  EXPECT_THAT(Fleet(4, kZonesIfPossible, {"x", "y"}).Lists("ab"), ElementsAre("b--", "a--"));
}

// The rule as it is written down, the slow way.
std::vector<NodeIndex> BruteForce(const Fleet& fleet, const std::vector<OwnedRange>& ranges,
                                  size_t first) {
  std::vector<NodeIndex> list = {ranges[first].owner};
  for (const DomainLevel level : {DomainLevel::kZone, DomainLevel::kRack, DomainLevel::kNode}) {
    if (level > fleet.spec.domains.level) continue;
    if (level < fleet.spec.domains.level && !fleet.spec.domains.best_effort) continue;
    for (size_t step = 1; step < ranges.size(); ++step) {
      const NodeIndex node = ranges[(first + step) % ranges.size()].owner;
      const bool used = std::any_of(list.begin(), list.end(), [&](NodeIndex other) {
        return DomainOf(fleet.nodes[other], level) == DomainOf(fleet.nodes[node], level);
      });
      if (!used && list.size() < fleet.spec.replication) list.push_back(node);
    }
  }
  list.resize(fleet.spec.replication, kNoNode);
  return list;
}

TEST(PreferenceTest, AgreesWithTheRuleOnRandomRings) {
  std::mt19937_64 random(20261130);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> places;
    const size_t count = 1 + random() % 12;
    for (size_t i = 0; i < count; ++i) {
      places.push_back(std::string(1, static_cast<char>('x' + random() % 3)) + "/" +
                       std::to_string(random() % 3));
    }
    const Fleet fleet(2 + static_cast<uint32_t>(random() % 4),
                      {static_cast<DomainLevel>(1 + random() % 3), true}, places);
    std::string owners;
    for (size_t i = 0; i < 40; ++i) owners += static_cast<char>('a' + random() % count);
    const std::vector<OwnedRange> ranges = fleet.Ranges(owners);
    ASSERT_OK_AND_ASSIGN(const auto lists, PreferenceLists(fleet.spec, fleet.nodes, ranges));
    const size_t followers = fleet.spec.replication - 1;
    for (size_t i = 0; i < ranges.size(); ++i) {
      std::vector<NodeIndex> list = {ranges[i].owner};
      for (size_t f = 0; f < followers; ++f) list.push_back(lists[i * followers + f]);
      ASSERT_EQ(list, BruteForce(fleet, ranges, i)) << "round " << round << ", range " << i;
    }
  }
}

TEST(PreferenceTest, AMembershipCountsWhatBreaksTheRule) {
  Fleet fleet(2, kZonesIfPossible, {"x", "x", "y"});
  MembershipData data;
  data.version = Version(1);
  data.spec = fleet.spec;
  data.nodes = fleet.nodes;
  data.ranges = fleet.Ranges("abc");
  data.followers = {1, 2, kNoNode};  // a's is in a's zone, b's in another, c's is missing
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr membership, Membership::Create(data));
  EXPECT_EQ(CountDomainViolations(*membership), 2u);
  ASSERT_OK_AND_ASSIGN(data.followers, PreferenceLists(fleet.spec, fleet.nodes, data.ranges));
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr better, Membership::Create(data));
  EXPECT_EQ(CountDomainViolations(*better), 0u);
}

}  // namespace
}  // namespace warmring
