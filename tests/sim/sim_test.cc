// The simulator keeps its own promises: the real machines break none of theirs in a run that is
// long enough to meet each fault often, seeds repeat exactly, and what is known to be wrong (clocks
// beyond the bound, each mutant) is found.

#include <cstdio>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "gtest/gtest.h"
#include "spdlog/spdlog.h"
#include "tests/sim/mutant_names.h"
#include "tests/sim/world.h"

namespace warmring::sim {
namespace {

class SimTest : public ::testing::Test {
 protected:
  SimTest() { spdlog::set_level(spdlog::level::off); }
};

Result RunSeed(uint64_t seed, uint64_t steps = 20'000) {
  Options options;
  options.seed = seed;
  options.steps = steps;
  return World(options).Run();
}

// The first violation of seeds from 1 on, or what was run in vain.
struct Hunt {
  bool found = false;
  uint64_t seed = 0;
  uint64_t steps = 0;  // of all seeds
  Result last;
};
Hunt HuntFor(Options options, uint64_t seeds) {
  Hunt hunt;
  for (options.seed = 1; options.seed <= seeds && !hunt.found; ++options.seed) {
    hunt.last = World(options).Run();
    hunt.steps += hunt.last.steps;
    hunt.seed = options.seed;
    hunt.found = !hunt.last.violations.empty();
  }
  return hunt;
}

TEST_F(SimTest, PromisesAreKept) {
  constexpr uint64_t kFirst = 1'000'001;
  constexpr uint64_t kSeeds = 50;
  Result sum;
  for (uint64_t seed = kFirst; seed < kFirst + kSeeds; ++seed) {
    const Result result = RunSeed(seed);
    sum.steps += result.steps;
    sum.succeeded += result.succeeded;
    sum.aborted += result.aborted;
    sum.rolled_back += result.rolled_back;
    sum.unclean += result.unclean;
    sum.acknowledged += result.acknowledged;
    sum.restarts += result.restarts;
    ASSERT_TRUE(result.violations.empty())
        << "seed " << seed << " step " << result.steps << ": " << result.violations.front()
        << "\nreplay: sim --trace " << seed;
  }
  fmt::print(
      "{} seeds, {} steps: {} migrations succeeded, {} aborted, {} rolled back; {} hand-overs on "
      "an "
      "expired lease; {} processes restarted; {} writes acknowledged\n",
      kSeeds, sum.steps, sum.succeeded, sum.aborted, sum.rolled_back, sum.unclean, sum.restarts,
      sum.acknowledged);
  // Each of them is a way through the protocol, and none may be missing.
  EXPECT_GT(sum.succeeded, 10u);
  EXPECT_GT(sum.aborted, 10u);
  EXPECT_GT(sum.rolled_back, 5u);
  EXPECT_GT(sum.unclean, 5u);
  EXPECT_GT(sum.restarts, 500u);
  EXPECT_GT(sum.acknowledged, 10'000u);
}

TEST_F(SimTest, ASeedRepeatsExactly) {
  for (const uint64_t seed : {3u, 4u, 5u, 6u}) {
    const Result once = RunSeed(seed, 5'000);
    const Result again = RunSeed(seed, 5'000);
    EXPECT_EQ(once.hash, again.hash) << seed;
    EXPECT_EQ(once.steps, again.steps) << seed;
    EXPECT_EQ(once.acknowledged, again.acknowledged) << seed;
    EXPECT_NE(once.hash, RunSeed(seed + 100, 5'000).hash);
  }
}

// With donors that are cut off right after a lease, over and over.
TEST_F(SimTest, ClocksBeyondTheBoundAreFound) {
  constexpr uint64_t kSeeds = 60;
  Options options;
  options.focus = Trap::kCutDonor;
  options.clock_rate_ppm = 50'000;
  const Hunt hunt = HuntFor(options, kSeeds);
  ASSERT_TRUE(hunt.found) << "not within " << kSeeds << " seeds, " << hunt.steps << " steps";
  fmt::print("clock rates 5 % apart: seed {} step {}: {}\n", hunt.seed, hunt.last.steps,
             hunt.last.violations.front());
  EXPECT_EQ(hunt.last.violations.front().substr(0, 2), "I1");
  options.clock_rate_ppm = 10'000;
  const Hunt within = HuntFor(options, hunt.seed);
  EXPECT_FALSE(within.found) << within.last.violations.front();
}

#ifdef WARMRING_MUTANTS

struct Budget {
  std::string_view mutant;
  Trap focus;
};

class MutantTest : public SimTest, public ::testing::WithParamInterface<Budget> {
 protected:
  ~MutantTest() override { active_mutant = Mutant::kNone; }
};

TEST_P(MutantTest, IsFound) {
  constexpr uint64_t kSeeds = 300;
  ASSERT_TRUE(ActivateMutant(GetParam().mutant));
  Options options;
  options.focus = GetParam().focus;
  const Hunt hunt = HuntFor(options, kSeeds);
  ASSERT_TRUE(hunt.found) << "mutant " << GetParam().mutant << " survived " << kSeeds << " seeds, "
                          << hunt.steps << " steps";
  fmt::print("mutant {}: seed {} step {} ({} steps in all): {}\n", GetParam().mutant, hunt.seed,
             hunt.last.steps, hunt.steps, hunt.last.violations.front());
}

// For some only one kind of accident is dangerous; looking for it alone is quicker.
INSTANTIATE_TEST_SUITE_P(
    All, MutantTest,
    ::testing::Values(Budget{"A", Trap::kNone}, Budget{"B1", Trap::kNone},
                      Budget{"B2", Trap::kNone}, Budget{"C", Trap::kSlowGrant},
                      Budget{"D", Trap::kNone}, Budget{"E", Trap::kNone}, Budget{"F", Trap::kNone},
                      Budget{"G", Trap::kLoseTasks}, Budget{"H", Trap::kNone},
                      Budget{"I", Trap::kNone}, Budget{"J", Trap::kCutDonor},
                      Budget{"K", Trap::kHalfOpen}, Budget{"L", Trap::kNone},
                      Budget{"N", Trap::kSecondWave}, Budget{"O", Trap::kReplaceAndRestart},
                      Budget{"P", Trap::kRestartAcknowledged}, Budget{"Q", Trap::kReplaceEngine}),
    [](const auto& budget) { return std::string(budget.param.mutant); });

TEST_F(SimTest, EveryMutantHasATest) {
  EXPECT_EQ(Mutants().size(), 17u) << "add it to the list above, and to this number";
}

#endif

}  // namespace
}  // namespace warmring::sim
