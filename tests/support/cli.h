#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/support/process.h"
#include "tests/support/wait.h"

namespace warmring::support {

struct CliOptions {
  std::string server;  // warmringd's address, put into --endpoints=…; empty: the flag is left out
  std::string input;   // what the command reads from stdin, which is not a terminal
  Environment env;
  absl::Duration within = kDefaultWait;
};

struct CliResult {
  int exit_code = 0;
  std::string out;
  std::string err;
};

// Runs the built `warmring` with these arguments and waits for its end. No terminal is attached, so
// that it prints what a program would read and asks nothing.
//
// Thread rule: any thread.
// Errors: NotFound if it is not built; DeadlineExceeded, with what it printed, if it does not end
// within the time (it is then killed); Aborted if a signal ended it.
[[nodiscard]] absl::StatusOr<CliResult> RunCli(const std::vector<std::string>& args,
                                               const CliOptions& options = {});

}  // namespace warmring::support
