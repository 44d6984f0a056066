#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/e2e/demo/cache_client.h"
#include "tests/e2e/demo/timeline.h"
#include "tests/e2e/demo/zipf.h"

namespace warmring::demo {

struct LoadOptions {
  uint32_t keys = 0;
  double zipf_exponent = 0.99;
  double operations_per_second = 0;
  double write_share = 0.02;
  int threads = 0;
};

struct LoadCounts {
  std::atomic<uint64_t> reads{0};
  std::atomic<uint64_t> writes{0};
  std::atomic<uint64_t> errors{0};
  std::atomic<uint64_t> stale_reads{0};
};

// An open-loop load with Zipf-distributed keys that checks every read: it knows for each key the
// sequence of the last write that had completed before the read began, and counts a read as stale
// when the value is older. Writes of one key are serialised. Bounded by Stop.
class Load {
 public:
  Load(const LoadOptions& options, CacheClient* client);
  ~Load() { Stop(); }

  void Start();
  void Stop();
  const LoadCounts& counts() const { return counts_; }
  // The first error that a read or write gave; empty when there was none.
  std::string FirstError() const;
  // The first stale read in words.
  std::string FirstStale() const;

 private:
  void Work(uint64_t seed, std::stop_token stop);
  void Read(uint32_t rank);
  void Write(uint32_t rank, bool keep);
  void NoteError(const absl::Status& status);

  const LoadOptions options_;
  CacheClient* client_;
  const Zipf zipf_;
  LoadCounts counts_;
  std::vector<std::atomic<uint64_t>> completed_;  // by rank: sequence of the last completed write
  std::vector<std::mutex> write_locks_;           // striped by rank
  mutable std::mutex message_mutex_;
  std::string first_error_;
  std::string first_stale_;
  std::vector<std::jthread> threads_;
};

}  // namespace warmring::demo
