#include "core/placement/allocator.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <utility>

#include <fmt/format.h>

#include "core/hashing/key_hash.h"
#include "core/placement/deliberate_ring.h"
#include "core/placement/member.h"
#include "core/placement/ring_allocator.h"

namespace warmring {
namespace {

struct Seat {
  Member member;
  uint32_t index = 0;  // among all members
  bool taker = false;  // added: takes buckets from others
  uint64_t target = 0;
  uint64_t owned = 0;
};

std::vector<Seat> SortedSeats(std::vector<Seat> seats) {
  std::sort(seats.begin(), seats.end(),
            [](const Seat& a, const Seat& b) { return a.member.Key() < b.member.Key(); });
  return seats;
}

// Shares of `buckets` by weight: floors, then one more for the largest remainders. The seats stand
// in node order, which breaks ties.
void SetTargets(uint64_t buckets, std::vector<Seat>& seats) {
  uint64_t weights = 0;
  for (const Seat& seat : seats) weights += seat.member.node->weight_milli;
  std::vector<std::pair<uint64_t, size_t>> remainders;
  uint64_t given = 0;
  for (size_t i = 0; i < seats.size(); ++i) {
    const uint64_t share = buckets * seats[i].member.node->weight_milli;
    seats[i].target = share / weights;
    given += seats[i].target;
    remainders.emplace_back(share % weights, i);
  }
  std::stable_sort(remainders.begin(), remainders.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; given < buckets; ++i, ++given) ++seats[remainders[i].second].target;
}

// Gives each bucket of `forced` to the seat with the largest deficit relative to its target.
void PlaceForced(std::vector<uint32_t> forced, std::vector<Seat>& seats,
                 std::vector<uint32_t>& owner) {
  std::vector<std::pair<uint64_t, uint32_t>> ordered;
  ordered.reserve(forced.size());
  for (uint32_t bucket : forced) ordered.emplace_back(BucketOrderKey(bucket, "", 0), bucket);
  std::sort(ordered.begin(), ordered.end());

  const auto less = [&seats](size_t a, size_t b) {
    const Seat& x = seats[a];
    const Seat& y = seats[b];
    const uint64_t dx = (x.target - x.owned) * y.target;
    const uint64_t dy = (y.target - y.owned) * x.target;
    return dx != dy ? dx < dy : a > b;
  };
  std::priority_queue<size_t, std::vector<size_t>, decltype(less)> neediest(less);
  for (size_t i = 0; i < seats.size(); ++i) {
    if (seats[i].owned < seats[i].target) neediest.push(i);
  }
  for (const auto& [key, bucket] : ordered) {
    const size_t i = neediest.top();
    neediest.pop();
    owner[bucket] = static_cast<uint32_t>(i);
    if (++seats[i].owned < seats[i].target) neediest.push(i);
  }
}

// The buckets in one node's own order, found window by window, so that many takers at once cost
// memory for what they take and not for all buckets each.
class BucketOrder {
 public:
  BucketOrder(const NodeId& node, uint64_t buckets, uint64_t expected)
      : node_(&node), buckets_(buckets), expected_(4 * expected + 64) {}

  std::optional<uint32_t> Next() {
    while (at_ == window_.size()) {
      if (exhausted_) return std::nullopt;
      Refill();
    }
    return window_[at_++].second;
  }

 private:
  void Refill() {
    // The last key of this window; at or beyond the end of the space it is the last window.
    const uint64_t width = UINT64_MAX / buckets_;
    const bool last = expected_ >= (UINT64_MAX - first_) / width;
    const uint64_t end = last ? UINT64_MAX : first_ + width * expected_;
    window_.clear();
    at_ = 0;
    for (uint64_t bucket = 0; bucket < buckets_; ++bucket) {
      const uint64_t key = BucketOrderKey(bucket, *node_, 0);
      if (key >= first_ && key <= end) window_.emplace_back(key, static_cast<uint32_t>(bucket));
    }
    std::sort(window_.begin(), window_.end());
    exhausted_ = last;
    first_ = end + 1;
    expected_ *= 2;
  }

