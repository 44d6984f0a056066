#include "tests/history/event.h"

#include <array>
#include <fstream>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace warmring::history {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<Kind, std::string_view>, 14> kKinds = {{
    {Kind::kWrite, "write"},
    {Kind::kRead, "read"},
    {Kind::kWatch, "watch"},
    {Kind::kActivate, "activate"},
    {Kind::kFence, "fence"},
    {Kind::kLost, "lost"},
    {Kind::kVersion, "version"},
    {Kind::kCommit, "commit"},
    {Kind::kBurn, "burn"},
    {Kind::kSubmit, "submit"},
    {Kind::kOutcome, "outcome"},
    {Kind::kAudit, "audit"},
    {Kind::kRecord, "record"},
    {Kind::kEnd, "end"},
}};
constexpr std::array<std::pair<Result, std::string_view>, 4> kResults = {{
    {Result::kOk, "ok"},
    {Result::kRefused, "refused"},
    {Result::kFenced, "fenced"},
    {Result::kUnknown, "unknown"},
}};

template <typename Table, typename Value>
std::string_view NameOf(const Table& table, Value value) {
  for (const auto& [entry, name] : table) {
    if (entry == value) return name;
  }
  return "?";
}

template <typename Table, typename Value>
bool ValueOf(const Table& table, std::string_view text, Value& value) {
  for (const auto& [entry, name] : table) {
    if (name != text) continue;
    value = entry;
    return true;
  }
  return false;
}

bool IsAttempt(const Event& event) {
  return event.kind == Kind::kWrite || event.kind == Kind::kRead;
}

absl::Status Malformed(std::string_view line, std::string_view why) {
  return absl::InvalidArgumentError(fmt::format("not an event ({}): {}", why, line.substr(0, 200)));
}

bool GetText(const Json& json, const char* name, std::string& text) {
  if (!json.contains(name)) return true;
  if (!json[name].is_string()) return false;
  text = json[name].get<std::string>();
  return true;
}

bool GetNumber(const Json& json, const char* name, uint64_t& number) {
  if (!json.contains(name)) return true;
  if (!json[name].is_number_unsigned()) return false;
  number = json[name].get<uint64_t>();
  return true;
}

bool GetTime(const Json& json, const char* name, int64_t& time) {
  if (!json.contains(name) || json[name].is_null()) return true;
  if (!json[name].is_number_integer()) return false;
  time = json[name].get<int64_t>();
  return true;
}

}  // namespace

std::string ToJson(const Event& event) {
  Json json;
  json["ev"] = NameOf(kKinds, event.kind);
  json["t0"] = event.t0;
  if (event.t1 != kNever) json["t1"] = event.t1;
  if (!event.arc.empty()) json["arc"] = event.arc;
  if (!event.key.empty()) json["key"] = event.key;
  if (!event.owner.empty()) json["owner"] = event.owner;
  if (event.epoch != 0) json["epoch"] = event.epoch;
  if (IsAttempt(event)) json["res"] = NameOf(kResults, event.result);
  if (event.value.has_value()) json["value"] = *event.value;
  if (event.version != 0) json["version"] = event.version;
  if (event.term != 0) json["term"] = event.term;
  if (event.unclean) json["unclean"] = true;
  if (!event.text.empty()) json["text"] = event.text;
  // Values may hold any bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<Event> FromJson(std::string_view line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Malformed(line, "no JSON object");
  Event event;
  std::string text;
  if (!GetText(json, "ev", text) || !ValueOf(kKinds, text, event.kind)) {
    return Malformed(line, "ev is none of the known kinds");
  }
  text = "ok";
  if (!GetText(json, "res", text) || !ValueOf(kResults, text, event.result)) {
    return Malformed(line, "res is none of ok, refused, fenced, unknown");
  }
  if (!GetTime(json, "t0", event.t0) || !GetTime(json, "t1", event.t1) || event.t1 < event.t0) {
    return Malformed(line, "t0 and t1 are no span of time");
  }
  if (!GetText(json, "arc", event.arc) || !GetText(json, "key", event.key) ||
      !GetText(json, "owner", event.owner) || !GetText(json, "text", event.text)) {
    return Malformed(line, "arc, key, owner and text are strings");
  }
  if (!GetNumber(json, "epoch", event.epoch) || !GetNumber(json, "version", event.version) ||
      !GetNumber(json, "term", event.term)) {
    return Malformed(line, "epoch, version and term are numbers");
  }
  if (json.contains("value") && !json["value"].is_null()) {
    if (!json["value"].is_string()) return Malformed(line, "value is a string");
    event.value = json["value"].get<std::string>();
  }
  if (json.contains("unclean")) {
    if (!json["unclean"].is_boolean()) return Malformed(line, "unclean is true or false");
    event.unclean = json["unclean"].get<bool>();
  }
  return event;
}

absl::StatusOr<std::vector<Event>> ReadHistory(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(fmt::format("{} cannot be read", path));
  std::vector<Event> events;
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    absl::StatusOr<Event> event = FromJson(line);
    if (!event.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("{}:{}: {}", path, number, std::string(event.status().message())));
    }
    events.push_back(*std::move(event));
  }
  return events;
}

absl::Status WriteHistory(const std::vector<Event>& events, const std::string& path) {
  std::ofstream file(path, std::ios::trunc);
  for (const Event& event : events) file << ToJson(event) << '\n';
  file.flush();
  if (!file) return absl::InternalError(fmt::format("{} cannot be written", path));
  return absl::OkStatus();
}

std::string Describe(const Event& event) {
  std::string text(NameOf(kKinds, event.kind));
  if (!event.key.empty()) text += fmt::format(" {}", event.key);
  if (IsAttempt(event)) text += fmt::format("={}", event.value.value_or("(nothing)"));
  if (!event.owner.empty()) text += fmt::format(" at {}", event.owner);
  if (!event.arc.empty()) text += fmt::format(" of {}", event.arc);
  if (event.epoch != 0) text += fmt::format(" under {}", event.epoch);
  if (event.version != 0) text += fmt::format(" version {}", event.version);
  if (!event.text.empty()) text += fmt::format(" {}", event.text);
  if (IsAttempt(event)) text += fmt::format(", {}", NameOf(kResults, event.result));
  const std::string end = event.t1 == kNever ? "..." : std::to_string(event.t1);
  return text + fmt::format(", [{}, {}]", event.t0, end);
}

}  // namespace warmring::history
