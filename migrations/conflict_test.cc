#include "migrations/conflict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/reason.h"
#include "migrations/base_testing.h"

namespace warmring {
namespace {

using testing::HasSubstr;

MigrationPlan PlanOf(std::vector<Change> changes) {
  MigrationPlan plan;
  plan.keyspace = "sessions";
  plan.changes = std::move(changes);
  return plan;
}

NodeId OwnerOf(const Membership& membership, uint32_t bucket) {
  return membership.nodes()[membership.ranges()[bucket].owner].id;
}

// Buckets of `from` to `to`: the first `count` from `begin` on.
Change Some(const Membership& base, const NodeId& from, const NodeId& to, uint32_t begin,
            size_t count, bool pin = false) {
  MoveBuckets move{{}, to, pin};
  for (uint32_t bucket = begin; move.buckets.size() < count; ++bucket) {
    if (OwnerOf(base, bucket) == from) move.buckets.push_back(bucket);
  }
  return move;
}

Preview Planned(const Membership& base, std::vector<Change> changes) {
  absl::StatusOr<Preview> preview = Plan(base, PlanOf(std::move(changes)), {});
  EXPECT_TRUE(preview.ok()) << preview.status();
  return *preview;
}

class ConflictTest : public testing::Test {
 protected:
  // What planning `mine` says while `theirs` is under way.
  absl::Status Between(std::vector<Change> mine, std::vector<Change> theirs) {
    const Preview other = Planned(*base_, std::move(theirs));
    return Plan(*base_, PlanOf(std::move(mine)), {}, {{"mig-1", &other}}).status();
  }
  void ExpectConflict(const absl::Status& status, const std::string& what) {
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
    EXPECT_EQ(ReasonNameOf(status), "MIGRATION_IN_PROGRESS");
    EXPECT_THAT(std::string(status.message()), HasSubstr("migration 'mig-1' has not ended"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }

  Membership::Ptr base_ = Base(PlacementKind::kDirectory, 4);
};

TEST_F(ConflictTest, DisjointListsOfBucketsGoTogether) {
  EXPECT_TRUE(Between({Some(*base_, "cache-00", "cache-01", 0, 20)},
                      {Some(*base_, "cache-00", "cache-02", 500, 20)})
                  .ok());
  ExpectConflict(Between({Some(*base_, "cache-00", "cache-01", 0, 20)},
                         {Some(*base_, "cache-00", "cache-02", 0, 20)}),
                 "of hash space would move in both");
}

TEST_F(ConflictTest, TwoReplacementsGoTogether) {
  EXPECT_TRUE(
      Between({ReplaceNode{"cache-00", MakeNode(8)}}, {ReplaceNode{"cache-01", MakeNode(9)}}).ok());
  Node same_address = MakeNode(8);
  same_address.address = MakeNode(9).address;
  ExpectConflict(
      Between({ReplaceNode{"cache-00", same_address}}, {ReplaceNode{"cache-01", MakeNode(9)}}),
      "have the same address");
  Node same_id = MakeNode(9);
  same_id.address = "10.1.1.1:1";
  ExpectConflict(
      Between({ReplaceNode{"cache-00", same_id}}, {ReplaceNode{"cache-01", MakeNode(9)}}),
      "node 'cache-09' joins or leaves while it takes part in the other");
}

// What a removed node leaves goes to nodes that stay, and not to the one that leaves beside it.
TEST_F(ConflictTest, TwoRemovals) {
  const Preview other = Planned(*base_, {RemoveNode{"cache-01"}});
  const absl::StatusOr<Preview> preview =
      Plan(*base_, PlanOf({RemoveNode{"cache-00"}}), {}, {{"mig-1", &other}});
  // The first gives to cache-00, which would give it on.
  ExpectConflict(preview.status(), "of hash space would move in both");
  // A node that owns nothing of what the other moves: buckets of a third one to a fourth.
  const absl::StatusOr<Preview> beside =
      Plan(*base_, PlanOf({Some(*base_, "cache-02", "cache-03", 0, 20)}), {}, {{"mig-1", &other}});
  EXPECT_TRUE(beside.ok()) << beside.status();
  EXPECT_EQ(beside->base_version, Version(41));
  const absl::Status leaving =
      Plan(*base_, PlanOf({Some(*base_, "cache-02", "cache-01", 0, 20)}), {}, {{"mig-1", &other}})
          .status();
  ExpectConflict(leaving, "node 'cache-01' joins or leaves by it");
}

TEST_F(ConflictTest, ANodeThatJoinsGetsNothingFromOthers) {
  const Preview other = Planned(*base_, {AddNode{MakeNode(9)}});
  const absl::StatusOr<Preview> preview =
      Plan(*base_, PlanOf({RemoveNode{"cache-00", true}}), {}, {{"mig-1", &other}});
  ExpectConflict(preview.status(), "of hash space would move in both");
}

// A node may die while it joins or leaves: the failover is for the node as it is, and waits.
TEST_F(ConflictTest, ANodeThatJoinsOrLeavesMayBeNamed) {
  for (const std::vector<Change>& changes :
       {std::vector<Change>{AddNode{MakeNode(9)}}, std::vector<Change>{RemoveNode{"cache-01"}}}) {
    const Preview other = Planned(*base_, changes);
    // The first wave is committed.
    Update committed;
    committed.put_nodes = other.nodes_added;
    for (const PlannedMove& move : other.moves) {
      if (move.wave == 0) committed.assignments.push_back({move.ranges, move.to, Epoch(9)});
    }
    const Membership::Ptr head = *Apply(*base_, committed);
    const NodeId dead = other.nodes_added.empty() ? "cache-01" : MakeNode(9).id;
    const MigrationPlan failover = PlanOf({RemoveNode{dead, true}});
    ExpectConflict(Plan(*head, failover, {}, {{"mig-1", &other}}).status(),
                   "node '" + dead + "' joins or leaves by it");
    const absl::StatusOr<Preview> later = PlanForLater(*head, failover, {}, {{"mig-1", &other}});
    ASSERT_TRUE(later.ok()) << later.status();
    HashRangeSet moved;
    for (const PlannedMove& move : later->moves) {
      EXPECT_EQ(move.from, dead);
      moved = moved.Union(move.ranges);
    }
    EXPECT_EQ(moved, head->OwnedBy(dead));
  }
}

// A plan that names a node is no more about what the node has than any other.
TEST_F(ConflictTest, BackToWhereTheyAreGoingFromIsInTheWay) {
  const std::vector<Change> there = {Some(*base_, "cache-00", "cache-01", 0, 20)};
  MoveBuckets back = std::get<MoveBuckets>(there[0]);
  back.to = "cache-00";
  ExpectConflict(Between({back}, there), "would move in both");
}

TEST_F(ConflictTest, ANodeThatLeavesKeepsItsAddress) {
  const Preview other = Planned(*base_, {RemoveNode{"cache-01"}});
  Node same_server = MakeNode(9);
  same_server.address = MakeNode(1).address;
  const absl::Status status =
      Plan(*base_, PlanOf({ReplaceNode{"cache-00", same_server}}), {}, {{"mig-1", &other}})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  const Preview beside = Planned(*base_, {ReplaceNode{"cache-00", MakeNode(9)}});
  Update joined;
  Node there = MakeNode(8);
  there.address = MakeNode(9).address;
  joined.put_nodes = {there};
  EXPECT_THAT(std::string(CheckStillFits(beside, **Apply(*base_, joined)).message()),
              HasSubstr("'cache-08' has the address of 'cache-09'"));
  Update gone;
  gone.assignments = {{base_->OwnedBy("cache-03"), "cache-02", Epoch(9)}};
  gone.remove_nodes = {"cache-03"};
  const Preview to_gone = Planned(*base_, {Some(*base_, "cache-00", "cache-03", 0, 3)});
  EXPECT_THAT(std::string(CheckStillFits(to_gone, **Apply(*base_, gone)).message()),
              HasSubstr("'cache-03', which would get a part, is no node any more"));
}

TEST_F(ConflictTest, WeightsAndPins) {
  ExpectConflict(Between({SetWeight{"cache-00", 2000}}, {SetWeight{"cache-00", 500}}), "");
  const std::vector<Change> pinned = {Some(*base_, "cache-00", "cache-00", 0, 3, true)};
  const std::vector<Change> moved = {Some(*base_, "cache-00", "cache-01", 0, 1)};
  ExpectConflict(Between(pinned, moved), "would move in both");  // back to where it is pinned
  ExpectConflict(Between(moved, pinned), "moves in one and is pinned in the other");
  ExpectConflict(Between(pinned, pinned), "both change the pin of bucket");
  EXPECT_TRUE(Between(pinned, {Some(*base_, "cache-00", "cache-01", 500, 1)}).ok());
}

TEST_F(ConflictTest, OverridesGoAlone) {
  const std::vector<Change> rule = {
      SetOverride{{OverrideRule::Match::kPrefix, "tenant-"}, {"cache-00"}}};
  ExpectConflict(Between(rule, {Some(*base_, "cache-02", "cache-01", 0, 1)}), "overrides change");
  ExpectConflict(Between({Some(*base_, "cache-02", "cache-01", 0, 1)}, rule), "overrides change");
}

TEST_F(ConflictTest, MovesOfSomebodyUnknownAreInTheWay) {
  const Preview other = Planned(*base_, {AddNode{MakeNode(9)}});
  Update update;
  update.put_nodes = other.nodes_added;
  for (const PlannedMove& move : other.moves) {
    update.put_moves.push_back(
        {"mig-1", move.wave, move.from, move.to, MovePhase::kWarming, move.ranges});
  }
  base_ = *Apply(*base_, update);
  const std::vector<Change> elsewhere = {Some(*base_, "cache-02", "cache-01", 0, 1)};
  EXPECT_EQ(ReasonNameOf(Plan(*base_, PlanOf(elsewhere), {}).status()), "MIGRATION_IN_PROGRESS");
}

TEST_F(ConflictTest, APreviewFitsUntilSomethingOfItChanges) {
  const Preview preview = Planned(*base_, {RemoveNode{"cache-01"}});
  EXPECT_TRUE(CheckStillFits(preview, *base_).ok());
  Update elsewhere;
  elsewhere.put_nodes = {MakeNode(9)};
  EXPECT_TRUE(CheckStillFits(preview, **Apply(*base_, elsewhere)).ok());
  Update taken;
  taken.assignments = {
      {HashRangeSet({base_->OwnedBy("cache-01").Ranges()[0]}), "cache-02", Epoch(9)}};
  EXPECT_THAT(std::string(CheckStillFits(preview, **Apply(*base_, taken)).message()),
              HasSubstr("'cache-01' does not own all any more"));
  const Preview added = Planned(*base_, {AddNode{MakeNode(9)}});
  EXPECT_THAT(std::string(CheckStillFits(added, **Apply(*base_, elsewhere)).message()),
              HasSubstr("'cache-09' has become a node by now"));
}

// On a ring an end that the other is about to insert may be an end of this plan's ranges.
TEST(RingConflictTest, EndsOfTheOtherAreInsertedByBoth) {
  const Membership::Ptr base = Base(PlacementKind::kRing, 4);
  const Preview other = Planned(*base, {AddNode{MakeNode(9)}});
  const absl::StatusOr<Preview> preview =
      Plan(*base, PlanOf({ReplaceNode{"cache-00", MakeNode(8)}}), {}, {{"mig-1", &other}});
  EXPECT_EQ(ReasonNameOf(preview.status()), "MIGRATION_IN_PROGRESS")
      << "the node that joins takes a part of every node's";
  const Preview replacement = Planned(*base, {ReplaceNode{"cache-01", MakeNode(9)}});
  const absl::StatusOr<Preview> beside =
      Plan(*base, PlanOf({ReplaceNode{"cache-00", MakeNode(8)}}), {}, {{"mig-1", &replacement}});
  EXPECT_TRUE(beside.ok()) << beside.status();
}

}  // namespace
}  // namespace warmring
