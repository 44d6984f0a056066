#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/hash_range.h"
#include "nlohmann/json.hpp"

// What the JSON values of the store have in common. Pure, any thread.

namespace warmring::schema {

using Json = nlohmann::json;

// Runs `decode` on the parsed text; whatever it or the parser throws ends here.
// Error: DataLoss naming `what` and the trouble, when the text is no JSON, a field is missing or of
// another type, or a value is out of bounds (decode returns false).
absl::Status DecodeJson(std::string_view what, std::string_view text,
                        const std::function<bool(const Json&)>& decode);

// Nanoseconds since 1970.
Json EncodeTime(absl::Time time);
absl::Time DecodeTime(const Json& json);

// 32 hex digits a range, start before end, one string; what is not on the common plane is marked.
std::string EncodeRanges(const HashRangeSet& ranges);
bool DecodeRanges(std::string_view text, HashRangeSet& ranges);

// An Id128 or a type derived from it.
template <typename Id>
bool DecodeId(const Json& json, Id& id);

}  // namespace warmring::schema
