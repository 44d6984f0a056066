#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/redis/redis_pool.h"
#include "core/base/ids.h"
#include "tests/history/recorder.h"
#include "warmring/client.h"

namespace warmring::crash {

// A key of the history, and the unit of ownership that it belongs to.
struct HistoryKey {
  std::string name;
  std::string arc;
};

// So many keys in so many of the smallest buckets of a directory, spread over it, so that keys
// which share a bucket bear witness for each other.
std::vector<HistoryKey> HistoryKeys(size_t buckets, size_t keys_per_bucket);

struct RecordedClientsOptions {
  std::string server;  // warmringd's address
  KeyspaceId keyspace;
  std::vector<HistoryKey> keys;
  int clients = 2;
  int threads = 2;  // of each
  // Between two operations of a thread.
  absl::Duration pace = absl::Milliseconds(4);
  // How many percent of the operations go by an address and an epoch that the thread has had for
  // the key at any earlier time, or by an epoch that nobody has given it.
  unsigned astray_percent = 8;
  absl::Duration command_timeout = absl::Milliseconds(1500);
  uint64_t seed = 1;
  // Where a node's address is dialled; empty: there.
  std::function<std::string(std::string_view address)> dial;
};

// Clients that route by the client library, send each operation once as a checked command, and
// write down what they sent, under which epoch, to whom, and what came of it. They check nothing:
// the history is judged later. Some of what they send is old or made up on purpose.
//
// Thread rule: one thread at a time.
class RecordedClients {
 public:
  // Starts at once. `recorder` must outlive it.
  //
  // Errors: those of Client::Connect.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<RecordedClients>> Start(
      RecordedClientsOptions options, history::Recorder* recorder);
  ~RecordedClients();
  RecordedClients(const RecordedClients&) = delete;
  RecordedClients& operator=(const RecordedClients&) = delete;

  // On return no operation is under way.
  void Pause();
  void Resume();

  // Waits until so many further operations were acknowledged. REQUIRES: not paused.
  //
  // Errors: DeadlineExceeded.
  [[nodiscard]] absl::Status AwaitAcknowledged(uint64_t count, absl::Duration within);

  uint64_t Attempts() const { return attempts_; }
  uint64_t Acknowledged() const { return acknowledged_; }
  // By an owner, for whatever reason.
  uint64_t Refused() const { return refused_; }
  const std::vector<HistoryKey>& Keys() const { return options_.keys; }

 private:
  // Where a key was thought to be once.
  struct Place {
    std::string node;
    std::string address;
    std::string tag;
    Epoch epoch;
  };
  class Worker;

  RecordedClients(RecordedClientsOptions options, history::Recorder* recorder);

  void Work(Worker& worker, const std::stop_token& stop);
  void Attempt(Worker& worker);
  void Follow(const Client& client, const std::string& name, const std::stop_token& stop);

  const RecordedClientsOptions options_;
  history::Recorder* const recorder_;
  std::vector<std::unique_ptr<Client>> clients_;
  RedisPool pool_;
  std::atomic<uint64_t> attempts_{0};
  std::atomic<uint64_t> acknowledged_{0};
  std::atomic<uint64_t> refused_{0};

  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool paused_ = false;  // guarded by mutex_
  int busy_ = 0;         // guarded by mutex_
  std::vector<std::jthread> threads_;
};

}  // namespace warmring::crash
