#include "core/membership/node.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "core/base/status_macros.h"

namespace warmring {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsAlpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool IsPrintable(char c) { return c >= 0x20 && c < 0x7f; }

// The decimal number `text` of at most `max_digits` digits, if it is one.
std::optional<uint32_t> ParseDecimal(std::string_view text, size_t max_digits) {
  if (text.empty() || text.size() > max_digits) return std::nullopt;
  uint32_t value = 0;
  for (char c : text) {
    if (!IsDigit(c)) return std::nullopt;
    value = value * 10 + static_cast<uint32_t>(c - '0');
  }
  return value;
}

// Calls `visit(part)` for each part of `text` between `separator`s until it returns false.
template <typename Visit>
bool EachPart(std::string_view text, char separator, Visit visit) {
  while (true) {
    const size_t at = text.find(separator);
    if (!visit(text.substr(0, at))) return false;
    if (at == std::string_view::npos) return true;
    text.remove_prefix(at + 1);
  }
}

bool IsIpv4(std::string_view host) {
  size_t parts = 0;
  const bool bytes = EachPart(host, '.', [&](std::string_view part) {
    ++parts;
    const std::optional<uint32_t> value = ParseDecimal(part, 3);
    return value.has_value() && *value <= 255;
  });
  return bytes && parts == 4;
}

bool IsDnsName(std::string_view host) {
  if (!host.empty() && host.back() == '.') host.remove_suffix(1);
  if (host.empty() || host.size() > 253) return false;
  return EachPart(host, '.', [](std::string_view label) {
    return !label.empty() && label.size() <= 63 && label.front() != '-' && label.back() != '-' &&
           std::all_of(label.begin(), label.end(),
                       [](char c) { return IsAlpha(c) || IsDigit(c) || c == '-' || c == '_'; });
  });
}

// Number of 16-bit groups in a part of an IPv6 address without "::", or nothing if it is none.
std::optional<size_t> CountGroups(std::string_view text, bool may_end_in_ipv4) {
  if (text.empty()) return 0;
  size_t groups = 0;
  bool ended = false;
  const bool good = EachPart(text, ':', [&](std::string_view part) {
    if (ended) return false;
    if (part.find('.') != std::string_view::npos) {
      ended = true;
      groups += 2;
      return may_end_in_ipv4 && IsIpv4(part);
    }
    ++groups;
    return !part.empty() && part.size() <= 4 && std::all_of(part.begin(), part.end(), IsHex);
  });
  if (!good) return std::nullopt;
  return groups;
}

bool IsIpv6(std::string_view host) {
  // A link-local address names its interface: fe80::1%eth0.
  if (const size_t percent = host.find('%'); percent != std::string_view::npos) {
    if (!IsDnsName(host.substr(percent + 1))) return false;
    host = host.substr(0, percent);
  }
  const size_t gap = host.find("::");
  if (gap == std::string_view::npos) return CountGroups(host, true) == 8;
  const std::optional<size_t> before = CountGroups(host.substr(0, gap), false);
  const std::optional<size_t> after = CountGroups(host.substr(gap + 2), true);
  return before.has_value() && after.has_value() && *before + *after <= 7;
}

absl::Status AddressError(std::string_view field, std::string_view address, std::string_view why) {
  return absl::InvalidArgumentError(
      fmt::format("{}: '{}' is not a valid address: {}", field, Printable(address), why));
}

absl::Status CheckText(std::string_view field, std::string_view text, size_t max_bytes) {
  if (text.size() > max_bytes) {
    return absl::InvalidArgumentError(fmt::format("{}: '{}' has {} bytes: use at most {}", field,
                                                  Printable(text), text.size(), max_bytes));
  }
  if (!std::all_of(text.begin(), text.end(), IsPrintable)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: '{}': use printable ASCII only", field, Printable(text)));
  }
  return absl::OkStatus();
}

absl::Status CheckLabels(std::string_view field, const Node& node) {
  if (node.labels.size() > Node::kMaxLabels) {
    return absl::InvalidArgumentError(fmt::format("{}.labels: {} labels: use at most {}", field,
                                                  node.labels.size(), Node::kMaxLabels));
  }
  for (const auto& [key, value] : node.labels) {
    if (key.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{}.labels: '' = '{}': a label needs a key", field, Printable(value)));
    }
    RETURN_IF_ERROR(CheckText(fmt::format("{}.labels", field), key, Node::kMaxLabelBytes));
    RETURN_IF_ERROR(CheckText(fmt::format("{}.labels[{}]", field, Printable(key)), value,
                              Node::kMaxLabelBytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateAddress(std::string_view field, std::string_view address) {
  if (address.empty()) return AddressError(field, address, "it is empty: use host:port");
  if (address.size() > Node::kMaxAddressBytes) {
    return AddressError(
        field, address,
        fmt::format("it has {} bytes: use at most {}", address.size(), Node::kMaxAddressBytes));
  }
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || address.back() == ']') {
    return AddressError(field, address, "the port is missing: use host:port");
  }
  const std::optional<uint32_t> port = ParseDecimal(address.substr(colon + 1), 5);
  if (!port.has_value() || *port < 1 || *port > 65535) {
    return AddressError(field, address, "the port must be a number from 1 to 65535");
  }
  const std::string_view host = address.substr(0, colon);
  if (!host.empty() && host.front() == '[') {
    if (host.back() == ']' && IsIpv6(host.substr(1, host.size() - 2))) return absl::OkStatus();
    return AddressError(field, address, "what stands in the brackets is not an IPv6 address");
  }
  if (host.find(':') != std::string_view::npos) {
    return AddressError(field, address, "put an IPv6 address in brackets: [::1]:6379");
  }
  const bool numeric = !host.empty() && std::all_of(host.begin(), host.end(),
                                                    [](char c) { return IsDigit(c) || c == '.'; });
  if (numeric ? !IsIpv4(host) : !IsDnsName(host)) {
    return AddressError(field, address, "the host must be a DNS name, an IPv4 address or [IPv6]");
  }
  return absl::OkStatus();
}

absl::Status ValidateNode(std::string_view field, const Node& node) {
  RETURN_IF_ERROR(ValidateId(fmt::format("{}.id", field), node.id));
  if (node.hash_name.size() > Node::kMaxHashNameBytes) {
    return absl::InvalidArgumentError(fmt::format("{}.hash_name: '{}' has {} bytes: use at most {}",
                                                  field, Printable(node.hash_name),
                                                  node.hash_name.size(), Node::kMaxHashNameBytes));
  }
  RETURN_IF_ERROR(ValidateAddress(fmt::format("{}.address", field), node.address));
  if (node.weight_milli < Node::kMinWeightMilli || node.weight_milli > Node::kMaxWeightMilli) {
    return absl::InvalidArgumentError(
        fmt::format("{}.weight: {} is out of bounds: use 0.01 to 1000", field,
                    static_cast<double>(node.weight_milli) / 1000));
  }
  RETURN_IF_ERROR(CheckText(fmt::format("{}.zone", field), node.zone, Node::kMaxZoneBytes));
  return CheckLabels(field, node);
}

}  // namespace warmring
