// Judges a history that a test has saved:
//
//   history_check FILE
//
// Ends 0 without a violation, 1 with one, 2 if the file cannot be read.

#include <string>

#include "absl/synchronization/mutex.h"
#include "fmt/format.h"
#include "tests/history/checker.h"
#include "tests/history/event.h"

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  if (argc != 2) {
    fmt::print(stderr, "usage: history_check FILE\n");
    return 2;
  }
  const auto events = warmring::history::ReadHistory(argv[1]);
  if (!events.ok()) {
    fmt::print(stderr, "history_check: {}\n", std::string(events.status().message()));
    return 2;
  }
  const warmring::history::Verdict verdict = warmring::history::Check(*events);
  fmt::print("{}\n", verdict.Describe(100));
  return verdict.ok() ? 0 : 1;
}
