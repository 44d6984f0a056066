// Measures placement: lookups beside those of others, balance and movement beside random tokens and
// libmemcached, what a table costs and what a change of it. scripts/bench placement builds and runs
// it.
//
//   placement_bench [--out FILE] [--cpu N] [--quick] [--benchmark_...]

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "tests/bench/balance.h"
#include "tests/bench/deltas.h"
#include "tests/bench/lookups.h"
#include "tests/bench/report.h"
#include "tests/bench/report_file.h"

namespace warmring::bench {
namespace {

struct Arguments {
  std::string out;
  int cpu = 0;
  bool quick = false;  // proves that it runs; the numbers mean nothing
};

bool Parse(const std::vector<std::string_view>& words, Arguments& arguments) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--quick") {
      arguments.quick = true;
    } else if (words[i] == "--out" && i + 1 < words.size()) {
      arguments.out = words[++i];
    } else if (words[i] == "--cpu" && i + 1 < words.size()) {
      const std::string_view number = words[++i];
      const auto [end, error] =
          std::from_chars(number.data(), number.data() + number.size(), arguments.cpu);
      if (error != std::errc() || end != number.data() + number.size() || arguments.cpu < 0) {
        return false;
      }
    } else {
      return false;
    }
  }
  return true;
}

Results Measure(const Arguments& arguments) {
  Stopwatch::Options options;
  options.cpu = arguments.cpu;
  if (arguments.quick) {
    options.min_seconds = 1e-6;
    options.repetitions = 1;
    options.cold_bytes = 1;
  }
  Results results;
  results.table = arguments.quick ? MeasureTable(100, 16) : MeasureTable(10'000, 256);
  results.deltas = MeasureDeltas(arguments.quick);
  const uint32_t nodes = arguments.quick ? 8 : 100;
  const uint32_t bits = arguments.quick ? 10 : 16;
  results.balance.push_back(GrowDirectory({bits, 1, 0, nodes}));
  results.balance.push_back(GrowDirectory({bits, 3, 5, nodes}));
  for (const uint32_t tokens : {16U, 160U, 256U}) {
    results.balance.push_back(GrowRing(tokens, nodes));
  }
  results.balance.push_back(GrowKetama(nodes, arguments.quick ? 1000 : 300'000));
  results.timings = TimeLookups(options);
  return results;
}

int Main(int argc, char** argv) {
  // Repetitions of different lookups take turns, so that a slow moment of the machine hits all.
  std::string interleave = "--benchmark_enable_random_interleaving=true";
  std::vector<char*> words(argv, argv + argc);
  words.insert(words.begin() + 1, interleave.data());
  int count = static_cast<int>(words.size());
  words.push_back(nullptr);
  benchmark::Initialize(&count, words.data());
  Arguments arguments;
  if (!Parse({words.data() + 1, words.data() + count}, arguments)) {
    fmt::print(stderr,
               "placement_bench: usage: placement_bench [--out FILE] [--cpu N] [--quick] "
               "[--benchmark_...]\n");
    return 2;
  }
  // A reference count is atomic only in a process that has had a second thread, as every server
  // has.
  std::thread([] {}).join();

  const nlohmann::ordered_json json = ToJson(Measure(arguments));
  fmt::print("{}", ToText(json));
  return WriteReport("placement_bench", arguments.out, json) ? 0 : 1;
}

}  // namespace
}  // namespace warmring::bench

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return warmring::bench::Main(argc, argv);
}
