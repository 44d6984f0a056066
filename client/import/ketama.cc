#include "client/import/ketama.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "client/import/text_lines.h"
#include "core/base/status_macros.h"
#include "core/hashing/little_endian.h"
#include "core/hashing/md5.h"

namespace warmring {
namespace {

constexpr uint32_t kPointsPerGroup = 4;
constexpr uint32_t kGroups = 40;
constexpr uint32_t kMaxWeight = 65535;
constexpr std::string_view kDefaultPort = ":11211";

absl::StatusOr<uint32_t> ParseWeight(const TextLine& line) {
  const std::string_view text = line.words[1];
  uint32_t weight = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
  if (error != std::errc() || end != text.data() + text.size() || weight < 1 ||
      weight > kMaxWeight) {
    return LineError(line, fmt::format("weight '{}': use a whole number from 1 to {}",
                                       Printable(text), kMaxWeight));
  }
  return weight;
}

// libmemcached: floor((float) weight / total * 160 / 4 * servers + 1e-10), each step in single
// precision. A product of two singles is exact in double precision, so that both ways in which a
// machine may round the last step can be tried.
absl::StatusOr<uint32_t> GroupsOfLibmemcached(uint64_t weight, size_t servers) {
  const float share =
      static_cast<float>(weight) / static_cast<float>(weight * static_cast<uint64_t>(servers));
  const auto per_server = static_cast<float>(double{share} * 160) / 4;
  const double product = double{per_server} * static_cast<double>(servers);
  const auto rounded = static_cast<uint32_t>(std::floor(static_cast<float>(product)));
  const auto fused = static_cast<uint32_t>(std::floor(static_cast<float>(product + 1e-10)));
  if (rounded == fused) return rounded;
  return absl::InvalidArgumentError(fmt::format(
      "{} servers: libmemcached's formula gives {} or {} points a server, depending on the machine",
      servers, rounded * kPointsPerGroup, fused * kPointsPerGroup));
}

void AddPoints(std::string_view name, uint32_t groups, NodeIndex node,
               std::vector<FleetToken>& tokens) {
  for (uint32_t group = 0; group < groups; ++group) {
    const std::array<uint8_t, 16> digest = Md5(fmt::format("{}-{}", name, group));
    for (size_t at = 0; at < digest.size(); at += sizeof(uint32_t)) {
      tokens.push_back({PointOfKetama(LoadLittleEndian<uint32_t>(digest.data() + at)), node});
    }
  }
}

}  // namespace

absl::StatusOr<Fleet> ParseKetama(std::string_view text, KetamaLibrary library) {
  ASSIGN_OR_RETURN(const std::vector<TextLine> lines, ReadLines(text));
  std::vector<Node> nodes;
  uint32_t common_weight = 1;
  for (const TextLine& line : lines) {
    if (line.words.size() > 2) {
      return LineError(line, fmt::format("'{}' is too much: write host:port, or host:port weight",
                                         Printable(line.words[2])));
    }
    const std::string_view address = line.words[0];
    if (library == KetamaLibrary::kLibmemcached && address.front() == '[') {
      return LineError(line, "libmemcached's name of an IPv6 server is not known: use tokens");
    }
    std::string_view name = address;
    if (library == KetamaLibrary::kLibmemcached && name.ends_with(kDefaultPort)) {
      name.remove_suffix(kDefaultPort.size());
    }
    absl::StatusOr<Node> node = MakeFleetNode(name, address);
    if (!node.ok()) {
      return LineError(
          line, std::string_view(node.status().message().data(), node.status().message().size()));
    }
    node->id = NodeIdOf(address);
    nodes.push_back(*std::move(node));
    uint32_t weight = 1;
    if (line.words.size() == 2) {
      ASSIGN_OR_RETURN(weight, ParseWeight(line));
    }
    if (nodes.size() == 1) common_weight = weight;
    if (weight != common_weight) {
      return LineError(
          line, fmt::format("weight {} where the first server has {}: the original derives the "
                            "number of points from weights by a float formula that differs "
                            "from library to library; export its tokens and use --from tokens",
                            weight, common_weight));
    }
  }
  uint32_t groups = kGroups;
  if (library == KetamaLibrary::kLibmemcached && !nodes.empty()) {
    ASSIGN_OR_RETURN(groups, GroupsOfLibmemcached(common_weight, nodes.size()));
  }
  if (nodes.size() > Membership::kMaxRanges / (kGroups * kPointsPerGroup)) {
    return absl::InvalidArgumentError(fmt::format(
        "{} servers have more points than the limit of {}", nodes.size(), Membership::kMaxRanges));
  }
  std::vector<FleetToken> tokens;
  for (NodeIndex i = 0; i < nodes.size(); ++i) {
    AddPoints(nodes[i].hash_name, groups, i, tokens);
  }
  return MakeRing({HashSpec::Function::kKetama, false}, std::move(nodes), std::move(tokens));
}

}  // namespace warmring
