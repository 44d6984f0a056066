#include "client/cli/render/overrides.h"

#include <vector>

#include <fmt/format.h>

#include "absl/strings/str_join.h"
#include "client/cli/render/table.h"
#include "core/base/ids.h"

namespace warmring::cli {
namespace {

constexpr char kAsHashed[] = "as hashed";

template <typename Names>
std::string NodesOrHashed(const Names& nodes) {
  return nodes.empty() ? kAsHashed : absl::StrJoin(nodes, ", ");
}

}  // namespace

std::string FormatRule(const v1::OverrideRule& rule) {
  const bool is_key = rule.match_case() == v1::OverrideRule::kKey;
  return fmt::format("{} '{}'", is_key ? "key" : "prefix",
                     Printable(is_key ? rule.key() : rule.prefix()));
}

std::string RenderOverrideChanges(const v1::Preview& preview) {
  std::string out;
  for (const v1::OverrideChange& change : preview.overrides()) {
    out += fmt::format("  Override  {}: {} → {}\n", FormatRule(change.rule()),
                       NodesOrHashed(change.nodes_before()), NodesOrHashed(change.nodes_after()));
  }
  Table table({{""}, {"FROM"}, {"TO"}});
  for (const v1::PlannedMove& move : preview.moves()) table.AddRow({"", move.from(), move.to()});
  return out + "\n" + table.ToString() + "\n";
}

std::string RenderOverrides(const v1::Membership& membership) {
  Table table({{"RULE"}, {"NODES"}, {"EPOCH", true}, {"PLANE", true}});
  for (const v1::Override& item : membership.overrides()) {
    std::vector<std::string> nodes;
    for (const uint32_t owner : item.range_owners()) {
      if (owner < static_cast<uint32_t>(membership.nodes_size())) {
        nodes.push_back(membership.nodes(static_cast<int>(owner)).id());
      }
    }
    table.AddRow({FormatRule(item.rule()), NodesOrHashed(nodes), fmt::format("{}", item.epoch()),
                  fmt::format("{}", item.plane())});
  }
  return table.ToString();
}

}  // namespace warmring::cli
