#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// What the importers of JSON files share. Pure, any thread. Errors are InvalidArgument and name the
// member, as "tokens[3].node"; `at` is the name of the object in front of it, empty at the root.

namespace warmring {

// The object that `text` is. Errors: over Fleet::kMaxSourceBytes; not JSON, also when it is cut
// off; nested deeper than any format here; not an object.
absl::StatusOr<nlohmann::json> ReadJsonObject(std::string_view text);

// That `object` is one and has no other members than these.
absl::Status CheckMembers(std::string_view at, const nlohmann::json& object,
                          std::initializer_list<std::string_view> known);

// A string that must be there.
absl::StatusOr<std::string> ReadString(std::string_view at, const nlohmann::json& object,
                                       std::string_view name);
// As above, or nothing where it is not there.
absl::StatusOr<std::optional<std::string>> ReadOptionalString(std::string_view at,
                                                              const nlohmann::json& object,
                                                              std::string_view name);
// A whole number, not negative, or nothing where it is not there.
absl::StatusOr<std::optional<uint64_t>> ReadOptionalNumber(std::string_view at,
                                                           const nlohmann::json& object,
                                                           std::string_view name);
// A list that must be there. Points into `object`.
absl::StatusOr<const nlohmann::json*> ReadList(std::string_view at, const nlohmann::json& object,
                                               std::string_view name);

}  // namespace warmring
