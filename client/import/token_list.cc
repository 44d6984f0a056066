#include "client/import/token_list.h"

#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "client/import/json_source.h"
#include "core/base/status_macros.h"

namespace warmring {
namespace {

using nlohmann::json;

constexpr size_t kMaxTokenDigits = 16;

absl::StatusOr<HashSpec> HashOf(const json& root) {
  using Function = HashSpec::Function;
  static constexpr std::pair<std::string_view, Function> kNames[] = {
      {"xxh3", Function::kXxh3},     {"xxh64", Function::kXxh64}, {"murmur3", Function::kMurmur3},
      {"ketama", Function::kKetama}, {"crc16", Function::kCrc16},
  };
  ASSIGN_OR_RETURN(const std::optional<std::string> name, ReadOptionalString("", root, "hash"));
  HashSpec hash;
  if (name) {
    hash.function = Function{};
    for (const auto& [known, function] : kNames) {
      if (*name == known) hash.function = function;
    }
    if (hash.function == Function{}) {
      return absl::InvalidArgumentError(fmt::format(
          "hash: '{}' is unknown: use xxh3, xxh64, murmur3, ketama or crc16", Printable(*name)));
    }
  }
  if (const auto tags = root.find("hash_tags"); tags != root.end()) {
    if (!tags->is_boolean()) {
      return absl::InvalidArgumentError("hash_tags: use true or false");
    }
    hash.hash_tags = tags->get<bool>();
  }
  if (hash.function == Function::kCrc16) hash.hash_tags = true;
  return hash;
}

absl::StatusOr<Node> NodeOf(const std::string& at, const json& object) {
  RETURN_IF_ERROR(CheckMembers(at, object, {"id", "address", "zone"}));
  Node node;
  ASSIGN_OR_RETURN(node.id, ReadString(at, object, "id"));
  ASSIGN_OR_RETURN(node.address, ReadString(at, object, "address"));
  ASSIGN_OR_RETURN(std::optional<std::string> zone, ReadOptionalString(at, object, "zone"));
  if (zone) node.zone = *std::move(zone);
  RETURN_IF_ERROR(ValidateNode(at, node));
  return node;
}

absl::StatusOr<HashPoint> PointOf(std::string_view at, std::string_view text) {
  HashPoint point = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), point, 16);
  if (text.empty() || text.size() > kMaxTokenDigits || error != std::errc() ||
      end != text.data() + text.size()) {
    return absl::InvalidArgumentError(
        fmt::format("{}.token: '{}': use 1 to 16 hex digits", at, Printable(text)));
  }
  return point;
}

}  // namespace

absl::StatusOr<Fleet> ParseTokenList(std::string_view text) {
  ASSIGN_OR_RETURN(const json root, ReadJsonObject(text));
  RETURN_IF_ERROR(CheckMembers("", root, {"hash", "hash_tags", "nodes", "tokens"}));
  ASSIGN_OR_RETURN(const HashSpec hash, HashOf(root));
  ASSIGN_OR_RETURN(const json* node_list, ReadList("", root, "nodes"));
  ASSIGN_OR_RETURN(const json* token_list, ReadList("", root, "tokens"));
  std::vector<Node> nodes;
  std::map<NodeId, NodeIndex> index_of;
  for (const json& object : *node_list) {
    ASSIGN_OR_RETURN(Node node, NodeOf(fmt::format("nodes[{}]", nodes.size()), object));
    index_of.emplace(node.id, static_cast<NodeIndex>(nodes.size()));
    nodes.push_back(std::move(node));
  }
  std::vector<FleetToken> tokens;
  for (const json& object : *token_list) {
    const std::string at = fmt::format("tokens[{}]", tokens.size());
    RETURN_IF_ERROR(CheckMembers(at, object, {"token", "node"}));
    ASSIGN_OR_RETURN(const std::string hex, ReadString(at, object, "token"));
    ASSIGN_OR_RETURN(const std::string name, ReadString(at, object, "node"));
    FleetToken token;
    ASSIGN_OR_RETURN(token.point, PointOf(at, hex));
    const auto node = index_of.find(name);
    if (node == index_of.end()) {
      return absl::InvalidArgumentError(
          fmt::format("{}.node: '{}' is not among the nodes", at, Printable(name)));
    }
    token.node = node->second;
    tokens.push_back(token);
  }
  return MakeRing(hash, std::move(nodes), std::move(tokens));
}

}  // namespace warmring
