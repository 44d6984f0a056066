#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "client/import/fleet.h"
#include "core/hashing/md5.h"
#include "core/membership/membership.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

// What the tests of the importers share: an adopted fleet as clients would see it.

namespace warmring {

// The membership that a server makes of `fleet`; checks its invariants too.
inline Membership::Ptr MembershipOf(const Fleet& fleet) {
  MembershipData data;
  data.version = Version(1);
  data.spec.id = "adopted";
  data.spec.placement = fleet.placement;
  data.spec.directory_bits = fleet.directory_bits;
  data.spec.tokens_per_node = fleet.tokens_per_node;
  data.spec.hash = fleet.hash;
  data.nodes = fleet.nodes;
  data.ranges = fleet.ranges;
  std::vector<NodeIndex> order(fleet.nodes.size());
  for (NodeIndex i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](NodeIndex a, NodeIndex b) { return fleet.nodes[a].id < fleet.nodes[b].id; });
  std::vector<NodeIndex> place(order.size());
  for (NodeIndex i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    data.nodes[i] = fleet.nodes[order[i]];
  }
  for (OwnedRange& range : data.ranges) range.owner = place[range.owner];
  absl::StatusOr<Membership::Ptr> membership = Membership::Create(std::move(data));
  EXPECT_OK(membership);
  return membership.ok() ? *membership : nullptr;
}

inline const Node& OwnerOf(const Membership& membership, std::string_view key) {
  return membership.nodes()[RouteKey(membership, key).owner];
}

// "key-0", "key-1", ...
inline std::vector<std::string> NumberedKeys(int count) {
  std::vector<std::string> keys;
  for (int i = 0; i < count; ++i) keys.push_back(fmt::format("key-{}", i));
  return keys;
}

// MD5, in hex, of the owners' names by `name_of`, a newline between two: thousands of routes of
// another implementation as one value.
template <typename NameOf>
std::string RoutesDigest(const Fleet& fleet, const std::vector<std::string>& keys, NameOf name_of) {
  const Membership::Ptr membership = MembershipOf(fleet);
  if (membership == nullptr) return "";
  std::string names;
  for (const std::string& key : keys) {
    if (!names.empty()) names += '\n';
    names += name_of(OwnerOf(*membership, key));
  }
  std::string hex;
  for (const uint8_t byte : Md5(names)) hex += fmt::format("{:02x}", byte);
  return hex;
}

// That each beginning of `text` is refused, or is a smaller fleet that CheckSize refuses once it is
// told how large the whole is.
template <typename Parse>
void ExpectCutTextIsSeen(std::string_view text, Parse parse) {
  ASSERT_OK_AND_ASSIGN(const Fleet whole, parse(text));
  const FleetSize size{whole.nodes.size(), whole.ranges.size()};
  ASSERT_OK(CheckSize(whole, size));
  for (size_t length = 0; length < text.size(); ++length) {
    // A copy of its own, so that a read past the end is seen.
    const std::string beginning(text.substr(0, length));
    const absl::StatusOr<Fleet> fleet = parse(beginning);
    if (!fleet.ok()) {
      EXPECT_EQ(fleet.status().code(), absl::StatusCode::kInvalidArgument) << fleet.status();
      continue;
    }
    // What follows may be nothing but comments and blanks.
    if (fleet->ranges == whole.ranges && fleet->nodes == whole.nodes) continue;
    EXPECT_FALSE(CheckSize(*fleet, size).ok()) << "cut at " << length;
    EXPECT_LT(fleet->ranges.size(), whole.ranges.size()) << "cut at " << length;
  }
}

// Bytes of `text` changed at random: any answer is good, a crash is none.
template <typename Parse>
void ExpectNoiseIsSurvived(std::string_view text, Parse parse) {
  uint64_t state = 0x9e3779b97f4a7c15;
  const auto random = [&state] {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
  };
  for (int round = 0; round < 3000; ++round) {
    std::string noisy(text);
    for (uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
      noisy[random() % noisy.size()] = static_cast<char>(random());
    }
    const absl::StatusOr<Fleet> fleet = parse(noisy);
    if (!fleet.ok()) continue;
    EXPECT_NE(MembershipOf(*fleet), nullptr) << noisy;
  }
}

}  // namespace warmring
