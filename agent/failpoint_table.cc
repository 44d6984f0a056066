#include "agent/failpoint_table.h"

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "fmt/format.h"

namespace warmring {
namespace {

bool ParseNumber(std::string_view text, uint64_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

bool ParseAction(std::string_view text, FailpointAction* action) {
  if (const size_t star = text.find('*'); star != std::string_view::npos) {
    if (!ParseNumber(text.substr(0, star), &action->nth) || action->nth == 0) return false;
    text.remove_prefix(star + 1);
  }
  constexpr std::string_view kSleep = "sleep(";
  if (text == "off") {
    action->kind = FailpointAction::Kind::kOff;
  } else if (text == "exit") {
    action->kind = FailpointAction::Kind::kExit;
  } else if (text == "abort") {
    action->kind = FailpointAction::Kind::kAbort;
  } else if (text.starts_with(kSleep) && text.ends_with(')')) {
    action->kind = FailpointAction::Kind::kSleep;
    return ParseNumber(text.substr(kSleep.size(), text.size() - kSleep.size() - 1),
                       &action->sleep_ms);
  } else {
    return false;
  }
  return true;
}

struct Table {
  std::map<std::string, FailpointAction> actions;
  std::mutex mutex;
  std::map<std::string, uint64_t> hits;  // guarded by mutex
};

Table& ProcessTable() {
  static Table* const table = [] {
    auto* made = new Table;
    const char* text = std::getenv("WARMRING_FAILPOINTS");
    auto actions = ParseFailpoints(text == nullptr ? "" : text);
    if (!actions.ok()) {
      std::fputs((std::string(actions.status().message()) + "\n").c_str(), stderr);
      _exit(2);
    }
    made->actions = std::move(*actions);
    return made;
  }();
  return *table;
}

}  // namespace

absl::StatusOr<std::map<std::string, FailpointAction>> ParseFailpoints(std::string_view text) {
  std::map<std::string, FailpointAction> actions;
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    const std::string_view entry = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (entry.empty()) continue;
    const size_t equals = entry.find('=');
    FailpointAction action;
    if (equals == std::string_view::npos || equals == 0 ||
        !ParseAction(entry.substr(equals + 1), &action)) {
      return absl::InvalidArgumentError(fmt::format(
          "WARMRING_FAILPOINTS: '{}' is not name=[n*](off|exit|abort|sleep(ms))", entry));
    }
    actions[std::string(entry.substr(0, equals))] = action;
  }
  return actions;
}

void HitFailpoint(std::string_view name) {
  Table& table = ProcessTable();
  if (table.actions.empty()) return;
  const auto found = table.actions.find(std::string(name));
  if (found == table.actions.end()) return;
  const FailpointAction& action = found->second;
  {
    std::lock_guard<std::mutex> lock(table.mutex);
    const uint64_t hit = ++table.hits[found->first];
    if (action.nth != 0 && hit != action.nth) return;
  }
  switch (action.kind) {
    case FailpointAction::Kind::kOff:
      return;
    case FailpointAction::Kind::kExit:
      _exit(137);
    case FailpointAction::Kind::kAbort:
      std::abort();
    case FailpointAction::Kind::kSleep:
      std::this_thread::sleep_for(std::chrono::milliseconds(action.sleep_ms));
      return;
  }
}

}  // namespace warmring
