#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "client/import/fleet.h"

namespace warmring {

// The ring of a file that lists its tokens. Pure.
//
//   {"hash": "xxh3", "hash_tags": false,
//    "nodes": [{"id": "cache-01", "address": "10.0.0.1:6379", "zone": "eu-1a"}, ...],
//    "tokens": [{"token": "00ff3e0000000000", "node": "cache-01"}, ...]}
//
// hash: xxh3 (default), xxh64, murmur3 (tokens + 2^63), ketama (value times 2^32) or crc16 (slot
// times 2^50). A token is up to 16 hex digits and owns what lies between the token before it and
// itself, itself included.
// Errors: InvalidArgument with the member; what MakeRing refuses.
absl::StatusOr<Fleet> ParseTokenList(std::string_view text);

}  // namespace warmring
