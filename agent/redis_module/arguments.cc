#include "agent/redis_module/arguments.h"

#include <charconv>
#include <vector>

#include <fmt/format.h>

#include "core/base/status_macros.h"
#include "core/membership/override.h"

namespace warmring {
namespace {

constexpr size_t kPointDigits = 16;
constexpr size_t kMaxPlanes = OverrideTable::kMaxRules + 1;  // and the common one

template <typename Number>
bool ParseWhole(std::string_view text, Number& value, int base) {
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, base);
  return error == std::errc() && end == last;
}

absl::Status OutOfBounds(std::string_view field, std::string_view text, const std::string& bounds) {
  return absl::InvalidArgumentError(
      fmt::format("{}: '{}': use a number from {}", field, Printable(text), bounds));
}

}  // namespace

absl::StatusOr<std::string_view> Arguments::Text(std::string_view field) {
  if (left() <= 0) return absl::InvalidArgumentError(fmt::format("{}: it is missing", field));
  return redis::TextOf(NextString());
}

absl::StatusOr<uint64_t> Arguments::Number(std::string_view field, uint64_t low, uint64_t high) {
  ASSIGN_OR_RETURN(const std::string_view text, Text(field));
  uint64_t value = 0;
  if (ParseWhole(text, value, 10) && value >= low && value <= high) return value;
  return OutOfBounds(field, text, fmt::format("{} to {}", low, high));
}

absl::StatusOr<int64_t> Arguments::Signed(std::string_view field, int64_t low, int64_t high) {
  ASSIGN_OR_RETURN(const std::string_view text, Text(field));
  int64_t value = 0;
  if (ParseWhole(text, value, 10) && value >= low && value <= high) return value;
  return OutOfBounds(field, text, fmt::format("{} to {}", low, high));
}

absl::StatusOr<Id128> Arguments::Id(std::string_view field) {
  ASSIGN_OR_RETURN(const std::string_view text, Text(field));
  const absl::StatusOr<Id128> id = Id128::Parse(text);
  if (id.ok()) return *id;
  return absl::InvalidArgumentError(
      fmt::format("{}: '{}': use 32 lower-case hex digits", field, Printable(text)));
}

// "<plane>:" in front of a start, and nothing on the common plane.
absl::StatusOr<Plane> Arguments::TakePlane(std::string_view field, std::string_view& text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return kCommonPlane;
  Plane plane = kCommonPlane;
  if (!ParseWhole(text.substr(0, colon), plane, 10) || plane == kCommonPlane) {
    return absl::InvalidArgumentError(fmt::format("{}: '{}': a plane is a number from 1 to {}",
                                                  field, Printable(text), UINT32_MAX));
  }
  text.remove_prefix(colon + 1);
  return plane;
}

absl::StatusOr<HashPoint> Arguments::Point(std::string_view field, std::string_view text) {
  HashPoint point = 0;
  if (text.size() == kPointDigits && ParseWhole(text, point, 16)) return point;
  return absl::InvalidArgumentError(
      fmt::format("{}: '{}': use {} hex digits", field, Printable(text), kPointDigits));
}

absl::StatusOr<HashRangeSet> Arguments::Ranges(std::string_view field) {
  ASSIGN_OR_RETURN(const uint64_t count, Number(field, 1, UINT32_MAX));
  if (count > static_cast<uint64_t>(left() / 2)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} ranges are announced, {} words follow", field, count, left()));
  }
  std::vector<HashRange> ranges;
  ranges.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(std::string_view start_text, Text(field));
    ASSIGN_OR_RETURN(const Plane plane, TakePlane(field, start_text));
    ASSIGN_OR_RETURN(const HashPoint start, Point(field, start_text));
    ASSIGN_OR_RETURN(const std::string_view end_text, Text(field));
    ASSIGN_OR_RETURN(const HashPoint end, Point(field, end_text));
    ranges.push_back({start, end, plane});
  }
  HashRangeSet set(ranges);
  if (set.Planes().size() <= kMaxPlanes) return set;
  return absl::InvalidArgumentError(fmt::format("{}: {} planes are over the limit of {}", field,
                                                set.Planes().size(), kMaxPlanes));
}

absl::Status Arguments::Finish() const {
  if (left() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("'{}' and what follows is too much", Printable(redis::TextOf(argv_[next_]))));
}

}  // namespace warmring
