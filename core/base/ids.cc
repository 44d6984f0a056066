#include "core/base/ids.h"

#include <fmt/format.h>

namespace warmring {
namespace {

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool ParseHex64(std::string_view text, uint64_t& out) {
  out = 0;
  for (char c : text) {
    uint64_t nibble = 0;
    if (IsDigit(c)) {
      nibble = static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      nibble = static_cast<uint64_t>(c - 'a' + 10);
    } else {
      return false;
    }
    out = (out << 4) | nibble;
  }
  return true;
}

}  // namespace

std::string Id128::ToString() const { return fmt::format("{:016x}{:016x}", high, low); }

absl::StatusOr<Id128> Id128::Parse(std::string_view text) {
  Id128 id;
  if (text.size() != 32 || !ParseHex64(text.substr(0, 16), id.high) ||
      !ParseHex64(text.substr(16), id.low)) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}' is not a 128-bit id: 32 lower-case hex digits are expected", Printable(text)));
  }
  return id;
}

bool IsValidId(std::string_view id) {
  if (id.empty() || id.size() > 63 || !IsLower(id.front()) || id.back() == '-') return false;
  for (char c : id) {
    if (!IsLower(c) && !IsDigit(c) && c != '-') return false;
  }
  return true;
}

absl::Status ValidateId(std::string_view field, std::string_view id) {
  if (IsValidId(id)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{}: '{}' is not a valid id: use 1 to 63 lower-case letters, digits and '-', beginning with "
      "a letter and not ending with '-'",
      field, Printable(id)));
}

std::string Printable(std::string_view text, size_t max_bytes) {
  std::string out;
  for (char c : text) {
    if (out.size() >= max_bytes) return out + "...";
    auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '\\') {
      out.push_back(c);
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  return out;
}

}  // namespace warmring
