#include "core/membership/row_changes.h"

#include <algorithm>
#include <span>

namespace warmring {
namespace {

// Beyond this part of the ranges, compiling all of them costs less than looking at each.
constexpr size_t kMaxPart = 4;

std::span<const NodeIndex> FollowersAt(const MembershipData& data, size_t range) {
  const size_t count = data.spec.replication - 1;
  return std::span<const NodeIndex>(data.followers).subspan(range * count, count);
}

// What Membership::Create checks of each range, but for its end.
bool IsValid(const MembershipData& data, size_t index) {
  const OwnedRange& range = data.ranges[index];
  if (range.owner >= data.nodes.size() || range.epoch == Epoch()) return false;
  const auto followers = FollowersAt(data, index);
  for (size_t i = 0; i < followers.size(); ++i) {
    if (followers[i] == kNoNode) continue;
    const auto before = followers.first(i);
    if (followers[i] >= data.nodes.size() || followers[i] == range.owner ||
        std::find(before.begin(), before.end(), followers[i]) != before.end()) {
      return false;
    }
  }
  return true;
}

bool SameEnds(const std::vector<OwnedRange>& a, const std::vector<OwnedRange>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const OwnedRange& x, const OwnedRange& y) { return x.end == y.end; });
}

}  // namespace

RowChanges RowChangesOf(const MembershipData& before, const MembershipData& after) {
  const bool comparable = after.version != Version() && before.spec == after.spec &&
                          before.followers.size() == after.followers.size() &&
                          before.nodes == after.nodes;
  if (!comparable) return {SameEnds(before.ranges, after.ranges), std::nullopt};
  if (before.ranges.size() != after.ranges.size()) return {};
  const size_t size = after.ranges.size();
  std::vector<uint32_t> rows;
  for (size_t i = 0; i < size; ++i) {
    const OwnedRange& was = before.ranges[i];
    const OwnedRange& is = after.ranges[i];
    if (was.end != is.end) return {};
    if (was.owner != is.owner || was.epoch != is.epoch) rows.push_back(static_cast<uint32_t>(i));
  }
  if (before.followers != after.followers) {
    const size_t owners = rows.size();
    for (size_t i = 0; i < size; ++i) {
      const auto was = FollowersAt(before, i);
      const auto is = FollowersAt(after, i);
      if (!std::equal(was.begin(), was.end(), is.begin())) rows.push_back(static_cast<uint32_t>(i));
    }
    std::inplace_merge(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(owners),
                       rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  }
  const bool few = rows.size() <= size / kMaxPart;
  if (!few ||
      !std::all_of(rows.begin(), rows.end(), [&](uint32_t row) { return IsValid(after, row); })) {
    return {true, std::nullopt};
  }
  return {true, std::move(rows)};
}

}  // namespace warmring
