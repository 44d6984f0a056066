// An update that fits leads to the next version and changes nothing but what it says; one that does
// not fit is refused with its field. What Diff tells is what changed.

#include "core/membership/update.h"

#include <algorithm>
#include <functional>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/membership/encoding.h"
#include "core/membership/membership_testing.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr MovePhase kWarming = MovePhase::kWarming;
constexpr MovePhase kGrace = MovePhase::kGrace;

Membership::Ptr Create(MembershipData data) {
  absl::StatusOr<Membership::Ptr> membership = Membership::Create(std::move(data));
  EXPECT_OK(membership);
  return membership.ok() ? *membership : nullptr;
}

// a owns (400, 100] and (200, 300], b owns (100, 200], c owns (300, 400].
Membership::Ptr Base() {
  return Create(
      SampleRing({"a", "b", "c"},
                 {{100, 0, Epoch(1)}, {200, 1, Epoch(2)}, {300, 0, Epoch(1)}, {400, 2, Epoch(3)}}));
}

Membership::Ptr Next(const Membership& base, const Update& update) {
  absl::StatusOr<Membership::Ptr> next = Apply(base, update);
  EXPECT_OK(next);
  return next.ok() ? *next : nullptr;
}

TEST(ApplyTest, AnEmptyUpdateIsTheNextVersion) {
  const Membership::Ptr base = Base();
  MembershipData expected = base->data();
  expected.version = Version(42);
  EXPECT_EQ(Next(*base, {})->data(), expected);
}

TEST(ApplyTest, NodesAreAddedInOrderAndReplacedById) {
  Update update;
  update.put_nodes = {SampleNode("bb"), SampleNode("a")};
  update.put_nodes[1].weight_milli = 2000;
  const Membership::Ptr next = Next(*Base(), update);
  ASSERT_EQ(next->nodes().size(), 4u);
  EXPECT_EQ(next->nodes()[0].id, "a");
  EXPECT_EQ(next->nodes()[0].weight_milli, 2000u);
  EXPECT_EQ(next->nodes()[1].id, "b");
  EXPECT_EQ(next->nodes()[2].id, "bb");
  EXPECT_EQ(next->nodes()[3].id, "c");
  // The owner of (300, 400] is still c, whose index is another now.
  EXPECT_THAT(next->ranges(),
              ElementsAre(OwnedRange{100, 0, Epoch(1)}, OwnedRange{200, 1, Epoch(2)},
                          OwnedRange{300, 0, Epoch(1)}, OwnedRange{400, 3, Epoch(3)}));
}

TEST(ApplyTest, SplitsInheritOwnerAndEpoch) {
  Update update;
  update.split_at = {350, 0, 150, 500, 200, 120, UINT64_MAX, 150};
  EXPECT_THAT(Next(*Base(), update)->ranges(),
              ElementsAre(OwnedRange{0, 0, Epoch(1)}, OwnedRange{100, 0, Epoch(1)},
                          OwnedRange{120, 1, Epoch(2)}, OwnedRange{150, 1, Epoch(2)},
                          OwnedRange{200, 1, Epoch(2)}, OwnedRange{300, 0, Epoch(1)},
                          OwnedRange{350, 2, Epoch(3)}, OwnedRange{400, 2, Epoch(3)},
                          OwnedRange{500, 0, Epoch(1)}, OwnedRange{UINT64_MAX, 0, Epoch(1)}));
}

TEST(ApplyTest, AssignmentsChangeOwnerAndEpoch) {
  Update update;
  update.put_nodes = {SampleNode("aa")};
  update.split_at = {150};
  update.assignments = {{HashRangeSet({{400, 100}, {100, 150}}), "aa", Epoch(4)},
                        {HashRangeSet({{200, 300}}), "b", Epoch(5)}};
  const Membership::Ptr next = Next(*Base(), update);
  EXPECT_THAT(next->ranges(),
              ElementsAre(OwnedRange{100, 1, Epoch(4)}, OwnedRange{150, 1, Epoch(4)},
                          OwnedRange{200, 2, Epoch(2)}, OwnedRange{300, 2, Epoch(5)},
                          OwnedRange{400, 3, Epoch(3)}));
}

