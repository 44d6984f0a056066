#include "client/import/text_lines.h"

#include <utility>

#include <fmt/format.h>

#include "client/import/fleet.h"

namespace warmring {
namespace {

constexpr std::string_view kBlanks = " \t\r\v\f";

std::vector<std::string_view> WordsOf(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    const size_t begin = line.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos || line[begin] == '#') return words;
    line.remove_prefix(begin);
    const size_t end = line.find_first_of(kBlanks);
    words.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return words;
    line.remove_prefix(end);
  }
}

}  // namespace

absl::StatusOr<std::vector<TextLine>> ReadLines(std::string_view text) {
  if (text.size() > Fleet::kMaxSourceBytes) {
    return absl::InvalidArgumentError(fmt::format("the file has {} bytes: {} are the limit",
                                                  text.size(), Fleet::kMaxSourceBytes));
  }
  if (text.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError("the file has a NUL byte: it is no text");
  }
  if (!text.empty() && text.back() != '\n') {
    return absl::InvalidArgumentError(
        "the last line does not end: the file may be cut off; if it is complete, end it with a "
        "newline");
  }
  std::vector<TextLine> lines;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    TextLine line{number, WordsOf(text.substr(0, end))};
    if (!line.words.empty()) lines.push_back(std::move(line));
    text.remove_prefix(end + 1);
  }
  return lines;
}

absl::Status LineError(const TextLine& line, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("line {}: {}", line.number, what));
}

}  // namespace warmring
