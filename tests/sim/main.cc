// Runs the simulator: seeds A to B, and says what came of it. See tests/sim/README.md.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <CLI/CLI.hpp>

#include "absl/synchronization/mutex.h"
#include "tests/sim/mutant_names.h"
#include "tests/sim/world.h"

namespace warmring::sim {
namespace {

struct Arguments {
  std::string seeds = "1..100";
  uint64_t steps = 20'000;
  int64_t clock_rate_ppm = 10'000;
  std::string mutant;
  std::optional<uint64_t> trace;
  uint32_t focus = 0;
  bool stop_at_first = false;
};

bool ParseSeeds(const std::string& text, uint64_t* first, uint64_t* last) {
  unsigned long long a = 0;
  unsigned long long b = 0;
  if (std::sscanf(text.c_str(), "%llu..%llu", &a, &b) == 2 && a <= b) {
    *first = a;
    *last = b;
    return true;
  }
  if (std::sscanf(text.c_str(), "%llu", &a) != 1) return false;
  *first = *last = a;
  return true;
}

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

int Run(const Arguments& arguments) {
  uint64_t first = 0;
  uint64_t last = 0;
  if (!ParseSeeds(arguments.seeds, &first, &last)) {
    fmt::print(stderr, "--seeds: '{}': use a number, or two as in 1..100\n", arguments.seeds);
    return 2;
  }
  if (!ActivateMutant(arguments.mutant)) {
    fmt::print(stderr, "--mutant: '{}': use one of {}; a release has none\n", arguments.mutant,
               MutantNames());
    return 2;
  }
  if (arguments.trace) first = last = *arguments.trace;
  Result sum;
  uint64_t violated = 0;
  const auto begin = std::chrono::steady_clock::now();
  auto told = begin;
  for (uint64_t seed = first; seed <= last; ++seed) {
    Options options;
    options.seed = seed;
    options.steps = arguments.steps;
    options.clock_rate_ppm = arguments.clock_rate_ppm;
    options.focus = static_cast<Trap>(arguments.focus);
    if (arguments.trace) {
      options.trace = [](const std::string& line) { fmt::print("{}\n", line); };
    }
    const Result result = World(options).Run();
    sum.steps += result.steps;
    sum.time += result.time / kMilli;
    sum.acknowledged += result.acknowledged;
    sum.succeeded += result.succeeded;
    sum.aborted += result.aborted;
    sum.rolled_back += result.rolled_back;
    sum.unclean += result.unclean;
    sum.restarts += result.restarts;
    if (arguments.trace) fmt::print("seed {} hash {:016x}\n", seed, result.hash);
    if (!result.violations.empty()) {
      ++violated;
      fmt::print("seed {} violated at step {}: {}\n", seed, result.steps,
                 result.violations.front());
      std::fflush(stdout);
      if (arguments.stop_at_first) break;
    }
    if (Seconds(told) > 60) {
      told = std::chrono::steady_clock::now();
      fmt::print("... seed {}: {} steps, {} violated\n", seed, sum.steps, violated);
      std::fflush(stdout);
    }
  }
  const double seconds = Seconds(begin);
  fmt::print(
      "seeds {}..{}: {} steps in {:.1f} s ({:.0f} a minute), {} violated\n"
      "  simulated {:.1f} h: {} migrations succeeded, {} aborted, {} rolled back; {} hand-overs on "
      "an expired lease; {} processes restarted; {} writes acknowledged\n",
      first, last, sum.steps, seconds, static_cast<double>(sum.steps) / seconds * 60, violated,
      static_cast<double>(sum.time) / 3.6e6, sum.succeeded, sum.aborted, sum.rolled_back,
      sum.unclean, sum.restarts, sum.acknowledged);
  return violated == 0 ? 0 : 1;
}

}  // namespace
}  // namespace warmring::sim

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  spdlog::set_level(spdlog::level::off);
  warmring::sim::Arguments arguments;
  CLI::App app("Simulates servers, owners and clients of one keyspace with faults, from seeds");
  app.add_option("--seeds", arguments.seeds, "Seeds to run: a number, or A..B");
  app.add_option("--steps", arguments.steps, "Steps of each seed before its faults stop");
  app.add_option("--clock-rate-ppm", arguments.clock_rate_ppm,
                 "By how much clock rates differ at most; the protocol promises for 10000");
  app.add_option("--mutant", arguments.mutant, "A known mistake to turn on, by its letter");
  app.add_option("--trace", arguments.trace, "Run this seed alone and print what happens");
  app.add_option("--focus", arguments.focus, "A trap to set and no other, by its number")
      ->check(CLI::Range(0u, static_cast<uint32_t>(warmring::sim::Trap::kLast)));
  app.add_flag("--stop-at-first", arguments.stop_at_first, "End with the first violation");
  CLI11_PARSE(app, argc, argv);
  return warmring::sim::Run(arguments);
}
