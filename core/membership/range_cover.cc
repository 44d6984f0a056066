#include "core/membership/range_cover.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace warmring {
namespace {

absl::Status NoBoundary(const HashRange& range, HashPoint point) {
  return absl::InvalidArgumentError(
      fmt::format("{} is not made of whole ranges: no range ends at {:016x}; split there first",
                  range.ToString(), point));
}

}  // namespace

size_t RangeEndingAt(const std::vector<OwnedRange>& ranges, HashPoint end) {
  auto it = std::lower_bound(ranges.begin(), ranges.end(), end,
                             [](const OwnedRange& r, HashPoint p) { return r.end < p; });
  if (it == ranges.end() || it->end != end) return ranges.size();
  return static_cast<size_t>(it - ranges.begin());
}

absl::StatusOr<std::vector<size_t>> CoveredRanges(const std::vector<OwnedRange>& ranges,
                                                  const HashRangeSet& set) {
  std::vector<size_t> covered;
  for (const HashRange& run : set.Ranges()) {
    if (run.plane != kCommonPlane) {
      return absl::InvalidArgumentError(fmt::format(
          "{} is on the plane of an override, which is given as a whole", run.ToString()));
    }
    if (run == HashRange::Whole()) {
      // The whole space has no boundary of its own, so that it need not be the end of a range.
      covered.resize(ranges.size());
      std::iota(covered.begin(), covered.end(), size_t{0});
      return covered;
    }
    const size_t before = RangeEndingAt(ranges, run.start);
    if (before == ranges.size()) return NoBoundary(run, run.start);
    const size_t last = RangeEndingAt(ranges, run.end);
    if (last == ranges.size()) return NoBoundary(run, run.end);
    for (size_t i = before; i != last;) {
      i = i + 1 == ranges.size() ? 0 : i + 1;
      covered.push_back(i);
    }
  }
  return covered;
}

}  // namespace warmring