TEST(ApplyTest, TheWholeSpaceCanBeAssigned) {
  Update update;
  update.assignments = {{HashRangeSet::Whole(), "c", Epoch(9)}};
  EXPECT_EQ(Next(*Base(), update)->OwnedBy("c"), HashRangeSet::Whole());
}

TEST(ApplyTest, MovesAreAddedReplacedAndRemoved) {
  Update prepare;
  prepare.put_moves = {SampleMove("m", 1, "c", "b", kWarming, HashRangeSet({{300, 400}})),
                       SampleMove("m", 0, "b", "c", kWarming, HashRangeSet({{100, 200}})),
                       SampleMove("l", 0, "a", "b", kWarming, HashRangeSet({{200, 300}}))};
  const Membership::Ptr prepared = Next(*Base(), prepare);
  ASSERT_EQ(prepared->moves().size(), 3u);
  EXPECT_EQ(prepared->moves()[0], prepare.put_moves[2]);
  EXPECT_EQ(prepared->moves()[1], prepare.put_moves[1]);
  EXPECT_EQ(prepared->moves()[2], prepare.put_moves[0]);
  EXPECT_EQ(RoutePoint(*prepared, 150).pending, NodeIndex{2});

  Update commit;
  commit.assignments = {{HashRangeSet({{100, 200}}), "c", Epoch(4)}};
  commit.put_moves = {SampleMove("m", 0, "b", "c", kGrace, HashRangeSet({{100, 200}}))};
  const Membership::Ptr committed = Next(*prepared, commit);
  ASSERT_EQ(committed->moves().size(), 3u);
  EXPECT_EQ(RoutePoint(*committed, 150), (Route{150, 2, Epoch(4), std::nullopt, NodeIndex{1}}));
  EXPECT_EQ(RoutePoint(*committed, 350).pending, NodeIndex{1});

  Update release;
  release.remove_moves = {"m", "never-there"};
  const Membership::Ptr released = Next(*committed, release);
  EXPECT_THAT(released->moves(), ElementsAre(prepare.put_moves[2]));
  EXPECT_EQ(RoutePoint(*released, 150).previous, std::nullopt);
}

TEST(ApplyTest, MergesKeepOwners) {
  Update split;
  split.split_at = {50, 150, 450};
  Update merge;
  merge.merge_at = {450, 50, 150};
  MembershipData expected = Base()->data();
  expected.version = Version(43);
  EXPECT_EQ(Next(*Next(*Base(), split), merge)->data(), expected);

  // The last end goes: the range before it wraps now.
  Update all_to_a;
  all_to_a.assignments = {{HashRangeSet::Whole(), "a", Epoch(4)}};
  all_to_a.merge_at = {200, 400, 100};
  EXPECT_THAT(Next(*Base(), all_to_a)->ranges(), ElementsAre(OwnedRange{300, 0, Epoch(4)}));
}

TEST(ApplyTest, ANodeThatOwnsNothingIsRemoved) {
  Update update;
  update.assignments = {{HashRangeSet({{100, 200}}), "c", Epoch(4)}};
  update.remove_nodes = {"b"};
  const Membership::Ptr next = Next(*Base(), update);
  ASSERT_EQ(next->nodes().size(), 2u);
  EXPECT_EQ(next->nodes()[1].id, "c");
  EXPECT_EQ(next->OwnedBy("c"), HashRangeSet({{100, 200}, {300, 400}}));
}

