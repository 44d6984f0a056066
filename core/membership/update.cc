#include "core/membership/update.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "core/base/status_macros.h"
#include "core/membership/range_cover.h"
#include "core/placement/routing_table.h"

namespace warmring {
namespace {

std::string_view MessageOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

bool ById(const Node& a, const Node& b) { return a.id < b.id; }

std::optional<NodeIndex> IndexOf(const std::vector<Node>& nodes, std::string_view id) {
  auto it = std::lower_bound(nodes.begin(), nodes.end(), id,
                             [](const Node& node, std::string_view key) { return node.id < key; });
  if (it == nodes.end() || it->id != id) return std::nullopt;
  return static_cast<NodeIndex>(it - nodes.begin());
}

// Owners are indices of nodes: after a change of the node list each must be found again. The owner
// of no range may have left the list.
void ReindexOwners(const std::vector<Node>& old_nodes, MembershipData& data) {
  std::vector<NodeIndex> moved_to(old_nodes.size());
  size_t at = 0;
  for (size_t i = 0; i < old_nodes.size(); ++i) {
    while (at < data.nodes.size() && data.nodes[at].id < old_nodes[i].id) ++at;
    moved_to[i] = static_cast<NodeIndex>(at);
  }
  for (OwnedRange& range : data.ranges) range.owner = moved_to[range.owner];
  for (NodeIndex& follower : data.followers) {
    if (follower != kNoNode) follower = moved_to[follower];
  }
  for (Override& item : data.overrides) {
    for (OverrideRange& range : item.ranges) range.owner = moved_to[range.owner];
  }
}

absl::Status PutNodes(std::vector<Node> put, MembershipData& data) {
  if (put.empty()) return absl::OkStatus();
  std::sort(put.begin(), put.end(), ById);
  for (size_t i = 1; i < put.size(); ++i) {
    if (put[i - 1].id == put[i].id) {
      return absl::InvalidArgumentError(
          fmt::format("put_nodes: '{}' is listed twice", Printable(put[i].id)));
    }
  }
  std::vector<Node> merged;
  // On equal ids set_union takes the item of the first list: the new one.
  std::set_union(put.begin(), put.end(), data.nodes.begin(), data.nodes.end(),
                 std::back_inserter(merged), ById);
  std::swap(merged, data.nodes);
  ReindexOwners(merged, data);
  return absl::OkStatus();
}

// The followers of what is now range i are those that range `from[i]` had.
void KeepFollowers(const std::vector<size_t>& from, MembershipData& data) {
  const size_t count = data.spec.replication - 1;
  if (count == 0) return;
  std::vector<NodeIndex> followers;
  followers.reserve(from.size() * count);
  for (const size_t range : from) {
    const auto first = data.followers.begin() + static_cast<std::ptrdiff_t>(range * count);
    followers.insert(followers.end(), first, first + static_cast<std::ptrdiff_t>(count));
  }
  data.followers = std::move(followers);
}

absl::Status Grow(uint32_t bits, MembershipData& data) {
  if (bits == 0) return absl::OkStatus();
  if (data.spec.placement != PlacementKind::kDirectory) {
    return absl::InvalidArgumentError("directory_bits: a ring has no buckets");
  }
  if (bits <= data.spec.directory_bits || bits > KeyspaceSpec::kMaxDirectoryBits) {
    return absl::InvalidArgumentError(
        fmt::format("directory_bits: {}: use a number above {}, which it is, and up to {}", bits,
                    data.spec.directory_bits, KeyspaceSpec::kMaxDirectoryBits));
  }
  const uint32_t more = bits - data.spec.directory_bits;
  std::vector<OwnedRange> ranges;
  std::vector<size_t> parents;
  const size_t buckets = size_t{1} << bits;
  ranges.reserve(buckets);
  parents.reserve(buckets);
  for (size_t i = 0; i < buckets; ++i) {
    parents.push_back(i >> more);
    const OwnedRange& parent = data.ranges[parents.back()];
    ranges.push_back({BucketEnd(bits, i), parent.owner, parent.epoch});
  }
  data.ranges = std::move(ranges);
  KeepFollowers(parents, data);
  std::vector<Pin> pins;
  for (const Pin& pin : data.pins) {
    for (uint32_t child = 0; child < uint32_t{1} << more; ++child) {
      pins.push_back({(pin.bucket << more) + child, pin.node});
    }
  }
  data.pins = std::move(pins);
  data.spec.directory_bits = bits;
  return absl::OkStatus();
}

absl::Status SplitDirectory(const std::vector<HashPoint>& split_at, const MembershipData& data) {
  for (const HashPoint point : split_at) {
    if (RangeEndingAt(data.ranges, point) == data.ranges.size()) {
      return absl::InvalidArgumentError(
          fmt::format("split_at: {:016x} is not the end of a bucket: a directory moves whole "
                      "buckets",
                      point));
    }
  }
  return absl::OkStatus();
}

absl::Status Split(std::vector<HashPoint> split_at, MembershipData& data) {
  if (split_at.empty()) return absl::OkStatus();
  if (data.spec.placement == PlacementKind::kDirectory) return SplitDirectory(split_at, data);
  std::sort(split_at.begin(), split_at.end());
  split_at.erase(std::unique(split_at.begin(), split_at.end()), split_at.end());
  std::vector<OwnedRange> split;
  std::vector<size_t> parents;
  split.reserve(data.ranges.size() + split_at.size());
  size_t parent = 0;
  const auto keep_parent = [&] {
    parents.push_back(parent);
    split.push_back(data.ranges[parent++]);
  };
  for (const HashPoint point : split_at) {
    while (parent < data.ranges.size() && data.ranges[parent].end < point) keep_parent();
    if (parent < data.ranges.size() && data.ranges[parent].end == point) continue;
    // Above the last end lies the part of the first range before it wraps.
    parents.push_back(parent == data.ranges.size() ? 0 : parent);
    split.push_back({point, data.ranges[parents.back()].owner, data.ranges[parents.back()].epoch});
  }
  while (parent < data.ranges.size()) keep_parent();
  data.ranges = std::move(split);
  KeepFollowers(parents, data);
  return absl::OkStatus();
}

absl::Status Assign(const Assignment& assignment, std::string_view field,
                    std::vector<bool>& assigned, MembershipData& data) {
  const std::optional<NodeIndex> owner = IndexOf(data.nodes, assignment.owner);
  if (!owner.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("{}.owner: '{}' is not a node", field, Printable(assignment.owner)));
  }
  if (assignment.ranges.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}.ranges: no range is named", field));
  }
  absl::StatusOr<std::vector<size_t>> covered = CoveredRanges(data.ranges, assignment.ranges);
  if (!covered.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}.ranges: {}", field, MessageOf(covered.status())));
  }
  for (const size_t i : *covered) {
    OwnedRange& range = data.ranges[i];
    if (assigned[i]) {
      return absl::InvalidArgumentError(fmt::format(
          "{}.ranges: the range that ends at {:016x} is assigned twice", field, range.end));
    }
    if (assignment.epoch <= range.epoch) {
      return absl::InvalidArgumentError(
          fmt::format("{}.epoch: {} is not greater than {}, the epoch of the range that ends at "
                      "{:016x}",
                      field, assignment.epoch.value, range.epoch.value, range.end));
    }
    assigned[i] = true;
    range.owner = *owner;
    range.epoch = assignment.epoch;
  }
  return absl::OkStatus();
}

