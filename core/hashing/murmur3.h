#pragma once

#include <cstdint>
#include <string_view>

namespace warmring {

// The token that Cassandra's Murmur3Partitioner gives to a partition key: the first half of
// MurmurHash3_x64_128 (seed 0) as Cassandra computes it, which extends the sign of the bytes of the
// last, incomplete block and so differs from Murmur3 proper for bytes above 0x7f there. INT64_MIN
// is the token of the empty key only; a hash of that value becomes INT64_MAX. Any thread, total.
int64_t CassandraToken(std::string_view key);

}  // namespace warmring
