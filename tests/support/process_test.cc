// A child runs with what it was given, its end is told exactly, it can be stopped and killed, and
// it never outlives its parent.

#include "tests/support/process.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait.h"

namespace warmring::support {
namespace {

class ProcessTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(dir_, TempDir::Create("process-test")); }

  ProcessOptions Shell(const std::string& script) const {
    ProcessOptions options;
    options.argv = {"/bin/sh", "-c", script};
    options.log_path = dir_->File("log");
    return options;
  }

  std::unique_ptr<TempDir> dir_;
};

bool Exists(pid_t pid) {
  // A zombie of another parent still answers kill(pid, 0), so read its state.
  const std::string stat = ReadFile("/proc/" + std::to_string(pid) + "/stat");
  return !stat.empty() && stat.find(") Z") == std::string::npos;
}

TEST_F(ProcessTest, PassesArgumentsEnvironmentAndDirectory) {
  ProcessOptions options = Shell("echo \"$COLOUR $HOME $1 $PWD\"; echo oops >&2");
  options.argv.insert(options.argv.end(), {"name", "an argument"});
  options.env = {{"COLOUR", "blue"}, {"HOME", "/nowhere"}};
  options.working_dir = dir_->Path();
  ASSERT_OK_AND_ASSIGN(const auto process, Process::Start(options));
  ASSERT_OK_AND_ASSIGN(const ExitStatus status, process->Wait(kDefaultWait));
  EXPECT_TRUE(status.Succeeded()) << status.Describe();
  EXPECT_EQ(process->LogText(), "blue /nowhere an argument " + dir_->Path() + "\noops\n");
}

TEST_F(ProcessTest, PartsStderrAndReadsStdin) {
  ProcessOptions options = Shell("cat; echo oops >&2");
  options.stderr_path = dir_->File("err");
  options.stdin_path = dir_->File("in");
  std::ofstream(options.stdin_path) << "yes\n";
  ASSERT_OK_AND_ASSIGN(const auto process, Process::Start(options));
  EXPECT_OK(process->Wait(kDefaultWait));
  EXPECT_EQ(process->LogText(), "yes\n");
  EXPECT_EQ(ReadFile(dir_->File("err")), "oops\n");
}

TEST_F(ProcessTest, TellsHowItEnded) {
  ASSERT_OK_AND_ASSIGN(const auto exits, Process::Start(Shell("exit 3")));
  ASSERT_OK_AND_ASSIGN(const ExitStatus code, exits->Wait(kDefaultWait));
  EXPECT_EQ(code, (ExitStatus{.code = 3, .signal = 0}));
  EXPECT_EQ(code.Describe(), "exit code 3");
  EXPECT_EQ(exits->State(), 'X');
  EXPECT_THAT(exits->Kill(SIGTERM),
              StatusIs(absl::StatusCode::kFailedPrecondition, "has ended already: exit code 3"));

  ASSERT_OK_AND_ASSIGN(const auto killed, Process::Start(Shell("exec sleep 1000")));
  EXPECT_THAT(killed->Wait(absl::Milliseconds(20)), StatusIs(absl::StatusCode::kDeadlineExceeded));
  ASSERT_OK(killed->Kill(SIGKILL));
  ASSERT_OK_AND_ASSIGN(const ExitStatus signal, killed->Wait(kDefaultWait));
  EXPECT_EQ(signal, (ExitStatus{.code = 0, .signal = SIGKILL}));
  EXPECT_EQ(signal.Describe(), "signal 9 (Killed)");
}

TEST_F(ProcessTest, SaysWhyAProgramDoesNotStart) {
  ProcessOptions missing;
  missing.argv = {"no-such-program-of-warmring"};
  EXPECT_THAT(Process::Start(missing),
              StatusIs(absl::StatusCode::kNotFound, "no-such-program-of-warmring is not in PATH"));
  missing.argv = {"/no/such/program"};
  EXPECT_THAT(Process::Start(missing),
              StatusIs(absl::StatusCode::kInternal,
                       "cannot execute the program for /no/such/program: No such file"));
  ProcessOptions nowhere = Shell("true");
  nowhere.working_dir = "/no/such/directory";
  EXPECT_THAT(Process::Start(nowhere),
              StatusIs(absl::StatusCode::kInternal, "cannot enter the working directory"));
}

TEST_F(ProcessTest, CanBeFrozenAndThawed) {
  ASSERT_OK_AND_ASSIGN(const auto process, Process::Start(Shell("exec sleep 1000")));
  ASSERT_OK(process->Kill(SIGSTOP));
  ASSERT_OK(process->WaitUntilStopped(kDefaultWait));
  EXPECT_EQ(process->State(), 'T');
  EXPECT_TRUE(process->Running());
  ASSERT_OK(process->Kill(SIGCONT));
  EXPECT_OK(WaitFor("the process to sleep again", kDefaultWait,
                    [&process] { return process->State() == 'S'; }));
}

