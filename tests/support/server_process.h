#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/support/process.h"
#include "tests/support/wait.h"

namespace warmring::support {

struct ServerProcessOptions {
  // How every incarnation is started.
  ProcessOptions process;
  // OK once the server answers; asked again until then.
  std::function<absl::Status()> ready;
  absl::Duration ready_within = kDefaultWait;
  // The signal that asks it to end.
  int stop_signal = 15;  // SIGTERM
};

// A server that can be started, killed and started again with the same arguments. All incarnations
// append to one log.
//
// Thread rule: one thread at a time.
class ServerProcess {
 public:
  explicit ServerProcess(ServerProcessOptions options) : options_(std::move(options)) {}

  // Starts it and waits until it is ready. `extra_env` is for this incarnation only (a failpoint
  // that must not fire again after the restart).
  //
  // Errors: those of Process::Start; FailedPrecondition if it runs already; Aborted, with the end
  // of its log, if it ends before it is ready; DeadlineExceeded, likewise, if it never is.
  [[nodiscard]] absl::Status Start(const Environment& extra_env = {});

  // Asks it to end and kills it if it does not. OK if it does not run.
  //
  // Errors: Internal if it did not end by itself with exit code 0.
  [[nodiscard]] absl::Status Stop();

  // SIGKILL; on return it is gone. OK if it does not run.
  void Kill9();

  // Waits until it ends by itself, as at a failpoint.
  //
  // Errors: DeadlineExceeded; FailedPrecondition if it was never started.
  [[nodiscard]] absl::StatusOr<ExitStatus> WaitForExit(absl::Duration within = kDefaultWait);

  bool Running() { return process_ != nullptr && process_->Running(); }
  // The latest incarnation, also after its end. REQUIRES: Start was called and found the program.
  Process& Latest() { return *process_; }
  std::string LogText() const { return ReadFile(options_.process.log_path); }

 private:
  ServerProcessOptions options_;
  std::unique_ptr<Process> process_;
};

}  // namespace warmring::support
