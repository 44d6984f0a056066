#pragma once

#include <cstdint>
#include <optional>

#include "agent/redis_module/redis_api.h"

namespace warmring {

// A digest of the value at `key`, or nothing when there is none. Equal for equal values, whatever
// their encoding and the order of their elements; the time to live is no part of it. Streams count
// with their entries, last id and groups; types of other modules by their DUMP.
std::optional<uint64_t> DigestOfValue(redis::Context* context, redis::String* key);

}  // namespace warmring