TEST(ApplyTest, RefusesWhatDoesNotFitWithTheField) {
  struct Case {
    std::string message;
    std::function<void(Update&)> spoil;
  };
  using U = Update;
  const HashRangeSet b_range({{100, 200}});
  const Case cases[] = {
      {"put_nodes: 'd' is listed twice",
       [](U& u) {
         u.put_nodes = {SampleNode("d"), SampleNode("d")};
       }},
      {"nodes[3].id: 'zD-' is not a valid id", [](U& u) { u.put_nodes = {SampleNode("zD-")}; }},
      {"assignments[0].owner: 'x' is not a node",
       [&](U& u) {
         u.assignments = {{b_range, "x", Epoch(9)}};
       }},
      {"assignments[0].ranges: no range is named",
       [](U& u) {
         u.assignments = {{HashRangeSet(), "a", Epoch(9)}};
       }},
      {"assignments[0].ranges: (0000000000000064, 0000000000000096] is not made of whole ranges: "
       "no range ends at 0000000000000096; split there first",
       [](U& u) {
         u.assignments = {{HashRangeSet({{100, 150}}), "a", Epoch(9)}};
       }},
      {"assignments[0].epoch: 2 is not greater than 2, the epoch of the range that ends at "
       "00000000000000c8",
       [&](U& u) {
         u.assignments = {{b_range, "a", Epoch(2)}};
       }},
      {"assignments[0].epoch: 1 is not greater than 2",
       [&](U& u) {
         u.assignments = {{b_range, "b", Epoch(1)}};
       }},
      {"assignments[1].ranges: the range that ends at 00000000000000c8 is assigned twice",
       [&](U& u) {
         u.assignments = {{b_range, "a", Epoch(8)}, {HashRangeSet::Whole(), "a", Epoch(9)}};
       }},
      {"put_moves: wave 0 of 'm' from 'b' to 'c' is listed twice",
       [&](U& u) {
         u.put_moves = {SampleMove("m", 0, "b", "c", kWarming, b_range),
                        SampleMove("m", 0, "b", "c", kGrace, b_range)};
       }},
      {"moves[0].from: 'x' is not a node",
       [&](U& u) { u.put_moves = {SampleMove("m", 0, "x", "c", kWarming, b_range)}; }},
      {"moves[0].ranges: (0000000000000064, 00000000000000c8] belongs to 'b', and must belong to "
       "'a' while it is warming",
       [&](U& u) { u.put_moves = {SampleMove("m", 0, "a", "c", kWarming, b_range)}; }},
      {"merge_at: no range ends at 0000000000000065", [](U& u) { u.merge_at = {101}; }},
      {"merge_at: 0000000000000064 divides 'a' at epoch 1 from 'b' at epoch 2",
       [](U& u) { u.merge_at = {100}; }},
      {"merge_at: 0000000000000096 divides 'b' at epoch 4 from 'b' at epoch 2",
       [](U& u) {
         u.split_at = {150};
         u.assignments = {{HashRangeSet({{100, 150}}), "b", Epoch(4)}};
         u.merge_at = {150};
       }},
      {"merge_at: it names every range end",
       [](U& u) {
         u.assignments = {{HashRangeSet::Whole(), "a", Epoch(9)}};
         u.merge_at = {100, 200, 300, 400};
       }},
      {"moves[0].ranges: (0000000000000064, 00000000000000c8] is not made of whole ranges",
       [&](U& u) {
         u.assignments = {{HashRangeSet::Whole(), "a", Epoch(9)}};
         u.put_moves = {SampleMove("m", 0, "a", "c", kWarming, b_range)};
         u.merge_at = {200};
       }},
      {"remove_nodes: 'x' is not a node", [](U& u) { u.remove_nodes = {"x"}; }},
      {"remove_nodes: 'b' is listed twice",
       [&](U& u) {
         u.assignments = {{b_range, "a", Epoch(9)}};
         u.remove_nodes = {"b", "b"};
       }},
      {"remove_nodes: 'b' still owns the range that ends at 00000000000000c8",
       [](U& u) { u.remove_nodes = {"b"}; }},
      {"remove_nodes: 'b' still takes part in the migration 'm'",
       [&](U& u) {
         u.assignments = {{b_range, "c", Epoch(9)}};
         u.put_moves = {SampleMove("m", 0, "b", "c", kGrace, b_range)};
         u.remove_nodes = {"b"};
       }},
  };
  const Membership::Ptr base = Base();
  for (const Case& c : cases) {
    Update update;
    c.spoil(update);
    EXPECT_THAT(Apply(*base, update), StatusIs(StatusCode::kInvalidArgument, c.message));
  }
}