absl::Status AssignAll(const std::vector<Assignment>& assignments, MembershipData& data) {
  std::vector<bool> assigned(assignments.empty() ? 0 : data.ranges.size(), false);
  for (size_t i = 0; i < assignments.size(); ++i) {
    RETURN_IF_ERROR(Assign(assignments[i], fmt::format("assignments[{}]", i), assigned, data));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NodeIndex>> FollowersOf(std::string_view field, const PutFollowers& put,
                                                   const MembershipData& data) {
  const size_t count = data.spec.replication - 1;
  if (put.followers.size() != count) {
    return absl::InvalidArgumentError(fmt::format("{}.followers: {} with replication {}: name {}",
                                                  field, put.followers.size(),
                                                  data.spec.replication, count));
  }
  std::vector<NodeIndex> followers;
  followers.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const NodeId& id = put.followers[i];
    if (id.empty()) {
      followers.push_back(kNoNode);
      continue;
    }
    const std::optional<NodeIndex> node = IndexOf(data.nodes, id);
    if (!node.has_value()) {
      return absl::InvalidArgumentError(
          fmt::format("{}.followers[{}]: '{}' is not a node", field, i, Printable(id)));
    }
    followers.push_back(*node);
  }
  return followers;
}

absl::Status Follow(const PutFollowers& put, std::string_view field, std::vector<bool>& named,
                    MembershipData& data) {
  ASSIGN_OR_RETURN(const std::vector<NodeIndex> followers, FollowersOf(field, put, data));
  if (put.ranges.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}.ranges: no range is named", field));
  }
  const absl::StatusOr<std::vector<size_t>> covered = CoveredRanges(data.ranges, put.ranges);
  if (!covered.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}.ranges: {}", field, MessageOf(covered.status())));
  }
  for (const size_t i : *covered) {
    if (named[i]) {
      return absl::InvalidArgumentError(
          fmt::format("{}.ranges: the range that ends at {:016x} is given followers twice", field,
                      data.ranges[i].end));
    }
    named[i] = true;
    std::copy(followers.begin(), followers.end(),
              data.followers.begin() + static_cast<std::ptrdiff_t>(i * followers.size()));
  }
  return absl::OkStatus();
}

