#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace warmring::crash {

// The origin of the traffic and its memory: which values each key has had, and which of them a
// reader may still see. Values of a key are numbered by its one writer: 1, 2, 3...
//
// A write has three moments: the origin takes the value (Begin), the cache is told, and the caller
// knows that it was (Completed) or does not know (Unknown). From the moment of Completed on, no
// read may give an older value. A set of the cache whose outcome is unknown may still happen at any
// later time, so that exactly its value stays allowed for ever.
//
// Thread rule: all methods from any thread; Begin to Completed or Unknown of one key by one thread
// at a time.
class Ledger {
 public:
  explicit Ledger(size_t keys) : keys_(keys) {}

  size_t Size() const { return keys_.size(); }
  static std::string KeyName(size_t key);
  // What the origin says now; nothing for a name that is none of ours.
  std::optional<std::string> Origin(std::string_view name) const;

  // The number of the new value, which the origin has from here on.
  uint64_t Begin(size_t key);
  std::string Value(size_t key, uint64_t number) const;
  void Completed(size_t key, uint64_t number);
  void SetUnknown(size_t key, uint64_t number);

  // The newest completed write: what a read that begins now must not fall behind.
  uint64_t NewestCompleted(size_t key) const;
  // Judges a value that a read gave which began when `newest_completed` was that.
  //
  // Errors: DataLoss saying what is wrong: older, never written, or of another key.
  absl::Status Judge(size_t key, uint64_t newest_completed, std::string_view value) const;

 private:
  struct Key {
    std::atomic<uint64_t> begun{0};
    std::atomic<uint64_t> completed{0};
  };

  std::vector<Key> keys_;
  mutable std::mutex mutex_;
  std::set<std::pair<size_t, uint64_t>> unknown_;  // guarded by mutex_
};

}  // namespace warmring::crash
