#include "tests/bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace warmring::bench {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> TimeOf(const Results& results, std::string_view lookup, uint64_t nodes,
                             Mode mode = Mode::kThroughput, int threads = 1) {
  for (const Timing& row : results.timings) {
    if (row.lookup == lookup && row.nodes == nodes && row.mode == mode && row.threads == threads) {
      return row.ns;
    }
  }
  return std::nullopt;
}

void Put(Json& headline, const std::string& key, std::optional<double> value,
         const std::string& reason) {
  if (value) {
    headline[key] = *value;
  } else {
    headline[key] = nullptr;
    headline[key + "_reason"] = reason;
  }
}

std::optional<double> Ratio(std::optional<double> over, std::optional<double> under) {
  if (!over || !under || *under <= 0) return std::nullopt;
  return *over / *under;
}

Json Headline(const Results& results) {
  Json headline;
  const std::string not_run = "one of the two lookups did not run";
  const auto versus = [&](const std::string& key, std::string_view ours, std::string_view peer) {
    Put(headline, key, Ratio(TimeOf(results, peer, 100), TimeOf(results, ours, 100)), not_run);
  };
  versus("directory_vs_libmemcached_n100", "directory P=16", "libmemcached ketama");
  versus("directory_vs_maglev_n100", "directory P=16", "maglev as in Envoy");
  versus("directory_vs_maglev_table_n100", "directory P=16", "maglev table alone");
  versus("ring_vs_branchless_n100", "ring", "branchless lower_bound");
  versus("ring_vs_libmemcached_n100", "ring", "libmemcached ketama");
  const auto hash = TimeOf(results, "hash alone", 0);
  Put(headline, "locate_vs_hash", Ratio(TimeOf(results, "Locate", 100), hash), not_run);
  Put(headline, "directory_ns_n100", TimeOf(results, "directory P=16", 100), not_run);
  Put(headline, "directory_r3_ns_n100", TimeOf(results, "directory P=16 R=3", 100), not_run);
  Put(headline, "membership_r3_ns_n100", TimeOf(results, "Membership R=3", 100), not_run);
  Put(headline, "locate_replicas_r3_vs_hash",
      Ratio(TimeOf(results, "LocateReplicas R=3", 100), hash), not_run);
  Put(headline, "directory_latency_vs_floor_n100",
      Ratio(TimeOf(results, "directory P=16", 100, Mode::kDependent),
            TimeOf(results, "hash and one load", 0, Mode::kDependent)),
      not_run);
  // Twice the lookups on two threads are 2.0: no line that readers write.
  for (const auto& [key, lookup] :
       {std::pair{"directory_scaling_2_threads", "directory on threads"},
        std::pair{"locate_scaling_2_threads", "Locate on threads"}}) {
    const auto ratio = Ratio(TimeOf(results, lookup, 100, Mode::kThroughput, 1),
                             TimeOf(results, lookup, 100, Mode::kThroughput, 2));
    Put(headline, key, ratio ? std::optional(2 * *ratio) : std::nullopt, not_run);
  }

  std::optional<double> balance;
  std::optional<double> movement;
  std::optional<double> violations;
  for (const BalanceRow& row : results.balance) {
    if (!row.placement.starts_with("directory")) continue;
    balance = std::max(balance.value_or(0), row.worst_max_mean);
    movement = std::max(movement.value_or(0), row.worst_movement);
    if (row.violations) violations = violations.value_or(0) + static_cast<double>(*row.violations);
  }
  Put(headline, "balance_max_mean_n100_p16", balance, "no directory was grown");
  Put(headline, "movement_vs_ideal_worst", movement, "no directory was grown");
  Put(headline, "domain_violations", violations, "no directory with replicas was grown");
  headline["table_build_10k_x256_s"] = results.table.place_s + results.table.compile_s;
  headline["table_bytes_per_token"] = results.table.bytes_per_token;
  std::optional<double> speedup;
  for (const DeltaCost& row : results.deltas) {
    speedup = std::min(speedup.value_or(HUGE_VAL), row.rebuild_s / row.apply_s);
  }
  Put(headline, "delta_vs_rebuild_worst", speedup, "no delta was applied");
  return headline;
}

