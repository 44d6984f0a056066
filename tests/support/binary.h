#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace warmring::support {

// Where the built binaries are: $WARMRING_BIN_DIR, or else the directory of the running program,
// as all of them are built into one.
std::string BinaryDir();

// The path of a built binary ("warmringd") or module ("warmring-redis.so").
//
// Errors: NotFound, with the way out, if it has not been built.
[[nodiscard]] absl::StatusOr<std::string> BinaryPath(std::string_view name);

}  // namespace warmring::support
