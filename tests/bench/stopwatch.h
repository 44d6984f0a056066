#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Times lookups of 16-byte keys with Google Benchmark. Every key is a new one, made in registers,
// so that neither the keys' memory nor a learned sequence of branches flatters anybody.

namespace warmring::bench {

enum class Mode : uint8_t {
  kThroughput,  // one lookup after the other; they overlap in the processor
  kDependent,   // a lookup's key depends on the result of the one before
  kCold,        // dependent, and each lookup in another copy of the table, out of the first caches
};
std::string_view NameOf(Mode mode);

// A row of the result: the median over the repetitions of the processor time of one lookup.
struct Timing {
  std::string lookup;
  uint64_t nodes = 0;
  Mode mode = Mode::kThroughput;
  int threads = 1;
  double ns = 0;
};

class Key {
 public:
  explicit Key(uint64_t i) : words_{i * 0x9e3779b97f4a7c15, i} {}
  std::string_view View() const { return {reinterpret_cast<const char*>(words_), sizeof words_}; }

 private:
  uint64_t words_[2];
};

class Stopwatch {
 public:
  struct Options {
    double min_seconds = 0.03;
    int repetitions = 7;
    int cpu = 0;  // thread i runs on the allowed processor (cpu + i) modulo their number
    size_t cold_bytes = size_t{128} << 20;
  };
  explicit Stopwatch(Options options) : options_(options) {}

  // `lookup(string_view key)` returns an integer that depends on what it found.
  template <typename Lookup>
  void Add(const std::string& name, uint64_t nodes, Lookup lookup) {
    AddThroughput(name, nodes, lookup, {1});
    Register({name, nodes, Mode::kDependent}, {1}, [lookup](benchmark::State& state) {
      uint64_t i = 0;
      for (auto unused : state) {
        i += 1 + (static_cast<uint64_t>(lookup(Key(i).View())) & 1);
      }
      benchmark::DoNotOptimize(i);
    });
  }

  template <typename Lookup>
  void AddThroughput(const std::string& name, uint64_t nodes, Lookup lookup,
                     const std::vector<int>& threads) {
    Register({name, nodes, Mode::kThroughput}, threads, [lookup](benchmark::State& state) {
      uint64_t i = static_cast<uint64_t>(state.thread_index()) << 40;
      for (auto unused : state) benchmark::DoNotOptimize(lookup(Key(++i).View()));
    });
  }

  // `lookup(table, key)`; `make()` returns a table that takes about `bytes` and shares none of
  // them.
  template <typename Make, typename Lookup>
  void AddCold(const std::string& name, uint64_t nodes, Make make, size_t bytes, Lookup lookup) {
    const size_t copies = options_.cold_bytes / bytes + 1;
    Register({name, nodes, Mode::kCold}, {1}, [make, copies, lookup](benchmark::State& state) {
      std::vector<decltype(make())> tables;
      tables.reserve(copies);
      for (size_t i = 0; i < copies; ++i) tables.push_back(make());
      uint64_t i = 0;
      size_t at = 0;
      for (auto unused : state) {
        const auto found = static_cast<uint64_t>(lookup(tables[at], Key(i).View()));
        i += 1 + (found & 1);
        // 0.618 of the copies further: no order that a prefetcher would learn.
        at = (at + copies * 618 / 1000 + (found & 1)) % copies;
      }
      benchmark::DoNotOptimize(i);
    });
  }

  // Runs all that was added, in interleaved repetitions.
  std::vector<Timing> Run();

 private:
  void Register(Timing row, const std::vector<int>& threads,
                std::function<void(benchmark::State&)> body);

  const Options options_;
  std::map<std::string, Timing> rows_;  // by the benchmark's name
};

}  // namespace warmring::bench
