#include "client/import/fleet.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/base/status_macros.h"

namespace warmring {
namespace {

constexpr size_t kMaxIdBytes = 63;
constexpr Epoch kFirstEpoch(1);

absl::Status CheckNodes(const std::vector<Node>& nodes) {
  if (nodes.empty()) return absl::InvalidArgumentError("nodes: the source names none");
  if (nodes.size() > Membership::kMaxNodes) {
    return absl::InvalidArgumentError(
        fmt::format("nodes: {} are over the limit of {}", nodes.size(), Membership::kMaxNodes));
  }
  std::map<std::string_view, const Node*> ids;
  for (const Node& node : nodes) {
    const auto [at, fresh] = ids.emplace(node.id, &node);
    if (fresh) continue;
    return absl::InvalidArgumentError(fmt::format(
        "nodes: '{}' and '{}' would both have the id '{}': name each node once, by different names",
        Printable(at->second->HashName()), Printable(node.HashName()), node.id));
  }
  return absl::OkStatus();
}

absl::Status CheckTokens(const std::vector<Node>& nodes, const std::vector<FleetToken>& tokens) {
  std::vector<bool> owns(nodes.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    owns[tokens[i].node] = true;
    if (i == 0 || tokens[i].point != tokens[i - 1].point) continue;
    return absl::InvalidArgumentError(fmt::format(
        "tokens: '{}' and '{}' both have the token {:016x}: which of them the original prefers "
        "depends on how it sorts, so that its keys cannot be kept in place for certain",
        Printable(nodes[tokens[i - 1].node].HashName()),
        Printable(nodes[tokens[i].node].HashName()), tokens[i].point));
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (owns[i]) continue;
    return absl::InvalidArgumentError(fmt::format(
        "tokens: '{}' has none: the source may be cut off; give it one or leave the node out",
        Printable(nodes[i].HashName())));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<double> Fleet::Shares() const {
  std::vector<double> shares(nodes.size());
  for (size_t i = 0; i < ranges.size(); ++i) {
    const HashPoint start = ranges[i == 0 ? ranges.size() - 1 : i - 1].end;
    const HashRange range{start, ranges[i].end};
    shares[ranges[i].owner] += std::ldexp(static_cast<double>(range.SizeMinusOne()) + 1, -64);
  }
  return shares;
}

NodeId NodeIdOf(std::string_view name) {
  NodeId id;
  for (const char c : name.substr(0, Node::kMaxHashNameBytes)) {
    const bool upper = c >= 'A' && c <= 'Z';
    const char lower = upper ? static_cast<char>(c - 'A' + 'a') : c;
    const bool good = (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9');
    if (good) {
      id.push_back(lower);
    } else if (!id.empty() && id.back() != '-') {
      id.push_back('-');
    }
  }
  if (id.empty() || id[0] < 'a') id = "node-" + id;
  // The end of a long name tells nodes of one domain apart no better than its beginning does.
  id.resize(std::min(id.size(), kMaxIdBytes));
  while (id.back() == '-') id.pop_back();
  return id;
}

absl::StatusOr<Node> MakeFleetNode(std::string_view name, std::string_view address) {
  Node node;
  node.id = NodeIdOf(name);
  node.hash_name = std::string(name);
  node.address = std::string(address);
  RETURN_IF_ERROR(ValidateNode("node", node));
  return node;
}

absl::StatusOr<Fleet> MakeRing(const HashSpec& hash, std::vector<Node> nodes,
                               std::vector<FleetToken> tokens) {
  RETURN_IF_ERROR(CheckNodes(nodes));
  std::sort(tokens.begin(), tokens.end(), [](const FleetToken& a, const FleetToken& b) {
    return a.point != b.point ? a.point < b.point : a.node < b.node;
  });
  tokens.erase(std::unique(tokens.begin(), tokens.end(),
                           [](const FleetToken& a, const FleetToken& b) {
                             return a.point == b.point && a.node == b.node;
                           }),
               tokens.end());
  RETURN_IF_ERROR(CheckTokens(nodes, tokens));
  if (tokens.size() > Membership::kMaxRanges) {
    return absl::InvalidArgumentError(
        fmt::format("tokens: {} are over the limit of {}", tokens.size(), Membership::kMaxRanges));
  }
  Fleet fleet;
  fleet.hash = hash;
  const uint64_t mean = (tokens.size() + nodes.size() / 2) / nodes.size();
  fleet.tokens_per_node = static_cast<uint32_t>(
      std::clamp<uint64_t>(mean, 1, uint64_t{KeyspaceSpec::kMaxTokensPerNode}));
  fleet.nodes = std::move(nodes);
  fleet.ranges.reserve(tokens.size());
  for (const FleetToken& token : tokens) {
    fleet.ranges.push_back({token.point, token.node, kFirstEpoch});
  }
  return fleet;
}

absl::Status CheckSize(const Fleet& fleet, const FleetSize& expected) {
  if (expected.nodes && *expected.nodes != fleet.nodes.size()) {
    return absl::InvalidArgumentError(
        fmt::format("nodes: the source names {} where {} are expected: is it complete?",
                    fleet.nodes.size(), *expected.nodes));
  }
  if (expected.ranges && *expected.ranges != fleet.ranges.size()) {
    return absl::InvalidArgumentError(
        fmt::format("ranges: the source gives {} where {} are expected: is it complete?",
                    fleet.ranges.size(), *expected.ranges));
  }
  return absl::OkStatus();
}

}  // namespace warmring
