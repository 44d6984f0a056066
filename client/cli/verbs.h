#pragma once

#include <functional>
#include <utility>

#include "CLI/CLI.hpp"
#include "client/cli/plan_flags.h"
#include "client/cli/session.h"

namespace warmring::cli {

// What a verb does once its flags are parsed. Set by the verb's callback, run by main, which
// connects first unless the verb needs no server.
class Run {
 public:
  using Verb = std::function<ExitCode(Session&)>;
  Run() = default;
  template <typename Callable>
  Run(Callable verb) : verb_(std::move(verb)) {}
  static Run Offline(Verb verb) {
    Run run(std::move(verb));
    run.offline_ = true;
    return run;
  }

  bool offline() const { return offline_; }
  ExitCode operator()(Session& session) const { return verb_(session); }

 private:
  Verb verb_;
  bool offline_ = false;
};

// Each adds its subcommands to `app`; the chosen one stores its Run in `*run`.
void AddStatus(CLI::App& app, Run* run);
void AddKeyspace(CLI::App& app, Run* run);
void AddNode(CLI::App& app, Run* run);
void AddOverride(CLI::App& app, Run* run);
void AddPlan(CLI::App& app, Run* run);
void AddWatch(CLI::App& app, Run* run);
void AddMigration(CLI::App& app, Run* run);

// `keyspace import`, below the noun `keyspace`.
void AddKeyspaceImport(CLI::App* noun, Run* run);
// `keyspace balance`, `draw` and `export`.
void AddKeyspacePicture(CLI::App* noun, Run* run);
// `keyspace sim add|remove|weight`.
void AddKeyspaceSim(CLI::App* noun, Run* run);

// `keyspace pins`, `grow`, `move-buckets`, `unpin` and `rebalance`.
void AddKeyspaceBuckets(CLI::App* noun, Run* run);

// Follows a migration until it has ended or waits for a person. Shared by watch, apply and node.
ExitCode FollowMigration(Session& session, const std::string& keyspace, const std::string& id);

// Preview, question, submit, follow. Shared by apply and node.
ExitCode SubmitPlan(Session& session, const v1::MigrationPlan& plan, bool dry_run, bool detach);

// A plan with one change, from flags.
ExitCode SubmitChange(Session& session, const PlanFlags& flags, v1::Change change);

}  // namespace warmring::cli
