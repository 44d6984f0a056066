#include "client/import/json_source.h"

#include <algorithm>

#include <fmt/format.h>

#include "client/import/fleet.h"
#include "core/base/ids.h"
#include "core/base/status_macros.h"

namespace warmring {
namespace {

using nlohmann::json;

// Of an object in a list in an object, with room to spare.
constexpr int kMaxDepth = 8;

std::string FieldOf(std::string_view at, std::string_view name) {
  return at.empty() ? std::string(name) : fmt::format("{}.{}", at, name);
}

absl::Status Wrong(std::string_view field, const json& value, std::string_view expected) {
  return absl::InvalidArgumentError(
      fmt::format("{}: a {} where {} is expected", field, value.type_name(), expected));
}

}  // namespace

absl::StatusOr<json> ReadJsonObject(std::string_view text) {
  if (text.size() > Fleet::kMaxSourceBytes) {
    return absl::InvalidArgumentError(fmt::format("the file has {} bytes: {} are the limit",
                                                  text.size(), Fleet::kMaxSourceBytes));
  }
  bool too_deep = false;
  const auto shallow = [&too_deep](int depth, json::parse_event_t, const json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  json root = json::parse(text.begin(), text.end(), shallow, false);
  if (too_deep) {
    return absl::InvalidArgumentError("the file nests its values too deep for any known format");
  }
  if (root.is_discarded()) {
    return absl::InvalidArgumentError("the file is not JSON, or it is cut off");
  }
  if (!root.is_object()) return Wrong("the file", root, "an object");
  return root;
}

absl::Status CheckMembers(std::string_view at, const json& object,
                          std::initializer_list<std::string_view> known) {
  if (!object.is_object()) return Wrong(at, object, "an object");
  for (const auto& item : object.items()) {
    if (std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    return absl::InvalidArgumentError(fmt::format("{}: this member is not known: use {}",
                                                  FieldOf(at, Printable(item.key())),
                                                  fmt::join(known, ", ")));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> ReadOptionalString(std::string_view at,
                                                              const json& object,
                                                              std::string_view name) {
  const auto member = object.find(name);
  if (member == object.end()) return std::optional<std::string>();
  if (!member->is_string()) return Wrong(FieldOf(at, name), *member, "a string");
  return std::optional<std::string>(member->get_ref<const std::string&>());
}

absl::StatusOr<std::string> ReadString(std::string_view at, const json& object,
                                       std::string_view name) {
  ASSIGN_OR_RETURN(std::optional<std::string> text, ReadOptionalString(at, object, name));
  if (!text) return absl::InvalidArgumentError(fmt::format("{}: is missing", FieldOf(at, name)));
  return *std::move(text);
}

absl::StatusOr<std::optional<uint64_t>> ReadOptionalNumber(std::string_view at, const json& object,
                                                           std::string_view name) {
  const auto member = object.find(name);
  if (member == object.end()) return std::optional<uint64_t>();
  if (!member->is_number_unsigned()) {
    return Wrong(FieldOf(at, name), *member, "a whole number from 0");
  }
  return std::optional<uint64_t>(member->get<uint64_t>());
}

absl::StatusOr<const json*> ReadList(std::string_view at, const json& object,
                                     std::string_view name) {
  const auto member = object.find(name);
  if (member == object.end()) {
    return absl::InvalidArgumentError(fmt::format("{}: is missing", FieldOf(at, name)));
  }
  if (!member->is_array()) return Wrong(FieldOf(at, name), *member, "a list");
  return &*member;
}

}  // namespace warmring
