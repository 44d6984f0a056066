#include "client/cli/number_list.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "core/base/ids.h"

namespace warmring::cli {
namespace {

constexpr uint32_t kMaxBuckets = uint32_t{1} << 20;
constexpr std::streamsize kMaxFileBytes = std::streamsize{64} << 20;

std::string_view Stripped(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Digits only: no sign, no blank.
template <typename Number>
bool ParseNumber(std::string_view text, Number* number) {
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
  return digits && absl::SimpleAtoi(absl::string_view(text.data(), text.size()), number);
}

absl::StatusOr<std::vector<uint64_t>> ParseJsonLoad(std::string_view name, std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: it begins like a JSON array and is none", name));
  }
  std::vector<uint64_t> load;
  for (size_t i = 0; i < json.size(); ++i) {
    if (!json[i].is_number_unsigned()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: [{}]: {} is not a whole number that is not negative", name, i,
                      Printable(json[i].dump(-1, ' ', true), 40)));
    }
    load.push_back(json[i].get<uint64_t>());
  }
  return load;
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> ParseBuckets(std::string_view text) {
  const size_t dash = text.find('-');
  uint32_t first = 0;
  uint32_t last = 0;
  const bool ok = ParseNumber(text.substr(0, dash), &first) &&
                  (dash == std::string_view::npos || ParseNumber(text.substr(dash + 1), &last));
  if (dash == std::string_view::npos) last = first;
  if (!ok || last < first || last - first >= kMaxBuckets) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is neither a bucket (7) nor a span of buckets (5-9)", Printable(text)));
  }
  std::vector<uint32_t> buckets;
  for (uint32_t offset = 0; offset <= last - first; ++offset) buckets.push_back(first + offset);
  return buckets;
}

absl::StatusOr<std::vector<uint64_t>> ParseLoad(std::string_view name, std::string_view text) {
  if (Stripped(text).starts_with('[')) return ParseJsonLoad(name, text);
  std::vector<uint64_t> load;
  size_t line_number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = Stripped(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    ++line_number;
    if (line.empty() || line.front() == '#') continue;
    uint64_t number = 0;
    if (!ParseNumber(line, &number)) {
      return absl::InvalidArgumentError(
          fmt::format("{}:{}: '{}' is not a whole number that is not negative", name, line_number,
                      Printable(line, 40)));
    }
    load.push_back(number);
  }
  if (load.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: it has no number: give one for each bucket", name));
  }
  return load;
}

absl::StatusOr<std::vector<uint64_t>> ReadLoadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::InvalidArgumentError(
        fmt::format("--load: '{}' cannot be opened for reading", Printable(path, 200)));
  }
  std::string text;
  std::string chunk(size_t{1} << 16, '\0');
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())), file.gcount() > 0) {
    text.append(chunk, 0, static_cast<size_t>(file.gcount()));
    if (static_cast<std::streamsize>(text.size()) > kMaxFileBytes) {
      return absl::InvalidArgumentError(
          fmt::format("--load: '{}' has more than {} bytes", Printable(path, 200), kMaxFileBytes));
    }
  }
  return ParseLoad("--load: " + Printable(path, 200), text);
}

}  // namespace warmring::cli