TEST(ApplyTest, ADirectoryKeepsItsBuckets) {
  const Membership::Ptr base = Create(SampleDirectory(10, {"a", "b"}));
  Update split;
  split.split_at = {BucketEnd(10, 3), BucketEnd(10, 1023)};
  EXPECT_EQ(Next(*base, split)->ranges(), base->ranges());
  split.split_at = {BucketEnd(10, 3) + 1};
  EXPECT_THAT(Apply(*base, split),
              StatusIs(StatusCode::kInvalidArgument,
                       "split_at: 0100000000000000 is not the end of a bucket"));
  Update merge;
  merge.merge_at = {BucketEnd(10, 3)};
  EXPECT_THAT(Apply(*base, merge),
              StatusIs(StatusCode::kInvalidArgument,
                       "merge_at: 00ffffffffffffff: the buckets of a directory cannot be merged"));
}

Delta DeltaOf(const Membership& base, const Membership& next, Update update) {
  return {base.history(), base.version(), next.version(), std::move(update), next.digest()};
}

TEST(ApplyDeltaTest, LeadsToTheSameMembership) {
  const Membership::Ptr base = Base();
  Update update;
  update.split_at = {150};
  const Membership::Ptr next = Next(*base, update);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr applied,
                       ApplyDelta(*base, DeltaOf(*base, *next, update)));
  EXPECT_EQ(applied->data(), next->data());
}

TEST(ApplyDeltaTest, RefusesAnotherBaseOrContent) {
  const Membership::Ptr base = Base();
  Update update;
  update.split_at = {150};
  const Membership::Ptr next = Next(*base, update);
  const Delta good = DeltaOf(*base, *next, update);

  Delta other_history = good;
  other_history.history.low = 8;
  EXPECT_THAT(ApplyDelta(*base, other_history),
              StatusIs(StatusCode::kFailedPrecondition, "delta.history"));
  EXPECT_THAT(ApplyDelta(*next, good),
              StatusIs(StatusCode::kFailedPrecondition,
                       "it leads from version 41 to 42, and the membership is at 42"));
  Delta too_far = good;
  too_far.to = Version(43);
  EXPECT_THAT(ApplyDelta(*base, too_far), StatusIs(StatusCode::kFailedPrecondition, "to 43"));
  Delta other_digest = good;
  other_digest.digest ^= 1;
  EXPECT_THAT(ApplyDelta(*base, other_digest), StatusIs(StatusCode::kDataLoss, "the digest is"));
  Delta unfit = good;
  unfit.update.remove_nodes = {"x"};
  EXPECT_THAT(ApplyDelta(*base, unfit),
              StatusIs(StatusCode::kDataLoss, "it does not fit its base: remove_nodes: 'x'"));
}

TEST(DiffTest, NamesOwnersAndMaximalRanges) {
  const Membership::Ptr base = Base();
  EXPECT_THAT(Diff(*base, *base), IsEmpty());
  Update update;
  update.put_nodes = {SampleNode("aa")};
  update.split_at = {150, 500};
  update.assignments = {{HashRangeSet({{400, 500}}), "aa", Epoch(4)},
                        {HashRangeSet({{150, 300}}), "c", Epoch(5)},
                        {HashRangeSet({{300, 400}}), "c", Epoch(6)}};
  EXPECT_THAT(Diff(*base, *Next(*base, update)),
              ElementsAre(RangeMove{"a", "aa", HashRangeSet({{400, 500}})},
                          RangeMove{"a", "c", HashRangeSet({{200, 300}})},
                          RangeMove{"b", "c", HashRangeSet({{150, 200}})}));
}