absl::Status FollowAll(const std::vector<PutFollowers>& puts, MembershipData& data) {
  if (puts.empty()) return absl::OkStatus();
  if (data.spec.replication == 1) {
    return absl::InvalidArgumentError(
        "put_followers: with replication 1 a range has an owner and no followers");
  }
  std::vector<bool> named(data.ranges.size(), false);
  for (size_t i = 0; i < puts.size(); ++i) {
    RETURN_IF_ERROR(Follow(puts[i], fmt::format("put_followers[{}]", i), named, data));
  }
  return absl::OkStatus();
}

void RemoveMoves(const std::vector<MigrationId>& migrations, MembershipData& data) {
  if (migrations.empty()) return;
  const std::set<MigrationId> removed(migrations.begin(), migrations.end());
  std::erase_if(data.moves, [&](const Move& move) { return removed.count(move.migration) > 0; });
}

bool ByMove(const Move& a, const Move& b) {
  return std::tie(a.migration, a.wave, a.from, a.to) < std::tie(b.migration, b.wave, b.from, b.to);
}

absl::Status PutMoves(std::vector<Move> put, MembershipData& data) {
  if (put.empty()) return absl::OkStatus();
  std::sort(put.begin(), put.end(), ByMove);
  for (size_t i = 1; i < put.size(); ++i) {
    if (!ByMove(put[i - 1], put[i])) {
      return absl::InvalidArgumentError(
          fmt::format("put_moves: wave {} of '{}' from '{}' to '{}' is listed twice", put[i].wave,
                      Printable(put[i].migration), Printable(put[i].from), Printable(put[i].to)));
    }
  }
  std::vector<Move> merged;
  std::set_union(put.begin(), put.end(), data.moves.begin(), data.moves.end(),
                 std::back_inserter(merged), ByMove);
  data.moves = std::move(merged);
  return absl::OkStatus();
}

bool SameFollowers(const MembershipData& data, size_t a, size_t b) {
  const size_t count = data.spec.replication - 1;
  const auto at = [&](size_t range) {
    return data.followers.begin() + static_cast<std::ptrdiff_t>(range * count);
  };
  return std::equal(at(a), at(a) + static_cast<std::ptrdiff_t>(count), at(b));
}

