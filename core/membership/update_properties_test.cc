// A membership that follows another by CreateAfter, which leaves alone what has not changed, is the
// one that Create makes of the same fields; and what one refuses, the other refuses in the same
// words. Drawn at random, with the seed printed at the start of the program.

#include <algorithm>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <xxhash.h>

#include "core/membership/encoding.h"
#include "core/membership/membership.h"
#include "core/membership/membership_testing.h"
#include "core/membership/update.h"

namespace warmring {
namespace {

using Random = std::mt19937_64;

std::string MessageOf(const absl::StatusOr<Membership::Ptr>& result) {
  return std::string(result.status().message());
}

void AssertSameAnswers(const Membership& a, const Membership& b, Random& random) {
  std::vector<HashPoint> points;
  for (const OwnedRange& range : a.ranges()) {
    points.insert(points.end(), {range.end, range.end + 1});
  }
  for (int i = 0; i < 100; ++i) points.push_back(random());
  for (const HashPoint point : points) {
    const size_t range = a.RangeIndexOf(point);
    RC_ASSERT(range == b.RangeIndexOf(point));
    RC_ASSERT(RoutePoint(a, point) == RoutePoint(b, point));
    RC_ASSERT(a.MoveAt(range) == b.MoveAt(range));
    const Membership::Holders as = a.HoldersOf(point);
    const Membership::Holders bs = b.HoldersOf(point);
    RC_ASSERT(as.owner() == bs.owner());
    RC_ASSERT(a.tenures()[as.tenure()] == b.tenures()[bs.tenure()]);
    for (size_t rank = 0; rank + 1 < a.spec().replication; ++rank) {
      RC_ASSERT(as.follower(rank) == a.FollowersAt(range)[rank]);
      RC_ASSERT(as.follower(rank) == bs.follower(rank));
    }
  }
}

void AssertSame(const Membership& a, const Membership& b, Random& random) {
  RC_ASSERT(a.data() == b.data());
  const std::string bytes = EncodeMembership(a.data());
  RC_ASSERT(a.digest() == XXH3_64bits(bytes.data(), bytes.size()));
  RC_ASSERT(a.digest() == b.digest());
  AssertSameAnswers(a, b, random);
}

NodeIndex AnyNode(const MembershipData& data, Random& random) {
  return static_cast<NodeIndex>(random() % data.nodes.size());
}

// Followers of range `index` that fit its owner, some of them missing.
void GiveFollowers(MembershipData& data, size_t index, Random& random) {
  const size_t count = data.spec.replication - 1;
  std::vector<NodeIndex> taken = {data.ranges[index].owner};
  for (size_t i = 0; i < count; ++i) {
    const NodeIndex node = AnyNode(data, random);
    const bool fits = std::find(taken.begin(), taken.end(), node) == taken.end();
    if (fits) taken.push_back(node);
    data.followers[index * count + i] = fits ? node : kNoNode;
  }
}

MembershipData DrawData(Random& random) {
  const size_t nodes = 1 + random() % 6;
  MembershipData data = random() % 4 == 0 ? SampleDirectory(10, SampleNames(nodes))
                                          : RandomRing(random, nodes, 1 + random() % 300);
  data.spec.replication = 1 + static_cast<uint32_t>(random() % 4);
  if (data.spec.replication > 1) data.spec.domains = {DomainLevel::kNode, true};
  data.followers.resize(data.ranges.size() * (data.spec.replication - 1));
  for (size_t i = 0; i < data.ranges.size(); ++i) GiveFollowers(data, i, random);
  return data;
}

// Up to three moves of what `from` owns, or should own.
void DrawMoves(MembershipData& data, Random& random) {
  data.moves.clear();
  std::vector<HashRange> mine[3];
  const NodeIndex from = AnyNode(data, random);
  const NodeIndex to = AnyNode(data, random);
  if (from == to) return;
  for (size_t i = 0; i < data.ranges.size(); ++i) {
    if (data.ranges[i].owner != from || random() % 3 == 0) continue;
    const size_t before = i == 0 ? data.ranges.size() - 1 : i - 1;
    mine[random() % 3].push_back({data.ranges[before].end, data.ranges[i].end});
  }
  for (uint32_t wave = 0; wave < 3; ++wave) {
    if (mine[wave].empty()) continue;
    // What is in grace belongs to the recipient.
    const bool warming = random() % 2 == 0;
    data.moves.push_back(SampleMove(
        "m", wave, data.nodes[warming ? from : to].id, data.nodes[warming ? to : from].id,
        warming ? MovePhase::kWarming : MovePhase::kGrace, HashRangeSet(mine[wave])));
  }
}

// One change of some field, of which about one in eight breaks an invariant.
void Change(MembershipData& data, Random& random) {
  const size_t range = random() % data.ranges.size();
  switch (random() % 16) {
    case 0:
    case 1:
    case 2:
    case 3:
      data.ranges[range].owner = AnyNode(data, random);
      data.ranges[range].epoch = Epoch(random() % 9 + 1);
      GiveFollowers(data, range, random);
      break;
    case 4:
      GiveFollowers(data, range, random);
      break;
    case 5:
    case 6:
    case 7:
      DrawMoves(data, random);
      break;
    case 8:
      data.moves.clear();
      break;
    case 9:
      for (OwnedRange& any : data.ranges) any.epoch = Epoch(random() % 3 + 1);
      break;
    case 10:
      data.nodes.push_back(SampleNode(fmt::format("x{:04}", data.nodes.size())));
      break;
    case 11:
      data.nodes[AnyNode(data, random)].address = fmt::format("h:{}", random() % 60'000 + 1);
      break;
    case 12:
      data.ranges[range].end += random() % 2;
      break;
    case 13:
      if (data.spec.placement == PlacementKind::kDirectory) {
        data.pins = {{static_cast<uint32_t>(random() % 1025), data.nodes.front().id}};
      } else {
        data.ranges.pop_back();
        data.followers.resize(data.ranges.size() * (data.spec.replication - 1));
      }
      break;
    case 14:
      data.ranges[range].owner += random() % 2 == 0 ? 1U : 100U;
      break;
    default:
      if (!data.followers.empty()) data.followers[random() % data.followers.size()] += 1;
      if (random() % 4 == 0) data.ranges[range].epoch = Epoch();
      if (random() % 4 == 0) data.version = Version();
      break;
  }
}

RC_GTEST_PROP(UpdateProperties, CreateAfterIsCreate, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  auto created = Membership::Create(DrawData(random));
  RC_ASSERT(created.ok());
  Membership::Ptr membership = *created;
  int refused = 0;
  for (int step = 0; step < 20; ++step) {
    MembershipData data = membership->data();
    data.version = data.version.Next();
    for (uint64_t i = 0; i < 1 + random() % 3; ++i) {
      if (!data.ranges.empty()) Change(data, random);
    }
    const auto patched = Membership::CreateAfter(*membership, data);
    const auto made = Membership::Create(data);
    RC_ASSERT(patched.ok() == made.ok());
    RC_ASSERT(MessageOf(patched) == MessageOf(made));
    if (!patched.ok()) {
      ++refused;
      continue;
    }
    AssertSame(**patched, **made, random);
    membership = *patched;
  }
  RC_CLASSIFY(refused > 0, "something was refused");
  RC_CLASSIFY(refused < 20, "something was made");
}

// The ranges of `owner` at random, at least one; nothing when it has none.
HashRangeSet SomeOf(const Membership& membership, NodeIndex owner, Random& random) {
  std::vector<HashRange> some;
  for (size_t i = 0; i < membership.ranges().size(); ++i) {
    const bool free = membership.ranges()[i].owner == owner && membership.MoveAt(i) < 0;
    if (free && (some.empty() || random() % 8 == 0)) some.push_back(membership.RangeAt(i));
  }
  return HashRangeSet(some);
}

// Who followed what changes hands makes way; who owned it may follow it from now on.
void ChangeFollowers(const Membership& membership, const HashRangeSet& ranges, const NodeId& from,
                     Update& update, Random& random) {
  if (membership.spec().replication == 1) return;
  std::vector<NodeId> followers(membership.spec().replication - 1);
  if (random() % 2 == 0) followers[random() % followers.size()] = from;
  update.put_followers = {{ranges, std::move(followers)}};
}

// Of one range: other nodes than its owner, each once.
Update DrawFollowers(const Membership& membership, Random& random) {
  const size_t range = random() % membership.ranges().size();
  std::vector<NodeId> followers;
  for (const Node& node : membership.nodes()) {
    if (node.id != membership.nodes()[membership.ranges()[range].owner].id) {
      followers.push_back(node.id);
    }
  }
  std::shuffle(followers.begin(), followers.end(), random);
  followers.resize(membership.spec().replication - 1);
  if (random() % 2 == 0) followers.back().clear();
  Update update;
  update.put_followers = {{HashRangeSet({membership.RangeAt(range)}), std::move(followers)}};
  return update;
}

// The next update of a keyspace in which one migration after the other runs.
Update DrawUpdate(const Membership& membership, uint64_t step, Random& random) {
  Update update;
  if (membership.spec().replication > 1 && random() % 4 == 0) {
    return DrawFollowers(membership, random);
  }
  if (!membership.moves().empty() && random() % 2 == 0) {
    const Move& move = membership.moves()[random() % membership.moves().size()];
    if (move.phase == MovePhase::kWarming) {
      update.assignments = {{move.ranges, move.to, Epoch(step + 100)}};
      update.put_moves = {move};
      update.put_moves.front().phase = MovePhase::kGrace;
      ChangeFollowers(membership, move.ranges, move.from, update, random);
    } else {
      update.remove_moves = {move.migration};
    }
    return update;
  }
  const NodeIndex from = AnyNode(membership.data(), random);
  const NodeIndex to = AnyNode(membership.data(), random);
  const HashRangeSet ranges = SomeOf(membership, from, random);
  if (from == to || ranges.empty()) {
    update.put_nodes = {SampleNode(fmt::format("x{:04}", random() % 3))};
    if (random() % 2 == 0 && membership.spec().placement == PlacementKind::kRing) {
      update.split_at = {random()};
    }
    return update;
  }
  const Move move = {fmt::format("m{:06}", step), 0,
                     membership.nodes()[from].id, membership.nodes()[to].id,
                     MovePhase::kWarming,         ranges};
  if (random() % 3 == 0) {
    update.assignments = {{ranges, move.to, Epoch(step + 100)}};
    ChangeFollowers(membership, ranges, move.from, update, random);
  } else {
    update.put_moves = {move};
  }
  return update;
}

RC_GTEST_PROP(UpdateProperties, ApplyingOneAfterTheOtherIsCreate, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  auto created = Membership::Create(DrawData(random));
  RC_ASSERT(created.ok());
  Membership::Ptr membership = *created;
  for (uint64_t step = 0; step < 30; ++step) {
    const Update update = DrawUpdate(*membership, step, random);
    const auto next = Apply(*membership, update);
    RC_ASSERT(next.ok());
    const auto made = Membership::Create((*next)->data());
    RC_ASSERT(made.ok());
    AssertSame(**next, **made, random);
    const Delta delta = {membership->history(), membership->version(), (*made)->version(), update,
                         (*made)->digest()};
    const auto decoded = DecodeDelta(EncodeDelta(delta));
    RC_ASSERT(decoded.ok());
    RC_ASSERT(*decoded == delta);
    RC_ASSERT(ApplyDelta(*membership, *decoded).ok());
    membership = *next;
  }
}

// What no range is held under any more is let go from time to time.
TEST(CreateAfterTest, TenuresDoNotPileUp) {
  Random random(1);
  auto created = Membership::Create(SampleDirectory(10, SampleNames(3)));
  ASSERT_TRUE(created.ok());
  Membership::Ptr membership = *created;
  size_t most = 0;
  for (uint64_t epoch = 2; epoch < 2500; ++epoch) {
    MembershipData data = membership->data();
    data.version = data.version.Next();
    data.ranges[epoch % 2].epoch = Epoch(epoch);
    auto next = Membership::CreateAfter(*membership, std::move(data));
    ASSERT_TRUE(next.ok());
    membership = *next;
    most = std::max(most, membership->tenures().size());
  }
  EXPECT_LE(most, 1010U);
  EXPECT_GE(most, 500U);
  const auto made = Membership::Create(membership->data());
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(membership->digest(), (*made)->digest());
  for (const OwnedRange& range : membership->ranges()) {
    EXPECT_EQ(RoutePoint(*membership, range.end), RoutePoint(**made, range.end));
  }
}

}  // namespace
}  // namespace warmring
