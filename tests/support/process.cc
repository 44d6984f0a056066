#include "tests/support/process.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <thread>

#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "tests/support/wait.h"

// The header of glibc 2.36 does not say that its functions are C.
extern "C" {
#include <sys/pidfd.h>
}

extern char** environ;

namespace warmring::support {
namespace {

// The kernel's parent-death signal fires when the *thread* that forked ends. All children are
// therefore forked by one thread that lives as long as this process.
class Spawner {
 public:
  static Spawner& Get() {
    static Spawner* const spawner = new Spawner;
    return *spawner;
  }

  // Runs `job` on the thread and returns its result.
  pid_t Run(const std::function<pid_t()>& job) {
    const std::lock_guard<std::mutex> one_caller(callers_);
    std::unique_lock<std::mutex> lock(mutex_);
    job_ = &job;
    changed_.notify_all();
    changed_.wait(lock, [this] { return job_ == nullptr; });
    return result_;
  }

 private:
  Spawner() { std::thread(&Spawner::Loop, this).detach(); }

  void Loop() {
    // Signals of this process are for its other threads.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return job_ != nullptr; });
      result_ = (*job_)();
      job_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex callers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<pid_t()>* job_ = nullptr;  // guarded by mutex_
  pid_t result_ = -1;                            // guarded by mutex_
};

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { Close(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&&) = delete;
  int Get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// How long a process may take to die from SIGKILL: only one in uninterruptible I/O takes any time.
constexpr int kKillMillis = 10'000;

// What the child tells through a pipe if it does not reach its program.
struct ChildError {
  const char* step;
  int reason;
};

// Everything that the child needs, made before the fork: after it only async-signal-safe calls are
// allowed, as another thread may have held any lock at that moment.
struct ChildPlan {
  const char* program;
  char* const* argv;
  char* const* envp;
  const char* working_dir;  // or null
  int in, out, err;
  int error_pipe;
  pid_t parent;
  const UserId* run_as;  // or null
};

[[noreturn]] void FailChild(const ChildPlan& plan, const char* step) {
  const ChildError error{step, errno};
  // Nobody is left to tell if this fails.
  const ssize_t ignored = write(plan.error_pipe, &error, sizeof(error));
  static_cast<void>(ignored);
  _exit(127);
}

[[noreturn]] void RunChild(const ChildPlan& plan) {
  setpgid(0, 0);
  if (plan.run_as != nullptr) {
    if (setgroups(0, nullptr) != 0) FailChild(plan, "drop supplementary groups");
    if (setgid(plan.run_as->gid) != 0) FailChild(plan, "change the group");
    if (setuid(plan.run_as->uid) != 0) FailChild(plan, "change the user");
  }
  // After setuid, which clears it.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) FailChild(plan, "set the parent-death signal");
  if (getppid() != plan.parent) _exit(127);
  if (plan.working_dir != nullptr && chdir(plan.working_dir) != 0) {
    FailChild(plan, "enter the working directory");
  }
  if (dup2(plan.in, 0) < 0 || dup2(plan.out, 1) < 0 || dup2(plan.err, 2) < 0) {
    FailChild(plan, "connect stdin, stdout and stderr");
  }
  // Libraries of the parent open sockets without close-on-exec; a server must not inherit them.
  if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) FailChild(plan, "close the parent's files");
  // Handlers first: they must not run in the child when the signals are let in.
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(plan.program, plan.argv, plan.envp);
  FailChild(plan, "execute the program");
}

std::vector<std::string> MergedEnvironment(const Environment& added) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    bool replaced = false;
    for (const auto& [key, value] : added) replaced = replaced || key == name;
    if (!replaced) merged.emplace_back(text);
  }
  for (const auto& [key, value] : added) merged.push_back(fmt::format("{}={}", key, value));
  return merged;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

int OpenForAppend(const std::string& path) {
  return open(path.empty() ? "/dev/null" : path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
              0644);
}

absl::Status SystemError(std::string_view what) {
  return absl::InternalError(fmt::format("cannot {}: {}", what, std::strerror(errno)));
}

// The state letter stands behind the program's name, which is in parentheses and may hold any
// character.
char StateInStatFile(const std::string& path) {
  const std::string text = ReadFile(path);
  const size_t name_end = text.rfind(") ");
  return name_end == std::string::npos || name_end + 2 >= text.size() ? 'X' : text[name_end + 2];
}

// The parent of a process, or -1 if there is no such process.
pid_t ParentOf(pid_t pid) {
  const std::string text = ReadFile(fmt::format("/proc/{}/stat", pid));
  const size_t name_end = text.rfind(") ");
  return name_end == std::string::npos || name_end + 4 >= text.size()
             ? -1
             : static_cast<pid_t>(std::atoi(text.c_str() + name_end + 4));
}

// Handles to all descendants of a process. A handle names one process for ever, unlike a pid.
std::vector<Fd> Descendants(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0) children.emplace(ParentOf(pid), pid);
  }
  std::vector<Fd> handles;
  std::vector<pid_t> parents = {root};
  while (!parents.empty()) {
    const pid_t parent = parents.back();
    parents.pop_back();
    for (auto [it, end] = children.equal_range(parent); it != end; ++it) {
      Fd handle(pidfd_open(it->second, 0));
      // Asked again, now that the handle is held: the pid may have gone to another process.
      if (handle.Get() < 0 || ParentOf(it->second) != parent) continue;
      handles.push_back(std::move(handle));
      parents.push_back(it->second);
    }
  }
  return handles;
}

}  // namespace

