#include "server/store/schema/json.h"

#include <charconv>
#include <vector>

#include "core/base/ids.h"
#include "fmt/format.h"

namespace warmring::schema {
namespace {

constexpr size_t kHexDigits = 16;

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

std::string EncodeRanges(const HashRangeSet& ranges) {
  std::string text;
  const std::vector<HashRange> list = ranges.Ranges();
  text.reserve(list.size() * 2 * kHexDigits);
  for (const HashRange& range : list) text += fmt::format("{:016x}{:016x}", range.start, range.end);
  return text;
}

bool DecodeRanges(std::string_view text, HashRangeSet& ranges) {
  if (text.size() % (2 * kHexDigits) != 0) return false;
  std::vector<HashRange> list(text.size() / (2 * kHexDigits));
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string_view digits = text.substr(i * 2 * kHexDigits, 2 * kHexDigits);
    if (!ParseHex(digits.substr(0, kHexDigits), list[i].start)) return false;
    if (!ParseHex(digits.substr(kHexDigits), list[i].end)) return false;
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
