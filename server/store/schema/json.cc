#include "server/store/schema/json.h"

#include <charconv>
#include <vector>

#include "core/base/ids.h"
#include "fmt/format.h"

namespace warmring::schema {
namespace {

constexpr size_t kHexDigits = 16;
constexpr size_t kPlaneDigits = 8;

bool ParseHex(std::string_view text, uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

absl::Status DecodeJson(std::string_view what, std::string_view text,
                        const std::function<bool(const Json&)>& decode) {
  const auto damaged = [what](std::string_view why) {
    return absl::DataLossError(fmt::format(
        "store: {} is damaged ({}): restore the data directory from a copy", what, why));
  };
  try {
    if (decode(Json::parse(text))) return absl::OkStatus();
  } catch (const Json::exception& error) {
    return damaged(error.what());
  }
  return damaged("a value is out of bounds");
}

Json EncodeTime(absl::Time time) { return absl::ToUnixNanos(time); }
absl::Time DecodeTime(const Json& json) { return absl::FromUnixNanos(json.get<int64_t>()); }

// Ranges of the common plane, 32 digits each; then for each other plane '@', its number in 8
// digits, and its ranges.
std::string EncodeRanges(const HashRangeSet& ranges) {
  std::string text;
  const std::vector<HashRange> list = ranges.Ranges();
  text.reserve(list.size() * 2 * kHexDigits);
  Plane plane = kCommonPlane;
  for (const HashRange& range : list) {
    if (range.plane != plane) text += fmt::format("@{:08x}", range.plane);
    plane = range.plane;
    text += fmt::format("{:016x}{:016x}", range.start, range.end);
  }
  return text;
}

bool DecodeRanges(std::string_view text, HashRangeSet& ranges) {
  std::vector<HashRange> list;
  list.reserve(text.size() / (2 * kHexDigits));
  uint64_t plane = kCommonPlane;
  while (!text.empty()) {
    if (text.front() == '@') {
      if (text.size() < 1 + kPlaneDigits) return false;
      if (!ParseHex(text.substr(1, kPlaneDigits), plane)) return false;
      text.remove_prefix(1 + kPlaneDigits);
    }
    if (text.size() < 2 * kHexDigits) return false;
    HashRange& range = list.emplace_back();
    range.plane = static_cast<Plane>(plane);
    if (!ParseHex(text.substr(0, kHexDigits), range.start)) return false;
    if (!ParseHex(text.substr(kHexDigits, kHexDigits), range.end)) return false;
    text.remove_prefix(2 * kHexDigits);
  }
  ranges = HashRangeSet(list);
  return true;
}

template <typename Id>
bool DecodeId(const Json& json, Id& id) {
  const absl::StatusOr<Id128> parsed = Id128::Parse(json.get<std::string>());
  if (!parsed.ok()) return false;
  id.high = parsed->high;
  id.low = parsed->low;
  return true;
}
template bool DecodeId<Id128>(const Json&, Id128&);
template bool DecodeId<HistoryId>(const Json&, HistoryId&);
template bool DecodeId<Incarnation>(const Json&, Incarnation&);

}  // namespace warmring::schema