  const NodeId* node_;
  uint64_t buckets_;
  uint64_t expected_;
  uint64_t first_ = 0;
  bool exhausted_ = false;
  std::vector<std::pair<uint64_t, uint32_t>> window_;
  size_t at_ = 0;
};

// Each added seat below its target takes, in turn, the next bucket of its order whose owner is
// above target. An owner that is not above its target never gets above it here, so a bucket once
// skipped need not be looked at again.
void Take(uint64_t buckets, std::vector<Seat>& seats, std::vector<uint32_t>& owner) {
  std::vector<std::pair<size_t, BucketOrder>> takers;
  for (size_t i = 0; i < seats.size(); ++i) {
    const Seat& seat = seats[i];
    if (seat.taker && seat.owned < seat.target) {
      takers.emplace_back(i, BucketOrder(seat.member.node->id, buckets, seat.target));
    }
  }
  while (!takers.empty()) {
    std::erase_if(takers, [&](std::pair<size_t, BucketOrder>& taker) {
      Seat& seat = seats[taker.first];
      std::optional<uint32_t> bucket = taker.second.Next();
      while (bucket.has_value() && seats[owner[*bucket]].owned <= seats[owner[*bucket]].target) {
        bucket = taker.second.Next();
      }
      if (!bucket.has_value()) return true;
      --seats[owner[*bucket]].owned;
      owner[*bucket] = static_cast<uint32_t>(taker.first);
      return ++seat.owned == seat.target;
    });
  }
}

std::vector<OwnedRange> InitialDirectory(const KeyspaceSpec& spec,
                                         const std::vector<Member>& members, Epoch epoch) {
  const uint64_t buckets = uint64_t{1} << spec.directory_bits;
  std::vector<Seat> seats;
  for (uint32_t i = 0; i < members.size(); ++i) seats.push_back({members[i], i});
  seats = SortedSeats(std::move(seats));
  SetTargets(buckets, seats);
  std::vector<uint32_t> all(buckets);
  for (uint32_t bucket = 0; bucket < buckets; ++bucket) all[bucket] = bucket;
  std::vector<uint32_t> owner(buckets, kNobody);
  PlaceForced(std::move(all), seats, owner);
  std::vector<OwnedRange> ranges(buckets);
  for (uint32_t bucket = 0; bucket < buckets; ++bucket) {
    ranges[bucket] = {BucketEnd(spec.directory_bits, bucket), seats[owner[bucket]].index, epoch};
  }
  return ranges;
}

Reallocation ReallocateDirectory(const Membership& base, const std::vector<Member>& members,
                                 const std::vector<bool>& stays) {
  const uint64_t buckets = base.ranges().size();
  std::vector<Seat> seats;
  for (uint32_t i = 0; i < members.size(); ++i) {
    if (stays[i]) seats.push_back({members[i], i, i >= base.nodes().size()});
  }
  seats = SortedSeats(std::move(seats));
  SetTargets(buckets, seats);
  std::vector<uint32_t> seat_of(members.size(), kNobody);
  for (uint32_t i = 0; i < seats.size(); ++i) seat_of[seats[i].index] = i;

  std::vector<uint32_t> owner(buckets, kNobody);
  std::vector<uint32_t> forced;
  for (uint32_t bucket = 0; bucket < buckets; ++bucket) {
    owner[bucket] = seat_of[base.ranges()[bucket].owner];
    if (owner[bucket] == kNobody) {
      forced.push_back(bucket);
    } else {
      ++seats[owner[bucket]].owned;
    }
  }
  PlaceForced(std::move(forced), seats, owner);
  Take(buckets, seats, owner);

  Flows flows;
  for (uint32_t bucket = 0; bucket < buckets; ++bucket) {
    const uint32_t from = base.ranges()[bucket].owner;
    const uint32_t to = seats[owner[bucket]].index;
    if (from != to) flows[{from, to}].push_back(base.RangeAt(bucket));
  }
  return {{}, MovesOf(flows, members)};
}

}  // namespace

uint32_t TokensOf(const KeyspaceSpec& spec, const Node& node) {
  const uint64_t tokens = (uint64_t{spec.tokens_per_node} * node.weight_milli + 500) / 1000;
  return static_cast<uint32_t>(std::max<uint64_t>(tokens, 1));
}

absl::Status ValidatePlacementSize(const KeyspaceSpec& spec, const std::vector<Node>& nodes) {
  if (spec.placement == PlacementKind::kDirectory) return absl::OkStatus();
  uint64_t tokens = 0;
  for (const Node& node : nodes) tokens += TokensOf(spec, node);
  if (tokens <= Membership::kMaxRanges) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "tokens: {} nodes with {} tokens for weight 1 need {} tokens, over the limit of {}: lower "
      "tokens_per_node or the weights",
      nodes.size(), spec.tokens_per_node, tokens, Membership::kMaxRanges));
}

std::vector<OwnedRange> InitialRanges(const KeyspaceSpec& spec, const std::vector<Node>& nodes,
                                      Epoch epoch) {
  std::vector<Member> members;
  for (const Node& node : nodes) members.push_back(MemberOf(node));
  std::sort(members.begin(), members.end(),
            [](const Member& a, const Member& b) { return a.node->id < b.node->id; });
  switch (spec.placement) {
    case PlacementKind::kRing:
      return spec.allocator == Allocator::kDeliberate ? InitialDeliberateRing(spec, members, epoch)
                                                      : InitialRing(spec, members, epoch);
    case PlacementKind::kDirectory:
      return InitialDirectory(spec, members, epoch);
  }
  return {};
}

Reallocation Reallocate(const Membership& base, const std::vector<Node>& added,
                        const std::vector<NodeId>& removed) {
  // Members: the nodes of base by their index, then the added ones.
  std::vector<Member> members;
  for (const Node& node : base.nodes()) members.push_back(MemberOf(node));
  for (const Node& node : added) members.push_back(MemberOf(node));
  std::vector<bool> stays(members.size(), true);
  for (const NodeId& id : removed) {
    if (const std::optional<NodeIndex> index = base.FindNode(id)) stays[*index] = false;
  }
  switch (base.spec().placement) {
    case PlacementKind::kRing:
      return base.spec().allocator == Allocator::kDeliberate
                 ? ReallocateDeliberateRing(base, members, stays)
                 : ReallocateRing(base, members, stays);
    case PlacementKind::kDirectory:
      return ReallocateDirectory(base, members, stays);
  }
  return {};
}

}  // namespace warmring
