#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace warmring {

// A line of a text file that says something.
struct TextLine {
  size_t number = 0;  // from 1
  std::vector<std::string_view> words;
};

// The lines of `text` that are not empty and no comment (#), cut at blanks; the words point into
// `text`. Pure, any thread.
// Errors: InvalidArgument: over Fleet::kMaxSourceBytes; a NUL byte; a last line without its end,
// since a number that is cut off in the middle looks like another number.
absl::StatusOr<std::vector<TextLine>> ReadLines(std::string_view text);

// "line 3: <what>".
absl::Status LineError(const TextLine& line, std::string_view what);

}  // namespace warmring
