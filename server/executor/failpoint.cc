#include "server/executor/failpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "spdlog/spdlog.h"

namespace warmring::failpoint {
namespace {

constexpr std::string_view kSleepPrefix = "sleep(";

enum class Action { kExit, kStop, kError, kSleep };

struct Rule {
  Action action = Action::kExit;
  uint64_t at = 1;
  uint64_t sleep_ms = 0;
};

struct Points {
  std::mutex mutex;
  std::map<std::string, Rule, std::less<>> rules;      // guarded by mutex
  std::map<std::string, uint64_t, std::less<>> times;  // guarded by mutex
};

// A line in the file that collects what the processes of a test run have reached; short lines of
// many processes do not mix.
void NoteReached(std::string_view name) {
  static const char* const path = std::getenv("WARMRING_FAILPOINT_LOG");
  if (path == nullptr) return;
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return;
  const std::string line = fmt::format("{}\n", name);
  [[maybe_unused]] const ssize_t written = write(file, line.data(), line.size());
  close(file);
}

// Of this thread; empty: none.
std::string& PresentScope() {
  static thread_local std::string scope;
  return scope;
}

// Never destroyed: points are reached until the very end.
Points& AllPoints() {
  static Points* const points = new Points;
  return *points;
}

bool ParseNumber(std::string_view text, uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

absl::Status ParseRule(std::string_view part, std::map<std::string, Rule, std::less<>>& rules) {
  const auto malformed = [part] {
    return absl::InvalidArgumentError(fmt::format(
        "WARMRING_FAILPOINTS: '{}' is malformed: use name=exit|stop|error|sleep(ms), optionally @n",
        part));
  };
  const size_t equals = part.find('=');
  if (equals == std::string_view::npos || equals == 0) return malformed();
  std::string_view action = part.substr(equals + 1);
  Rule rule;
  if (const size_t at = action.find('@'); at != std::string_view::npos) {
    if (!ParseNumber(action.substr(at + 1), rule.at) || rule.at == 0) return malformed();
    action = action.substr(0, at);
  }
  if (action == "exit") {
    rule.action = Action::kExit;
  } else if (action == "stop") {
    rule.action = Action::kStop;
  } else if (action == "error") {
    rule.action = Action::kError;
  } else if (action.starts_with(kSleepPrefix) && action.ends_with(')')) {
    rule.action = Action::kSleep;
    action = action.substr(kSleepPrefix.size(), action.size() - kSleepPrefix.size() - 1);
    if (!ParseNumber(action, rule.sleep_ms)) return malformed();
  } else {
    return malformed();
  }
  rules[std::string(part.substr(0, equals))] = rule;
  return absl::OkStatus();
}

}  // namespace

absl::Status Configure(std::string_view text) {
#ifndef WARMRING_FAILPOINTS
  if (!text.empty()) {
    return absl::InvalidArgumentError(
        "WARMRING_FAILPOINTS is set, but this build has no failpoints: unset it, or build with "
        "-DWARMRING_FAILPOINTS=ON");
  }
#endif
  std::map<std::string, Rule, std::less<>> rules;
  while (!text.empty()) {
    const size_t end = text.find(';');
    const std::string_view part = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (part.empty()) continue;
    const absl::Status status = ParseRule(part, rules);
    if (!status.ok()) return status;
  }
  Points& points = AllPoints();
  const std::lock_guard<std::mutex> lock(points.mutex);
  points.rules = std::move(rules);
  points.times.clear();
  return absl::OkStatus();
}

absl::Status ConfigureFromEnvironment() {
  const char* const text = std::getenv("WARMRING_FAILPOINTS");
  return Configure(text == nullptr ? "" : text);
}

absl::Status Hit(std::string_view name) {
  Points& points = AllPoints();
  Rule rule;
  uint64_t times = 0;
  {
    const std::lock_guard<std::mutex> lock(points.mutex);
    auto count = points.times.find(name);
    if (count == points.times.end()) count = points.times.emplace(std::string(name), 0).first;
    times = ++count->second;
    const auto found = points.rules.find(name);
    rule = found == points.rules.end() ? Rule{Action::kExit, 0} : found->second;
  }
  if (times == 1) {
    spdlog::info("failpoint {} reached", name);
    NoteReached(name);
  }
  if (times != rule.at) return absl::OkStatus();
  switch (rule.action) {
    case Action::kExit:
      _exit(137);
    case Action::kStop:
      raise(SIGSTOP);
      return absl::OkStatus();
    case Action::kError:
      return absl::UnknownError(fmt::format("failpoint {}", name));
    case Action::kSleep:
      std::this_thread::sleep_for(std::chrono::milliseconds(rule.sleep_ms));
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

Scope::Scope(std::string_view name) { PresentScope() = name; }
Scope::~Scope() { PresentScope().clear(); }

void HitInScope(std::string_view point) {
  if (PresentScope().empty()) return;
  static_cast<void>(Hit(fmt::format("{}.{}", PresentScope(), point)));
}

}  // namespace warmring::failpoint
