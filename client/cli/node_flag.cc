#include "client/cli/node_flag.h"

#include <cmath>
#include <sstream>

#include <fmt/format.h>

#include "absl/strings/numbers.h"
#include "core/base/ids.h"

namespace warmring::cli {

absl::StatusOr<v1::Node> ParseNodeFlag(const std::string& flag, const std::string& text) {
  const auto bad = [&](const std::string& what) {
    return absl::InvalidArgumentError(
        fmt::format("{}: '{}': {}; write NODE=HOST:PORT[,weight=W][,zone=Z][,rack=R]", flag,
                    Printable(text), what));
  };
  v1::Node node;
  std::stringstream parts(text);
  std::string part;
  while (std::getline(parts, part, ',')) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos) return bad("no '='");
    const std::string name = part.substr(0, equals);
    const std::string value = part.substr(equals + 1);
    if (node.id().empty()) {
      node.set_id(name);
      node.set_address(value);
    } else if (name == "weight") {
      double weight = 0;
      if (!absl::SimpleAtod(value, &weight) || !std::isfinite(weight)) {
        return bad("the weight is not a number");
      }
      node.set_weight(weight);
    } else if (name == "zone") {
      node.set_zone(value);
    } else if (name == "rack") {
      (*node.mutable_labels())["rack"] = value;
    } else {
      return bad(fmt::format("'{}' is not weight, zone or rack", Printable(name)));
    }
  }
  if (node.id().empty()) return bad("no node");
  return node;
}

}  // namespace warmring::cli
