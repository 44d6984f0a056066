#pragma once

#include "absl/status/status.h"

namespace warmring::cli {

// What the process ends with. `warmring help exit-codes` prints this table.
enum class ExitCode : int {
  kDone = 0,
  kFailed = 1,          // the server said no, verification failed, the migration was rolled back
  kUsage = 2,           // usage error, or an answer was needed and nobody is there to give it
  kDifference = 3,      // with --exit-code: there is a difference
  kNeedsPromotion = 4,  // waiting ended at a pause that needs `promote`
  kTimeout = 5,         // waiting ended by --timeout; the migration goes on
  kConflict = 6,        // stale plan or version conflict
  kNotFound = 7,
  kRefusedByGate = 8,
  kUnreachable = 9,  // no server can be reached
  kInterrupted = 130,
};

// A refusal of the server, or a failure to reach one, as an exit code.
ExitCode ExitCodeOf(const absl::Status& status);

// The table for people.
const char* ExitCodeHelp();

}  // namespace warmring::cli
