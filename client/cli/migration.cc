#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "absl/time/time.h"
#include "client/cli/render/migration_view.h"
#include "client/cli/render/preview.h"
#include "client/cli/render/table.h"
#include "client/cli/verbs.h"

namespace warmring::cli {
namespace {

ExitCode List(Session& session) {
  const auto keyspace = session.Keyspace();
  if (!keyspace.ok()) return session.Fail(keyspace.status());
  v1::ListMigrationsRequest request;
  request.set_keyspace(*keyspace);
  v1::ListMigrationsResponse response;
  const grpc::Status status =
      session.migrations().ListMigrations(session.Call().get(), request, &response);
  if (!status.ok()) return session.Fail(status);
  if (session.json()) {
    session.PrintJson(response);
    return ExitCode::kDone;
  }
  Table table(
      {{"MIGRATION"}, {"STATE"}, {"MOVES", true}, {"WAVES", true}, {"SINCE"}, {"BY"}, {"REASON"}});
  for (const auto& m : response.migrations()) {
    const absl::Time since = absl::FromUnixSeconds(m.create_time().seconds());
    table.AddRow({m.id(), MigrationStateText(m), FormatShare(m.preview().moved_share()),
                  fmt::format("{}/{}", m.waves_committed(), m.waves()),
                  absl::FormatTime("%Y-%m-%d %H:%M:%SZ", since, absl::UTCTimeZone()), m.author(),
                  m.failure().empty() ? m.plan().reason() : m.failure()});
  }
  std::cout << table.ToString();
  return ExitCode::kDone;
}

ExitCode Show(Session& session, const v1::Migration& migration) {
  if (session.json()) {
    session.PrintJson(migration);
  } else {
    std::cout << MigrationView(migration);
  }
  return ExitCode::kDone;
}

// One unary call about one migration: same request fields, same answer, whatever the method.
template <typename Request, typename Response>
Run OneMigration(std::shared_ptr<std::string> id,
                 grpc::Status (v1::MigrationService::Stub::*method)(grpc::ClientContext*,
                                                                    const Request&, Response*)) {
  return [id, method](Session& session) {
    const auto keyspace = session.Keyspace();
    if (!keyspace.ok()) return session.Fail(keyspace.status());
    Request request;
    request.set_keyspace(*keyspace);
    request.set_migration(*id);
    if constexpr (requires { request.set_request_id(""); }) {
      request.set_request_id(session.flags().request_id);
    }
    if constexpr (requires { request.set_reason(""); }) {
      request.set_reason(session.flags().reason);
    }
    Response response;
    const grpc::Status status =
        (session.migrations().*method)(session.Call().get(), request, &response);
    if (!status.ok()) return session.Fail(status);
    return Show(session, response.migration());
  };
}

struct ForceFlags {
  std::string id;
  std::string node;
  bool accept_data_loss = false;
};

ExitCode Force(Session& session, const ForceFlags& flags) {
  const auto keyspace = session.Keyspace();
  if (!keyspace.ok()) return session.Fail(keyspace.status());
  v1::ForceFenceRequest request;
  request.set_keyspace(*keyspace);
  request.set_migration(flags.id);
  request.set_node(flags.node);
  request.set_accept_data_loss(flags.accept_data_loss);
  request.set_reason(session.flags().reason);
  request.set_request_id(session.flags().request_id);
  v1::ForceFenceResponse response;
  const grpc::Status status =
      session.migrations().ForceFence(session.Call().get(), request, &response);
  if (!status.ok()) return session.Fail(status);
  return Show(session, response.migration());
}

}  // namespace

void AddMigration(CLI::App& app, Run* run) {
  CLI::App* noun = app.add_subcommand("migration", "staged changes");
  noun->alias("mig");
  noun->require_subcommand(1);
  noun->add_subcommand("list", "newest first")->callback([run] { *run = List; });

  auto id = std::make_shared<std::string>();
  const auto add = [&](const char* verb, const char* help, Run what) {
    CLI::App* sub = noun->add_subcommand(verb, help);
    sub->add_option("migration", *id, "the migration's id")->required();
    sub->callback([run, what = std::move(what)] { *run = what; });
  };
  using Stub = v1::MigrationService::Stub;
  add("get", "one migration", OneMigration(id, &Stub::GetMigration));
  add("promote", "go on after verifying", OneMigration(id, &Stub::PromoteMigration));
  add("pause", "stop before the next stage or wave", OneMigration(id, &Stub::PauseMigration));
  add("resume", "go on after a pause", OneMigration(id, &Stub::ResumeMigration));
  add("abort", "end it; what was warmed is released", OneMigration(id, &Stub::AbortMigration));
  add("undo", "give the ranges back without losing a write",
      OneMigration(id, &Stub::UndoMigration));

  auto force = std::make_shared<ForceFlags>();
  CLI::App* fence = noun->add_subcommand(
      "force-fence", "take a donor that does not answer for dead (needs --reason)");
  fence->add_option("migration", force->id, "the migration's id")->required();
  fence->add_option("node", force->node, "the donor")->required();
  fence->add_flag("--accept-data-loss", force->accept_data_loss,
                  "do not wait for its lease: what it still accepts is lost");
  fence->callback([run, force] { *run = [force](Session& s) { return Force(s, *force); }; });
}

}  // namespace warmring::cli
