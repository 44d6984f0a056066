#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/hash_range.h"

namespace warmring {

// How a keyspace turns a key into a point of hash space. Immutable per keyspace.
struct HashSpec {
  // The first is our own; the others are those of fleets that are adopted as they stand.
  enum class Function : uint8_t {
    kXxh3 = 1,     // XXH3_64bits, seed 0
    kXxh64 = 2,    // XXH64, seed 0: ring_hash of Envoy and gRPC
    kMurmur3 = 3,  // Cassandra's token, moved to unsigned order: token ^ 2^63
    kKetama = 4,   // the first four bytes of MD5, little-endian, as the upper 32 bits
    kCrc16 = 5,    // Redis Cluster's slot as the upper 14 bits; always of the hash tag
  };
  Function function = Function::kXxh3;
  // Redis Cluster's rule: hash only what stands between the first '{' and the next '}', if that is
  // not empty.
  bool hash_tags = false;
  friend bool operator==(const HashSpec&, const HashSpec&) = default;
};

// The part of `key` that is hashed under the hash-tag rule.
std::string_view HashTag(std::string_view key);

// The spec's function of the key, or of its tag when the spec says so. Any thread, total: of an
// unknown function it makes the default one, so that a spec must be validated where it comes from.
HashPoint HashKey(const HashSpec& spec, std::string_view key);

// Where Cassandra's `token` stands in hash space.
HashPoint PointOfToken(int64_t token);

// The first point of slot `slot` of Redis Cluster. REQUIRES: slot < kRedisSlots.
inline constexpr uint32_t kRedisSlotBits = 14;
inline constexpr uint32_t kRedisSlots = 1u << kRedisSlotBits;
HashPoint PointOfSlot(uint32_t slot);

// Where a 32-bit value of a ketama ring stands in hash space.
HashPoint PointOfKetama(uint32_t value);

// Position of virtual node `index` of the node named `hash_name` on a ring:
// XXH3_64(hash_name, 0x00, little-endian 32-bit index). The separator and the fixed width keep
// ("host:1", 11) and ("host:11", 1) apart.
HashPoint DeriveToken(std::string_view hash_name, uint32_t index);

// XXH3_64(id): the order in which nodes take turns wherever order must not depend on names.
uint64_t NodeOrderKey(std::string_view id);

// Order key of bucket `bucket` for the node `id` at replica rank `rank`.
uint64_t BucketOrderKey(uint64_t bucket, std::string_view id, uint32_t rank);

}  // namespace warmring