std::string ExitStatus::Describe() const {
  if (signal != 0) return fmt::format("signal {} ({})", signal, strsignal(signal));
  return fmt::format("exit code {}", code);
}

absl::StatusOr<std::unique_ptr<Process>> Process::Start(ProcessOptions options) {
  if (options.argv.empty()) return absl::InvalidArgumentError("argv is empty: name a program");
  ASSIGN_OR_RETURN(const std::string program, FindProgram(options.argv[0]));
  const Fd in(open(options.stdin_path.empty() ? "/dev/null" : options.stdin_path.c_str(),
                   O_RDONLY | O_CLOEXEC));
  if (in.Get() < 0) return SystemError(fmt::format("open stdin {}", options.stdin_path));
  const Fd out(OpenForAppend(options.log_path));
  if (out.Get() < 0) return SystemError(fmt::format("open the log {}", options.log_path));
  const Fd err(options.stderr_path.empty() ? fcntl(out.Get(), F_DUPFD_CLOEXEC, 3)
                                           : OpenForAppend(options.stderr_path));
  if (err.Get() < 0) return SystemError(fmt::format("open stderr {}", options.stderr_path));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return SystemError("make a pipe");
  const Fd from_child(ends[0]);
  Fd to_parent(ends[1]);

  std::vector<std::string> environment = MergedEnvironment(options.env);
  const std::vector<char*> argv = Pointers(options.argv);
  const std::vector<char*> envp = Pointers(environment);
  const ChildPlan plan{
      .program = program.c_str(),
      .argv = argv.data(),
      .envp = envp.data(),
      .working_dir = options.working_dir.empty() ? nullptr : options.working_dir.c_str(),
      .in = in.Get(),
      .out = out.Get(),
      .err = err.Get(),
      .error_pipe = to_parent.Get(),
      .parent = getpid(),
      .run_as = options.run_as.has_value() ? &*options.run_as : nullptr,
  };
  const pid_t pid = Spawner::Get().Run([&plan] {
    const pid_t child = fork();
    if (child == 0) RunChild(plan);
    return child;
  });
  if (pid < 0) return SystemError("fork");
  to_parent.Close();

  std::unique_ptr<Process> process(
      new Process(pid, std::filesystem::path(program).filename(), options.log_path));
  ChildError error{};
  ssize_t got = 0;
  do {
    got = read(from_child.Get(), &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  if (got == 0) return process;
  // `step` is a literal of this program, so that the child's pointer is good here too.
  return absl::InternalError(
      fmt::format("cannot {} for {}: {}", error.step, program, std::strerror(error.reason)));
}

Process::~Process() { KillTree(); }

void Process::Poll() {
  if (ended_.has_value()) return;
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return;
  if (info.si_pid == pid_) Reap();
}

void Process::Reap() {
  // What it forked goes with it. It is not reaped yet, so that neither its pid nor its group can
  // belong to anybody else.
  kill(-pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  ended_ = WIFSIGNALED(status) ? ExitStatus{.code = 0, .signal = WTERMSIG(status)}
                               : ExitStatus{.code = WEXITSTATUS(status), .signal = 0};
}

bool Process::Running() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Poll();
  return !ended_.has_value();
}

absl::Status Process::Kill(int signal) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Poll();
  if (ended_.has_value()) {
    return absl::FailedPreconditionError(
        fmt::format("{} (pid {}) has ended already: {}", name_, pid_, ended_->Describe()));
  }
  if (kill(pid_, signal) != 0) return SystemError(fmt::format("signal {}", name_));
  return absl::OkStatus();
}

ExitStatus Process::KillTree() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (ended_.has_value()) return *ended_;
  // Frozen first, so that it forks no more while its descendants are looked up.
  kill(pid_, SIGSTOP);
  const std::vector<Fd> descendants = Descendants(pid_);
  Reap();
  for (const Fd& descendant : descendants) pidfd_send_signal(descendant.Get(), SIGKILL, nullptr, 0);
  for (const Fd& descendant : descendants) {
    pollfd ended{.fd = descendant.Get(), .events = POLLIN, .revents = 0};
    poll(&ended, 1, kKillMillis);
  }
  return *ended_;
}