struct Bar {
  const char* key;
  bool at_least;
  double bound;
};
constexpr Bar kBars[] = {
    {"directory_vs_libmemcached_n100", true, 15},
    {"directory_vs_maglev_n100", true, 3},
    {"ring_vs_branchless_n100", true, 2.5},
    {"ring_vs_libmemcached_n100", true, 8},
    {"locate_vs_hash", false, 2.5},
    {"directory_ns_n100", false, 6},
    {"directory_latency_vs_floor_n100", false, 1.6},
    {"directory_r3_ns_n100", false, 10},
    {"membership_r3_ns_n100", false, 10},
    {"directory_scaling_2_threads", true, 1.8},
    {"locate_scaling_2_threads", true, 1.8},
    {"balance_max_mean_n100_p16", false, 1.002},
    {"movement_vs_ideal_worst", false, 1.02},
    {"domain_violations", false, 0},
    {"table_build_10k_x256_s", false, 1},
    {"table_bytes_per_token", false, 24},
    {"delta_vs_rebuild_worst", true, 1},
};

Json Bars(const Json& headline) {
  Json bars = Json::array();
  for (const Bar& bar : kBars) {
    const Json& value = headline[bar.key];
    const bool met = value.is_number() && (bar.at_least ? value.get<double>() >= bar.bound
                                                        : value.get<double>() <= bar.bound);
    bars.push_back({{"key", bar.key},
                    {"value", value},
                    {"bar", fmt::format("{} {}", bar.at_least ? ">=" : "<=", bar.bound)},
                    {"result", value.is_null() ? "not measured"
                               : met           ? "met"
                                               : "missed"}});
  }
  return bars;
}

std::string Cell(const std::map<std::pair<uint64_t, std::string>, double>& cells, uint64_t nodes,
                 const std::string& mode) {
  const auto found = cells.find({nodes, mode});
  return found == cells.end() ? std::string("-") : fmt::format("{:.1f}", found->second);
}

std::string SpeedText(const Json& json) {
  // Rows in the order in which our own come first, then by time.
  std::vector<std::string> names;
  std::map<std::string, std::map<std::pair<uint64_t, std::string>, double>> rows;
  for (const Json& timing : json["timings"]) {
    std::string name = timing["lookup"];
    if (timing["threads"] != 1) name += fmt::format(" x{}", timing["threads"].get<int>());
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    rows[name][{timing["nodes"].get<uint64_t>(), timing["mode"].get<std::string>()}] =
        timing["ns"].get<double>();
  }
  const auto base = [&rows](const std::string& name) {
    const auto& cells = rows[name];
    const auto at_100 = cells.find({100, "throughput"});
    return at_100 != cells.end() ? at_100->second : cells.begin()->second;
  };
  std::sort(names.begin(), names.end(),
            [&](const std::string& a, const std::string& b) { return base(a) < base(b); });
  std::string text = fmt::format(
      "Nanoseconds a lookup, hash included; 16-byte keys; dependent latency in brackets; rings of "
      "160 "
      "tokens a node\n\n{:24} {:>16} {:>16} {:>16} {:>8} {:>14}\n",
      "", "10 nodes", "100 nodes", "1000 nodes", "cold", "x directory");
  const double directory = base("directory P=16");
  for (const std::string& name : names) {
    const auto& cells = rows[name];
    std::string line = fmt::format("{:24}", name);
    for (const uint64_t nodes : {10U, 100U, 1000U}) {
      // What knows no nodes stands in the middle.
      const uint64_t column = nodes == 100 && cells.contains({0, "throughput"}) ? 0 : nodes;
      line += fmt::format(" {:>16}", fmt::format("{} ({})", Cell(cells, column, "throughput"),
                                                 Cell(cells, column, "dependent")));
    }
    line += fmt::format(" {:>8} {:>14.2f}\n", Cell(cells, 100, "cold"), base(name) / directory);
    text += line;
  }
  return text;
}

