#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/binary.h"
#include "tests/support/free_port.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait.h"

// warmring-agent as an operator meets it: a wrong flag is one clear sentence and exit code 2; a
// server or a Redis that is not there is waited for, and said once.

namespace warmring {
namespace {

using support::kDefaultWait;
using support::Process;
using support::WaitFor;

class AgentProcessTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(dir_, support::TempDir::Create("agent-process")); }

  void Start(std::vector<std::string> flags) {
    ASSERT_OK_AND_ASSIGN(std::string binary, support::BinaryPath("warmring-agent"));
    support::ProcessOptions options;
    options.argv = {std::move(binary)};
    options.argv.insert(options.argv.end(), flags.begin(), flags.end());
    options.log_path = dir_->File("agent.log");
    ASSERT_OK_AND_ASSIGN(process_, Process::Start(std::move(options)));
  }

  // Runs it to its end; what it printed.
  std::string Refusal(std::vector<std::string> flags) {
    Start(std::move(flags));
    const auto ended = process_->Wait(kDefaultWait);
    EXPECT_OK(ended);
    EXPECT_EQ(ended->code, 2) << process_->LogTail();
    const std::string log = process_->LogText();
    process_.reset();
    std::remove(dir_->File("agent.log").c_str());
    return log;
  }

  // Good flags, with nobody behind the addresses.
  static std::vector<std::string> Flags(std::vector<std::string> more = {}) {
    std::vector<std::string> flags = {"--server=127.0.0.1:9", "--keyspace=shop", "--node=node-a",
                                      "--redis=127.0.0.1:9"};
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }

  std::unique_ptr<support::TempDir> dir_;
  std::unique_ptr<Process> process_;
};

TEST_F(AgentProcessTest, SaysItsVersion) {
  Start({"--version"});
  ASSERT_OK_AND_ASSIGN(const support::ExitStatus ended, process_->Wait(kDefaultWait));
  EXPECT_TRUE(ended.Succeeded());
  EXPECT_THAT(process_->LogText(), testing::StartsWith("warmring-agent 0."));
}

TEST_F(AgentProcessTest, RefusesAWrongFlagAndNamesIt) {
  EXPECT_THAT(Refusal({"--keyspace=shop", "--node=a", "--redis=127.0.0.1:9"}),
              testing::HasSubstr("--server"));
  EXPECT_THAT(Refusal(Flags({"--colour=red"})), testing::HasSubstr("--colour"));
  EXPECT_THAT(Refusal(Flags({"--log-level=loud"})), testing::HasSubstr("--log-level"));
  EXPECT_THAT(
      Refusal({"--server=127.0.0.1:9", "--keyspace=Shop", "--node=a", "--redis=127.0.0.1:9"}),
      testing::HasSubstr("--keyspace"));
  EXPECT_THAT(Refusal({"--server=127.0.0.1:9", "--keyspace=shop", "--node=a", "--redis=localhost"}),
              testing::HasSubstr("--redis"));
  EXPECT_THAT(Refusal({"--server=127.0.0.1:9,nowhere", "--keyspace=shop", "--node=a",
                       "--redis=127.0.0.1:9"}),
              testing::HasSubstr("nowhere"));
  EXPECT_THAT(Refusal(Flags({"--listen=0.0.0.0:0"})), testing::HasSubstr("--advertise"));
  EXPECT_THAT(Refusal(Flags({"--listen=7000"})), testing::HasSubstr("host:port"));
}

TEST_F(AgentProcessTest, RefusesAPortThatIsInUse) {
  ASSERT_OK_AND_ASSIGN(const support::FreePort port, support::FreePort::Reserve());
  Start(Flags({"--listen=" + port.Address()}));
  ASSERT_OK(
      WaitFor("listening", kDefaultWait, [&] { return support::ProbeTcp(port.Port()).ok(); }));
  const std::unique_ptr<Process> first = std::move(process_);
  EXPECT_THAT(Refusal(Flags({"--listen=" + port.Address()})),
              testing::HasSubstr("cannot listen on " + port.Address()));
}

TEST_F(AgentProcessTest, WaitsForAServerSaysSoOnceAndEndsWhenAsked) {
  Start(Flags());
  ASSERT_OK(WaitFor("it says what it waits for", kDefaultWait, [this] {
    return process_->LogText().find("session with the server") != std::string::npos;
  }));
  EXPECT_THAT(process_->LogText(),
              testing::HasSubstr("warmring-agent ready: keyspace=shop node=node-a "
                                 "redis=127.0.0.1:9 transfer=127.0.0.1:"));
  const support::ExitStatus ended = process_->Stop();
  EXPECT_TRUE(ended.Succeeded()) << ended.Describe() << "\n" << process_->LogText();
  const std::string log = process_->LogText();
  EXPECT_LE(std::count(log.begin(), log.end(), '\n'), 8) << log;
}

}  // namespace
}  // namespace warmring
