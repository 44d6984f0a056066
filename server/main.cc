#include <signal.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "CLI/CLI.hpp"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/ids.h"
#include "server/executor/failpoint.h"
#include "server/server.h"

namespace warmring {
namespace {

constexpr int kExitUsage = 2;
constexpr int kExitFailed = 1;

int Fail(int code, const std::string& message) {
  std::fprintf(stderr, "warmringd: %s\n", message.c_str());
  return code;
}

std::string Text(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

struct Flags {
  ServerOptions server;
  std::string lease = "10s";
  std::string log_level = "info";
  std::vector<std::string> dev_roles = {"operator", "safety-override"};
};

void AddFlags(CLI::App& app, Flags& flags) {
  app.set_version_flag("--version", std::string("warmringd ") + WARMRING_VERSION);
  app.add_option("--listen", flags.server.listen, "host:port to serve on; port 0 takes a free one")
      ->envname("WARMRINGD_LISTEN")
      ->capture_default_str();
  app.add_option("--data-dir", flags.server.data_dir,
                 "directory of the store; with --dev a temporary one is the default")
      ->envname("WARMRINGD_DATA_DIR");
  app.add_flag("--dev", flags.server.dev, "no TLS, everybody may do everything; loopback only");
  app.add_option("--dev-roles", flags.dev_roles,
                 "with --dev: what everybody may be; operator, safety-override")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--lease", flags.lease, "how long owners may write without being renewed")
      ->capture_default_str();
  app.add_option("--log-level", flags.log_level, "debug, info, warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
}

// Empty, or what is wrong with the flags.
std::string Check(Flags& flags) {
  if (!absl::ParseDuration(flags.lease, &flags.server.lease) ||
      flags.server.lease < absl::Milliseconds(200) || flags.server.lease > absl::Minutes(5)) {
    return fmt::format("--lease: '{}' is not a duration from 200ms to 5m (try 10s)",
                       Printable(flags.lease));
  }
  flags.server.dev_roles.clear();
  for (const std::string& word : flags.dev_roles) {
    const absl::StatusOr<Role> role = ParseRole(word);
    if (!role.ok()) return "--dev-roles: " + Text(role.status());
    flags.server.dev_roles.insert(*role);
  }
  return "";
}

// A directory that goes away with the process.
class TemporaryDirectory {
 public:
  absl::Status Create() {
    std::string pattern = (std::filesystem::temp_directory_path() / "warmringd-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      return absl::UnavailableError("no temporary directory can be made: give --data-dir");
    }
    path_ = pattern;
    return absl::OkStatus();
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

int Main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app{"warmringd: keeps memberships and conducts migrations"};
  Flags flags;
  AddFlags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kExitUsage;
  }
  if (const std::string wrong = Check(flags); !wrong.empty()) return Fail(kExitUsage, wrong);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("warmringd"));
  spdlog::set_level(spdlog::level::from_str(flags.log_level));
  if (const absl::Status points = failpoint::ConfigureFromEnvironment(); !points.ok()) {
    return Fail(kExitUsage, Text(points));
  }

  // Every thread inherits the mask; this one takes the signals when the server runs.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  TemporaryDirectory temporary;
  if (flags.server.data_dir.empty()) {
    if (!flags.server.dev) return Fail(kExitUsage, "--data-dir: where is the store to be kept?");
    if (const absl::Status made = temporary.Create(); !made.ok()) {
      return Fail(kExitFailed, Text(made));
    }
    flags.server.data_dir = temporary.path();
  }
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(flags.server);
  if (!server.ok()) {
    const bool usage = absl::IsInvalidArgument(server.status());
    return Fail(usage ? kExitUsage : kExitFailed, Text(server.status()));
  }
  spdlog::warn("--dev: no TLS, everybody on this machine may do everything");
  std::printf("warmringd ready on %s\n", (*server)->address().c_str());
  std::fflush(stdout);
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  spdlog::info("stopping");
  // Calls take milliseconds. Idle clients that do not look at their connection are not waited for.
  (*server)->Shutdown(absl::Seconds(1));
  server->reset();
  return 0;
}

}  // namespace
}  // namespace warmring

int main(int argc, char** argv) { return warmring::Main(argc, argv); }
