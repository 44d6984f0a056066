#include "core/membership/failure_domain.h"

#include <fmt/format.h>

namespace warmring {
namespace {

constexpr char kRackLabel[] = "rack";
// Stands between the parts of a name, and in no id, zone or label.
constexpr char kSeparator = '\0';

// Apart from every zone and rack: none begins with two separators, not even a rack without a zone.
std::string OfItsOwn(const Node& node) { return std::string(2, kSeparator) + node.id; }

}  // namespace

absl::Status ValidateDomainRule(std::string_view field, const DomainRule& rule) {
  switch (rule.level) {
    case DomainLevel::kNode:
    case DomainLevel::kRack:
    case DomainLevel::kZone:
      return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: {} is unknown: use node (1), rack (2) or zone (3)", field,
                  static_cast<int>(rule.level)));
}

std::string DomainOf(const Node& node, DomainLevel level) {
  switch (level) {
    case DomainLevel::kZone:
      return node.zone.empty() ? OfItsOwn(node) : node.zone;
    case DomainLevel::kRack: {
      const auto rack = node.labels.find(kRackLabel);
      if (rack == node.labels.end() || rack->second.empty()) return OfItsOwn(node);
      return node.zone + kSeparator + rack->second;
    }
    case DomainLevel::kNode:
      break;
  }
  return node.id;
}

std::string_view DomainLevelName(DomainLevel level) {
  switch (level) {
    case DomainLevel::kNode:
      return "node";
    case DomainLevel::kRack:
      return "rack";
    case DomainLevel::kZone:
      return "zone";
  }
  return "unknown";
}

}  // namespace warmring
