#include "client/cli/render/preview.h"

#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

#include "absl/time/time.h"
#include "client/cli/render/table.h"

namespace warmring::cli {
namespace {

constexpr int kColumns = 72;

std::string Scaled(double value, double base, std::initializer_list<const char*> units) {
  auto unit = units.begin();
  while (value >= base && unit + 1 != units.end()) {
    value /= base;
    ++unit;
  }
  return fmt::format("{:.1f}{}", value, *unit);
}

std::string Duration(const google::protobuf::Duration& d) {
  return absl::FormatDuration(absl::Seconds(d.seconds()) + absl::Nanoseconds(d.nanos()));
}

// Share of each of kColumns equal parts of hash space that moves, as a bar of block glyphs.
std::string MovingMap(const v1::Preview& preview) {
  static const std::array<const char*, 9> kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr double kSpace = 18446744073709551616.0;
  std::array<double, kColumns> moved{};
  const auto add = [&moved](double from, double to) {  // in columns
    for (int c = static_cast<int>(from); c < kColumns && c < to; ++c) {
      const double part = std::min(to, c + 1.0) - std::max(from, static_cast<double>(c));
      moved[static_cast<size_t>(c)] += part;
    }
  };
  for (const auto& move : preview.moves()) {
    for (int i = 0; i < move.ranges().starts_size() && i < move.ranges().ends_size(); ++i) {
      const double from = static_cast<double>(move.ranges().starts(i)) / kSpace * kColumns;
      const double to = static_cast<double>(move.ranges().ends(i)) / kSpace * kColumns;
      if (from < to) {
        add(from, to);
      } else {
        add(from, kColumns);
        add(0, to);
      }
    }
  }
  std::string out = "  ";
  for (double part : moved) {
    const auto level = static_cast<size_t>(std::min(1.0, part) * 8.0 + (part > 0 ? 0.999 : 0));
    out += kBlocks[std::min<size_t>(level, 8)];
  }
  return out + "\n";
}

std::string WaveLine(const v1::MigrationPlan& plan, const v1::Preview& preview) {
  std::map<uint32_t, double> by_wave;
  for (const auto& move : preview.moves()) by_wave[move.wave()] += move.share();
  std::string text;
  double sum = 0;
  for (const auto& [wave, share] : by_wave) {
    sum += share;
    text += fmt::format("{}{:.0f}%", text.empty() ? "" : " → ",
                        preview.moved_share() > 0 ? sum / preview.moved_share() * 100 : 0);
  }
  return fmt::format("  Steps     warm, verify{}, commit in {} waves ({}, {} apart), soak {}\n",
                     plan.strategy().await_promotion() ? ", wait for approval" : "",
                     preview.waves(), text,
                     plan.strategy().has_hold() ? Duration(plan.strategy().hold()) : "30s",
                     plan.strategy().has_soak() ? Duration(plan.strategy().soak()) : "15m");
}

}  // namespace

namespace {

// Weights, pins and what a load says of it.
std::string DirectoryLines(const v1::Preview& preview) {
  std::string out;
  for (const auto& reweight : preview.reweights()) {
    out += fmt::format("  Weight    {} {:g} → {:g}\n", reweight.node(), reweight.before(),
                       reweight.after());
  }
  if (preview.pins_put_size() > 0 || preview.pins_removed_size() > 0) {
    out += fmt::format("  Pins      {} put, {} taken back, when the migration has succeeded\n",
                       preview.pins_put_size(), preview.pins_removed_size());
  }
  if (preview.has_load()) {
    const auto& load = preview.load();
    out += fmt::format(
        "  Load      {} of it moves (the least would be {}), max/mean {:.3f} → {:.3f}\n",
        FormatShare(load.moved_share()), FormatShare(load.ideal_share()),
        load.max_over_mean_before(), load.max_over_mean_after());
  }
  return out;
}

std::string MovesLine(const v1::Preview& preview) {
  // What other schemes would have moved says something only where nodes or weights change.
  const bool compares = preview.nodes_added_size() > 0 || preview.nodes_removed_size() > 0 ||
                        preview.reweights_size() > 0;
  std::string out =
      fmt::format("\n  Moves     {} of hash space (ideal {}", FormatShare(preview.moved_share()),
                  FormatShare(preview.ideal_share()));
  if (compares) {
    out +=
        fmt::format("; hash-mod-N would move {}, a plain token ring {}",
                    FormatShare(preview.modulo_share()), FormatShare(preview.plain_ring_share()));
  }
  return out + fmt::format("), {} ranges", preview.ranges_moved());
}

}  // namespace

std::string FormatShare(double share) { return fmt::format("{:.2f}%", share * 100); }

std::string FormatBytes(uint64_t bytes) {
  return Scaled(static_cast<double>(bytes), 1024, {" B", " KiB", " MiB", " GiB", " TiB"});
}

std::string FormatCount(uint64_t count) {
  if (count < 10'000) return fmt::format("{}", count);
  return Scaled(static_cast<double>(count), 1000, {"", " k", " M", " G"});
}

std::string RenderPreview(const v1::MigrationPlan& plan, const v1::Preview& preview) {
  std::set<std::string> added;
  for (const auto& node : preview.nodes_added()) added.insert(node.id());
  const std::set<std::string> removed(preview.nodes_removed().begin(),
                                      preview.nodes_removed().end());
  std::string out = fmt::format(
      "Keyspace {}  based on v{}  (preview, nothing has changed)\n\n"
      "  + add    ~ shrinks    - removed    = unchanged    > grows\n\n",
      preview.keyspace(), preview.base_version());
  std::vector<Table::Column> columns = {{""},
                                        {"NODE"},
                                        {"SHARE NOW", true},
                                        {"AFTER", true},
                                        {"DELTA", true},
                                        {"IDEAL", true},
                                        {"KEYS OUT", true},
                                        {"BYTES OUT", true}};
  if (preview.has_load()) {
    columns.push_back({"LOAD NOW", true});
    columns.push_back({"LOAD AFTER", true});
  }
  Table table(columns);
  int shrinks = 0;
  int unchanged = 0;
  for (const auto& s : preview.shares()) {
    const double delta = s.after() - s.before();
    const bool moves = delta > 1e-12 || delta < -1e-12;
    const char* sign = added.contains(s.node())     ? "+"
                       : removed.contains(s.node()) ? "-"
                       : !moves                     ? "="
                       : delta < 0                  ? "~"
                                                    : ">";
    shrinks += *sign == '~';
    unchanged += *sign == '=';
    std::vector<std::string> row = {sign,
                                    s.node(),
                                    FormatShare(s.before()),
                                    FormatShare(s.after()),
                                    fmt::format("{:+.2f}", delta * 100),
                                    FormatShare(s.ideal_after()),
                                    s.keys_out() == 0 ? "" : FormatCount(s.keys_out()),
                                    s.bytes_out() == 0 ? "" : FormatBytes(s.bytes_out())};
    if (preview.has_load()) {
      row.push_back(FormatShare(s.load_before()));
      row.push_back(FormatShare(s.load_after()));
    }
    table.AddRow(row);
  }
  out += table.ToString();
  if (preview.waves() == 0) {
    out += "\n  Nothing moves: one version has all of it\n" + DirectoryLines(preview);
    for (const std::string& warning : preview.warnings()) out += "  Warning   " + warning + "\n";
    return out;
  }
  out +=
      "\n  what moves (each column = 1/72 of hash space, height = part of it that changes owner)\n";
  out += MovingMap(preview);
  out += MovesLine(preview);
  if (preview.keys_moved() != 0) {
    out += fmt::format(", about {} keys, {}", FormatCount(preview.keys_moved()),
                       FormatBytes(preview.bytes_moved()));
  }
  out += fmt::format("\n  Balance   max/mean {:.3f} → {:.3f}\n", preview.max_over_mean_before(),
                     preview.max_over_mean_after());
  out += DirectoryLines(preview);
  out += WaveLine(plan, preview);
  for (const std::string& warning : preview.warnings()) out += "  Warning   " + warning + "\n";
  out += fmt::format(
      "\nPlan: {} to add, {} to remove, {} shrink, {} unchanged. Undo without loss while "
      "soaking.\n",
      added.size(), removed.size(), shrinks, unchanged);
  return out;
}

}  // namespace warmring::cli
