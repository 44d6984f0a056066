#include "agent/redis_module/failpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

namespace warmring {
namespace {

struct Points {
  std::string rules;          // as the environment has them, between semicolons
  const char* log = nullptr;  // null: none
  std::map<std::string, uint64_t, std::less<>> hits;
};

Points& AllPoints() {
  static Points* const points = [] {
    auto* made = new Points;
    const char* const rules = std::getenv("WARMRING_FAILPOINTS");
    if (rules != nullptr) made->rules = std::string(";") + rules + ";";
    made->log = std::getenv("WARMRING_FAILPOINT_LOG");
    return made;
  }();
  return *points;
}

void NoteReached(const char* path, std::string_view name) {
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return;
  const std::string line = std::string(name) + "\n";
  [[maybe_unused]] const ssize_t written = write(file, line.data(), line.size());
  close(file);
}

}  // namespace

void HitModuleFailpoint(std::string_view name) {
  Points& points = AllPoints();
  if (points.rules.empty() && points.log == nullptr) return;
  auto found = points.hits.find(name);
  if (found == points.hits.end()) found = points.hits.emplace(name, 0).first;
  const uint64_t hit = ++found->second;
  if (hit == 1 && points.log != nullptr) NoteReached(points.log, name);
  const std::string rule = ";" + std::string(name) + "=exit";
  const bool is_due =
      points.rules.find(rule + "@" + std::to_string(hit) + ";") != std::string::npos ||
      (hit == 1 && points.rules.find(rule + ";") != std::string::npos);
  if (is_due) _exit(137);
}

}  // namespace warmring
