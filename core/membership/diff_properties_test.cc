// What a difference says, a route says too: diff and apply undo each other, differences add up, and
// a key has one owner, on every plane. Drawn at random, with the seed printed at the start.

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "core/membership/membership.h"
#include "core/membership/membership_testing.h"
#include "core/membership/update.h"

namespace warmring {
namespace {

using Random = std::mt19937_64;

const OverrideRule kRules[] = {{OverrideRule::Match::kPrefix, "t"},
                               {OverrideRule::Match::kPrefix, "t:b"},
                               {OverrideRule::Match::kKey, "t:b1"},
                               {OverrideRule::Match::kPrefix, "u"}};

std::vector<std::string> Keys() {
  std::vector<std::string> keys;
  for (const char* prefix : {"t:a", "t:b", "u", "x"}) {
    for (int i = 0; i < 25; ++i) keys.push_back(fmt::format("{}{}", prefix, i));
  }
  return keys;
}

// Some of the rules, at planes that are theirs in every membership that is drawn.
void DrawOverrides(MembershipData& data, Random& random) {
  data.overrides.clear();
  for (Plane plane = 1; plane <= std::size(kRules); ++plane) {
    if (random() % 3 == 0) continue;
    Override item = {plane, kRules[plane - 1], {}, Epoch(random() % 9)};
    std::map<HashPoint, NodeIndex> ranges;
    for (uint64_t i = random() % 4; i > 0; --i) {
      ranges[random()] = static_cast<NodeIndex>(random() % data.nodes.size());
    }
    for (const auto& [end, owner] : ranges) item.ranges.push_back({end, owner});
    if (!item.ranges.empty()) item.epoch = Epoch(random() % 9 + 1);
    data.overrides.push_back(std::move(item));
  }
  data.next_plane = std::size(kRules) + 1;
}

Membership::Ptr Draw(Random& random, size_t nodes) {
  MembershipData data = random() % 4 == 0 ? SampleDirectory(10, SampleNames(nodes))
                                          : RandomRing(random, nodes, 1 + random() % 60);
  DrawOverrides(data, random);
  return *Membership::Create(std::move(data));
}

// Another membership of the same ranges and nodes.
Membership::Ptr Changed(const Membership& base, Random& random) {
  MembershipData data = base.data();
  for (OwnedRange& range : data.ranges) {
    if (random() % 3 != 0) continue;
    range.owner = static_cast<NodeIndex>(random() % data.nodes.size());
    range.epoch = Epoch(random() % 9 + 1);
  }
  DrawOverrides(data, random);
  data.version = data.version.Next();
  return *Membership::Create(std::move(data));
}

const NodeId& OwnerOf(const Membership& membership, std::string_view key) {
  return membership.nodes()[RouteKey(membership, key).owner].id;
}

// Points that differences of memberships with these rules can name.
std::vector<KeyPoint> PointsOf(const Membership& a, const Membership& b) {
  std::vector<KeyPoint> points;
  for (const Membership* side : {&a, &b}) {
    for (Plane plane = 0; plane <= std::size(kRules); ++plane) {
      for (size_t i = 0; i < side->ranges().size(); i += 1 + side->ranges().size() / 20) {
        const HashPoint end = side->ranges()[i].end;
        points.insert(points.end(), {{end, plane}, {end + 1, plane}});
      }
    }
    for (const Override& item : side->overrides()) {
      for (const OverrideRange& range : item.ranges) {
        points.insert(points.end(), {{range.end, item.plane}, {range.end + 1, item.plane}});
      }
    }
  }
  return points;
}

RC_GTEST_PROP(DiffProperties, ADifferenceNamesEachKeyThatChangesItsOwnerAndNoOther, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  const Membership::Ptr a = Draw(random, 1 + random() % 5);
  const Membership::Ptr b = Changed(*a, random);
  const std::vector<RangeMove> moves = Diff(*a, *b);
  for (const std::string& key : Keys()) {
    // On the plane of the rule that one of them has, where they differ in rules.
    const KeyPoint in_a = a->PointOf(key);
    const KeyPoint in_b = b->PointOf(key);
    if (in_a.plane != in_b.plane && in_a.plane != 0 && in_b.plane != 0) continue;
    const KeyPoint point = {in_a.hash, std::max(in_a.plane, in_b.plane)};
    const bool changes = OwnerOf(*a, key) != OwnerOf(*b, key);
    int named = 0;
    for (const RangeMove& move : moves) {
      if (!move.ranges.Contains(point)) continue;
      ++named;
      RC_ASSERT(move.from == OwnerOf(*a, key));
      RC_ASSERT(move.to == OwnerOf(*b, key));
    }
    RC_ASSERT(named == (changes ? 1 : 0));
  }
}

RC_GTEST_PROP(DiffProperties, WhatIsAppliedIsTheDifference, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  const Membership::Ptr a = Draw(random, 1 + random() % 5);
  const Membership::Ptr b = Changed(*a, random);
  // The difference on the common plane as assignments, and the overrides as they are to be.
  Update update;
  const Epoch epoch = std::max(a->HighestEpoch(), b->HighestEpoch()).Next();
  for (const RangeMove& move : Diff(*a, *b)) {
    const HashRangeSet common = move.ranges.On(kCommonPlane);
    if (!common.empty()) update.assignments.push_back({common, move.to, epoch});
  }
  for (const Override& item : b->overrides()) {
    if (a->OverrideOn(item.plane) == nullptr) continue;
    PutOverride put = {item.plane, item.rule, {}, epoch};
    for (const OverrideRange& range : item.ranges) {
      put.ranges.push_back({range.end, b->nodes()[range.owner].id});
    }
    update.put_overrides.push_back(std::move(put));
  }
  const auto after = Apply(*a, update);
  RC_ASSERT(after.ok());
  for (size_t i = 0; i < b->ranges().size(); ++i) {
    RC_ASSERT((*after)->ranges()[i].owner == b->ranges()[i].owner);
  }
  for (const RangeMove& move : Diff(**after, *b)) {
    for (const Plane plane : move.ranges.Planes()) {
      // Left are rules that one of the two lacks, and what depends on them.
      const bool same_rules =
          a->overrides().size() == b->overrides().size() &&
          std::equal(a->overrides().begin(), a->overrides().end(), b->overrides().begin(),
                     [](const auto& x, const auto& y) { return x.plane == y.plane; });
      RC_ASSERT(plane != kCommonPlane && !same_rules);
    }
  }
}

RC_GTEST_PROP(DiffProperties, DifferencesAddUp, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  const Membership::Ptr a = Draw(random, 1 + random() % 5);
  Membership::Ptr steps[2] = {Changed(*a, random), nullptr};
  steps[1] = Changed(*steps[0], random);
  const std::vector<RangeMove> first = Diff(*a, *steps[0]);
  const std::vector<RangeMove> second = Diff(*steps[0], *steps[1]);
  const std::vector<RangeMove> both = Diff(*a, *steps[1]);
  const auto find = [](const std::vector<RangeMove>& moves, KeyPoint point) -> const RangeMove* {
    for (const RangeMove& move : moves) {
      if (move.ranges.Contains(point)) return &move;
    }
    return nullptr;
  };
  for (const KeyPoint point : PointsOf(*a, *steps[1])) {
    // A plane that one of the three lacks is compared by its rules, which need not be the same.
    const bool known = point.plane == 0 || (a->OverrideOn(point.plane) != nullptr &&
                                            steps[0]->OverrideOn(point.plane) != nullptr &&
                                            steps[1]->OverrideOn(point.plane) != nullptr);
    if (!known) continue;
    const RangeMove* const one = find(first, point);
    const RangeMove* const two = find(second, point);
    const RangeMove* const all = find(both, point);
    if (one != nullptr && two != nullptr) RC_ASSERT(one->to == two->from);
    const RangeMove* const begin = one != nullptr ? one : two;
    const RangeMove* const end = two != nullptr ? two : one;
    const bool moved = begin != nullptr && begin->from != end->to;
    RC_ASSERT((all != nullptr) == moved);
    if (!moved) continue;
    RC_ASSERT(all->from == begin->from);
    RC_ASSERT(all->to == end->to);
  }
}

RC_GTEST_PROP(RouteProperties, AKeyHasOneOwnerWhoSaysSo, ()) {
  Random random(*rc::gen::arbitrary<uint64_t>());
  const Membership::Ptr membership = Draw(random, 1 + random() % 5);
  std::vector<HashRangeSet> owned;
  for (const Node& node : membership->nodes()) owned.push_back(membership->OwnedBy(node.id));
  for (const std::string& key : Keys()) {
    const Route route = RouteKey(*membership, key);
    const KeyPoint point = membership->PointOf(key);
    RC_ASSERT(point == KeyPoint(route.hash, route.plane));
    RC_ASSERT(membership->RangeOf(point).owner == route.owner);
    RC_ASSERT(membership->RangeOf(point).epoch == route.epoch);
    for (NodeIndex node = 0; node < owned.size(); ++node) {
      RC_ASSERT(owned[node].Contains(point) == (node == route.owner));
    }
    RC_ASSERT(membership->HeldUpTo(point.plane, route.epoch).Contains(point));
    RC_ASSERT(!membership->HeldUpTo(point.plane, Epoch(route.epoch.value - 1)).Contains(point));
  }
}

}  // namespace
}  // namespace warmring