absl::Status Merge(const std::vector<HashPoint>& merge_at, MembershipData& data) {
  if (merge_at.empty()) return absl::OkStatus();
  std::vector<OwnedRange>& ranges = data.ranges;
  if (data.spec.placement == PlacementKind::kDirectory) {
    return absl::InvalidArgumentError(fmt::format(
        "merge_at: {:016x}: the buckets of a directory cannot be merged", merge_at.front()));
  }
  std::vector<bool> merged(ranges.size(), false);
  for (const HashPoint point : merge_at) {
    const size_t i = RangeEndingAt(ranges, point);
    if (i == ranges.size()) {
      return absl::InvalidArgumentError(fmt::format("merge_at: no range ends at {:016x}", point));
    }
    const OwnedRange& next = ranges[i + 1 == ranges.size() ? 0 : i + 1];
    if (ranges[i].owner != next.owner || ranges[i].epoch != next.epoch ||
        !SameFollowers(data, i, i + 1 == ranges.size() ? 0 : i + 1)) {
      return absl::InvalidArgumentError(fmt::format(
          "merge_at: {:016x} divides '{}' at epoch {} from '{}' at epoch {}: both sides "
          "must be the same, and have the same followers",
          point, data.nodes[ranges[i].owner].id, ranges[i].epoch.value, data.nodes[next.owner].id,
          next.epoch.value));
    }
    merged[i] = true;
  }
  std::vector<OwnedRange> kept;
  std::vector<size_t> from;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (merged[i]) continue;
    kept.push_back(ranges[i]);
    from.push_back(i);
  }
  if (kept.empty()) {
    return absl::InvalidArgumentError("merge_at: it names every range end: one must remain");
  }
  ranges = std::move(kept);
  KeepFollowers(from, data);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<OverrideRange>> OverrideRangesOf(std::string_view field,
                                                            const PutOverride& put,
                                                            const std::vector<Node>& nodes) {
  std::vector<OverrideRange> ranges;
  ranges.reserve(put.ranges.size());
  for (size_t i = 0; i < put.ranges.size(); ++i) {
    const std::optional<NodeIndex> owner = IndexOf(nodes, put.ranges[i].owner);
    if (!owner.has_value()) {
      return absl::InvalidArgumentError(fmt::format("{}.ranges[{}].owner: '{}' is not a node",
                                                    field, i, Printable(put.ranges[i].owner)));
    }
    ranges.push_back({put.ranges[i].end, *owner});
  }
  return ranges;
}

absl::Status PutOneOverride(std::string_view field, const PutOverride& put, Epoch highest,
                            MembershipData& data) {
  const auto at = std::lower_bound(data.overrides.begin(), data.overrides.end(), put.plane,
                                   [](const Override& item, Plane p) { return item.plane < p; });
  if (at == data.overrides.end() || at->plane != put.plane) {
    if (put.plane < data.next_plane || put.plane == UINT32_MAX) {
      return absl::InvalidArgumentError(
          fmt::format("{}.plane: {} is used up: new overrides have {} or above", field, put.plane,
                      data.next_plane));
    }
    if (!put.ranges.empty() || put.epoch != Epoch()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: a new override changes no owner: put it as hashed, under epoch 0, and "
                      "move it then",
                      field));
    }
    data.overrides.push_back({put.plane, put.rule, {}, Epoch()});
    data.next_plane = put.plane + 1;
    return absl::OkStatus();
  }
  if (at->rule != put.rule) {
    return absl::InvalidArgumentError(
        fmt::format("{}.rule: plane {} is that of {}", field, put.plane, at->rule.ToString()));
  }
  if (put.epoch <= std::max(highest, at->epoch)) {
    return absl::InvalidArgumentError(
        fmt::format("{}.epoch: {} is not greater than {}, which holds", field, put.epoch.value,
                    std::max(highest, at->epoch).value));
  }
  ASSIGN_OR_RETURN(at->ranges, OverrideRangesOf(field, put, data.nodes));
  at->epoch = put.epoch;
  return absl::OkStatus();
}

