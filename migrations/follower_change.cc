#include "migrations/follower_change.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "migrations/planner.h"

namespace warmring {
namespace {

// Some eleven bytes each: with a wave's moves, well below 512 KiB.
constexpr size_t kMaxRangesPerVersion = 16'384;

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
  std::vector<uint32_t> wave_of(copies.followers.size(), waves);
  std::vector<size_t> count(waves + 1, 0);
  for (size_t i = 0; i < wave_of.size(); ++i) {
    const CopiesAfter::Followers& followers = copies.followers[i];
    if (followers.owner_before == followers.owner_after) continue;
    wave_of[i] = index.WaveOf(followers.range.end);
    ++count[wave_of[i]];
  }
  std::vector<uint32_t> order;
  for (uint32_t wave = 0; wave <= waves; ++wave) order.push_back(at_once ? wave : waves - wave);
  size_t version = 0;
  for (size_t i = 0; i < wave_of.size(); ++i) {
    const CopiesAfter::Followers& followers = copies.followers[i];
    if (followers.owner_before != followers.owner_after) continue;
    while (version < order.size() && count[order[version]] >= kMaxRangesPerVersion) ++version;
    if (version == order.size()) {
      return absl::InvalidArgumentError(
          fmt::format("changes: followers of {} ranges would change, and {} versions can change "
                      "those of {} each: use more commit steps, or plans that change less",
                      copies.followers.size(), order.size(), kMaxRangesPerVersion));
    }
    wave_of[i] = order[version];
    ++count[order[version]];
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
