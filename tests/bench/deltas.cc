#include "tests/bench/deltas.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "absl/status/statusor.h"
#include "core/membership/membership.h"
#include "core/membership/update.h"
#include "core/placement/initial.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/names.h"

namespace warmring::bench {
namespace {

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  fmt::print(stderr, "placement_bench: {}\n", value.status().ToString());
  std::abort();
}

struct Fleet {
  std::string name;
  PlacementKind placement;
  uint32_t nodes;
  uint32_t tokens_or_bits;
  uint32_t replicas;
};

Membership::Ptr MakeMembership(const Fleet& fleet) {
  MembershipData data;
  data.version = Version(1);
  data.spec.id = "bench";
  data.spec.placement = fleet.placement;
  data.spec.replication = fleet.replicas;
  (fleet.placement == PlacementKind::kRing ? data.spec.tokens_per_node : data.spec.directory_bits) =
      fleet.tokens_or_bits;
  data.nodes = MakeNodes(fleet.nodes);
  InitialPlacement placement = Must(PlaceInitially(data.spec, data.nodes, Epoch(1)));
  data.ranges = std::move(placement.ranges);
  data.followers = std::move(placement.followers);
  return Must(Membership::Create(std::move(data)));
}

// Up to `count` ranges of one node that another does not follow, apart from each other.
struct Wave {
  NodeId from;
  NodeId to;
  HashRangeSet ranges;
};
Wave WaveOf(const Membership& membership, size_t count) {
  const NodeIndex to = 1;
  std::vector<HashRange> ranges;
  for (size_t i = 0; i < membership.ranges().size() && ranges.size() < count; ++i) {
    const auto followers = membership.FollowersAt(i);
    if (membership.ranges()[i].owner != 0) continue;
    if (std::find(followers.begin(), followers.end(), to) != followers.end()) continue;
    ranges.push_back(membership.RangeAt(i));
  }
  return {membership.nodes()[0].id, membership.nodes()[to].id, HashRangeSet(ranges)};
}

DeltaCost Measure(const Fleet& fleet, const std::string& change, const Membership& base,
                  Update update, int repetitions) {
  const Membership::Ptr next = Must(Apply(base, update));
  const Delta delta = {base.history(), base.version(), next->version(), std::move(update),
                       next->digest()};
  std::vector<double> applied;
  std::vector<double> rebuilt;
  for (int i = 0; i < repetitions; ++i) {
    const double begin = CpuSeconds();
    Membership::Ptr result = Must(ApplyDelta(base, delta));
    applied.push_back(CpuSeconds() - begin);
    result.reset();
    const double again = CpuSeconds();
    result = Must(Membership::Create(next->data()));
    rebuilt.push_back(CpuSeconds() - again);
  }
  const auto median = [](std::vector<double>& times) {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  };
  return {fleet.name, change, base.ranges().size(), median(applied), median(rebuilt)};
}

}  // namespace

std::vector<DeltaCost> MeasureDeltas(bool quick) {
  std::vector<Fleet> fleets = {
      {"directory P=16", PlacementKind::kDirectory, 100, 16, 1},
      {"directory P=16 R=3", PlacementKind::kDirectory, 100, 16, 3},
      {"directory P=20", PlacementKind::kDirectory, 100, 20, 1},
      {"ring 1000 x 160", PlacementKind::kRing, 1000, 160, 1},
      {"ring 10000 x 256", PlacementKind::kRing, 10'000, 256, 1},
  };
  if (quick) fleets = {{"ring 100 x 16", PlacementKind::kRing, 100, 16, 3}};
  const int repetitions = quick ? 1 : 7;
  std::vector<DeltaCost> costs;
  for (const Fleet& fleet : fleets) {
    const Membership::Ptr base = MakeMembership(fleet);
    const Wave wave = WaveOf(*base, 64);
    Update warm;
    warm.put_moves = {{"m1", 0, wave.from, wave.to, MovePhase::kWarming, wave.ranges}};
    costs.push_back(Measure(fleet, "warming begins", *base, warm, repetitions));
    const Membership::Ptr warming = Must(Apply(*base, warm));
    Update hand_over;
    hand_over.assignments = {{wave.ranges, wave.to, Epoch(2)}};
    hand_over.put_moves = {{"m1", 0, wave.from, wave.to, MovePhase::kGrace, wave.ranges}};
    costs.push_back(Measure(fleet, "ownership moves", *warming, hand_over, repetitions));
  }
  return costs;
}

}  // namespace warmring::bench
