#pragma once

#include <functional>

#include "CLI/CLI.hpp"
#include "client/cli/session.h"

namespace warmring::cli {

// What a verb does once its flags are parsed. Set by the verb's callback, run by main.
using Run = std::function<ExitCode(Session&)>;

// Each adds its subcommands to `app`; the chosen one stores its Run in `*run`.
void AddStatus(CLI::App& app, Run* run);
void AddKeyspace(CLI::App& app, Run* run);
void AddNode(CLI::App& app, Run* run);
void AddPlan(CLI::App& app, Run* run);
void AddWatch(CLI::App& app, Run* run);
void AddMigration(CLI::App& app, Run* run);

// `keyspace import`, below the noun `keyspace`.
void AddKeyspaceImport(CLI::App* noun, Run* run);

// Follows a migration until it has ended or waits for a person. Shared by watch, apply and node.
ExitCode FollowMigration(Session& session, const std::string& keyspace, const std::string& id);

// Preview, question, submit, follow. Shared by apply and node.
ExitCode SubmitPlan(Session& session, const v1::MigrationPlan& plan, bool dry_run, bool detach);

}  // namespace warmring::cli