absl::Status PutOverrides(const std::vector<PutOverride>& put, Epoch highest,
                          MembershipData& data) {
  for (size_t i = 0; i < put.size(); ++i) {
    RETURN_IF_ERROR(PutOneOverride(fmt::format("put_overrides[{}]", i), put[i], highest, data));
  }
  return absl::OkStatus();
}

absl::Status RemoveOverrides(const std::vector<Plane>& planes, MembershipData& data) {
  for (const Plane plane : planes) {
    const auto at = std::find_if(data.overrides.begin(), data.overrides.end(),
                                 [&](const Override& item) { return item.plane == plane; });
    if (at == data.overrides.end()) {
      return absl::InvalidArgumentError(
          fmt::format("remove_overrides: no override has plane {}", plane));
    }
    if (!at->IsAsHashed()) {
      return absl::InvalidArgumentError(
          fmt::format("remove_overrides: {} still has nodes of its own: move it back first",
                      at->rule.ToString()));
    }
    data.overrides.erase(at);
  }
  return absl::OkStatus();
}

absl::Status RemovePins(const std::vector<uint32_t>& buckets, MembershipData& data) {
  if (buckets.empty()) return absl::OkStatus();
  std::set<uint32_t> removed;
  for (const uint32_t bucket : buckets) {
    const bool again = !removed.insert(bucket).second;
    const auto at = std::lower_bound(data.pins.begin(), data.pins.end(), bucket,
                                     [](const Pin& pin, uint32_t b) { return pin.bucket < b; });
    if (at != data.pins.end() && at->bucket == bucket && !again) continue;
    return absl::InvalidArgumentError(fmt::format("remove_pins: bucket {} is not pinned", bucket));
  }
  std::erase_if(data.pins, [&](const Pin& pin) { return removed.contains(pin.bucket); });
  return absl::OkStatus();
}

absl::Status PutPins(std::vector<Pin> put, MembershipData& data) {
  if (put.empty()) return absl::OkStatus();
  const auto by_bucket = [](const Pin& a, const Pin& b) { return a.bucket < b.bucket; };
  std::sort(put.begin(), put.end(), by_bucket);
  for (size_t i = 1; i < put.size(); ++i) {
    if (put[i - 1].bucket == put[i].bucket) {
      return absl::InvalidArgumentError(
          fmt::format("put_pins: bucket {} is listed twice", put[i].bucket));
    }
  }
  std::vector<Pin> merged;
  std::set_union(put.begin(), put.end(), data.pins.begin(), data.pins.end(),
                 std::back_inserter(merged), by_bucket);
  data.pins = std::move(merged);
  return absl::OkStatus();
}

absl::Status CheckNodeIsFree(const std::vector<bool>& removed, const MembershipData& data) {
  for (const Override& item : data.overrides) {
    for (const OverrideRange& range : item.ranges) {
      if (!removed[range.owner]) continue;
      return absl::InvalidArgumentError(
          fmt::format("remove_nodes: '{}' still owns keys of the override for {}: move them away "
                      "first",
                      data.nodes[range.owner].id, item.rule.ToString()));
    }
  }
  for (const Pin& pin : data.pins) {
    const std::optional<NodeIndex> node = IndexOf(data.nodes, pin.node);
    if (!node.has_value() || !removed[*node]) continue;
    return absl::InvalidArgumentError(fmt::format(
        "remove_nodes: bucket {} is pinned to '{}': remove the pin first", pin.bucket, pin.node));
  }
  return absl::OkStatus();
}

