#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace warmring {

// The keys that a new owner wrote, deleted or gave another time to live since a migration's ranges
// were activated here. It makes two things safe: a grace read never brings back what was written
// over, and an undo sends back exactly what changed. Bounded: past the bound, or when the beginning
// was not seen, it is incomplete for good, and whoever relies on it must take the long way.
// Not thread-safe.
class DirtySet {
 public:
  explicit DirtySet(size_t max_keys) : max_keys_(max_keys) {}
  // The order refers to the keys in the set.
  DirtySet(const DirtySet&) = delete;
  DirtySet& operator=(const DirtySet&) = delete;
  DirtySet(DirtySet&&) = default;

  void Add(std::string_view key);
  // Drops the keys: they would no longer prove anything.
  void MarkIncomplete();
  bool complete() const { return complete_; }
  // Whether `key` may have changed: true for every key of an incomplete set.
  bool MayContain(std::string_view key) const;
  size_t size() const { return order_.size(); }

  struct Page {
    uint64_t next = 0;  // the cursor for the next page; 0: this was the last
    std::vector<std::string> keys;
    friend bool operator==(const Page&, const Page&) = default;
  };
  // At most `count` keys from `cursor` on (0 to begin), in the order of their first change. Keys
  // that are added between two pages are in a later one.
  // REQUIRES: count > 0.
  Page Read(uint64_t cursor, size_t count) const;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  const size_t max_keys_;
  bool complete_ = true;
  std::unordered_set<std::string, Hash, std::equal_to<>> keys_;
  std::vector<const std::string*> order_;  // into keys_, whose nodes stay where they are
};

}  // namespace warmring
