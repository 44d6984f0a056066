#include "tests/support/cli.h"

#include <fstream>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tests/support/binary.h"
#include "tests/support/temp_dir.h"

namespace warmring::support {

absl::StatusOr<CliResult> RunCli(const std::vector<std::string>& args, const CliOptions& options) {
  ASSIGN_OR_RETURN(std::string binary, BinaryPath("warmring"));
  ASSIGN_OR_RETURN(const std::unique_ptr<TempDir> dir, TempDir::Create("cli"));

  ProcessOptions process_options;
  process_options.argv = {std::move(binary)};
  if (!options.server.empty()) {
    process_options.argv.push_back(fmt::format("--endpoints={}", options.server));
  }
  process_options.argv.insert(process_options.argv.end(), args.begin(), args.end());
  process_options.env = options.env;
  process_options.log_path = dir->File("out");
  process_options.stderr_path = dir->File("err");
  process_options.stdin_path = dir->File("in");
  std::ofstream(process_options.stdin_path) << options.input;
  ASSIGN_OR_RETURN(const std::unique_ptr<Process> process, Process::Start(process_options));
  const absl::StatusOr<ExitStatus> status = process->Wait(options.within);
  if (!status.ok()) process->KillTree();
  CliResult result{.exit_code = status.ok() ? status->code : -1,
                   .out = ReadFile(process_options.log_path),
                   .err = ReadFile(process_options.stderr_path)};
  if (status.ok() && status->signal == 0) return result;
  const std::string printed =
      fmt::format("warmring {}: {}; it printed:\n{}{}", fmt::join(args, " "),
                  status.ok() ? status->Describe() : std::string(status.status().message()),
                  result.out, result.err);
  return status.ok() ? absl::AbortedError(printed) : absl::DeadlineExceededError(printed);
}

}  // namespace warmring::support
