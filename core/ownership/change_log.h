#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/hash_range.h"
#include "core/base/ids.h"

namespace warmring {

// Which keys changed at an owner while transfers copy from it. One log for all of them: positions
// are global and only grow, an entry is a key that changed (its value is read later), and it is
// kept while a transfer that tracks its range has not acknowledged it. Bounded in bytes: a log that
// would grow past the bound is lost as a whole, which gives it another id, so that whoever reads by
// the old id learns that it missed something. Never a gap without a word.
// Not thread-safe.
class ChangeLog {
 public:
  static constexpr size_t kMaxTransfers = 1024;
  static constexpr size_t kEntryBytes = 64;  // what an entry costs beside its key

  ChangeLog(const Incarnation& incarnation, size_t max_bytes);

  // "<incarnation>.<number>"; another one whenever entries were lost.
  const std::string& id() const { return id_; }
  // Position of the newest entry; 0 before the first.
  uint64_t end() const { return first_ + entries_.size() - 1; }

  // Begins to log changes in `ranges` for the transfer `nonce`. Returns the position to read from:
  // the end, or for a transfer that is tracked already what it acknowledged last.
  // Errors: FailedPrecondition: it is tracked with other ranges; ResourceExhausted: kMaxTransfers.
  absl::StatusOr<uint64_t> Track(const Id128& nonce, const HashRangeSet& ranges);
  // The end of the log moves on, so that nobody who read by `nonce` seems to know all that comes.
  // False if it was not tracked.
  bool Untrack(const Id128& nonce);

  // Notes that `key` changed, if a transfer tracks `point`.
  void Append(std::string_view key, KeyPoint point);

  // Drops all entries and transfers and takes another id: what happened cannot be told any more.
  void Lose(std::string_view reason);

  struct Page {
    uint64_t next = 0;              // the cursor for the next page
    std::vector<std::string> keys;  // each once, in the order of their first change
    friend bool operator==(const Page&, const Page&) = default;
  };
  // Keys of `nonce` that changed after `cursor`, at most `count`; forgets what every transfer has
  // acknowledged, `nonce` everything up to `ack`.
  // REQUIRES: count > 0.
  // Errors: FailedPrecondition: the transfer is suspect, because the log has another id now, the
  // transfer is not tracked, or the cursor is no longer (or not yet) there; InvalidArgument: ack is
  // beyond the cursor.
  absl::StatusOr<Page> Read(const Id128& nonce, std::string_view id, uint64_t cursor, uint64_t ack,
                            size_t count);

  size_t bytes() const { return bytes_; }
  size_t transfers() const { return transfers_.size(); }
  bool Tracks(KeyPoint point) const;
  // What `nonce` tracks, or null.
  const HashRangeSet* RangesOf(const Id128& nonce) const;

 private:
  struct Entry {
    std::string key;
    KeyPoint point;
  };
  struct Transfer {
    HashRangeSet ranges;
    uint64_t acknowledged = 0;
  };
  static constexpr Plane kNoPlane = UINT32_MAX;

  void AddEntry(std::string_view key, KeyPoint point);
  void Trim();
  void NewId();

  const Incarnation incarnation_;
  const size_t max_bytes_;
  uint64_t losses_ = 0;
  std::string id_;
  std::string lost_why_;  // of the newest loss
  std::deque<Entry> entries_;
  uint64_t first_ = 1;  // position of entries_.front()
  size_t bytes_ = 0;
  std::map<Id128, Transfer> transfers_;
};

}  // namespace warmring
