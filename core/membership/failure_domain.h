#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "core/membership/node.h"

namespace warmring {

// What can fail as one, from the smallest to the largest.
enum class DomainLevel : uint8_t { kNode = 1, kRack = 2, kZone = 3 };

// Where the copies of a range may stand. Only of meaning with replication above 1.
struct DomainRule {
  // No two copies in one domain of this level.
  DomainLevel level = DomainLevel::kNode;
  // With fewer domains than copies: refuse (strict), or let copies share a domain of this level, on
  // different domains of the next lower one if that is possible, and never on one node.
  bool best_effort = false;
  friend bool operator==(const DomainRule&, const DomainRule&) = default;
};

// Ok, or InvalidArgument naming `field`.
absl::Status ValidateDomainRule(std::string_view field, const DomainRule& rule);

// The name of the domain that a node stands in: its zone; its zone and its label "rack"; its id. A
// node that does not say its zone (or rack) is a zone (or rack) of its own. Names of different
// levels are not comparable.
std::string DomainOf(const Node& node, DomainLevel level);

// "zone"
std::string_view DomainLevelName(DomainLevel level);

}  // namespace warmring
