#include "client/cli/render/balance.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "client/cli/render/preview.h"
#include "client/cli/render/table.h"
#include "core/placement/preference.h"

namespace warmring::cli {
namespace {

constexpr size_t kColumns = 72;
constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
// For the nodes after those.
constexpr char kOther = '.';
constexpr double kWholeSpace = 18446744073709551616.0;  // 2^64

char LetterOf(NodeIndex node) { return node < kLetters.size() ? kLetters[node] : kOther; }

std::string Evenness(const Balance& balance) {
  return fmt::format("max/mean {:.4f}, min/mean {:.4f}", balance.max_over_mean,
                     balance.min_over_mean);
}

std::string Violations(const Membership& membership) {
  if (membership.spec().replication == 1) return "";
  return fmt::format(", {} copies share a {} or are missing", CountDomainViolations(membership),
                     DomainLevelName(membership.spec().domains.level));
}

// How much of each column the nodes own, in hash space.
std::vector<std::map<NodeIndex, double>> ColumnsOf(const Membership& membership) {
  std::vector<std::map<NodeIndex, double>> columns(kColumns);
  const double width = kWholeSpace / kColumns;
  const auto add = [&](double from, double to, NodeIndex owner) {
    for (auto c = static_cast<size_t>(from / width); c < kColumns && from < to; ++c) {
      const double end = std::min(to, width * static_cast<double>(c + 1));
      if (end > from) columns[c][owner] += end - from;
      from = std::max(from, end);
    }
  };
  for (size_t i = 0; i < membership.ranges().size(); ++i) {
    const HashRange range = membership.RangeAt(i);
    const NodeIndex owner = membership.ranges()[i].owner;
    const auto start = static_cast<double>(range.start);
    const auto end = static_cast<double>(range.end);
    if (range.start < range.end) {
      add(start, end, owner);
    } else {
      add(start, kWholeSpace, owner);
      add(0, end, owner);
    }
  }
  return columns;
}

}  // namespace

std::string RenderBalance(const Membership& membership) {
  const Balance balance = BalanceOf(membership);
  const bool replicated = membership.spec().replication > 1;
  std::vector<Table::Column> columns = {{"NODE"},        {"ZONE"},        {"WEIGHT", true},
                                        {"SHARE", true}, {"IDEAL", true}, {"LOAD", true},
                                        {"RANGES", true}};
  if (replicated) columns.push_back({"FOLLOWS", true});
  Table table(columns);
  for (const NodeBalance& node : balance.nodes) {
    const Node& member = membership.nodes()[node.node];
    std::vector<std::string> row = {member.id,
                                    member.zone.empty() ? "-" : member.zone,
                                    fmt::format("{}", member.weight_milli / 1000.0),
                                    FormatShare(node.owned),
                                    FormatShare(node.ideal),
                                    fmt::format("{:.4f}", node.owned / node.ideal),
                                    fmt::format("{}", node.ranges)};
    if (replicated) row.push_back(FormatShare(node.followed));
    table.AddRow(std::move(row));
  }
  return fmt::format("Keyspace {}  v{}\n\n{}\n{}{}\n", membership.spec().id,
                     membership.version().value, table.ToString(), Evenness(balance),
                     Violations(membership));
}

std::string RenderSpace(const Membership& membership) {
  std::string strip;
  for (const auto& column : ColumnsOf(membership)) {
    const auto most =
        std::max_element(column.begin(), column.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    strip += most == column.end() ? ' ' : LetterOf(most->first);
  }
  std::string out =
      fmt::format("Keyspace {}  v{}, {} ranges\n\n0 {} 2^64\n\n", membership.spec().id,
                  membership.version().value, membership.ranges().size(), strip);
  const Balance balance = BalanceOf(membership);
  Table table({{""}, {"NODE"}, {"SHARE", true}, {"RANGES", true}});
  for (const NodeBalance& node : balance.nodes) {
    table.AddRow({std::string(1, LetterOf(node.node)), membership.nodes()[node.node].id,
                  FormatShare(node.owned), fmt::format("{}", node.ranges)});
  }
  return out + table.ToString() + "(a letter is the node that owns most of its column)\n";
}

std::string RenderOutcome(const Membership& before, const SimulatedOutcome& outcome) {
  const Balance old_balance = BalanceOf(before);
  const Balance new_balance = BalanceOf(*outcome.after);
  std::map<NodeId, std::pair<std::optional<double>, std::optional<NodeBalance>>> nodes;
  for (const NodeBalance& node : old_balance.nodes) {
    nodes[before.nodes()[node.node].id].first = node.owned;
  }
  for (const NodeBalance& node : new_balance.nodes) {
    nodes[outcome.after->nodes()[node.node].id].second = node;
  }
  Table table({{"NODE"},
               {"SHARE NOW", true},
               {"AFTER", true},
               {"DELTA", true},
               {"IDEAL", true},
               {"RANGES", true}});
  for (const auto& [id, shares] : nodes) {
    const double now = shares.first.value_or(0);
    const double after = shares.second ? shares.second->owned : 0;
    // Rounded before it is printed, so that nothing reads as -0.00.
    const double delta = std::round((after - now) * 10000) / 100;
    table.AddRow({id, shares.first ? FormatShare(now) : "-",
                  shares.second ? FormatShare(after) : "-",
                  fmt::format("{:+.2f}", delta == 0 ? 0.0 : delta),
                  shares.second ? FormatShare(shares.second->ideal) : "-",
                  shares.second ? fmt::format("{}", shares.second->ranges) : "-"});
  }
  std::string out = fmt::format("Keyspace {}  (simulated, nothing has changed)\n\n{}\n",
                                before.spec().id, table.ToString());
  out += fmt::format(
      "  Moves     {} of hash space (ideal {}; hash-mod-N would move {}, a plain token ring {})\n",
      FormatShare(outcome.moved_share), FormatShare(outcome.ideal_share),
      FormatShare(outcome.modulo_share), FormatShare(outcome.plain_ring_share));
  if (before.spec().replication > 1) {
    out += fmt::format("  Copies    {} of the {} copies of hash space travel\n",
                       FormatShare(outcome.copied_share / before.spec().replication),
                       before.spec().replication);
  }
  out += fmt::format("  Balance   {}{}\n       now  {}{}\n", Evenness(new_balance),
                     Violations(*outcome.after), Evenness(old_balance), Violations(before));
  return out;
}

}  // namespace warmring::cli
