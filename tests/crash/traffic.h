#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/crash/ledger.h"

namespace warmring::crash {

// How the traffic reads and writes. Thread-safe.
class Cache {
 public:
  virtual ~Cache() = default;
  // Read-through: the cache, else the origin, whose answer fills the cache.
  virtual absl::StatusOr<std::string> Read(const std::string& key) = 0;
  // Of the cache only; the origin has been written already.
  virtual absl::Status Set(const std::string& key, const std::string& value) = 0;
  virtual absl::Status Delete(const std::string& key) = 0;
  // What it has done so far, for people.
  virtual std::string Describe() const = 0;
};

struct TrafficOptions {
  int writers = 2;  // writer i has the keys k with k % writers == i
  int readers = 2;
  // Between two operations of a thread: the tests share two cores with the servers.
  absl::Duration pace = absl::Milliseconds(2);
};

// Readers and writers that work through a cache while processes die, and a check of each value that
// is read. Whether single operations succeed is not judged here: a dead Redis refuses.
//
// Thread rule: one thread at a time.
class Traffic {
 public:
  // Starts at once.
  Traffic(const TrafficOptions& options, Ledger* ledger, Cache* cache);
  ~Traffic();
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  // On return no operation is under way.
  void Pause();
  void Resume();

  // Waits until so many further writes are done. REQUIRES: not paused.
  //
  // Errors: DeadlineExceeded.
  [[nodiscard]] absl::Status AwaitWrites(uint64_t count, absl::Duration within);

  // Writes each key once, alternately with a value and by a delete: proof that every range has an
  // owner that accepts. REQUIRES: paused.
  //
  // Errors: DeadlineExceeded naming the key and the last answer.
  [[nodiscard]] absl::Status WriteEachKey(absl::Duration within);

  // OK, or the first value that no read may have given.
  absl::Status FirstViolation() const;
  // "1234 reads (5 failed), 678 writes (9 failed), last failure: ..."
  std::string Summary() const;

 private:
  void Work(const std::function<void(std::mt19937_64&)>& step, uint64_t seed,
            const std::stop_token& stop);
  void ReadSomething(std::mt19937_64& random);
  absl::Status Write(size_t key);
  void NoteFailure(const absl::Status& status);

  const TrafficOptions options_;
  Ledger* const ledger_;
  Cache* const cache_;

  std::atomic<uint64_t> reads_{0};
  std::atomic<uint64_t> failed_reads_{0};
  std::atomic<uint64_t> writes_{0};
  std::atomic<uint64_t> failed_writes_{0};

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  bool paused_ = false;           // guarded by mutex_
  int busy_ = 0;                  // guarded by mutex_
  absl::Status first_violation_;  // guarded by mutex_
  absl::Status last_failure_;     // guarded by mutex_
  std::vector<std::jthread> threads_;
};

}  // namespace warmring::crash