absl::Status RemoveNodes(const std::vector<NodeId>& ids, MembershipData& data) {
  if (ids.empty()) return absl::OkStatus();
  std::vector<bool> removed(data.nodes.size(), false);
  for (const NodeId& id : ids) {
    const std::optional<NodeIndex> index = IndexOf(data.nodes, id);
    if (!index.has_value() || removed[*index]) {
      return absl::InvalidArgumentError(
          fmt::format("remove_nodes: '{}' is {}", Printable(id),
                      index.has_value() ? "listed twice" : "not a node"));
    }
    removed[*index] = true;
  }
  for (const OwnedRange& range : data.ranges) {
    if (removed[range.owner]) {
      return absl::InvalidArgumentError(
          fmt::format("remove_nodes: '{}' still owns the range that ends at {:016x}: move its "
                      "ranges away first",
                      data.nodes[range.owner].id, range.end));
    }
  }
  RETURN_IF_ERROR(CheckNodeIsFree(removed, data));
  for (size_t i = 0; i < data.followers.size(); ++i) {
    const NodeIndex follower = data.followers[i];
    if (follower == kNoNode || !removed[follower]) continue;
    return absl::InvalidArgumentError(fmt::format(
        "remove_nodes: '{}' still follows the range that ends at {:016x}: give it another follower "
        "first",
        data.nodes[follower].id, data.ranges[i / (data.spec.replication - 1)].end));
  }
  for (const Move& move : data.moves) {
    for (const NodeId& id : {move.from, move.to}) {
      const std::optional<NodeIndex> index = IndexOf(data.nodes, id);
      if (index.has_value() && removed[*index]) {
        return absl::InvalidArgumentError(fmt::format(
            "remove_nodes: '{}' still takes part in the migration '{}'", id, move.migration));
      }
    }
  }
  std::vector<Node> kept;
  for (size_t i = 0; i < data.nodes.size(); ++i) {
    if (!removed[i]) kept.push_back(data.nodes[i]);
  }
  std::swap(kept, data.nodes);
  ReindexOwners(kept, data);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Membership::Ptr> Apply(const Membership& base, const Update& update) {
  MembershipData data = base.data();
  data.version = base.version().Next();
  RETURN_IF_ERROR(PutNodes(update.put_nodes, data));
  RETURN_IF_ERROR(Grow(update.directory_bits, data));
  RETURN_IF_ERROR(Split(update.split_at, data));
  const Epoch highest = update.put_overrides.empty() ? Epoch() : base.HighestEpoch();
  RETURN_IF_ERROR(PutOverrides(update.put_overrides, highest, data));
  RETURN_IF_ERROR(AssignAll(update.assignments, data));
  RETURN_IF_ERROR(FollowAll(update.put_followers, data));
  RemoveMoves(update.remove_moves, data);
  RETURN_IF_ERROR(PutMoves(update.put_moves, data));
  RETURN_IF_ERROR(Merge(update.merge_at, data));
  RETURN_IF_ERROR(RemoveOverrides(update.remove_overrides, data));
  RETURN_IF_ERROR(RemovePins(update.remove_pins, data));
  RETURN_IF_ERROR(PutPins(update.put_pins, data));
  RETURN_IF_ERROR(RemoveNodes(update.remove_nodes, data));
  return Membership::CreateAfter(base, std::move(data));
}

absl::StatusOr<Membership::Ptr> ApplyDelta(const Membership& base, const Delta& delta) {
  if (delta.history != base.history()) {
    return absl::FailedPreconditionError(
        fmt::format("delta.history: {} where the membership has {}: ask for a snapshot",
                    delta.history.ToString(), base.history().ToString()));
  }
  if (delta.from != base.version() || delta.to != base.version().Next()) {
    return absl::FailedPreconditionError(
        fmt::format("delta: it leads from version {} to {}, and the membership is at {}: ask for a "
                    "snapshot",
                    delta.from.value, delta.to.value, base.version().value));
  }
  absl::StatusOr<Membership::Ptr> next = Apply(base, delta.update);
  if (!next.ok()) {
    return absl::DataLossError(
        fmt::format("delta to version {}: it does not fit its base: {}: ask for a snapshot",
                    delta.to.value, MessageOf(next.status())));
  }
  if ((*next)->digest() != delta.digest) {
    return absl::DataLossError(
        fmt::format("delta to version {}: the digest is {:016x} where {:016x} is expected: ask for "
                    "a snapshot",
                    delta.to.value, (*next)->digest(), delta.digest));
  }
  return next;
}

namespace {

// From and to, by the nodes' indices in the two memberships.
using ChangedRanges = std::map<std::pair<NodeIndex, NodeIndex>, std::vector<HashRange>>;

// The overrides of both, each plane once: in `a` if it is there.
std::map<Plane, OverrideRule> RulesOf(const Membership& a, const Membership& b) {
  std::map<Plane, OverrideRule> rules;
  for (const Membership* side : {&a, &b}) {
    for (const Override& item : side->overrides()) rules.emplace(item.plane, item.rule);
  }
  return rules;
}

// Where the keys of a rule are in a membership that may lack it.
Plane PlaneIn(const Membership& membership, Plane plane, const OverrideRule& rule) {
  if (membership.OverrideOn(plane) != nullptr) return plane;
  Plane best = kCommonPlane;
  size_t length = 0;
  for (const Override& item : membership.overrides()) {
    const bool covers = item.rule.match == OverrideRule::Match::kPrefix &&
                        item.rule.Matches(rule.bytes) && item.rule.bytes.size() > length;
    const bool shorter =
        item.rule.bytes.size() < rule.bytes.size() || rule.match == OverrideRule::Match::kKey;
    if (!covers || !shorter) continue;
    best = item.plane;
    length = item.rule.bytes.size();
  }
  return best;
}

// Who holds each part of a plane, as sorted ends; parts side by side may have one owner. REQUIRES:
// the plane is its own source.
std::vector<OverrideRange> HoldersOn(const Membership& membership, Plane plane) {
  std::vector<OverrideRange> holders;
  if (plane == kCommonPlane) {
    holders.reserve(membership.ranges().size());
    for (const OwnedRange& range : membership.ranges()) holders.push_back({range.end, range.owner});
    return holders;
  }
  return membership.OverrideOn(plane)->ranges;
}

void DiffHolders(const Membership& a, Plane plane_in_a, const Membership& b, Plane plane_in_b,
                 Plane plane, ChangedRanges& changed) {
  const std::vector<OverrideRange> as = HoldersOn(a, a.SourceOf(plane_in_a));
  const std::vector<OverrideRange> bs = HoldersOn(b, b.SourceOf(plane_in_b));
  size_t i = 0;
  size_t j = 0;
  HashPoint start = std::max(as.back().end, bs.back().end);
  while (i < as.size() || j < bs.size()) {
    const OverrideRange& from = as[i < as.size() ? i : 0];
    const OverrideRange& to = bs[j < bs.size() ? j : 0];
    const bool a_is_next = i < as.size() && (j == bs.size() || from.end < to.end);
    const HashPoint end = a_is_next ? from.end : to.end;
    if (a.nodes()[from.owner].id != b.nodes()[to.owner].id) {
      changed[{from.owner, to.owner}].push_back({start, end, plane});
    }
    if (i < as.size() && from.end == end) ++i;
    if (j < bs.size() && to.end == end) ++j;
    start = end;
  }
}

}  // namespace

std::vector<RangeMove> Diff(const Membership& a, const Membership& b) {
  // Indices sort as ids do, so that the result is sorted by (from, to).
  ChangedRanges changed;
  DiffHolders(a, kCommonPlane, b, kCommonPlane, kCommonPlane, changed);
  for (const auto& [plane, rule] : RulesOf(a, b)) {
    DiffHolders(a, PlaneIn(a, plane, rule), b, PlaneIn(b, plane, rule), plane, changed);
  }
  std::vector<RangeMove> moves;
  for (const auto& [nodes, ranges] : changed) {
    moves.push_back({a.nodes()[nodes.first].id, b.nodes()[nodes.second].id, HashRangeSet(ranges)});
  }
  return moves;
}

}  // namespace warmring
