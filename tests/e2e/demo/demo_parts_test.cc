// The figures of the demo are only as good as its instruments: peaks are means over windows that
// lie inside the phase, the prefilled cache is in its steady state, and the chart is well-formed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/demo/chart.h"
#include "tests/e2e/demo/prefill.h"
#include "tests/e2e/demo/timeline.h"
#include "tests/e2e/demo/zipf.h"

namespace warmring::demo {
namespace {

using ::testing::HasSubstr;

TEST(Timeline, CountsWhatHappensNow) {
  Timeline timeline(100);
  timeline.Start();
  for (int i = 0; i < 50; ++i) timeline.Count();
  EXPECT_EQ(timeline.Total(0, 100), 50u);
  EXPECT_EQ(timeline.Total(50, 100), 0u);
  EXPECT_EQ(timeline.Peak(0, 5, 5), 10);
  EXPECT_EQ(timeline.Peak(0, 4, 5), 0);  // no window of 5 seconds fits
  EXPECT_EQ(timeline.Rates(0, 3, 1).size(), 3u);
  EXPECT_EQ(timeline.Rates(0, 3, 1)[0], 50);
}

TEST(Zipf, FollowsItsProbabilities) {
  const Zipf zipf(1000, 0.99);
  std::mt19937_64 random(1);
  constexpr int kDraws = 100'000;
  int first = 0;
  for (int i = 0; i < kDraws; ++i) first += zipf.Draw(random) == 0;
  EXPECT_NEAR(static_cast<double>(first) / kDraws, zipf.Probability(0), 0.005);
  double sum = 0;
  for (uint32_t k = 0; k < 1000; ++k) sum += zipf.Probability(k);
  EXPECT_NEAR(sum, 1, 1e-9);
}

TEST(SteadyState, HoldsHotKeysAndFewColdOnes) {
  const Zipf zipf(50'000, 0.99);
  const auto residents = SteadyState(zipf, 50'000, 4000, 280'000, 7);
  double expected = 0;
  for (uint32_t k = 0; k < 50'000; ++k) {
    const double per_life = 4000 * zipf.Probability(k) * 280;
    expected += per_life / (1 + per_life);
  }
  EXPECT_NEAR(static_cast<double>(residents.size()), expected, 500);
  EXPECT_EQ(residents[0].key, "item:0");
  for (const Resident& resident : residents) {
    ASSERT_GE(resident.ttl_ms, 1);
    ASSERT_LE(resident.ttl_ms, 280'000);
  }
}

TEST(Chart, ShowsBothOnOneScale) {
  const Series cold{"cold", {10, 10, 80, 40}, 2, 0};
  const Series staged{"staged", {10, 10, 10, 10}, 2, 3};
  const std::string text = TerminalChart(cold, staged, 4);
  EXPECT_THAT(text, HasSubstr("     80 │  █ \n"));
  EXPECT_THAT(text, HasSubstr("^ node added, | migration ended"));
  const std::string svg = SvgChart(cold, staged, "One sentence.");
  EXPECT_THAT(svg, HasSubstr("One sentence."));
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  EXPECT_THAT(svg, HasSubstr("migration ended"));
}

}  // namespace
}  // namespace warmring::demo
