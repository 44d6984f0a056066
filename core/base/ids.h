#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/strong_int.h"

// The names and numbers that every room shares. All are plain values, safe on any thread.

namespace warmring {

using KeyspaceId = std::string;   // grammar: IsValidId
using NodeId = std::string;       // grammar: IsValidId
using MigrationId = std::string;  // grammar: IsValidId

// The number of a membership. Only grows, without gaps; 0 means "none".
using Version = StrongInt<struct VersionTag>;

// Names the tenure of a range's present owner. Taken from a counter of the keyspace that is never
// reused; 0 means "none".
using Epoch = StrongInt<struct EpochTag>;

// Leadership term of the server; grows by one at each start of an embedded server.
using Term = StrongInt<struct TermTag>;

// 128 random bits, written as 32 lower-case hex digits.
struct Id128 {
  uint64_t high = 0;
  uint64_t low = 0;

  bool IsZero() const { return high == 0 && low == 0; }
  std::string ToString() const;
  // Error: InvalidArgument when `text` is not exactly 32 lower-case hex digits.
  static absl::StatusOr<Id128> Parse(std::string_view text);
  friend auto operator<=>(const Id128&, const Id128&) = default;
};

// Minted when a store is created or restored. With a Version it names a membership for ever.
struct HistoryId : Id128 {
  // First 8 hex digits: what a client writes in front of an epoch, `a1b2c3d4:17`.
  std::string Tag() const { return ToString().substr(0, 8); }
};

// One run of an owner process (for Redis: one load of the module). A restart is another owner.
struct Incarnation : Id128 {};

// `[a-z]([a-z0-9-]{0,61}[a-z0-9])?`: ASCII, at most 63 bytes.
bool IsValidId(std::string_view id);

// Ok, or InvalidArgument naming `field`, the (escaped, shortened) value and the grammar.
absl::Status ValidateId(std::string_view field, std::string_view id);

// `text` made safe for a message: control and non-ASCII bytes escaped, at most `max_bytes` long.
std::string Printable(std::string_view text, size_t max_bytes = 80);

}  // namespace warmring
