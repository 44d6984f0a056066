#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace warmring {

// A page of a list: where it begins and how many items it has.
struct Page {
  uint64_t begin = 0;
  uint32_t size = 0;
};

// `page_size` 0 is the default of 100, 1000 the most; `page_token` is empty or one that NextToken
// made. Errors: InvalidArgument naming the field.
absl::StatusOr<Page> ParsePage(uint32_t page_size, const std::string& page_token);

// Opaque to callers; empty when `next` is at or behind `total`.
std::string NextToken(uint64_t next, uint64_t total);

}  // namespace warmring
