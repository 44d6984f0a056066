#include "client/import/envoy_ring.h"

#include <algorithm>
#include <cmath>
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

constexpr uint64_t kDefaultMinimum = 1024;
constexpr uint64_t kMaximum = 8'388'608;  // Envoy's bound and default; ours too

struct EnvoyHost {
  Node node;
  uint64_t weight = 1;
};

absl::StatusOr<EnvoyHost> HostOf(const std::string& at, const json& value) {
  EnvoyHost host;
  std::string address;
  std::optional<std::string> hash_key;
  if (value.is_string()) {
    address = value.get_ref<const std::string&>();
  } else {
    RETURN_IF_ERROR(CheckMembers(at, value, {"address", "hash_key", "weight"}));
    ASSIGN_OR_RETURN(address, ReadString(at, value, "address"));
    ASSIGN_OR_RETURN(hash_key, ReadOptionalString(at, value, "hash_key"));
    ASSIGN_OR_RETURN(const std::optional<uint64_t> weight, ReadOptionalNumber(at, value, "weight"));
    if (weight) host.weight = *weight;
  }
  if (hash_key && hash_key->empty()) {
    return absl::InvalidArgumentError(fmt::format("{}.hash_key: is empty: leave it out", at));
  }
  host.node.id = NodeIdOf(address);
  host.node.hash_name = hash_key.value_or(address);
  host.node.address = address;
  RETURN_IF_ERROR(ValidateNode(at, host.node));
  return host;
}

// Whether Envoy's walk gives each of `hosts` equal hosts exactly `per_host` points, however the
// machine rounds: it adds scale * weight to a running sum in double precision, in one step or two.
bool WalkGives(uint64_t per_host, uint64_t hosts) {
  const double weight = 1.0 / static_cast<double>(hosts);
  const double scale = static_cast<double>(per_host) / weight;
  // A barrier, so that no compiler fuses this product with the sum.
  const volatile double product = scale * weight;
  double plain = 0;
  double fused = 0;
  for (uint64_t host = 1; host <= hosts; ++host) {
    plain += product;
    fused = std::fma(scale, weight, fused);
    const auto points = static_cast<double>(per_host * host);
    if (std::ceil(plain) != points || std::ceil(fused) != points) return false;
  }
  return true;
}

absl::StatusOr<uint64_t> PointsPerHost(const json& root, uint64_t hosts) {
  ASSIGN_OR_RETURN(const std::optional<uint64_t> given,
                   ReadOptionalNumber("", root, "hashes_per_host"));
  ASSIGN_OR_RETURN(const std::optional<uint64_t> minimum_given,
                   ReadOptionalNumber("", root, "minimum_ring_size"));
  ASSIGN_OR_RETURN(const std::optional<uint64_t> maximum_given,
                   ReadOptionalNumber("", root, "maximum_ring_size"));
  const uint64_t minimum = minimum_given.value_or(kDefaultMinimum);
  const uint64_t maximum = maximum_given.value_or(kMaximum);
  if (maximum > kMaximum) {
    return absl::InvalidArgumentError(
        fmt::format("maximum_ring_size: {} is over {}, the bound of Envoy", maximum, kMaximum));
  }
  if (minimum > maximum) {
    return absl::InvalidArgumentError(
        fmt::format("minimum_ring_size: {} is over maximum_ring_size {}", minimum, maximum));
  }
  if (given && (minimum_given || maximum_given)) {
    return absl::InvalidArgumentError(
        "hashes_per_host: it says what the ring sizes say: leave those out");
  }
  const uint64_t per_host = given ? *given : (minimum + hosts - 1) / hosts;
  if (per_host < 1 || per_host > maximum / hosts) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: {} hosts with {} points each do not fit between 1 a host and maximum_ring_size {}: "
        "hosts would have different numbers of points, which hang on a float formula",
        given ? "hashes_per_host" : "minimum_ring_size", hosts, per_host, maximum));
  }
  if (given) return per_host;
  // Envoy takes the ceiling of a product of doubles.
  const double scaled = 1.0 / static_cast<double>(hosts) * static_cast<double>(minimum);
  if (std::ceil(scaled) != static_cast<double>(per_host) || !WalkGives(per_host, hosts)) {
    return absl::InvalidArgumentError(fmt::format(
        "minimum_ring_size: with {} hosts and {} the sums of Envoy's float formula do not give "
        "each "
        "host {} points: read min_hashes_per_host and max_hashes_per_host from Envoy and, if they "
        "are equal, give that as hashes_per_host",
        hosts, minimum, per_host));
  }
  return per_host;
}

absl::Status CheckHash(const json& root) {
  ASSIGN_OR_RETURN(const std::optional<std::string> name,
                   ReadOptionalString("", root, "hash_function"));
  if (!name || *name == "XX_HASH") return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("hash_function: '{}' cannot be imported: XX_HASH can", Printable(*name)));
}

}  // namespace

absl::StatusOr<Fleet> ParseEnvoyRing(std::string_view text) {
  ASSIGN_OR_RETURN(const json root, ReadJsonObject(text));
  RETURN_IF_ERROR(CheckMembers(
      "", root,
      {"hosts", "minimum_ring_size", "maximum_ring_size", "hashes_per_host", "hash_function"}));
  RETURN_IF_ERROR(CheckHash(root));
  ASSIGN_OR_RETURN(const json* hosts, ReadList("", root, "hosts"));
  std::vector<Node> nodes;
  uint64_t common_weight = 1;
  for (const json& value : *hosts) {
    const std::string at = fmt::format("hosts[{}]", nodes.size());
    ASSIGN_OR_RETURN(EnvoyHost host, HostOf(at, value));
    if (nodes.empty()) common_weight = host.weight;
    if (host.weight != common_weight || host.weight == 0) {
      return absl::InvalidArgumentError(fmt::format(
          "{}.weight: {} where the first host has {}: only equal weights above 0 give numbers of "
          "points that do not hang on how a machine rounds",
          at, host.weight, common_weight));
    }
    nodes.push_back(std::move(host.node));
  }
  if (nodes.empty()) return absl::InvalidArgumentError("hosts: is empty");
  ASSIGN_OR_RETURN(const uint64_t per_host, PointsPerHost(root, nodes.size()));
  std::vector<FleetToken> tokens;
  tokens.reserve(per_host * nodes.size());
  const HashSpec hash{HashSpec::Function::kXxh64, false};
  for (NodeIndex i = 0; i < nodes.size(); ++i) {
    for (uint64_t point = 0; point < per_host; ++point) {
      tokens.push_back({HashKey(hash, fmt::format("{}_{}", nodes[i].hash_name, point)), i});
    }
  }
  return MakeRing(hash, std::move(nodes), std::move(tokens));
}

}  // namespace warmring
