#include "client/cli/exit_code.h"

namespace warmring::cli {

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kDone;
    case absl::StatusCode::kAborted:
      return ExitCode::kConflict;
    case absl::StatusCode::kNotFound:
      return ExitCode::kNotFound;
    case absl::StatusCode::kUnavailable:
      return ExitCode::kUnreachable;
    case absl::StatusCode::kDeadlineExceeded:
      return ExitCode::kTimeout;
    default:
      return ExitCode::kFailed;
  }
}

const char* ExitCodeHelp() {
  return "Exit codes:\n"
         "  0    done\n"
         "  1    the server refused, verification failed, or the migration was rolled back\n"
         "  2    usage error, or an answer was needed and there is no terminal (use --yes)\n"
         "  3    with --exit-code: there is a difference\n"
         "  4    waiting ended at a pause: warmring migration promote\n"
         "  5    waiting ended by --timeout; the migration goes on\n"
         "  6    stale plan, version conflict, or another migration is under way\n"
         "  7    not found\n"
         "  8    refused by a gate\n"
         "  9    no server can be reached\n"
         "  130  interrupted; the migration goes on\n";
}

}  // namespace warmring::cli
