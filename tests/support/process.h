#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace warmring::support {

// Environment variables, name and value.
using Environment = std::vector<std::pair<std::string, std::string>>;

// How a process ended.
struct ExitStatus {
  int code = 0;    // what it returned from main; meaningless if a signal ended it
  int signal = 0;  // the signal that ended it, or 0

  bool Succeeded() const { return signal == 0 && code == 0; }
  // "exit code 3" or "signal 9 (Killed)"
  std::string Describe() const;

  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

struct UserId {
  uid_t uid = 0;
  gid_t gid = 0;
};

struct ProcessOptions {
  // The program and its arguments. A program without a slash is looked up in PATH.
  std::vector<std::string> argv;
  // Added to (and overriding) the environment of this process.
  Environment env;
  // Empty: the working directory of this process.
  std::string working_dir;
  // Where stdout and stderr are appended to. Empty: thrown away.
  std::string log_path;
  // Set to part stderr from stdout.
  std::string stderr_path;
  // What the process reads. Empty: nothing.
  std::string stdin_path;
  // Set to drop root before the program starts, with no supplementary groups.
  std::optional<UserId> run_as;
};

// A child process that cannot outlive its parent: it dies with this object, and the kernel kills it
// if this process dies first. What it forked is killed when its end is noticed. It runs in a
// process group of its own, so that Ctrl-C reaches only the parent, which then stops its children
// in its own order.
//
// Thread rule: all methods from any thread.
class Process {
 public:
  // Starts the program and returns when it runs (exec has succeeded).
  //
  // Errors: NotFound if the program is not in PATH; Internal with the system's reason if a file
  // cannot be opened, the user not be changed or the program not be executed.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Process>> Start(ProcessOptions options);

  // KillTree.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t Pid() const { return pid_; }
  // The program's file name, for messages.
  const std::string& Name() const { return name_; }
  // False once it has ended, whether or not somebody has waited for it.
  bool Running();

  // Sends a signal to this child only, not to its children.
  //
  // Errors: FailedPrecondition if the process has ended.
  [[nodiscard]] absl::Status Kill(int signal);

  // SIGKILL to the child and all its descendants (a Redis that saves, the backends of a PostgreSQL,
  // each in a session of its own), and waits for them: on return they are gone.
  ExitStatus KillTree();

  // Waits until the process ends.
  //
  // Errors: DeadlineExceeded after `within`; the process then still runs.
  [[nodiscard]] absl::StatusOr<ExitStatus> Wait(absl::Duration within);

  // SIGTERM (or `signal`), and KillTree if it still runs after `within`. The result
  // tells which of the two ended it.
  ExitStatus Stop(absl::Duration within = absl::Seconds(10));
  ExitStatus Stop(int signal, absl::Duration within);

  // The state letter of proc(5): 'R' running, 'S' sleeping, 'T' stopped, 'Z' ended and not yet
  // waited for, 'X' gone.
  char State();

  // Waits until every thread of the process is stopped, as after Kill(SIGSTOP).
  //
  // Errors: DeadlineExceeded after `within`.
  [[nodiscard]] absl::Status WaitUntilStopped(absl::Duration within);

  // Everything in the log file so far; empty if there is none.
  std::string LogText() const;
  // The end of it, for a failure message.
  std::string LogTail() const;

 private:
  Process(pid_t pid, std::string name, std::string log_path)
      : pid_(pid), name_(std::move(name)), log_path_(std::move(log_path)) {}

  // Reaps the child if it has ended. REQUIRES: mutex_ is held.
  void Poll();
  // Kills the group and waits for the child. REQUIRES: mutex_ is held, not reaped yet.
  void Reap();

  const pid_t pid_;
  const std::string name_;
  const std::string log_path_;
  std::mutex mutex_;
  std::optional<ExitStatus> ended_;  // guarded by mutex_; set when reaped, the pid is then void
};

// The path of a program in PATH, or `name` itself if it has a slash.
//
// Errors: NotFound naming the program.
[[nodiscard]] absl::StatusOr<std::string> FindProgram(const std::string& name);

// The contents of a file; empty if it cannot be read.
std::string ReadFile(const std::string& path);

}  // namespace warmring::support