absl::StatusOr<ExitStatus> Process::Wait(absl::Duration within) {
  const absl::Status ended = WaitFor(fmt::format("{} (pid {}) to end", name_, pid_), within,
                                     [this] { return !Running(); });
  if (!ended.ok()) return ended;
  const std::lock_guard<std::mutex> lock(mutex_);
  return *ended_;
}

ExitStatus Process::Stop(absl::Duration within) { return Stop(SIGTERM, within); }

ExitStatus Process::Stop(int signal, absl::Duration within) {
  // A stopped process sees the signal only when it goes on.
  if (Kill(signal).ok() && Kill(SIGCONT).ok()) {
    const absl::StatusOr<ExitStatus> ended = Wait(within);
    if (ended.ok()) return *ended;
  }
  return KillTree();
}

char Process::State() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (ended_.has_value()) return 'X';
  return StateInStatFile(fmt::format("/proc/{}/stat", pid_));
}

absl::Status Process::WaitUntilStopped(absl::Duration within) {
  return WaitFor(fmt::format("all threads of {} (pid {}) to stop", name_, pid_), within, [this] {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_.has_value()) return false;
    int threads = 0;
    std::error_code error;
    for (const auto& task :
         std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid_), error)) {
      if (StateInStatFile(task.path() / "stat") != 'T') return false;
      ++threads;
    }
    return !error && threads > 0;
  });
}

std::string Process::LogText() const { return ReadFile(log_path_); }

std::string Process::LogTail() const {
  constexpr size_t kTailBytes = 3000;
  std::string text = LogText();
  if (text.size() > kTailBytes) text.erase(0, text.size() - kTailBytes);
  return text;
}

absl::StatusOr<std::string> FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  std::istringstream directories(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    std::string candidate = fmt::format("{}/{}", directory, name);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return absl::NotFoundError(fmt::format("program {} is not in PATH", name));
}

std::string ReadFile(const std::string& path) {
  // A file of /proc can be opened and then fail to be read, because its process is gone meanwhile;
  // a stream buffer throws at that, and read() of the stream does not.
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char block[4096];
  while (file.read(block, sizeof block), file.gcount() > 0) {
    text.append(block, static_cast<size_t>(file.gcount()));
  }
  return text;
}

}  // namespace warmring::support
