#include "core/base/clock_rate.h"

#include <charconv>
#include <cmath>

#include "absl/time/time.h"
#include "core/base/ids.h"
#include "fmt/format.h"

namespace warmring {

absl::StatusOr<ClockRate> ClockRate::Parse(std::string_view text) {
  if (text.empty()) return ClockRate();
  double rate = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), rate, std::chars_format::fixed);
  // Put so that "nan" is in no range.
  const bool is_in_range = rate >= kLeast && rate <= kMost;
  if (error != std::errc() || end != text.data() + text.size() || !is_in_range) {
    return absl::InvalidArgumentError(
        fmt::format("WARMRING_CLOCK_RATE: '{}' is not a number from {} to {}: unset it, or use "
                    "something like 1.02",
                    Printable(text), kLeast, kMost));
  }
  return ClockRate(rate);
}

Instant ClockRate::Scale(Instant anchor, Instant now) const {
  if (rate_ == 1 || now == Instant::Never()) return now;
  int64_t passed = 0;
  if (__builtin_sub_overflow(now.nanos, anchor.nanos, &passed)) {
    return now > anchor ? Instant::Never() : Instant{INT64_MIN};
  }
  // One rounded multiplication, which keeps the order of what it multiplies.
  const double scaled = static_cast<double>(passed) * rate_;
  constexpr double kLimit = 0x1p63;
  if (scaled >= kLimit) return Instant::Never();
  if (scaled <= -kLimit) return Instant{INT64_MIN};
  return anchor + absl::Nanoseconds(std::llround(scaled));
}

}  // namespace warmring
