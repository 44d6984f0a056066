#include "core/base/clock_rate.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

// A test that makes a clock run wrong must be sure that it does, and by how much.

namespace warmring {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
// A machine that has been up for a year.
constexpr Instant kAnchor{int64_t{365} * 86400 * kSecond};

Instant After(Instant anchor, int64_t nanos) { return Instant{anchor.nanos + nanos}; }

ClockRate Rate(std::string_view text) {
  const absl::StatusOr<ClockRate> rate = ClockRate::Parse(text);
  EXPECT_OK(rate);
  return rate.value_or(ClockRate());
}

TEST(ClockRateTest, ReadsRates) {
  EXPECT_EQ(Rate("1.02").value(), 1.02);
  EXPECT_EQ(Rate("0.98").value(), 0.98);
  EXPECT_EQ(Rate("1").value(), 1);
  EXPECT_EQ(Rate("0.1").value(), 0.1);
  EXPECT_EQ(Rate("10").value(), 10);
  EXPECT_EQ(Rate("").value(), 1);
}

TEST(ClockRateTest, RefusesWhatIsNoRate) {
  const std::string nul("1\0", 2);
  for (const std::string& text :
       {std::string("0"),     std::string("0.0"),   std::string("-0"),       std::string("-1"),
        std::string("-1.02"), std::string("+1"),    std::string("0.0999"),   std::string("10.001"),
        std::string("1e0"),   std::string("1e400"), std::string("0x1"),      std::string("nan"),
        std::string("-nan"),  std::string("inf"),   std::string("infinity"), std::string("1,02"),
        std::string("1.0.2"), std::string("1.02 "), std::string(" 1.02"),    std::string("102%"),
        std::string("fast"),  std::string("."),     std::string(400, '9'),   nul}) {
    EXPECT_THAT(ClockRate::Parse(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(ClockRateTest, SaysWhatItSawAndWhatMayBe) {
  const std::string message(ClockRate::Parse("-1\n").status().message());
  EXPECT_NE(message.find("WARMRING_CLOCK_RATE"), std::string::npos) << message;
  EXPECT_NE(message.find("from 0.1 to 10"), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

TEST(ClockRateTest, TheMachinesOwnChangesNothing) {
  for (const int64_t nanos : {INT64_MIN, int64_t{-1}, int64_t{0}, kAnchor.nanos + 7, INT64_MAX}) {
    EXPECT_EQ(ClockRate().Scale(kAnchor, Instant{nanos}), Instant{nanos});
    EXPECT_EQ(Rate("1.0").Scale(kAnchor, Instant{nanos}), Instant{nanos});
  }
}

TEST(ClockRateTest, RunsFasterAndSlowerFromTheAnchorOn) {
  EXPECT_EQ(Rate("1.02").Scale(kAnchor, kAnchor), kAnchor);
  EXPECT_EQ(Rate("1.02").Scale(kAnchor, After(kAnchor, kSecond)), After(kAnchor, 1'020'000'000));
  EXPECT_EQ(Rate("0.98").Scale(kAnchor, After(kAnchor, kSecond)), After(kAnchor, 980'000'000));
  EXPECT_EQ(Rate("0.5").Scale(kAnchor, After(kAnchor, -kSecond)), After(kAnchor, -kSecond / 2));
}

// A double knows no single nanoseconds of a year; the rounding must not turn the clock back.
TEST(ClockRateTest, NeverGoesBack) {
  for (const char* text : {"0.1", "0.98", "1.02", "9.999999"}) {
    const ClockRate rate = Rate(text);
    for (const int64_t since : {int64_t{0}, kSecond - 500, kAnchor.nanos - 500}) {
      Instant last = rate.Scale(kAnchor, After(kAnchor, since));
      for (int64_t step = 1; step <= 1000; ++step) {
        const Instant shown = rate.Scale(kAnchor, After(kAnchor, since + step));
        ASSERT_GE(shown, last) << text << " after " << since + step;
        last = shown;
      }
    }
  }
}

TEST(ClockRateTest, SaturatesAtTheEnds) {
  EXPECT_EQ(Rate("0.1").Scale(kAnchor, Instant::Never()), Instant::Never());
  EXPECT_EQ(Rate("10").Scale(Instant{0}, Instant{INT64_MAX - 1}), Instant::Never());
  EXPECT_EQ(Rate("10").Scale(Instant{0}, Instant{INT64_MIN}), Instant{INT64_MIN});
  EXPECT_EQ(Rate("0.5").Scale(Instant{INT64_MIN}, Instant{INT64_MAX - 1}), Instant::Never());
  EXPECT_EQ(Rate("0.5").Scale(Instant{INT64_MAX}, Instant{INT64_MIN}), Instant{INT64_MIN});
}

}  // namespace
}  // namespace warmring
