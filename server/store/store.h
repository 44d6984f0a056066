#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace warmring {

// A conditional change of the store: all of it or nothing. Later puts and deletes of a key replace
// earlier ones.
class Batch {
 public:
  // Bounds of one batch, those of etcd: guards, puts and deletes together, and all their bytes.
  static constexpr size_t kMaxOperations = 128;
  static constexpr size_t kMaxBytes = 1024 * 1024;

  struct Guard {
    std::string key;
    std::optional<std::string> value;  // absent: the key must not exist
  };
  struct Change {
    std::string key;
    std::optional<std::string> value;  // absent: delete the key
  };

  // The batch is committed only if `key` does not exist / has exactly this value.
  Batch& RequireAbsent(std::string key);
  Batch& RequireValue(std::string key, std::string value);
  Batch& Put(std::string key, std::string value);
  Batch& Delete(std::string key);
  // Takes over everything of `other`.
  Batch& Append(Batch other);

  const std::vector<Guard>& guards() const { return guards_; }
  const std::vector<Change>& changes() const { return changes_; }
  bool empty() const { return guards_.empty() && changes_.empty(); }
  size_t bytes() const { return bytes_; }

  // Ok, or InvalidArgument when the batch is over a bound or a key is empty.
  absl::Status Check() const;

 private:
  std::vector<Guard> guards_;
  std::vector<Change> changes_;
  size_t bytes_ = 0;
};

// What became of a batch. A guard that does not hold is a value and not an error.
struct CommitResult {
  bool committed = true;
  std::string conflict_key;           // the first guard that did not hold
  std::optional<std::string> actual;  // what is there instead
};

struct KeyValue {
  std::string key;
  std::string value;
  friend bool operator==(const KeyValue&, const KeyValue&) = default;
};

// Where the server keeps what must survive it: ordered keys, conditional atomic batches, no more
// than etcd can do as well. Durable before it answers. Any thread; every call may block on a disk
// or a network, so none comes from a strand or a gRPC thread.
//
// One suite that every implementation passes: store_conformance_testing.h.
class Store {
 public:
  virtual ~Store() = default;

  // Errors: InvalidArgument: the batch is over a bound, nothing was written. Unknown: the outcome
  // is not known, the batch may exist or may come to exist; the caller stops and reads again after
  // a restart. FailedPrecondition: an earlier call ended Unknown, nothing was written.
  virtual absl::StatusOr<CommitResult> Commit(const Batch& batch) = 0;

  // The value, or nothing. Errors: Unavailable: it cannot be read.
  virtual absl::StatusOr<std::optional<std::string>> Get(std::string_view key) = 0;

  // Keys in [begin, end) in ascending order of their bytes, at most `limit`. Errors as Get.
  virtual absl::StatusOr<std::vector<KeyValue>> Scan(std::string_view begin, std::string_view end,
                                                     size_t limit) = 0;
};

// The end of the keys that begin with `prefix`, for Scan. REQUIRES: `prefix` ends with a character
// below 0xff.
std::string PrefixEnd(std::string_view prefix);

// Reads all keys that begin with `prefix`, a page at a time.
absl::StatusOr<std::vector<KeyValue>> ScanPrefix(Store& store, std::string_view prefix);

}  // namespace warmring
