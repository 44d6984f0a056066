#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "agent/redis_module/redis_api.h"
#include "core/base/hash_range.h"
#include "core/base/ids.h"

namespace warmring {

// Reads the words of a command from left to right. Every error is InvalidArgument and names the
// field, the value and what is expected.
class Arguments {
 public:
  Arguments(redis::String** argv, int argc) : argv_(argv), argc_(argc) {}

  int left() const { return argc_ - next_; }
  // REQUIRES: left() > 0.
  redis::String* NextString() { return argv_[next_++]; }

  absl::StatusOr<std::string_view> Text(std::string_view field);
  // Decimal, `low` to `high`.
  absl::StatusOr<uint64_t> Number(std::string_view field, uint64_t low, uint64_t high);
  absl::StatusOr<int64_t> Signed(std::string_view field, int64_t low, int64_t high);
  absl::StatusOr<Id128> Id(std::string_view field);
  // `<n> start end ...`, each point in 16 hex digits; n > 0. A start on another plane than the
  // common one has its number and a colon before it: `7:00ff00ff00ff00ff`.
  absl::StatusOr<HashRangeSet> Ranges(std::string_view field);
  // InvalidArgument when words are left.
  absl::Status Finish() const;

 private:
  absl::StatusOr<Plane> TakePlane(std::string_view field, std::string_view& text);
  absl::StatusOr<HashPoint> Point(std::string_view field, std::string_view text);

  redis::String** argv_;
  int argc_;
  int next_ = 1;  // behind the command's name
};

}  // namespace warmring
