#include "core/membership/membership.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include "absl/container/flat_hash_map.h"

#include "core/base/status_macros.h"
#include "core/membership/encoding.h"
#include "core/membership/range_cover.h"
#include "core/membership/row_changes.h"

namespace warmring {
namespace {

absl::Status CheckNodes(const std::vector<Node>& nodes) {
  if (nodes.empty()) {
    return absl::InvalidArgumentError("nodes: a membership needs at least one node");
  }
  if (nodes.size() > Membership::kMaxNodes) {
    return absl::InvalidArgumentError(fmt::format("nodes: {} nodes are over the limit of {}",
                                                  nodes.size(), Membership::kMaxNodes));
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    RETURN_IF_ERROR(ValidateNode(fmt::format("nodes[{}]", i), nodes[i]));
    if (i > 0 && nodes[i - 1].id >= nodes[i].id) {
      return absl::InvalidArgumentError(
          fmt::format("nodes[{}].id: '{}' follows '{}': ids must be unique and sorted", i,
                      nodes[i].id, nodes[i - 1].id));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBuckets(const MembershipData& data) {
  const uint32_t bits = data.spec.directory_bits;
  const size_t buckets = size_t{1} << bits;
  if (data.ranges.size() != buckets) {
    return absl::InvalidArgumentError(
        fmt::format("ranges: {} ranges on a directory of 2^{} = {} buckets: each bucket needs "
                    "exactly one",
                    data.ranges.size(), bits, buckets));
  }
  for (size_t i = 0; i < buckets; ++i) {
    if (data.ranges[i].end != BucketEnd(bits, i)) {
      return absl::InvalidArgumentError(
          fmt::format("ranges[{}].end: {:016x} is not the end of bucket {}, which is {:016x}", i,
                      data.ranges[i].end, i, BucketEnd(bits, i)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRanges(const MembershipData& data) {
  const std::vector<OwnedRange>& ranges = data.ranges;
  if (ranges.empty()) {
    return absl::InvalidArgumentError("ranges: at least one range must cover the hash space");
  }
  if (ranges.size() > Membership::kMaxRanges) {
    return absl::InvalidArgumentError(fmt::format("ranges: {} ranges are over the limit of {}",
                                                  ranges.size(), Membership::kMaxRanges));
  }
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (i > 0 && ranges[i - 1].end >= ranges[i].end) {
      return absl::InvalidArgumentError(
          fmt::format("ranges[{}].end: {:016x} follows {:016x}: ends must be unique and sorted", i,
                      ranges[i].end, ranges[i - 1].end));
    }
    if (ranges[i].owner >= data.nodes.size()) {
      return absl::InvalidArgumentError(
          fmt::format("ranges[{}].owner: {} is not a node: there are {} nodes", i, ranges[i].owner,
                      data.nodes.size()));
    }
    if (ranges[i].epoch == Epoch()) {
      return absl::InvalidArgumentError(
          fmt::format("ranges[{}].epoch: 0 means none: epochs begin at 1", i));
    }
  }
  return data.spec.placement == PlacementKind::kDirectory ? CheckBuckets(data) : absl::OkStatus();
}

absl::Status CheckFollowers(const MembershipData& data) {
  const size_t count = data.spec.replication - 1;
  if (data.followers.size() != data.ranges.size() * count) {
    return absl::InvalidArgumentError(
        fmt::format("followers: {} for {} ranges with replication {}: each range needs {}",
                    data.followers.size(), data.ranges.size(), data.spec.replication, count));
  }
  for (size_t i = 0; i < data.followers.size(); ++i) {
    const NodeIndex follower = data.followers[i];
    if (follower == kNoNode) continue;
    if (follower >= data.nodes.size()) {
      return absl::InvalidArgumentError(fmt::format(
          "followers[{}]: {} is not a node: there are {} nodes", i, follower, data.nodes.size()));
    }
    const size_t first = i - i % count;
    const auto before = data.followers.begin() + static_cast<std::ptrdiff_t>(first);
    const auto here = data.followers.begin() + static_cast<std::ptrdiff_t>(i);
    if (data.ranges[i / count].owner == follower || std::find(before, here, follower) != here) {
      return absl::InvalidArgumentError(
          fmt::format("followers[{}]: '{}' has a copy of the range that ends at {:016x} already", i,
                      data.nodes[follower].id, data.ranges[i / count].end));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOverrideRanges(std::string_view field, const Override& item, size_t nodes) {
  if (item.ranges.empty()) return absl::OkStatus();
  if (item.ranges.size() > Override::kMaxRanges) {
    return absl::InvalidArgumentError(fmt::format("{}.ranges: {} ranges are over the limit of {}",
                                                  field, item.ranges.size(), Override::kMaxRanges));
  }
  if (item.epoch == Epoch()) {
    return absl::InvalidArgumentError(
        fmt::format("{}.epoch: 0 means none: ranges of its own have an epoch", field));
  }
  for (size_t i = 0; i < item.ranges.size(); ++i) {
    if (i > 0 && item.ranges[i - 1].end >= item.ranges[i].end) {
      return absl::InvalidArgumentError(
          fmt::format("{}.ranges[{}].end: {:016x} follows {:016x}: ends must be unique and sorted",
                      field, i, item.ranges[i].end, item.ranges[i - 1].end));
    }
    if (item.ranges[i].owner >= nodes) {
      return absl::InvalidArgumentError(
          fmt::format("{}.ranges[{}].owner: {} is not a node: there are {} nodes", field, i,
                      item.ranges[i].owner, nodes));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOverrides(const MembershipData& data) {
  if (data.next_plane == kCommonPlane) {
    return absl::InvalidArgumentError("next_plane: 0 is the common plane: planes begin at 1");
  }
  if (data.overrides.empty()) return absl::OkStatus();
  if (data.overrides.size() > OverrideTable::kMaxRules) {
    return absl::InvalidArgumentError(fmt::format("overrides: {} are over the limit of {}",
                                                  data.overrides.size(), OverrideTable::kMaxRules));
  }
  if (data.spec.replication > 1) {
    return absl::InvalidArgumentError(
        fmt::format("overrides: this keyspace has replication {}, and the planes of overrides have "
                    "no followers: use replication 1",
                    data.spec.replication));
  }
  std::set<OverrideRule> rules;
  for (size_t i = 0; i < data.overrides.size(); ++i) {
    const Override& item = data.overrides[i];
    const std::string field = fmt::format("overrides[{}]", i);
    RETURN_IF_ERROR(ValidateOverrideRule(field, item.rule));
    if (!rules.insert(item.rule).second) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {} has a rule already", field, item.rule.ToString()));
    }
    const Plane above = i == 0 ? kCommonPlane : data.overrides[i - 1].plane;
    if (item.plane <= above || item.plane >= data.next_plane) {
      return absl::InvalidArgumentError(
          fmt::format("{}.plane: {} must be above {} and below next_plane, which is {}", field,
                      item.plane, above, data.next_plane));
    }
    RETURN_IF_ERROR(CheckOverrideRanges(field, item, data.nodes.size()));
  }
  return absl::OkStatus();
}

absl::Status CheckPins(const MembershipData& data) {
  if (data.pins.empty()) return absl::OkStatus();
  if (data.spec.placement != PlacementKind::kDirectory) {
    return absl::InvalidArgumentError("pins: a ring has no buckets to pin: use a directory");
  }
  if (data.pins.size() > Membership::kMaxPins) {
    return absl::InvalidArgumentError(
        fmt::format("pins: {} are over the limit of {}", data.pins.size(), Membership::kMaxPins));
  }
  for (size_t i = 0; i < data.pins.size(); ++i) {
    const Pin& pin = data.pins[i];
    if (pin.bucket >= data.ranges.size()) {
      return absl::InvalidArgumentError(fmt::format("pins[{}].bucket: {} is not one of {} buckets",
                                                    i, pin.bucket, data.ranges.size()));
    }
    if (i > 0 && data.pins[i - 1].bucket >= pin.bucket) {
      return absl::InvalidArgumentError(
          fmt::format("pins[{}].bucket: {} follows {}: buckets must be unique and sorted", i,
                      pin.bucket, data.pins[i - 1].bucket));
    }
    const auto node = std::lower_bound(data.nodes.begin(), data.nodes.end(), pin.node,
                                       [](const Node& n, const NodeId& id) { return n.id < id; });
    if (node == data.nodes.end() || node->id != pin.node) {
      return absl::InvalidArgumentError(
          fmt::format("pins[{}].node: '{}' is not a node", i, Printable(pin.node)));
    }
  }
  return absl::OkStatus();
}

auto OrderOf(const Move& move) { return std::tie(move.migration, move.wave, move.from, move.to); }

// What can be said about moves[i] without the ranges.
absl::Status CheckMove(const std::vector<Move>& moves, size_t i) {
  const Move& move = moves[i];
  RETURN_IF_ERROR(ValidateId(fmt::format("moves[{}].migration", i), move.migration));
  if (move.phase != MovePhase::kWarming && move.phase != MovePhase::kGrace) {
    return absl::InvalidArgumentError(
        fmt::format("moves[{}].phase: {} is unknown: use warming (1) or grace (2)", i,
                    static_cast<uint32_t>(move.phase)));
  }
  if (move.from == move.to) {
    return absl::InvalidArgumentError(
        fmt::format("moves[{}].to: '{}' is also the donor", i, Printable(move.to)));
  }
  if (move.ranges.empty()) {
    return absl::InvalidArgumentError(fmt::format("moves[{}].ranges: a move needs a range", i));
  }
  if (i > 0 && OrderOf(moves[i - 1]) >= OrderOf(move)) {
    return absl::InvalidArgumentError(
        fmt::format("moves[{}]: ({}, {}, {}, {}) is out of order or doubled: moves are sorted by "
                    "(migration, wave, from, to)",
                    i, move.migration, move.wave, Printable(move.from), Printable(move.to)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Membership::Ptr> Membership::Create(MembershipData data) {
  return CreateWith(nullptr, std::move(data));
}

absl::StatusOr<Membership::Ptr> Membership::CreateAfter(const Membership& base,
                                                        MembershipData data) {
  const RowChanges changes = RowChangesOf(base.data_, data);
  if (!changes.same_ends) return Create(std::move(data));
  if (!changes.rows.has_value()) return CreateWith(&base.table_, std::move(data));
  RETURN_IF_ERROR(CheckOverrides(data));
  RETURN_IF_ERROR(CheckPins(data));
  std::shared_ptr<Membership> membership(new Membership(std::move(data)));
  RETURN_IF_ERROR(membership->IndexMoves());
  membership->PatchTable(base, *changes.rows);
  return membership;
}

absl::StatusOr<Membership::Ptr> Membership::CreateWith(const RoutingTable* same_ends,
                                                       MembershipData data) {
  if (data.version == Version()) {
    return absl::InvalidArgumentError("version: 0 means none: versions begin at 1");
  }
  RETURN_IF_ERROR(ValidateKeyspaceSpec(data.spec));
  RETURN_IF_ERROR(CheckNodes(data.nodes));
  RETURN_IF_ERROR(CheckRanges(data));
  RETURN_IF_ERROR(CheckFollowers(data));
  RETURN_IF_ERROR(CheckOverrides(data));
  RETURN_IF_ERROR(CheckPins(data));
  std::shared_ptr<Membership> membership(new Membership(std::move(data)));
  RETURN_IF_ERROR(membership->IndexMoves());
  membership->CompileTable(same_ends);
  return membership;
}

Membership::Membership(MembershipData data) : data_(std::move(data)) {
  if (!data_.overrides.empty()) override_table_ = OverrideTable(data_.overrides);
  digest_ = DigestOf(data_);
}

absl::Status Membership::IndexMoves() {
  if (data_.moves.empty()) return absl::OkStatus();
  move_of_range_.assign(data_.ranges.size(), -1);
  for (size_t i = 0; i < data_.moves.size(); ++i) {
    const Move& move = data_.moves[i];
    RETURN_IF_ERROR(CheckMove(data_.moves, i));
    const std::optional<NodeIndex> from = FindNode(move.from);
    const std::optional<NodeIndex> to = FindNode(move.to);
    if (!from.has_value() || !to.has_value()) {
      return absl::InvalidArgumentError(
          fmt::format("moves[{}].{}: '{}' is not a node", i, from.has_value() ? "to" : "from",
                      Printable(from.has_value() ? move.to : move.from)));
    }
    move_nodes_.push_back({*from, *to});
    const bool warming = move.phase == MovePhase::kWarming;
    const NodeIndex owner = warming ? *from : *to;
    absl::StatusOr<std::vector<size_t>> covered =
        CoveredRanges(data_.ranges, move.ranges.On(kCommonPlane));
    if (!covered.ok()) {
      return absl::InvalidArgumentError(fmt::format(
          "moves[{}].ranges: {}", i,
          std::string_view(covered.status().message().data(), covered.status().message().size())));
    }
    for (const size_t range : *covered) {
      if (move_of_range_[range] != -1) {
        return absl::InvalidArgumentError(
            fmt::format("moves[{}].ranges: {} is already in moves[{}]", i,
                        RangeAt(range).ToString(), move_of_range_[range]));
      }
      if (data_.ranges[range].owner != owner) {
        return absl::InvalidArgumentError(fmt::format(
            "moves[{}].ranges: {} belongs to '{}', and must belong to '{}' while it is {}", i,
            RangeAt(range).ToString(), data_.nodes[data_.ranges[range].owner].id,
            data_.nodes[owner].id, warming ? "warming" : "in grace"));
      }
      move_of_range_[range] = static_cast<int32_t>(i);
    }
  }
  return CheckMovesOnPlanes();
}

absl::Status Membership::CheckMovesOnPlanes() const {
  struct Run {
    Plane plane;
    HashPoint first;
    HashPoint last;
    size_t move;
  };
  std::vector<Run> runs;
  std::map<std::pair<Plane, NodeIndex>, HashRangeSet> owned;
  for (size_t i = 0; i < data_.moves.size(); ++i) {
    const Move& move = data_.moves[i];
    for (const Plane plane : move.ranges.Planes()) {
      if (plane == kCommonPlane) continue;
      if (OverrideOn(plane) == nullptr) {
        return absl::InvalidArgumentError(
            fmt::format("moves[{}].ranges: no override has plane {}", i, plane));
      }
      const bool warming = move.phase == MovePhase::kWarming;
      const NodeIndex owner = warming ? move_nodes_[i].from : move_nodes_[i].to;
      const HashRangeSet part = move.ranges.On(plane);
      const auto [known, is_new] = owned.try_emplace({SourceOf(plane), owner});
      if (is_new) known->second = OwnedOn(known->first.first, owner);
      if (!known->second.CarriedTo(plane).Includes(part)) {
        return absl::InvalidArgumentError(fmt::format(
            "moves[{}].ranges: what it names of plane {} must belong to '{}' while it is {}", i,
            plane, data_.nodes[owner].id, warming ? "warming" : "in grace"));
      }
      for (const HashRange& range : part.Ranges()) {
        const HashPoint first = range.start + 1;
        if (first <= range.end) {
          runs.push_back({plane, first, range.end, i});
        } else {
          runs.push_back({plane, first, UINT64_MAX, i});
          runs.push_back({plane, 0, range.end, i});
        }
      }
    }
  }
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) {
    return std::tie(a.plane, a.first) < std::tie(b.plane, b.first);
  });
  for (size_t i = 1; i < runs.size(); ++i) {
    if (runs[i].plane != runs[i - 1].plane || runs[i].first > runs[i - 1].last) continue;
    return absl::InvalidArgumentError(
        fmt::format("moves[{}].ranges: {:016x} on plane {} is already in moves[{}]", runs[i].move,
                    runs[i].first, runs[i].plane, runs[i - 1].move));
  }
  return absl::OkStatus();
}

void Membership::CompileTable(const RoutingTable* same_ends) {
  absl::flat_hash_map<std::pair<Epoch, int>, uint32_t> index;
  std::vector<HashPoint> ends;
  std::vector<uint32_t> rows;
  if (same_ends == nullptr) ends.reserve(data_.ranges.size());
  const auto nobody = static_cast<uint32_t>(data_.nodes.size());
  const uint32_t width = kRowFollowers + data_.spec.replication - 1;
  rows.reserve(data_.ranges.size() * width);
  for (size_t i = 0; i < data_.ranges.size(); ++i) {
    const OwnedRange& range = data_.ranges[i];
    const int move = MoveAt(i);
    const auto [found, is_new] =
        index.try_emplace({range.epoch, move}, static_cast<uint32_t>(tenures_.size()));
    if (is_new) tenures_.push_back(TenureOf(range.epoch, move));
    if (same_ends == nullptr) ends.push_back(range.end);
    rows.push_back(range.owner);
    rows.push_back(found->second);
    for (const NodeIndex follower : FollowersAt(i)) {
      rows.push_back(follower == kNoNode ? nobody : follower);
    }
  }
  table_ = same_ends == nullptr ? RoutingTable::Build(ends, rows, width)
                                : same_ends->WithValues(rows, width);
  tenures_in_use_ = tenures_.size();
}

Membership::Tenure Membership::TenureOf(Epoch epoch, int move) const {
  Tenure tenure{epoch, std::nullopt, std::nullopt, move >= 0};
  if (!tenure.is_moving) return tenure;
  const auto at = static_cast<size_t>(move);
  switch (data_.moves[at].phase) {
    case MovePhase::kWarming:
      tenure.pending = move_nodes_[at].to;
      break;
    case MovePhase::kGrace:
      tenure.previous = move_nodes_[at].from;
      break;
  }
  return tenure;
}

std::optional<NodeIndex> Membership::FindNode(std::string_view id) const {
  auto it = std::lower_bound(data_.nodes.begin(), data_.nodes.end(), id,
                             [](const Node& node, std::string_view key) { return node.id < key; });
  if (it == data_.nodes.end() || it->id != id) return std::nullopt;
  return static_cast<NodeIndex>(it - data_.nodes.begin());
}

HashRange Membership::RangeAt(size_t index) const {
  const size_t before = index == 0 ? data_.ranges.size() - 1 : index - 1;
  return {data_.ranges[before].end, data_.ranges[index].end};
}

HashRangeSet Membership::OwnedBy(std::string_view node) const {
  const std::optional<NodeIndex> owner = FindNode(node);
  if (!owner.has_value()) return {};
  if (data_.overrides.empty()) return OwnedOn(kCommonPlane, *owner);
  std::vector<HashRange> owned = OwnedOn(kCommonPlane, *owner).Ranges();
  for (const Override& item : data_.overrides) {
    const std::vector<HashRange> more = OwnedOn(item.plane, *owner).Ranges();
    owned.insert(owned.end(), more.begin(), more.end());
  }
  return HashRangeSet(owned);
}

HashRangeSet Membership::FollowedBy(std::string_view node) const {
  const std::optional<NodeIndex> follower = FindNode(node);
  if (data_.followers.empty() || !follower.has_value()) return {};
  std::vector<HashRange> followed;
  for (size_t i = 0; i < data_.ranges.size(); ++i) {
    const auto followers = FollowersAt(i);
    const auto at = std::find(followers.begin(), followers.end(), *follower);
    if (at != followers.end()) followed.push_back(RangeAt(i));
  }
  return HashRangeSet(followed);
}

bool Membership::IsFollower(NodeIndex node, HashPoint h) const {
  if (data_.followers.empty()) return false;
  const auto followers = FollowersAt(RangeIndexOf(h));
  return std::find(followers.begin(), followers.end(), node) != followers.end();
}

HashRangeSet Membership::OwnedOn(Plane plane, NodeIndex node) const {
  std::vector<HashRange> owned;
  if (plane == kCommonPlane) {
    for (size_t i = 0; i < data_.ranges.size(); ++i) {
      if (data_.ranges[i].owner == node) owned.push_back(RangeAt(i));
    }
    return HashRangeSet(owned);
  }
  const Plane source = SourceOf(plane);
  if (source != plane) return OwnedOn(source, node).CarriedTo(plane);
  const Override& item = *OverrideOn(plane);
  HashPoint start = item.ranges.back().end;
  for (const OverrideRange& range : item.ranges) {
    if (range.owner == node) owned.push_back({start, range.end, plane});
    start = range.end;
  }
  return HashRangeSet(owned);
}

HashRangeSet Membership::HeldUpTo(Plane plane, Epoch epoch) const {
  if (plane == kCommonPlane) {
    std::vector<HashRange> held;
    for (size_t i = 0; i < data_.ranges.size(); ++i) {
      if (data_.ranges[i].epoch <= epoch) held.push_back(RangeAt(i));
    }
    return HashRangeSet(held);
  }
  for (Plane at = plane; at != kCommonPlane;) {
    const Override& item = *OverrideOn(at);
    if (item.epoch > epoch) return {};
    if (!item.IsAsHashed()) return HashRangeSet::Whole(plane);
    at = ParentOf(item);
  }
  return HeldUpTo(kCommonPlane, epoch).CarriedTo(plane);
}

Epoch Membership::HighestEpoch() const {
  Epoch highest;
  for (const OwnedRange& range : data_.ranges) highest = std::max(highest, range.epoch);
  for (const Override& item : data_.overrides) highest = std::max(highest, item.epoch);
  return highest;
}

bool Membership::KnowsPlanesOf(const HashRangeSet& ranges) const {
  const std::vector<Plane> planes = ranges.Planes();
  return planes.empty() || planes.back() < data_.next_plane;
}

const Override* Membership::OverrideOn(Plane plane) const {
  const auto found = std::lower_bound(data_.overrides.begin(), data_.overrides.end(), plane,
                                      [](const Override& item, Plane p) { return item.plane < p; });
  return found == data_.overrides.end() || found->plane != plane ? nullptr : &*found;
}

Plane Membership::ParentOf(const Override& item) const {
  const size_t parent =
      override_table_.ParentOf(static_cast<size_t>(&item - data_.overrides.data()));
  return parent == OverrideTable::kNone ? kCommonPlane : data_.overrides[parent].plane;
}

Plane Membership::SourceOf(Plane plane) const {
  while (plane != kCommonPlane) {
    const Override& item = *OverrideOn(plane);
    if (!item.IsAsHashed()) break;
    plane = ParentOf(item);
  }
  return plane;
}

KeyPoint Membership::OverriddenPointOf(std::string_view key) const {
  const size_t rule = override_table_.Find(key);
  return {HashKey(data_.spec.hash, key),
          rule == OverrideTable::kNone ? kCommonPlane : data_.overrides[rule].plane};
}

OwnedRange Membership::OverriddenRangeOf(KeyPoint point) const {
  Epoch epoch;
  // Up to the first rule that says more than "as hashed". Each parent's rule is shorter.
  while (point.plane != kCommonPlane) {
    const Override* const item = OverrideOn(point.plane);
    if (item == nullptr) break;
    epoch = std::max(epoch, item->epoch);
    if (!item->IsAsHashed()) {
      auto range = std::lower_bound(item->ranges.begin(), item->ranges.end(), point.hash,
                                    [](const OverrideRange& r, HashPoint h) { return r.end < h; });
      if (range == item->ranges.end()) range = item->ranges.begin();
      return {range->end, range->owner, epoch};
    }
    point.plane = ParentOf(*item);
  }
  OwnedRange range = data_.ranges[table_.Find(point.hash)];
  range.epoch = std::max(range.epoch, epoch);
  return range;
}

// Only moves of the owner can cover it: few, and few planes move at a time.
int Membership::OverriddenMoveOf(KeyPoint point) const {
  const NodeIndex owner = RangeOf(point).owner;
  for (size_t i = 0; i < data_.moves.size(); ++i) {
    const Move& move = data_.moves[i];
    const MoveNodes& nodes = move_nodes_[i];
    const NodeIndex holder = move.phase == MovePhase::kWarming ? nodes.from : nodes.to;
    if (holder == owner && move.ranges.Contains(point)) return static_cast<int>(i);
  }
  return -1;
}

bool HasMissedOverrides(const Membership& before, const Membership& after) {
  const auto is_new = [&](const Override& item) { return item.plane >= before.data().next_plane; };
  const auto added = std::count_if(after.overrides().begin(), after.overrides().end(), is_new);
  const Plane begun = after.data().next_plane - before.data().next_plane;
  return static_cast<size_t>(added) < begun;
}

bool HasEndedOverrides(const Membership& before, const Membership& after) {
  return HasMissedOverrides(before, after) ||
         std::any_of(before.overrides().begin(), before.overrides().end(),
                     [&](const Override& item) { return after.OverrideOn(item.plane) == nullptr; });
}

Route RoutePoint(const Membership& membership, KeyPoint point) {
  if (point.plane == kCommonPlane) {
    const Membership::Holder holder = membership.HolderOf(point.hash);
    const Membership::Tenure& tenure = membership.tenures()[holder.tenure];
    return {point.hash, holder.owner, tenure.epoch, tenure.pending, tenure.previous, point.plane};
  }
  const OwnedRange range = membership.RangeOf(point);
  const Membership::Tenure tenure = membership.TenureOf(range.epoch, membership.MoveOf(point));
  return {point.hash, range.owner, tenure.epoch, tenure.pending, tenure.previous, point.plane};
}

Route RouteKey(const Membership& membership, std::string_view key) {
  return RoutePoint(membership, membership.PointOf(key));
}

HashRangeSet MovingRanges(const Membership& membership, const MigrationId& migration,
                          MovePhase phase, const NodeId& from, const NodeId& to) {
  HashRangeSet ranges;
  for (const Move& move : membership.moves()) {
    if (move.migration == migration && move.phase == phase && move.from == from && move.to == to) {
      ranges = ranges.Union(move.ranges);
    }
  }
  return ranges;
}

}  // namespace warmring