TEST(DiffTest, OneRangeAgainstAnother) {
  const Membership::Ptr a = Create(SampleRing({"a"}, {{7, 0, Epoch(1)}}));
  const Membership::Ptr b = Create(SampleRing({"b"}, {{7, 0, Epoch(1)}}));
  const Membership::Ptr c = Create(SampleRing({"b"}, {{9, 0, Epoch(1)}}));
  EXPECT_THAT(Diff(*a, *b), ElementsAre(RangeMove{"a", "b", HashRangeSet::Whole()}));
  EXPECT_THAT(Diff(*a, *c), ElementsAre(RangeMove{"a", "b", HashRangeSet::Whole()}));
  EXPECT_THAT(Diff(*b, *c), IsEmpty());
}

const NodeId& OwnerOf(const Membership& m, HashPoint h) { return m.nodes()[m.RangeOf(h).owner].id; }

// The points at and around each end of both memberships, and some at random.
std::vector<HashPoint> Probes(const Membership& a, const Membership& b, std::mt19937_64& random) {
  std::vector<HashPoint> points = {0, UINT64_MAX};
  for (const Membership* m : {&a, &b}) {
    for (const OwnedRange& range : m->ranges()) {
      points.insert(points.end(), {range.end - 1, range.end, range.end + 1});
    }
  }
  for (int i = 0; i < 50; ++i) points.push_back(random());
  return points;
}

TEST(DiffTest, NamesEachPointThatChangesOwnerAndNoOther) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 100; ++round) {
    const Membership::Ptr a = Create(RandomRing(random, 1 + random() % 6, 1 + random() % 60));
    const Membership::Ptr b = Create(RandomRing(random, 1 + random() % 6, 1 + random() % 60));
    const std::vector<RangeMove> moves = Diff(*a, *b);
    for (const HashPoint point : Probes(*a, *b, random)) {
      int named = 0;
      for (const RangeMove& move : moves) {
        if (!move.ranges.Contains(point)) continue;
        ++named;
        ASSERT_EQ(move.from, OwnerOf(*a, point));
        ASSERT_EQ(move.to, OwnerOf(*b, point));
      }
      ASSERT_EQ(named, OwnerOf(*a, point) == OwnerOf(*b, point) ? 0 : 1);
    }
  }
}

// The update that gives each range of `moves` to its new owner.
Update UpdateOf(const std::vector<RangeMove>& moves, const std::vector<Node>& nodes, Epoch epoch) {
  Update update;
  update.put_nodes = nodes;
  for (const RangeMove& move : moves) {
    for (const HashRange& range : move.ranges.Ranges()) {
      update.split_at.insert(update.split_at.end(), {range.start, range.end});
    }
    update.assignments.push_back({move.ranges, move.to, epoch});
  }
  return update;
}

TEST(DiffTest, ApplyingADiffLeadsToItsTarget) {
  std::mt19937_64 random(12);
  for (int round = 0; round < 200; ++round) {
    const Membership::Ptr a = Create(RandomRing(random, 1 + random() % 6, 1 + random() % 60));
    const Membership::Ptr b = Create(RandomRing(random, 1 + random() % 6, 1 + random() % 60));
    const Membership::Ptr c = Next(*a, UpdateOf(Diff(*a, *b), b->nodes(), Epoch(100)));
    ASSERT_THAT(Diff(*c, *b), IsEmpty());
    for (const Node& node : b->nodes()) ASSERT_EQ(c->OwnedBy(node.id), b->OwnedBy(node.id));
  }
}

TEST(DiffTest, ApplyingADiffLeadsToItsTargetOnADirectory) {
  std::mt19937_64 random(13);
  for (int round = 0; round < 20; ++round) {
    MembershipData target = SampleDirectory(10, SampleNames(5));
    for (OwnedRange& range : target.ranges) range.owner = static_cast<NodeIndex>(random() % 5);
    const Membership::Ptr a = Create(SampleDirectory(10, SampleNames(4)));
    const Membership::Ptr b = Create(target);
    const Membership::Ptr c = Next(*a, UpdateOf(Diff(*a, *b), b->nodes(), Epoch(2)));
    ASSERT_THAT(Diff(*c, *b), IsEmpty());
  }
}

