#include "tests/bench/stopwatch.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/bench/pin.h"

namespace warmring::bench {
namespace {

class Collector : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration || run.error_occurred) continue;
      times[run.run_name.function_name + "/" + std::to_string(run.threads)].push_back(
          run.GetAdjustedCPUTime());
    }
  }
  std::map<std::string, std::vector<double>> times;
};

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::string_view NameOf(Mode mode) {
  switch (mode) {
    case Mode::kThroughput:
      return "throughput";
    case Mode::kDependent:
      return "dependent";
    case Mode::kCold:
      return "cold";
  }
  return "";
}

void Stopwatch::Register(Timing row, const std::vector<int>& threads,
                         std::function<void(benchmark::State&)> body) {
  const std::string name = fmt::format("{}:{}:{}", row.lookup, row.nodes, NameOf(row.mode));
  const int first_cpu = options_.cpu;
  benchmark::internal::Benchmark* const added = benchmark::RegisterBenchmark(
      name.c_str(), [body = std::move(body), first_cpu](benchmark::State& state) {
        Pin(first_cpu + state.thread_index());
        body(state);
      });
  added->MinTime(options_.min_seconds)->Repetitions(options_.repetitions);
  for (const int count : threads) {
    added->Threads(count);
    row.threads = count;
    rows_[name + "/" + std::to_string(count)] = row;
  }
}

std::vector<Timing> Stopwatch::Run() {
  Collector collector;
  benchmark::RunSpecifiedBenchmarks(&collector);
  std::vector<Timing> result;
  for (auto& [name, values] : collector.times) {
    const auto row = rows_.find(name);
    if (row == rows_.end()) continue;
    Timing timing = row->second;
    timing.ns = Median(std::move(values));
    result.push_back(timing);
  }
  return result;
}

}  // namespace warmring::bench