std::string BalanceText(const Json& json) {
  std::string text =
      fmt::format("\n{:32} {:>6} {:>10} {:>12} {:>16} {:>12}\n", "Balance and movement", "nodes",
                  "max/mean", "worst so far", "worst join/ideal", "violations");
  for (const Json& row : json["balance"]) {
    text += fmt::format("{:32} {:>6} {:>10.4f} {:>12.4f} {:>16.4f} {:>12}\n",
                        row["placement"].get<std::string>(), row["nodes"].get<uint32_t>(),
                        row["max_mean"].get<double>(), row["worst_max_mean"].get<double>(),
                        row["worst_movement"].get<double>(),
                        row["violations"].is_null() ? "-" : row["violations"].dump());
  }
  return text;
}

std::string DeltasText(const Json& json) {
  std::string text =
      fmt::format("\n{:24} {:>10} {:>18} {:>12} {:>12} {:>10}\n", "A delta, milliseconds", "ranges",
                  "change", "applied", "rebuilt", "x faster");
  for (const Json& row : json["deltas"]) {
    const double apply = row["apply_s"];
    const double rebuild = row["rebuild_s"];
    text +=
        fmt::format("{:24} {:>10} {:>18} {:>12.2f} {:>12.2f} {:>10.1f}\n",
                    row["placement"].get<std::string>(), row["ranges"].get<uint64_t>(),
                    row["change"].get<std::string>(), apply * 1e3, rebuild * 1e3, rebuild / apply);
  }
  return text;
}

std::string BarsText(const Json& json) {
  std::string text = fmt::format("\n{:36} {:>12} {:>10}\n", "Bars", "measured", "bar");
  for (const Json& bar : json["bars"]) {
    const std::string key = bar["key"];
    const Json& value = bar["value"];
    text += fmt::format("{:36} {:>12} {:>10}  {}", key,
                        value.is_null() ? "-" : fmt::format("{:.4g}", value.get<double>()),
                        bar["bar"].get<std::string>(), bar["result"].get<std::string>());
    const Json& headline = json["headline"];
    if (value.is_null()) text += ": " + headline[key + "_reason"].get<std::string>();
    text += '\n';
  }
  return text;
}

}  // namespace

nlohmann::ordered_json ToJson(const Results& results) {
  Json json;
  json["headline"] = Headline(results);
  json["bars"] = Bars(json["headline"]);
  json["timings"] = Json::array();
  for (const Timing& row : results.timings) {
    json["timings"].push_back({{"lookup", row.lookup},
                               {"nodes", row.nodes},
                               {"mode", NameOf(row.mode)},
                               {"threads", row.threads},
                               {"ns", row.ns}});
  }
  json["balance"] = Json::array();
  for (const BalanceRow& row : results.balance) {
    json["balance"].push_back({{"placement", row.placement},
                               {"nodes", row.nodes},
                               {"max_mean", row.max_mean},
                               {"worst_max_mean", row.worst_max_mean},
                               {"worst_movement", row.worst_movement},
                               {"violations", row.violations ? Json(*row.violations) : Json()}});
  }
  json["table"] = {{"nodes", results.table.nodes},
                   {"tokens_per_node", results.table.tokens_per_node},
                   {"place_s", results.table.place_s},
                   {"compile_s", results.table.compile_s},
                   {"bytes_per_token", results.table.bytes_per_token}};
  json["deltas"] = Json::array();
  for (const DeltaCost& row : results.deltas) {
    json["deltas"].push_back({{"placement", row.placement},
                              {"change", row.change},
                              {"ranges", row.ranges},
                              {"apply_s", row.apply_s},
                              {"rebuild_s", row.rebuild_s}});
  }
  return json;
}

std::string ToText(const nlohmann::ordered_json& json) {
  return SpeedText(json) + BalanceText(json) +
         fmt::format(
             "\nA ring of {} nodes x {} tokens: {:.2f} s to place, {:.3f} s to compile, {:.1f} "
             "bytes a token\n",
             json["table"]["nodes"].get<uint32_t>(),
             json["table"]["tokens_per_node"].get<uint32_t>(),
             json["table"]["place_s"].get<double>(), json["table"]["compile_s"].get<double>(),
             json["table"]["bytes_per_token"].get<double>()) +
         DeltasText(json) + BarsText(json);
}

}  // namespace warmring::bench
