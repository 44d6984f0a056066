#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/membership/membership.h"
#include "core/membership/update.h"

// Small memberships for tests: a directory of 1,024 buckets, shared out in
// turn.

namespace warmring::client_testing {

inline constexpr char kKeyspace[] = "sessions";

inline HistoryId History(uint64_t n = 1) { return HistoryId{{n << 32, 7}}; }

inline Node MakeNode(std::string id, std::string address) {
  Node node;
  node.id = std::move(id);
  node.address = std::move(address);
  return node;
}

// Bucket b belongs to nodes[b % size] under epoch 1. REQUIRES: `nodes` sorted
// by id.
inline MembershipData MakeData(std::vector<Node> nodes, Version version = Version(1),
                               HistoryId history = History()) {
  MembershipData data;
  data.history = history;
  data.version = version;
  data.spec.id = kKeyspace;
  data.spec.directory_bits = KeyspaceSpec::kMinDirectoryBits;
  data.nodes = std::move(nodes);
  const uint64_t buckets = uint64_t{1} << data.spec.directory_bits;
  for (uint64_t bucket = 0; bucket < buckets; ++bucket) {
    OwnedRange range;
    range.end = ((bucket + 1) << (64 - data.spec.directory_bits)) - 1;
    range.owner = static_cast<NodeIndex>(bucket % data.nodes.size());
    range.epoch = Epoch(1);
    data.ranges.push_back(range);
  }
  return data;
}

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "test data: %s\n", value.status().ToString().c_str());
  std::abort();
}

inline Membership::Ptr MakeMembership(std::vector<Node> nodes, Version version = Version(1),
                                      HistoryId history = History()) {
  return Must(Membership::Create(MakeData(std::move(nodes), version, history)));
}

inline std::vector<Node> TwoNodes() {
  return {MakeNode("a", "127.0.0.1:7001"), MakeNode("b", "127.0.0.1:7002")};
}

// The delta that leads from `base` to what `update` makes of it.
inline Delta MakeDelta(const Membership& base, Update update) {
  const Membership::Ptr next = Must(Apply(base, update));
  Delta delta;
  delta.history = base.history();
  delta.from = base.version();
  delta.to = next->version();
  delta.update = std::move(update);
  delta.digest = next->digest();
  return delta;
}

// The range of `membership` that holds `key`.
inline HashRangeSet RangeOfKey(const Membership& membership, std::string_view key) {
  const HashPoint point = HashKey(membership.spec().hash, key);
  return HashRangeSet({membership.RangeAt(membership.RangeIndexOf(point))});
}

// A next version in which nothing moved.
inline Membership::Ptr NextVersion(const Membership& base) { return Must(Apply(base, Update{})); }

// `key`'s range is being warmed at `to`.
inline Membership::Ptr WithPending(const Membership& base, std::string_view key, const NodeId& from,
                                   const NodeId& to) {
  Update update;
  update.put_moves.push_back({"m1", 0, from, to, MovePhase::kWarming, RangeOfKey(base, key)});
  return Must(Apply(base, update));
}

// `key`'s range has gone from `from` to `to` under `epoch`, and is in grace.
inline Membership::Ptr WithGrace(const Membership& base, std::string_view key, const NodeId& from,
                                 const NodeId& to, Epoch epoch) {
  Update update;
  update.assignments.push_back({RangeOfKey(base, key), to, epoch});
  update.put_moves.push_back({"m1", 0, from, to, MovePhase::kGrace, RangeOfKey(base, key)});
  return Must(Apply(base, update));
}

// `key`'s range belongs to `to` under `epoch`, without a move.
inline Membership::Ptr WithOwner(const Membership& base, std::string_view key, const NodeId& to,
                                 Epoch epoch) {
  Update update;
  update.assignments.push_back({RangeOfKey(base, key), to, epoch});
  return Must(Apply(base, update));
}

// A key whose owner in `membership` is `node`.
inline std::string KeyOwnedBy(const Membership& membership, std::string_view node,
                              std::string_view prefix = "k") {
  for (uint64_t i = 0;; ++i) {
    std::string key = std::string(prefix) + std::to_string(i);
    if (membership.nodes()[RouteKey(membership, key).owner].id == node) return key;
  }
}

}  // namespace warmring::client_testing
