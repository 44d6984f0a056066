// The wrappers of the product's three binaries give each its flags, wait for its port, keep port
// and directory over restarts and report its end. A stub server and shell scripts stand in for the
// binaries, so that what is tested here is the wrapper alone.

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/agent_process.h"
#include "tests/support/binary.h"
#include "tests/support/cli.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/warmringd_server.h"

namespace warmring::support {
namespace {

class ProductProcessesTest : public ::testing::Test {
 protected:
  // Before any test sets the directory to its own.
  static void SetUpTestSuite() {
    ASSERT_OK_AND_ASSIGN(stub_server_, BinaryPath("test_stub_server"));
  }

  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(dir_, TempDir::Create("product-test"));
    setenv("WARMRING_BIN_DIR", dir_->Path().c_str(), 1);
  }

  void InstallServer(const std::string& name) {
    Install(name, "#!/bin/sh\nexec " + stub_server_ + " \"$@\"\n");
  }

  void Install(const std::string& name, const std::string& script) {
    const std::string path = dir_->File(name);
    std::ofstream(path) << script;
    ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  }

  std::unique_ptr<TempDir> dir_;
  static inline std::string stub_server_;
};

TEST_F(ProductProcessesTest, WarmringdKeepsItsPlaceOverRestarts) {
  InstallServer("warmringd");
  WarmringdOptions options;
  options.extra_args = {"--verbose"};
  options.first_env = {{"COLOUR", "blue"}};
  ASSERT_OK_AND_ASSIGN(const auto server, WarmringdServer::Start(options));
  const std::string flags = "--listen=" + server->Address() + " --data-dir=" + server->DataDir() +
                            " --dev --lease=1s --verbose ";
  EXPECT_EQ(server->LogText(), flags + "blue\n");
  EXPECT_OK(ProbeTcp(server->Port()));

  server->Kill9();
  EXPECT_THAT(ProbeTcp(server->Port()), StatusIs(absl::StatusCode::kUnavailable));
  ASSERT_OK(server->Restart());
  EXPECT_EQ(server->LogText(), flags + "blue\n" + flags + "-\n");
  EXPECT_THAT(server->Server().Start(),
              StatusIs(absl::StatusCode::kFailedPrecondition, "runs already"));
}

TEST_F(ProductProcessesTest, AFailpointBeforeReadinessIsSeenAtOnce) {
  InstallServer("warmringd");
  WarmringdOptions options;
  options.first_env = {{"WARMRING_FAILPOINTS", "start=exit"}};
  EXPECT_THAT(
      WarmringdServer::Start(options),
      StatusIs(absl::StatusCode::kAborted, "warmringd ended before it was ready (exit code 137)"));
}

TEST_F(ProductProcessesTest, AgentGetsItsFlags) {
  InstallServer("warmring-agent");
  AgentOptions options;
  options.server = "127.0.0.1:7000";
  options.keyspace = "sessions";
  options.node = "cache-1";
  options.redis_port = 6399;
  options.extra_args = {"--rate=10"};
  ASSERT_OK_AND_ASSIGN(const auto agent, AgentProcess::Start(options));
  const std::string flags =
      "--server=127.0.0.1:7000 --keyspace=sessions --node=cache-1 --redis=127.0.0.1:6399 "
      "--listen=" +
      agent->Address() + " --rate=10 ";
  EXPECT_EQ(agent->LogText(), flags + "-\n");
  agent->Kill9();
  ASSERT_OK(agent->Restart({{"COLOUR", "red"}}));
  EXPECT_EQ(agent->LogText(), flags + "-\n" + flags + "red\n");
}

TEST_F(ProductProcessesTest, CliTellsCodeAndBothOutputs) {
  Install("warmring", "#!/bin/sh\necho \"$*\"; cat; echo problem >&2; exit 6\n");
  CliOptions options;
  options.server = "127.0.0.1:7000";
  options.input = "yes\n";
  ASSERT_OK_AND_ASSIGN(const CliResult result, RunCli({"node", "list"}, options));
  EXPECT_EQ(result.exit_code, 6);
  EXPECT_EQ(result.out, "--endpoints=127.0.0.1:7000 node list\nyes\n");
  EXPECT_EQ(result.err, "problem\n");
}

TEST_F(ProductProcessesTest, CliThatHangsOrCrashesIsAnError) {
  Install("warmring", "#!/bin/sh\necho started; [ \"$1\" = crash ] && kill -SEGV $$; sleep 1000\n");
  EXPECT_THAT(RunCli({"crash"}), StatusIs(absl::StatusCode::kAborted, "signal 11"));
  CliOptions options;
  options.within = absl::Milliseconds(300);
  EXPECT_THAT(RunCli({"hang"}, options), StatusIs(absl::StatusCode::kDeadlineExceeded, "started"));
}

TEST_F(ProductProcessesTest, SaysWhatIsNotBuilt) {
  EXPECT_THAT(WarmringdServer::Start(),
              StatusIs(absl::StatusCode::kNotFound, "warmringd is not in"));
  EXPECT_THAT(AgentProcess::Start({}),
              StatusIs(absl::StatusCode::kNotFound, "warmring-agent is not in"));
  EXPECT_THAT(RunCli({}), StatusIs(absl::StatusCode::kNotFound, "warmring is not in"));
}

}  // namespace
}  // namespace warmring::support
