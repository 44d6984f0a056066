#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/hash_range.h"
#include "core/base/ids.h"
#include "core/ownership/owner_view.h"

namespace warmring {

// Deletes that were applied at a node and refused, because the range is leaving or has left. The
// agent forwards each to the present owner, in case the client dies before it retries. A delete in
// a range that this node still holds by its map waits until a later map says where the range went.
// Bounded in bytes; the oldest entries make room and are counted.
// Not thread-safe.
class ForgottenLog {
 public:
  static constexpr size_t kEntryBytes = 64;  // what an entry costs beside its key

  explicit ForgottenLog(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Notes a refused delete of `key`, as `view` stands now.
  void Add(const OwnerView& view, std::string_view key, KeyPoint point);
  // To be called when a map was installed: decides about the deletes that wait.
  void Settle(const OwnerView& view);

  struct Page {
    uint64_t next = 0;  // the cursor for the next page
    std::vector<std::string> keys;
    friend bool operator==(const Page&, const Page&) = default;
  };
  // Keys to forward after `cursor` (0 to begin), at most `count`; forgets those up to `cursor`. A
  // cursor that this log never gave out reads from its beginning.
  // REQUIRES: count > 0.
  Page Read(uint64_t cursor, size_t count);

  uint64_t dropped() const { return dropped_; }
  size_t waiting() const { return waiting_.size(); }

 private:
  struct Waiting {
    std::string key;
    HashPoint hash;
    Epoch epoch;  // of the range when the delete came
  };
  void MakeRoom(size_t bytes);
  void Forward(std::string key);

  const size_t max_bytes_;
  size_t bytes_ = 0;
  uint64_t dropped_ = 0;
  std::deque<Waiting> waiting_;
  std::deque<std::string> keys_;
  uint64_t first_ = 1;  // position of keys_.front()
};

}  // namespace warmring
