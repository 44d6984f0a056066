#include <cstdlib>
#include <iostream>
#include <map>

#include "CLI/CLI.hpp"
#include "absl/synchronization/mutex.h"
#include "client/cli/exit_code.h"
#include "client/cli/session.h"
#include "client/cli/verbs.h"

namespace warmring::cli {
namespace {

void AddGlobalFlags(CLI::App& app, GlobalFlags& flags) {
  app.add_option("-e,--endpoints", flags.endpoints, "servers, host:port, tried in turn")
      ->delimiter(',')
      ->envname("WARMRING_ENDPOINTS")
      ->capture_default_str();
  app.add_option("-k,--keyspace", flags.keyspace, "keyspace (default: the only one)")
      ->envname("WARMRING_KEYSPACE");
  app.add_option("-o,--output", flags.output, "table or json")
      ->envname("WARMRING_OUTPUT")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Output>{{"table", Output::kTable}, {"json", Output::kJson}}));
  app.add_flag("-y,--yes", flags.yes, "answer every question with yes");
  app.add_flag("--no-input", flags.no_input, "never ask; refuse where an answer is needed");
  app.add_option("--timeout", flags.timeout_seconds,
                 "seconds to wait for a migration; 0 = no bound")
      ->check(CLI::Range(0.0, 31536000.0));
  app.add_option("--request-id", flags.request_id, "makes a repeated command harmless");
  app.add_option("--reason", flags.reason, "why, for the history");
  app.add_flag("--no-color", flags.no_color, "no colours")->envname("NO_COLOR");
}

// Subcommands take the global flags after their name too.
void FallThrough(CLI::App& app) {
  for (CLI::App* sub : app.get_subcommands(nullptr)) {
    sub->fallthrough();
    FallThrough(*sub);
  }
}

int Main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app{"warmring: staged changes of who owns which keys, without waking the origin"};
  app.name("warmring");
  app.set_version_flag("--version", std::string("warmring ") + WARMRING_VERSION);
  app.require_subcommand(1);
  app.footer("Exit codes: warmring help exit-codes");
  GlobalFlags flags;
  AddGlobalFlags(app, flags);
  Run run;
  AddStatus(app, &run);
  AddKeyspace(app, &run);
  AddNode(app, &run);
  AddOverride(app, &run);
  AddPlan(app, &run);
  AddWatch(app, &run);
  AddMigration(app, &run);
  std::string topic;
  CLI::App* help = app.add_subcommand("help", "help on a topic: exit-codes");
  help->add_option("topic", topic, "exit-codes")->check(CLI::IsMember({"exit-codes"}));
  FallThrough(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
  }
  if (help->parsed()) {
    std::cout << (topic.empty() ? app.help() : ExitCodeHelp());
    return 0;
  }
  Session session(flags);
  const absl::Status connected = run.offline() ? absl::OkStatus() : session.Connect();
  if (!connected.ok()) return static_cast<int>(session.Fail(connected));
  return static_cast<int>(run(session));
}

}  // namespace
}  // namespace warmring::cli

int main(int argc, char** argv) { return warmring::cli::Main(argc, argv); }
