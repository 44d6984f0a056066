#include "tests/support/server_process.h"

#include <utility>

#include "core/base/status_macros.h"
#include "fmt/format.h"

namespace warmring::support {

absl::Status ServerProcess::Start(const Environment& extra_env) {
  if (Running()) {
    return absl::FailedPreconditionError(fmt::format(
        "{} (pid {}) runs already: stop or kill it first", process_->Name(), process_->Pid()));
  }
  ProcessOptions process_options = options_.process;
  process_options.env.insert(process_options.env.end(), extra_env.begin(), extra_env.end());
  ASSIGN_OR_RETURN(process_, Process::Start(std::move(process_options)));

  // A server that has ended will never be ready: do not wait for it.
  bool ended = false;
  const absl::Status ready = WaitUntilOk(fmt::format("{} to be ready", process_->Name()),
                                         options_.ready_within, [this, &ended] {
                                           const absl::Status answer = options_.ready();
                                           ended = !answer.ok() && !process_->Running();
                                           return ended ? absl::OkStatus() : answer;
                                         });
  if (ended) {
    return absl::AbortedError(
        fmt::format("{} ended before it was ready ({}); its log ends with:\n{}", process_->Name(),
                    process_->KillTree().Describe(), process_->LogTail()));
  }
  if (ready.ok()) return ready;
  return absl::Status(ready.code(), fmt::format("{}; the log ends with:\n{}",
                                                std::string(ready.message()), process_->LogTail()));
}

absl::Status ServerProcess::Stop() {
  if (!Running()) return absl::OkStatus();
  const ExitStatus status = process_->Stop(options_.stop_signal, kDefaultWait);
  if (status.Succeeded()) return absl::OkStatus();
  return absl::InternalError(
      fmt::format("{} did not end cleanly when asked to: {}; its log ends "
                  "with:\n{}",
                  process_->Name(), status.Describe(), process_->LogTail()));
}

void ServerProcess::Kill9() {
  if (process_ != nullptr) process_->KillTree();
}

absl::StatusOr<ExitStatus> ServerProcess::WaitForExit(absl::Duration within) {
  if (process_ == nullptr) return absl::FailedPreconditionError("the server was never started");
  return process_->Wait(within);
}

}  // namespace warmring::support
