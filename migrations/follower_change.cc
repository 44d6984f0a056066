#include "migrations/follower_change.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "migrations/planner.h"

namespace warmring {
namespace {

// What a version may spend on followers, and all that an undo, which is one version, has to put
// back: together with the moves of owners, below 512 KiB.
constexpr size_t kMaxBytes = 240 * 1024;

// Bytes of a delta: those of the range and its set, and of the followers' numbers.
size_t CostOf(const CopiesAfter::Followers& followers) { return 10 + 2 * followers.after.size(); }

// What is left in each version: the waves', and the one that ends the migration.
class Versions {
 public:
  Versions(uint32_t waves, bool at_once) : waves_(waves), used_(waves + 1, 0) {
    for (uint32_t wave = 0; wave <= waves; ++wave) order_.push_back(at_once ? wave : waves - wave);
  }

  // Whether there is room for it.
  bool Take(uint32_t wave, size_t cost) {
    if (used_[wave] + cost > kMaxBytes) return false;
    if (wave < waves_ && in_waves_ + cost > kMaxBytes) return false;
    used_[wave] += cost;
    if (wave < waves_) in_waves_ += cost;
    return true;
  }

  // The wave that has room for it, if one has. REQUIRES: `cost` is the same at each call.
  std::optional<uint32_t> TakeAny(size_t cost) {
    for (; next_ < order_.size(); ++next_) {
      if (Take(order_[next_], cost)) return order_[next_];
    }
    return std::nullopt;
  }

 private:
  const uint32_t waves_;
  std::vector<size_t> used_;
  size_t in_waves_ = 0;
  std::vector<uint32_t> order_;
  size_t next_ = 0;  // in order_: those before are full
};

// The wave in which each point that moves changes its owner.
class WaveIndex {
 public:
  explicit WaveIndex(const std::vector<PlannedMove>& moves) {
    for (const PlannedMove& move : moves) {
      for (const HashRange& range : move.ranges.On(kCommonPlane).Ranges()) {
        waves_.push_back({range, move.wave});
      }
    }
    std::sort(waves_.begin(), waves_.end(),
              [](const Entry& a, const Entry& b) { return a.range.end < b.range.end; });
  }

  // REQUIRES: `point` moves.
  uint32_t WaveOf(HashPoint point) const {
    const auto at =
        std::lower_bound(waves_.begin(), waves_.end(), point,
                         [](const Entry& entry, HashPoint p) { return entry.range.end < p; });
    return (at == waves_.end() ? waves_.front() : *at).wave;
  }

 private:
  struct Entry {
    HashRange range;
    uint32_t wave;
  };
  std::vector<Entry> waves_;
};

std::vector<PutFollowers> Puts(const std::vector<FollowerChange>& changes, uint32_t first,
                               uint32_t end, std::vector<NodeId> FollowerChange::*followers) {
  std::vector<PutFollowers> puts;
  for (const FollowerChange& change : changes) {
    if (change.wave < first || change.wave >= end) continue;
    puts.push_back({change.ranges, change.*followers});
  }
  return puts;
}

}  // namespace

absl::StatusOr<std::vector<FollowerChange>> PlanFollowers(const CopiesAfter& copies,
                                                          const std::vector<PlannedMove>& moves,
                                                          uint32_t waves, bool at_once) {
  const WaveIndex index(moves);
  Versions versions(waves, at_once);
  std::vector<uint32_t> wave_of(copies.followers.size(), waves);
  bool fits = true;
  for (size_t i = 0; i < wave_of.size(); ++i) {
    const CopiesAfter::Followers& followers = copies.followers[i];
    if (followers.owner_before == followers.owner_after) continue;
    wave_of[i] = index.WaveOf(followers.range.end);
    fits = versions.Take(wave_of[i], CostOf(followers)) && fits;
  }
  for (size_t i = 0; i < wave_of.size(); ++i) {
    const CopiesAfter::Followers& followers = copies.followers[i];
    if (followers.owner_before != followers.owner_after) continue;
    const std::optional<uint32_t> wave = versions.TakeAny(CostOf(followers));
    fits = fits && wave.has_value();
    wave_of[i] = wave.value_or(waves);
  }
  if (!fits) {
    return absl::InvalidArgumentError(
        fmt::format("changes: followers of {} ranges would change, which is too much for one "
                    "migration: submit fewer changes at a time",
                    copies.followers.size()));
  }
  using Key = std::tuple<uint32_t, std::vector<NodeId>, std::vector<NodeId>>;
  std::map<Key, std::vector<HashRange>> grouped;
  for (size_t i = 0; i < wave_of.size(); ++i) {
    const CopiesAfter::Followers& followers = copies.followers[i];
    grouped[{wave_of[i], followers.before, followers.after}].push_back(followers.range);
  }
  std::vector<FollowerChange> changes;
  for (const auto& [key, ranges] : grouped) {
    changes.push_back({std::get<0>(key), HashRangeSet(ranges), std::get<1>(key), std::get<2>(key)});
  }
  return changes;
}

std::vector<PutFollowers> FollowersAfter(const std::vector<FollowerChange>& changes, uint32_t first,
                                         uint32_t end) {
  return Puts(changes, first, end, &FollowerChange::after);
}

std::vector<PutFollowers> FollowersBefore(const std::vector<FollowerChange>& changes,
                                          uint32_t first, uint32_t end) {
  return Puts(changes, first, end, &FollowerChange::before);
}

HashRangeSet FollowedUntil(const std::vector<FollowerChange>& changes, uint32_t wave,
                           const NodeId& node) {
  std::vector<HashRange> followed;
  for (const FollowerChange& change : changes) {
    const bool follows =
        std::find(change.before.begin(), change.before.end(), node) != change.before.end();
    if (change.wave != wave || !follows) continue;
    const std::vector<HashRange> ranges = change.ranges.Ranges();
    followed.insert(followed.end(), ranges.begin(), ranges.end());
  }
  return HashRangeSet(followed);
}

}  // namespace warmring
