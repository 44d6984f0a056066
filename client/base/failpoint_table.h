#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace warmring {

// What the failpoints of this process do: the text of the environment variable as a value.
struct FailpointAction {
  enum class Kind : uint8_t { kExit, kStop, kSleep };
  Kind kind = Kind::kExit;
  uint64_t sleep_ms = 0;
  uint64_t nth = 1;
  friend bool operator==(const FailpointAction&, const FailpointAction&) = default;
};

// Error: InvalidArgument naming the entry that cannot be read.
absl::StatusOr<std::map<std::string, FailpointAction>> ParseFailpoints(std::string_view text);

// Acts if the environment says so. Thread-safe. Ends the process with a message when the variable
// cannot be read: a test that names a point wrongly must not pass.
void HitFailpoint(std::string_view name);

}  // namespace warmring
