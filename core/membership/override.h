#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "core/base/hash_range.h"
#include "core/base/ids.h"
#include "core/membership/owned_range.h"

// Overrides: rules about keys that win over the hash, to give one key or all keys of a tenant nodes
// of their own.
//
// A rule takes the keys that it matches out of the common plane of hash space and puts them, at the
// same hash, on a plane of their own. What holds for ranges holds there: they are owned under an
// epoch, fenced, copied and handed over. A new rule moves nothing: its plane begins with "as
// hashed", that is every point belongs to whom it would belong to without the rule, and is moved
// from there by a migration. A rule ends the same way: moved back to "as hashed", under a new
// epoch; it stays in that form until every owner knows of it, and is then removed. (Removed at
// once, its keys would have the epoch again that they had before the rule, by which an owner that
// has missed all of it would serve what it remembers of them.)

namespace warmring {

// Which keys. Bytes are compared as they are; hash tags mean nothing here.
struct OverrideRule {
  enum class Match : uint8_t {
    kKey = 1,     // the one key that is `bytes`
    kPrefix = 2,  // all keys that begin with `bytes`
  };
  static constexpr size_t kMaxBytes = 1024;

  Match match = Match::kPrefix;
  std::string bytes;  // not empty

  bool Matches(std::string_view key) const {
    return match == Match::kKey ? key == bytes : key.substr(0, bytes.size()) == bytes;
  }
  std::string ToString() const;  // "prefix 'tenant-7:'", unprintable bytes escaped
  friend auto operator<=>(const OverrideRule&, const OverrideRule&) = default;
};

// Ok, or InvalidArgument naming `field`.
absl::Status ValidateOverrideRule(std::string_view field, const OverrideRule& rule);

// `(end of the range before it, end]` of a rule's plane.
struct OverrideRange {
  HashPoint end = 0;
  NodeIndex owner = 0;
  friend bool operator==(const OverrideRange&, const OverrideRange&) = default;
};

struct Override {
  static constexpr size_t kMaxRanges = 1024;

  Plane plane = kCommonPlane;  // above 0; never given to another rule again
  OverrideRule rule;
  // Sorted by end, cover the plane (the first wraps), neighbours differ in owner. Empty: as hashed.
  std::vector<OverrideRange> ranges;
  // Of the whole plane. As hashed: at least this, and the epoch of the range that each point is in
  // without the rule if that is higher.
  Epoch epoch;

  bool IsAsHashed() const { return ranges.empty(); }
  friend bool operator==(const Override&, const Override&) = default;
};

// Finds the rule of a key: a rule for just this key, else the longest prefix. Costs one probe of a
// hash table for each different length of prefix. Immutable, any thread.
class OverrideTable {
 public:
  static constexpr size_t kMaxRules = 4096;
  static constexpr size_t kNone = SIZE_MAX;

  OverrideTable() = default;
  // REQUIRES: no two of `overrides` have the same rule.
  explicit OverrideTable(const std::vector<Override>& overrides);

  // Index into the overrides, or kNone.
  size_t Find(std::string_view key) const;
  // The rule that the keys of overrides[index] would have without it: the same for all of them,
  // because every prefix of theirs that is shorter is also one of its own bytes. Or kNone.
  size_t ParentOf(size_t index) const { return parents_[index]; }

 private:
  size_t FindPrefix(std::string_view key, size_t below) const;

  absl::flat_hash_map<std::string, size_t> keys_;
  absl::flat_hash_map<std::string, size_t> prefixes_;
  std::vector<size_t> lengths_;  // of prefixes, descending, each once
  std::vector<size_t> parents_;
};

}  // namespace warmring