TEST_F(ProcessTest, StopsPolitelyEvenWhenFrozen) {
  ASSERT_OK_AND_ASSIGN(
      const auto process,
      Process::Start(Shell("trap 'exit 7' TERM; echo ready; while :; do :; done")));
  ASSERT_OK(WaitFor("the trap", kDefaultWait, [&process] { return !process->LogText().empty(); }));
  ASSERT_OK(process->Kill(SIGSTOP));
  ASSERT_OK(process->WaitUntilStopped(kDefaultWait));
  EXPECT_EQ(process->Stop(kDefaultWait), (ExitStatus{.code = 7, .signal = 0}));
}

TEST_F(ProcessTest, StopKillsOneThatDoesNotListen) {
  ASSERT_OK_AND_ASSIGN(const auto process,
                       Process::Start(Shell("trap '' TERM; echo ready; while :; do :; done")));
  ASSERT_OK(WaitFor("the trap", kDefaultWait, [&process] { return !process->LogText().empty(); }));
  EXPECT_EQ(process->Stop(absl::Milliseconds(50)), (ExitStatus{.code = 0, .signal = SIGKILL}));
}

TEST_F(ProcessTest, TakesItsChildrenAlong) {
  pid_t grandchild = 0;
  {
    ASSERT_OK_AND_ASSIGN(const auto process,
                         Process::Start(Shell("setsid sleep 1000 & echo $!; wait")));
    ASSERT_OK(WaitFor("the grandchild", kDefaultWait,
                      [&process] { return process->LogText().find('\n') != std::string::npos; }));
    grandchild = std::stoi(process->LogText());
    EXPECT_TRUE(Exists(grandchild));
  }
  // It left the process group, and is killed all the same.
  EXPECT_FALSE(Exists(grandchild));
}

TEST_F(ProcessTest, OutlivesTheThreadThatStartedIt) {
  std::unique_ptr<Process> process;
  std::thread([this, &process] {
    auto started = Process::Start(Shell("exec sleep 1000"));
    if (started.ok()) process = std::move(started).value();
  }).join();
  ASSERT_NE(process, nullptr);
  EXPECT_THAT(process->Wait(absl::Milliseconds(50)), StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(ProcessTest, InheritsNoFilesOfItsParent) {
  // Without close-on-exec, as some libraries open their sockets.
  const int leaky = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_GE(leaky, 3);
  ASSERT_OK_AND_ASSIGN(const auto process,
                       Process::Start(Shell("test -e /proc/self/fd/" + std::to_string(leaky))));
  ASSERT_OK_AND_ASSIGN(const ExitStatus status, process->Wait(kDefaultWait));
  close(leaky);
  EXPECT_EQ(status.code, 1);
}

TEST_F(ProcessTest, DropsRoot) {
  if (getuid() == 0) {
    ProcessOptions options = Shell("id -u; id -G");
    options.run_as = UserId{.uid = 65534, .gid = 65534};
    ASSERT_OK_AND_ASSIGN(const auto process, Process::Start(options));
    EXPECT_OK(process->Wait(kDefaultWait));
    EXPECT_EQ(process->LogText(), "65534\n65534\n");
  } else {
    ProcessOptions options = Shell("true");
    options.run_as = UserId{.uid = 0, .gid = 0};
    EXPECT_THAT(Process::Start(options), StatusIs(absl::StatusCode::kInternal, "not permitted"));
  }
}

TEST_F(ProcessTest, DiesWithItsParentWhateverKillsTheParent) {
  // The parent is this very test program, asked by its environment to start a child and wait.
  ProcessOptions options;
  options.argv = {std::filesystem::read_symlink("/proc/self/exe"),
                  "--gtest_filter=ParentProgram.StartsAChildAndWaits"};
  options.env = {{"WARMRING_TEST_CHILD_PID_FILE", dir_->File("pid")}};
  options.log_path = dir_->File("log");
  ASSERT_OK_AND_ASSIGN(const auto parent, Process::Start(options));
  ASSERT_OK(WaitFor("the child's pid", kDefaultWait, [this] {
    return ReadFile(dir_->File("pid")).find('\n') != std::string::npos;
  })) << parent->LogText();
  const pid_t child = std::stoi(ReadFile(dir_->File("pid")));
  EXPECT_TRUE(Exists(child));
  // Only the parent is killed, not its group.
  ASSERT_OK(parent->Kill(SIGKILL));
  EXPECT_OK(WaitFor("the child to die", kDefaultWait, [child] { return !Exists(child); }));
}

// The parent of the test above; without its environment variable there is nothing to do.
TEST(ParentProgram, StartsAChildAndWaits) {
  const char* file = std::getenv("WARMRING_TEST_CHILD_PID_FILE");
  if (file == nullptr) return;
  ProcessOptions options;
  options.argv = {"sleep", "1000"};
  ASSERT_OK_AND_ASSIGN(const auto child, Process::Start(options));
  std::ofstream(file) << child->Pid() << std::endl;
  EXPECT_OK(child->Wait(absl::Seconds(600)));
}

}  // namespace
}  // namespace warmring::support
