#include "server/service/explicit_placement.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/base/reason.h"
#include "core/base/status_macros.h"

namespace warmring {
namespace {

constexpr Epoch kFirstEpoch(1);

absl::Status BadField(std::string message) {
  return WithReason(absl::InvalidArgumentError(std::move(message)), "BAD_FIELD");
}

absl::Status CheckEnds(const v1::ExplicitPlacement& placement) {
  if (placement.range_ends().empty()) {
    return BadField("placement.range_ends: none is given: a ring needs the end of each range");
  }
  if (static_cast<size_t>(placement.range_ends_size()) > Membership::kMaxRanges) {
    return BadField(fmt::format("placement.range_ends: {} are over the limit of {}",
                                placement.range_ends_size(), Membership::kMaxRanges));
  }
  for (int i = 1; i < placement.range_ends_size(); ++i) {
    if (placement.range_ends(i) > placement.range_ends(i - 1)) continue;
    return BadField(fmt::format(
        "placement.range_ends[{}]: {:016x} does not follow {:016x}: sort them, each once", i,
        placement.range_ends(i), placement.range_ends(i - 1)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<OwnedRange>> RangesOfPlacement(const KeyspaceSpec& spec,
                                                          size_t node_count,
                                                          const v1::ExplicitPlacement& placement) {
  const bool directory = spec.placement == PlacementKind::kDirectory;
  const auto owners = static_cast<size_t>(placement.range_owners_size());
  if (directory) {
    if (!placement.range_ends().empty()) {
      return BadField(fmt::format(
          "placement.range_ends: {} for a directory, whose ends are uniform: leave it empty",
          placement.range_ends_size()));
    }
    if (owners != size_t{1} << spec.directory_bits) {
      return BadField(
          fmt::format("placement.range_owners: {} for the 2^{} buckets of the directory: give {}",
                      owners, spec.directory_bits, size_t{1} << spec.directory_bits));
    }
  } else {
    RETURN_IF_ERROR(CheckEnds(placement));
    if (owners != static_cast<size_t>(placement.range_ends_size())) {
      return BadField(
          fmt::format("placement.range_owners: {} for {} range_ends: each range needs one", owners,
                      placement.range_ends_size()));
    }
  }
  std::vector<OwnedRange> ranges(owners);
  for (size_t i = 0; i < owners; ++i) {
    const auto at = static_cast<int>(i);
    const uint32_t owner = placement.range_owners(at);
    if (owner >= node_count) {
      return BadField(
          fmt::format("placement.range_owners[{}]: {} is no node: {} are given, counted from 0", i,
                      owner, node_count));
    }
    const HashPoint end = directory ? BucketEnd(spec.directory_bits, i) : placement.range_ends(at);
    ranges[i] = {end, owner, kFirstEpoch};
  }
  return ranges;
}

}  // namespace warmring
