#pragma once

#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/membership/membership.h"

// Memberships for the tests of this folder.

namespace warmring {

inline Node SampleNode(const std::string& id) {
  Node node;
  node.id = id;
  node.address = id + ":6379";
  return node;
}

// A ring whose ranges are given as (end, owner, epoch); the nodes must be sorted.
inline MembershipData SampleRing(const std::vector<std::string>& nodes,
                                 std::vector<OwnedRange> ranges) {
  MembershipData data;
  data.history.high = 0xa1b2c3d400000000;
  data.history.low = 7;
  data.version = Version(41);
  data.spec.id = "sessions";
  data.spec.placement = PlacementKind::kRing;
  for (const std::string& id : nodes) data.nodes.push_back(SampleNode(id));
  data.ranges = std::move(ranges);
  return data;
}

// A directory whose bucket i belongs to node i modulo the number of nodes, under epoch 1.
inline MembershipData SampleDirectory(uint32_t bits, const std::vector<std::string>& nodes) {
  MembershipData data = SampleRing(nodes, {});
  data.spec.placement = PlacementKind::kDirectory;
  data.spec.directory_bits = bits;
  for (uint64_t i = 0; i < uint64_t{1} << bits; ++i) {
    data.ranges.push_back({BucketEnd(bits, i), static_cast<NodeIndex>(i % nodes.size()), Epoch(1)});
  }
  return data;
}

// Names sort as numbers do: n0000, n0001, ...
inline std::vector<std::string> SampleNames(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    names.push_back("n" + std::string(4 - number.size(), '0') + number);
  }
  return names;
}

// A ring of `ranges` random ends with random owners and epochs up to 5.
inline MembershipData RandomRing(std::mt19937_64& random, size_t nodes, size_t ranges) {
  std::set<HashPoint> ends;
  while (ends.size() < ranges) ends.insert(random());
  std::vector<OwnedRange> owned;
  for (const HashPoint end : ends) {
    owned.push_back({end, static_cast<NodeIndex>(random() % nodes), Epoch(random() % 5 + 1)});
  }
  return SampleRing(SampleNames(nodes), std::move(owned));
}

inline Move SampleMove(const std::string& migration, uint32_t wave, const std::string& from,
                       const std::string& to, MovePhase phase, HashRangeSet ranges) {
  return {migration, wave, from, to, phase, std::move(ranges)};
}

}  // namespace warmring
