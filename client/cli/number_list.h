#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace warmring::cli {

// "7" or "5-9", as a plan file and a flag write buckets. Error: InvalidArgument saying what the
// text should be, without naming where it stands. At most 2^20 numbers.
absl::StatusOr<std::vector<uint32_t>> ParseBuckets(std::string_view text);

// The load of each bucket: one whole number a line (empty lines and lines that begin with # do not
// count), or one JSON array of them. Error: InvalidArgument naming `name`, line and value.
absl::StatusOr<std::vector<uint64_t>> ParseLoad(std::string_view name, std::string_view text);

// Reads such a file. Errors besides: it cannot be read, or is over 64 MiB.
absl::StatusOr<std::vector<uint64_t>> ReadLoadFile(const std::string& path);

}  // namespace warmring::cli
