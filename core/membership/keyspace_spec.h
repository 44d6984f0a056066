#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "core/base/ids.h"
#include "core/hashing/key_hash.h"
#include "core/membership/failure_domain.h"

namespace warmring {

enum class PlacementKind : uint8_t { kRing = 1, kDirectory = 2 };

// How the ranges of a placement find their owners, where its standard way is not wanted.
//   kStandard    directory: bucket take; ring: tokens derived from names.
//   kRendezvous  directory: highest random weight, which needs no history.
//   kDeliberate  ring: tokens chosen for balance, few a node.
enum class Allocator : uint8_t { kStandard = 0, kRendezvous = 1, kDeliberate = 2 };

// What a new incarnation of an owner with a non-empty dataset does before its first lease.
enum class OnRestart : uint8_t { kPurge = 1, kTrust = 2 };

// What a keyspace is. Immutable after creation, part of every membership.
struct KeyspaceSpec {
  static constexpr uint32_t kMinDirectoryBits = 10;
  static constexpr uint32_t kMaxDirectoryBits = 20;
  static constexpr uint32_t kDefaultDirectoryBits = 14;
  static constexpr uint32_t kDefaultTokensPerNode = 160;
  static constexpr uint32_t kMaxTokensPerNode = 4096;
  static constexpr uint32_t kMaxReplication = 16;
  static constexpr uint32_t kMaxGraceMs = 24 * 3600 * 1000;  // a day

  KeyspaceId id;
  PlacementKind placement = PlacementKind::kDirectory;
  Allocator allocator = Allocator::kStandard;
  uint32_t directory_bits = kDefaultDirectoryBits;   // directory only: 2^bits buckets
  uint32_t tokens_per_node = kDefaultTokensPerNode;  // ring only, for weight 1.0
  HashSpec hash;
  uint32_t replication = 1;
  DomainRule domains;  // of the copies of a range
  OnRestart on_restart = OnRestart::kPurge;
  // Origin fills that all clients together may do per second; 0 = unlimited. Clients divide it by
  // the number of live clients that the watch tells them.
  uint32_t origin_fill_qps = 0;
  // How long after a commit a miss at the new owner may be read from the previous one.
  uint32_t grace_ms = 60'000;

  friend bool operator==(const KeyspaceSpec&, const KeyspaceSpec&) = default;
};

// Ok, or InvalidArgument naming the field, the value and the bound.
absl::Status ValidateKeyspaceSpec(const KeyspaceSpec& spec);

}  // namespace warmring
