#include "client/cli/render/migration_view.h"

#include <fmt/format.h>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/render/preview.h"
#include "client/cli/render/table.h"

namespace warmring::cli {
namespace {

constexpr int kBarWidth = 30;

std::string_view StateWord(v1::MigrationState state) {
  switch (state) {
    case v1::MIGRATION_STATE_PLANNED:
      return "Planned";
    case v1::MIGRATION_STATE_WARMING:
      return "Warming";
    case v1::MIGRATION_STATE_VERIFYING:
      return "Verifying";
    case v1::MIGRATION_STATE_FENCING:
    case v1::MIGRATION_STATE_COMMITTED:
      return "Committing";
    case v1::MIGRATION_STATE_SOAKING:
      return "Soaking";
    case v1::MIGRATION_STATE_UNDO_FENCING:
      return "Undoing";
    case v1::MIGRATION_STATE_SUCCEEDED:
      return "Succeeded";
    case v1::MIGRATION_STATE_ABORTED:
      return "Aborted";
    case v1::MIGRATION_STATE_ROLLED_BACK:
      return "RolledBack";
    case v1::MIGRATION_STATE_FAILED:
      return "Failed";
    default:
      return "Unknown";
  }
}

const char* Glyph(const v1::Migration& m) {
  if (m.state() == v1::MIGRATION_STATE_SUCCEEDED) return "✔";
  if (m.ended()) return "✖";
  if (m.paused() || m.awaiting_promotion() || !m.held().empty()) return "॥";
  return "◌";
}

absl::Time Time(const google::protobuf::Timestamp& t) {
  return absl::FromUnixSeconds(t.seconds()) + absl::Nanoseconds(t.nanos());
}

std::string Clock(const google::protobuf::Timestamp& t) {
  return absl::FormatTime("%H:%M:%S", Time(t), absl::UTCTimeZone());
}

std::string Bar(uint64_t done, uint64_t total) {
  const int filled = total == 0 ? 0 : static_cast<int>(std::min(done, total) * kBarWidth / total);
  return fmt::format("[{}{}]", std::string(static_cast<size_t>(filled), '='),
                     std::string(static_cast<size_t>(kBarWidth - filled), '.'));
}

std::string Moved(const v1::Migration::Progress& p) {
  std::string text =
      fmt::format("{} keys, {}", FormatCount(p.keys_done()), FormatBytes(p.bytes_done()));
  if (p.keys_total() != 0) {
    const uint64_t done = std::min(p.keys_done(), p.keys_total());
    text = fmt::format("{} of about {}  {} {:.1f}%", text, FormatCount(p.keys_total()),
                       Bar(done, p.keys_total()),
                       100.0 * static_cast<double>(done) / static_cast<double>(p.keys_total()));
  }
  return text;
}

std::string NextStep(const v1::Migration& m) {
  if (m.awaiting_promotion()) {
    return fmt::format(
        "next: warmring migration promote {0}     stop: warmring migration abort {0}\n", m.id());
  }
  if (m.paused()) return fmt::format("next: warmring migration resume {}\n", m.id());
  if (m.state() == v1::MIGRATION_STATE_SOAKING) {
    return fmt::format("undo without loss: warmring migration undo {}\n", m.id());
  }
  // An undo is waited for.
  if (m.state() == v1::MIGRATION_STATE_UNDO_FENCING) return "";
  if (!m.ended()) return fmt::format("stop: warmring migration abort {}\n", m.id());
  return "";
}

}  // namespace

std::string MigrationStateText(const v1::Migration& m) {
  std::string text(StateWord(m.state()));
  if (m.state() == v1::MIGRATION_STATE_FENCING || m.state() == v1::MIGRATION_STATE_COMMITTED) {
    text += fmt::format(" {}/{}", m.wave() + 1, m.waves());
    if (m.state() == v1::MIGRATION_STATE_FENCING) text += " (fencing)";
  }
  if (m.wave_attempt() > 0) text += fmt::format(" (attempt {})", m.wave_attempt() + 1);
  if (m.queued() && !m.ended()) text += " (queued)";
  if (!m.preempted_by().empty() && !m.ended()) text += " (making way for " + m.preempted_by() + ")";
  if (m.paused()) text += " (paused)";
  if (m.awaiting_promotion()) text += " (awaiting promotion)";
  return text;
}

std::string MigrationLine(const v1::Migration& m) {
  std::string line = fmt::format(
      "{}  {}  {}", absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone()), m.id(),
      MigrationStateText(m));
  if (m.transfer().keys_done() != 0 && !m.ended()) line += "  moved " + Moved(m.transfer());
  if (!m.held().empty()) line += "  held: " + m.held();
  if (!m.failure().empty()) line += "  because: " + m.failure();
  return line;
}

std::string MigrationView(const v1::Migration& m) {
  std::string out =
      fmt::format("Migration   {}   {}   by {}{}\n", m.id(), m.keyspace(), m.author(),
                  m.plan().reason().empty() ? "" : "   \"" + m.plan().reason() + "\"");
  out += fmt::format("Status      {} {}\n", Glyph(m), MigrationStateText(m));
  if (m.preview().moved_share() > 0) {
    out += fmt::format("Moves       {} of hash space in {} waves, {} committed\n",
                       FormatShare(m.preview().moved_share()), m.waves(), m.waves_committed());
  }
  if (m.transfer().keys_done() != 0 || m.transfer().keys_total() != 0) {
    out += "Warmed      " + Moved(m.transfer()) + "\n";
  }
  if (m.verify_compared() != 0) {
    out += fmt::format("Verified    {} keys compared, {} differ\n", m.verify_compared(),
                       m.verify_mismatched());
  }
  if (!m.held().empty()) out += "Held        " + m.held() + "\n";
  if (!m.failure().empty()) out += "Because     " + m.failure() + "\n";
  if (m.unclean()) out += "Unclean     a wave was committed without what a donor had\n";
  for (const auto& f : m.forced()) {
    const absl::Duration left =
        absl::Seconds(f.lease_left().seconds()) + absl::Nanoseconds(f.lease_left().nanos());
    out += fmt::format("Forced      {} by {} at {}{}: {}\n", f.donor(), f.author(), Clock(f.time()),
                       left > absl::ZeroDuration()
                           ? ", " + absl::FormatDuration(left) + " before its lease was over"
                           : "",
                       f.reason());
  }
  const bool forward = !m.ended() && m.state() != v1::MIGRATION_STATE_UNDO_FENCING;
  if (m.transfer().transfers_size() > 0 && forward) {
    Table table({{"TRANSFER"}, {"STATE"}, {"KEYS", true}, {"BYTES", true}});
    for (const auto& t : m.transfer().transfers()) {
      table.AddRow({fmt::format("{} → {}", t.from(), t.to()),
                    t.caught_up() ? "✔ warm" : "◌ warming", FormatCount(t.keys()),
                    FormatBytes(t.bytes())});
    }
    out += "\n" + table.ToString();
  }
  out += "\n";
  const int first = std::max(0, m.stages_size() - 6);
  for (int i = first; i < m.stages_size(); ++i) {
    out += fmt::format("{}  {:<10} {}\n", Clock(m.stages(i).enter_time()),
                       StateWord(m.stages(i).state()), m.stages(i).note());
  }
  return out + NextStep(m);
}

}  // namespace warmring::cli
