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
#include "core/placement/directory.h"
#include "core/placement/directory_allocator.h"
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

Directory Must(absl::StatusOr<Directory> directory) {
  if (!directory.ok()) {
    fmt::print(stderr, "placement_bench: {}\n", directory.status().ToString());
    std::abort();
  }
  return *std::move(directory);
}

double WorstBalance(const Directory& directory) {
  double worst = 0;
  const std::optional<uint32_t> all;
  const std::optional<uint32_t> primaries(0);
  for (const std::optional<uint32_t>& rank : {all, primaries}) {
    const Ratio max = BalanceOf(directory, rank).max;
    worst =
        std::max(worst, static_cast<double>(max.numerator) / static_cast<double>(max.denominator));
  }
  return worst;
}

}  // namespace

BalanceRow GrowDirectory(const DirectoryCase& wanted) {
  std::string name = fmt::format("directory P={}", wanted.bits);
  if (wanted.ranks > 1) name += fmt::format(" R={}", wanted.ranks);
  if (wanted.zones > 0) name += fmt::format(", {} zones", wanted.zones);
  BalanceRow row{name, wanted.nodes, 1, 1, 0, std::nullopt};
  const auto node = [&wanted](uint32_t i) {
    DirectoryNode result;
    result.id = NodeName(i);
    if (wanted.zones > 0) result.domain = fmt::format("zone-{}", i % wanted.zones);
    return result;
  };
  std::vector<DirectoryNode> nodes;
  while (nodes.size() < wanted.ranks) nodes.push_back(node(static_cast<uint32_t>(nodes.size())));
  const DirectoryShape shape{wanted.bits, wanted.ranks, true};
  Directory directory = Must(Allocate(shape, nodes));
  uint64_t violations = CountViolations(directory);
  while (nodes.size() < wanted.nodes) {
    nodes.push_back(node(static_cast<uint32_t>(nodes.size())));
    Directory next = Must(Reallocate(directory, nodes));
    const double ideal = static_cast<double>(shape.slots()) / static_cast<double>(nodes.size());
    const auto moved = static_cast<double>(MovementBetween(directory, next).moved_slots);
    directory = std::move(next);
    row.max_mean = WorstBalance(directory);
    row.worst_max_mean = std::max(row.worst_max_mean, row.max_mean);
    row.worst_movement = std::max(row.worst_movement, moved / ideal);
    violations += CountViolations(directory);
  }
  if (wanted.ranks > 1) row.violations = violations;
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
