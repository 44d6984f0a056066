#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/hash_range.h"

namespace warmring {

// How a keyspace turns a key into a point of hash space. Immutable per keyspace.
struct HashSpec {
  enum class Function : uint8_t { kXxh3 = 1 };
  Function function = Function::kXxh3;
  // Redis Cluster's rule: hash only what stands between the first '{' and the next '}', if that is
  // not empty.
  bool hash_tags = false;
  friend bool operator==(const HashSpec&, const HashSpec&) = default;
};

// The part of `key` that is hashed under the hash-tag rule.
std::string_view HashTag(std::string_view key);

// XXH3_64bits(bytes, seed 0) of the key, or of its tag when the spec says so. Any thread, total.
HashPoint HashKey(const HashSpec& spec, std::string_view key);

// Position of virtual node `index` of the node named `hash_name` on a ring:
// XXH3_64(hash_name, 0x00, little-endian 32-bit index). The separator and the fixed width keep
// ("host:1", 11) and ("host:11", 1) apart.
HashPoint DeriveToken(std::string_view hash_name, uint32_t index);

// XXH3_64(id): the order in which nodes take turns wherever order must not depend on names.
uint64_t NodeOrderKey(std::string_view id);

// Order key of bucket `bucket` for the node `id` at replica rank `rank`.
uint64_t BucketOrderKey(uint64_t bucket, std::string_view id, uint32_t rank);

}  // namespace warmring
