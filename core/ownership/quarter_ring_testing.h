#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/membership/membership.h"
#include "gtest/gtest.h"

namespace warmring {

// A keyspace for tests: a ring of four equal ranges over the nodes a (0), b (1) and c (2), in which
// every owner and epoch is written out.
inline constexpr HistoryId kQuarterHistory{{0xa1b2c3d4'00000001, 2}};

inline HashRange Quarter(uint64_t i) {
  constexpr uint64_t kSize = uint64_t{1} << 62;
  return {i * kSize - 1, (i + 1) * kSize - 1};
}
// A point inside it.
inline HashPoint In(uint64_t i) { return Quarter(i).end - 7; }

struct QuarterOwner {
  NodeIndex node = 0;
  uint64_t epoch = 0;
};

inline MembershipData QuarterData(uint64_t version, const std::array<QuarterOwner, 4>& owners) {
  MembershipData data;
  data.history = kQuarterHistory;
  data.version = Version(version);
  data.spec.id = "cache";
  data.spec.placement = PlacementKind::kRing;
  for (const char* id : {"a", "b", "c"}) {
    Node node;
    node.id = id;
    node.address = std::string("host-") + id + ":6379";
    data.nodes.push_back(std::move(node));
  }
  for (uint64_t i = 0; i < 4; ++i) {
    data.ranges.push_back({Quarter(i).end, owners[i].node, Epoch(owners[i].epoch)});
  }
  return data;
}

inline Membership::Ptr MustCreate(MembershipData data) {
  absl::StatusOr<Membership::Ptr> membership = Membership::Create(std::move(data));
  EXPECT_TRUE(membership.ok()) << membership.status().ToString();
  return *membership;
}

inline Membership::Ptr QuarterMap(uint64_t version, const std::array<QuarterOwner, 4>& owners,
                                  std::vector<Move> moves = {}) {
  MembershipData data = QuarterData(version, owners);
  data.moves = std::move(moves);
  return MustCreate(std::move(data));
}

}  // namespace warmring