// A random update that fits `base`: it splits, reassigns along boundaries, and merges what it can.
Update RandomUpdate(const Membership& base, Epoch epoch, std::mt19937_64& random) {
  Update update;
  if (random() % 3 == 0) update.put_nodes.push_back(SampleNode("m" + std::to_string(random() % 9)));
  for (uint64_t i = random() % 4; i > 0; --i) update.split_at.push_back(random());
  std::vector<HashRange> given;
  for (size_t i = 0; i < base.ranges().size(); ++i) {
    if (random() % 4 == 0) given.push_back(base.RangeAt(i));
  }
  if (!given.empty()) {
    const Node& owner = base.nodes()[random() % base.nodes().size()];
    update.assignments.push_back({HashRangeSet(given), owner.id, epoch});
  }
  return update;
}

TEST(ApplyDeltaTest, AChainOfDeltasAgreesWithAModelOfPoints) {
  std::mt19937_64 random(14);
  for (int round = 0; round < 20; ++round) {
    Membership::Ptr server = Create(RandomRing(random, 3, 10));
    Membership::Ptr client = server;
    // Owner and epoch of fixed points, kept by the rules of an update and nothing else.
    std::map<HashPoint, std::pair<NodeId, Epoch>> model;
    for (int i = 0; i < 200; ++i) {
      const HashPoint point = random();
      model[point] = {OwnerOf(*server, point), server->RangeOf(point).epoch};
    }
    for (uint64_t step = 0; step < 15; ++step) {
      const Update update = RandomUpdate(*server, Epoch(10 + step), random);
      for (const Assignment& assignment : update.assignments) {
        for (auto& [point, tenure] : model) {
          if (assignment.ranges.Contains(point)) tenure = {assignment.owner, assignment.epoch};
        }
      }
      const Membership::Ptr next = Next(*server, update);
      ASSERT_NE(next, nullptr);
      ASSERT_OK_AND_ASSIGN(const Delta received,
                           DecodeDelta(EncodeDelta(DeltaOf(*server, *next, update))));
      ASSERT_OK_AND_ASSIGN(client, ApplyDelta(*client, received));
      server = next;
      ASSERT_EQ(client->data(), server->data());
      ASSERT_EQ(client->digest(), server->digest());
      for (const auto& [point, tenure] : model) {
        ASSERT_EQ(OwnerOf(*client, point), tenure.first);
        ASSERT_EQ(client->RangeOf(point).epoch, tenure.second);
      }
    }
  }
}

// With a cost that grows faster than the number of ranges this would run into the time limit.
TEST(GrowTest, EveryPointKeepsOwnerEpochAndPin) {
  MembershipData data = SampleDirectory(10, {"a", "b", "c"});
  for (size_t i = 0; i < 1024; i += 7) data.ranges[i].epoch = Epoch(2 + i % 5);
  data.pins = {{0, "a"}, {5, "c"}, {1023, "b"}};
  const Membership::Ptr base = Create(data);
  for (const uint32_t bits : {11u, 13u, 20u}) {
    Update update;
    update.directory_bits = bits;
    const Membership::Ptr grown = Next(*base, update);
    ASSERT_EQ(grown->ranges().size(), size_t{1} << bits);
    EXPECT_EQ(grown->spec().directory_bits, bits);
    EXPECT_THAT(Diff(*base, *grown), IsEmpty());
    const uint32_t more = bits - 10;
    for (size_t i = 0; i < grown->ranges().size(); ++i) {
      const OwnedRange& parent = base->ranges()[i >> more];
      ASSERT_EQ(grown->ranges()[i], (OwnedRange{BucketEnd(bits, i), parent.owner, parent.epoch}));
    }
    ASSERT_EQ(grown->pins().size(), size_t{3} << more);
    for (const Pin& pin : grown->pins()) {
      const auto parent = std::find_if(data.pins.begin(), data.pins.end(), [&](const Pin& old) {
        return old.bucket == pin.bucket >> more;
      });
      ASSERT_NE(parent, data.pins.end()) << pin.bucket;
      ASSERT_EQ(pin.node, parent->node);
    }
  }
}

