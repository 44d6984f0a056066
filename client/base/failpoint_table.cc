#include "client/base/failpoint_table.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
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
  if (const size_t at = text.find('@'); at != std::string_view::npos) {
    if (!ParseNumber(text.substr(at + 1), &action->nth) || action->nth == 0) return false;
    text = text.substr(0, at);
  }
  constexpr std::string_view kSleep = "sleep(";
  if (text == "exit") {
    action->kind = FailpointAction::Kind::kExit;
  } else if (text == "stop") {
    action->kind = FailpointAction::Kind::kStop;
  } else if (text.starts_with(kSleep) && text.ends_with(')')) {
    action->kind = FailpointAction::Kind::kSleep;
    return ParseNumber(text.substr(kSleep.size(), text.size() - kSleep.size() - 1),
                       &action->sleep_ms);
  } else {
    return false;
  }
  return true;
}

// A line in the file that collects what the processes of a test run have reached; short lines of
// many processes do not mix.
void NoteReached(const char* path, std::string_view name) {
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return;
  const std::string line = fmt::format("{}\n", name);
  [[maybe_unused]] const ssize_t written = write(file, line.data(), line.size());
  close(file);
}

struct Table {
  std::map<std::string, FailpointAction> actions;
  const char* log = nullptr;  // null: none
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
    made->log = std::getenv("WARMRING_FAILPOINT_LOG");
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
      return absl::InvalidArgumentError(
          fmt::format("WARMRING_FAILPOINTS: '{}' is not point=exit, stop or sleep(ms), with @n "
                      "behind it or not",
                      entry));
    }
    actions[std::string(entry.substr(0, equals))] = action;
  }
  return actions;
}

void HitFailpoint(std::string_view name) {
  Table& table = ProcessTable();
  if (table.actions.empty() && table.log == nullptr) return;
  uint64_t hit = 0;
  {
    std::lock_guard<std::mutex> lock(table.mutex);
    hit = ++table.hits[std::string(name)];
  }
  if (hit == 1 && table.log != nullptr) NoteReached(table.log, name);
  const auto found = table.actions.find(std::string(name));
  if (found == table.actions.end() || hit != found->second.nth) return;
  switch (found->second.kind) {
    case FailpointAction::Kind::kExit:
      _exit(137);
    case FailpointAction::Kind::kStop:
      raise(SIGSTOP);
      return;
    case FailpointAction::Kind::kSleep:
      std::this_thread::sleep_for(std::chrono::milliseconds(found->second.sleep_ms));
      return;
  }
}

}  // namespace warmring
