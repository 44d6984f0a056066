#include <iostream>

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include "absl/strings/str_join.h"

#include "client/cli/render/migration_view.h"
#include "client/cli/render/preview.h"
#include "client/cli/render/table.h"
#include "client/cli/verbs.h"

namespace warmring::cli {
namespace {

ExitCode Status(Session& session) {
  v1::ListKeyspacesResponse keyspaces;
  grpc::Status status = session.keyspaces().ListKeyspaces(session.Call().get(), {}, &keyspaces);
  if (!status.ok()) return session.Fail(status);
  if (session.json()) {
    session.PrintJson(keyspaces);
    return ExitCode::kDone;
  }
  if (keyspaces.keyspaces().empty()) {
    std::cout << "no keyspace yet: warmring keyspace create NAME --add NODE=HOST:PORT\n";
    return ExitCode::kDone;
  }
  Table table({{"KEYSPACE"},
               {"VERSION", true},
               {"PLACEMENT"},
               {"NODES", true},
               {"MAX/MEAN", true},
               {"WATCHERS", true},
               {"MOVING"}});
  std::string moving;
  for (const auto& k : keyspaces.keyspaces()) {
    const bool ring = k.spec().placement() == v1::PLACEMENT_KIND_RING;
    table.AddRow({k.spec().id(), fmt::format("v{}", k.version()), ring ? "ring" : "directory",
                  fmt::format("{}", k.node_count()), fmt::format("{:.3f}", k.max_over_mean()),
                  fmt::format("{}", k.watchers()),
                  k.active_migration().empty() ? "-" : absl::StrJoin(k.active_migrations(), ",")});
    for (const std::string& id : k.active_migrations()) {
      v1::GetMigrationRequest request;
      request.set_keyspace(k.spec().id());
      request.set_migration(id);
      v1::GetMigrationResponse response;
      status = session.migrations().GetMigration(session.Call().get(), request, &response);
      if (status.ok()) moving += MigrationLine(response.migration()) + "\n";
    }
  }
  std::cout << table.ToString() << moving;
  return ExitCode::kDone;
}

}  // namespace

void AddStatus(CLI::App& app, Run* run) {
  app.add_subcommand("status", "keyspaces, and what is moving")->callback([run] { *run = Status; });
}

}  // namespace warmring::cli