TEST(GrowTest, FollowersAndOverridesStay) {
  MembershipData data = SampleDirectory(10, {"a", "b", "c"});
  data.spec.replication = 2;
  for (size_t i = 0; i < 1024; ++i) data.followers.push_back(static_cast<NodeIndex>((i + 1) % 3));
  const Membership::Ptr base = Create(data);
  Update update;
  update.directory_bits = 12;
  const Membership::Ptr grown = Next(*base, update);
  for (size_t i = 0; i < grown->ranges().size(); ++i) {
    ASSERT_EQ(grown->FollowersAt(i)[0], base->FollowersAt(i / 4)[0]) << i;
  }
}

// In one update the directory is grown first: what follows names the new buckets.
TEST(GrowTest, TheRestOfAnUpdateIsAboutTheNewBuckets) {
  MembershipData data = SampleDirectory(10, {"a", "b"});
  data.pins = {{3, "b"}};
  Update update;
  update.directory_bits = 11;
  update.assignments = {{HashRangeSet({{BucketEnd(11, 0), BucketEnd(11, 1)}}), "b", Epoch(9)}};
  update.remove_pins = {6};
  update.put_pins = {{2047, "a"}, {7, "a"}};
  const Membership::Ptr next = Next(*Create(data), update);
  EXPECT_EQ(next->ranges()[1].owner, 1u);
  EXPECT_EQ(next->ranges()[0].owner, 0u);
  EXPECT_THAT(next->pins(), ElementsAre(Pin{7, "a"}, Pin{2047, "a"}));
}

TEST(GrowTest, RefusesWhatDoesNotGrow) {
  const auto refusal = [](const Membership::Ptr& base, uint32_t bits) {
    Update update;
    update.directory_bits = bits;
    return Apply(*base, update).status();
  };
  EXPECT_THAT(refusal(Base(), 14), StatusIs(StatusCode::kInvalidArgument, "a ring has no buckets"));
  const Membership::Ptr base = Create(SampleDirectory(12, {"a"}));
  for (const uint32_t bits : {1u, 11u, 12u, 21u, UINT32_MAX}) {
    EXPECT_THAT(refusal(base, bits),
                StatusIs(StatusCode::kInvalidArgument,
                         "directory_bits: " + std::to_string(bits) + ": use a number above 12"))
        << bits;
  }
  MembershipData pinned = SampleDirectory(12, {"a"});
  for (uint32_t i = 0; i < 4096; ++i) pinned.pins.push_back({i, "a"});
  const Membership::Ptr full = Create(pinned);
  EXPECT_OK(refusal(full, 16)) << "65,536 pins, all that there may be";
  EXPECT_THAT(refusal(full, 17), StatusIs(StatusCode::kInvalidArgument, "pins: 131072"));
}

TEST(GrowTest, ADeltaOfItIsSmallAndLeadsToTheSameMembership) {
  const Membership::Ptr base = Create(SampleDirectory(10, {"a", "b", "c"}));
  Delta delta{base->history(), base->version(), base->version().Next(), {}, 0};
  delta.update.directory_bits = 20;
  const Membership::Ptr grown = Next(*base, delta.update);
  delta.digest = grown->digest();
  const std::string bytes = EncodeDelta(delta);
  EXPECT_LT(bytes.size(), 128u) << "whoever follows grows by itself";
  ASSERT_OK_AND_ASSIGN(const Delta decoded, DecodeDelta(bytes));
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr followed, ApplyDelta(*base, decoded));
  EXPECT_EQ(followed->data(), grown->data());
}

TEST(PinTest, ArePutReplacedAndRemoved) {
  Update update;
  update.put_pins = {{900, "c"}, {3, "a"}};
  const Membership::Ptr pinned = Next(*Create(SampleDirectory(10, {"a", "b", "c"})), update);
  EXPECT_THAT(pinned->pins(), ElementsAre(Pin{3, "a"}, Pin{900, "c"}));
  update.put_pins = {{3, "b"}, {4, "b"}};
  update.remove_pins = {900};
  const Membership::Ptr next = Next(*pinned, update);
  EXPECT_THAT(next->pins(), ElementsAre(Pin{3, "b"}, Pin{4, "b"}));
  EXPECT_NE(next->digest(), pinned->digest());
  EXPECT_THAT(Diff(*pinned, *next), IsEmpty()) << "a pin moves nothing";
}

