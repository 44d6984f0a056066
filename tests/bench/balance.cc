#include "tests/bench/balance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <utility>

#include "core/membership/membership.h"
#include "core/placement/allocator.h"
#include "tests/bench/names.h"
#include "tests/bench/peers.h"
#include "tests/bench/stopwatch.h"

namespace warmring::bench {
namespace {

const double kWholeSpace = std::ldexp(1.0, 64);

KeyspaceSpec SpecOf(PlacementKind placement, uint32_t bits, uint32_t tokens) {
  KeyspaceSpec spec;
  spec.id = "bench";
  spec.placement = placement;
  spec.directory_bits = bits;
  spec.tokens_per_node = tokens;
  return spec;
}

std::vector<double> Shares(const std::vector<OwnedRange>& ranges, uint32_t nodes) {
  std::vector<double> shares(nodes, 0);
  for (size_t i = 0; i < ranges.size(); ++i) {
    const HashPoint before = ranges[i == 0 ? ranges.size() - 1 : i - 1].end;
    const double points = static_cast<double>(HashRange{before, ranges[i].end}.SizeMinusOne()) + 1;
    shares[ranges[i].owner] += points / kWholeSpace;
  }
  return shares;
}

double MaxOverMean(const std::vector<double>& shares) {
  return *std::max_element(shares.begin(), shares.end()) * static_cast<double>(shares.size());
}

Membership::Ptr Must(absl::StatusOr<Membership::Ptr> membership) {
  if (!membership.ok()) {
    fmt::print(stderr, "placement_bench: {}\n", membership.status().ToString());
    std::abort();
  }
  return *std::move(membership);
}

}  // namespace

BalanceRow GrowDirectory(uint32_t bits, uint32_t nodes) {
  BalanceRow row{fmt::format("directory P={}", bits), nodes, 1, 1, 0, std::nullopt};
  MembershipData data;
  data.version = Version(1);
  data.spec = SpecOf(PlacementKind::kDirectory, bits, 0);
  data.spec.tokens_per_node = KeyspaceSpec::kDefaultTokensPerNode;
  data.nodes = MakeNodes(1);
  data.ranges = InitialRanges(data.spec, data.nodes, Epoch(1));
  for (uint32_t count = 2; count <= nodes; ++count) {
    const Node joins = MakeNode(count - 1);
    const Reallocation change = Reallocate(*Must(Membership::Create(data)), {joins}, {});
    data.nodes.push_back(joins);
    data.version = data.version.Next();
    uint64_t moved = 0;
    for (const RangeMove& move : change.moves) {
      for (const HashRange& range : move.ranges.Ranges()) {
        const uint64_t size = (range.SizeMinusOne() >> (64 - bits)) + 1;
        const uint64_t first = (range.start + 1) >> (64 - bits);
        for (uint64_t i = first; i < first + size; ++i) {
          data.ranges[i % data.ranges.size()].owner = count - 1;
        }
        moved += size;
      }
    }
    row.max_mean = MaxOverMean(Shares(data.ranges, count));
    row.worst_max_mean = std::max(row.worst_max_mean, row.max_mean);
    row.worst_movement = std::max(row.worst_movement, static_cast<double>(moved) * count /
                                                          static_cast<double>(data.ranges.size()));
  }
  return row;
}

BalanceRow GrowRing(uint32_t tokens, uint32_t nodes) {
  BalanceRow row{fmt::format("random tokens V={}", tokens), nodes, 1, 1, 0, std::nullopt};
  const KeyspaceSpec spec =
      SpecOf(PlacementKind::kRing, KeyspaceSpec::kDefaultDirectoryBits, tokens);
  for (uint32_t count = 2; count <= nodes; ++count) {
    const std::vector<double> shares =
        Shares(InitialRanges(spec, MakeNodes(count), Epoch(1)), count);
    row.max_mean = MaxOverMean(shares);
    row.worst_max_mean = std::max(row.worst_max_mean, row.max_mean);
    // A node that joins takes its share, and nothing else moves.
    row.worst_movement = std::max(row.worst_movement, shares.back() * count);
  }
  return row;
}

BalanceRow GrowKetama(uint32_t nodes, uint32_t samples) {
  BalanceRow row{"libmemcached ketama", nodes, 1, 1, 0, std::nullopt};
  const auto owners = [samples](uint32_t count) {
    const Ketama ketama(count);
    std::vector<uint32_t> result;
    for (uint32_t i = 0; i < samples; ++i) result.push_back(ketama.Find(Key(i).View()));
    return result;
  };
  for (const uint32_t after : {2U, 3U, 5U, 10U, 20U, 50U, 100U}) {
    if (after > nodes || after > Ketama::kMaxNodes) break;
    const std::vector<uint32_t> before = owners(after - 1);
    const std::vector<uint32_t> now = owners(after);
    std::vector<double> shares(after, 0);
    double moved = 0;
    for (uint32_t i = 0; i < samples; ++i) {
      shares[now[i]] += 1.0 / samples;
      if (now[i] != before[i]) moved += 1.0 / samples;
    }
    row.nodes = after;
    row.max_mean = MaxOverMean(shares);
    row.worst_max_mean = std::max(row.worst_max_mean, row.max_mean);
    row.worst_movement = std::max(row.worst_movement, moved * after);
  }
  return row;
}

}  // namespace warmring::bench