TEST(PinTest, RefusesWhatDoesNotFit) {
  MembershipData data = SampleDirectory(10, {"a", "b", "c"});
  data.pins = {{5, "c"}};
  const Membership::Ptr base = Create(data);
  const auto refusal = [&](const Update& update) { return Apply(*base, update).status(); };
  Update update;
  update.put_pins = {{1024, "a"}};
  EXPECT_THAT(refusal(update), StatusIs(StatusCode::kInvalidArgument,
                                        "pins[1].bucket: 1024 is not one of 1024 buckets"));
  update.put_pins = {{1, "d"}};
  EXPECT_THAT(refusal(update),
              StatusIs(StatusCode::kInvalidArgument, "pins[0].node: 'd' is not a node"));
  update.put_pins = {{1, "a"}, {1, "b"}};
  EXPECT_THAT(refusal(update),
              StatusIs(StatusCode::kInvalidArgument, "put_pins: bucket 1 is listed twice"));
  update = {};
  update.remove_pins = {6};
  EXPECT_THAT(refusal(update),
              StatusIs(StatusCode::kInvalidArgument, "remove_pins: bucket 6 is not pinned"));
  update.remove_pins = {5, 5};
  EXPECT_THAT(refusal(update), StatusIs(StatusCode::kInvalidArgument, "bucket 5 is not pinned"));

  // A node goes with its pins, or not at all.
  std::vector<HashRange> of_c;
  for (uint32_t i = 2; i < 1024; i += 3) of_c.push_back({BucketEnd(10, i - 1), BucketEnd(10, i)});
  update = {};
  update.assignments = {{HashRangeSet(of_c), "a", Epoch(2)}};
  update.remove_nodes = {"c"};
  EXPECT_THAT(refusal(update), StatusIs(StatusCode::kInvalidArgument, "bucket 5 is pinned to 'c'"));
  update.remove_pins = {5};
  EXPECT_OK(refusal(update));
  update.remove_pins.clear();
  update.put_pins = {{5, "a"}};
  EXPECT_OK(refusal(update));

  Update on_ring;
  on_ring.put_pins = {{0, "a"}};
  EXPECT_THAT(Apply(*Base(), on_ring),
              StatusIs(StatusCode::kInvalidArgument, "a ring has no buckets to pin"));
}

TEST(ApplyTest, AMillionRangesOfAThousandNodes) {
  constexpr size_t kNodes = 1000;
  const std::vector<std::string> names = SampleNames(kNodes + 1);
  const Membership::Ptr base = Create(SampleDirectory(20, {names.begin(), names.end() - 1}));
  // The new node takes every thousand-and-first bucket: a thousand donors, scattered.
  std::map<NodeId, std::vector<HashRange>> taken;
  size_t buckets = 0;
  for (size_t i = 0; i < base->ranges().size(); i += kNodes + 1) {
    taken[names[i % kNodes]].push_back(base->RangeAt(i));
    ++buckets;
  }
  Update update;
  update.put_nodes = {SampleNode(names.back())};
  std::vector<RangeMove> expected;
  for (const auto& [donor, ranges] : taken) {
    const HashRangeSet set(ranges);
    update.assignments.push_back({set, names.back(), Epoch(2)});
    update.put_moves.push_back(SampleMove("grow", 0, donor, names.back(), kGrace, set));
    expected.push_back({donor, names.back(), set});
  }
  const Membership::Ptr next = Next(*base, update);
  EXPECT_EQ(Diff(*base, *next), expected);
  EXPECT_EQ(next->OwnedBy(names.back()).Measure(), static_cast<HashMeasure>(buckets) << 44);
  const std::string bytes = EncodeMembership(next->data());
  EXPECT_LT(bytes.size(), size_t{4} << 20);
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr decoded, DecodeMembership(bytes));
  EXPECT_EQ(decoded->data(), next->data());
}

}  // namespace
}  // namespace warmring
