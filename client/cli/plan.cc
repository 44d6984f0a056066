#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include <fmt/format.h>

#include "client/cli/number_list.h"
#include "client/cli/plan_file.h"
#include "client/cli/render/preview.h"
#include "client/cli/verbs.h"
#include "core/base/ids.h"

namespace warmring::cli {
namespace {

constexpr std::streamsize kMaxPlanBytes = 1 << 20;
constexpr char kLoadHelp[] =
    "load of each bucket for the plan's rebalance: a number a line, or a JSON array";

absl::StatusOr<v1::MigrationPlan> ReadPlanFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::InvalidArgumentError(
        fmt::format("-f: '{}' cannot be opened for reading", Printable(path, 200)));
  }
  std::string text(kMaxPlanBytes + 1, '\0');
  file.read(text.data(), kMaxPlanBytes + 1);
  text.resize(static_cast<size_t>(file.gcount()));
  v1::MigrationPlan plan;
  const absl::Status status = ParseYaml(path, text, &plan);
  if (!status.ok()) return status;
  return plan;
}

// The keyspace of the file, or of -k; they must not contradict.
absl::Status FillKeyspace(Session& session, v1::MigrationPlan* plan) {
  if (!plan->keyspace().empty()) {
    if (!session.flags().keyspace.empty() && session.flags().keyspace != plan->keyspace()) {
      return absl::InvalidArgumentError(
          fmt::format("--keyspace: '{}' contradicts the plan file's keyspace '{}'",
                      Printable(session.flags().keyspace), Printable(plan->keyspace())));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> keyspace = session.Keyspace();
  if (!keyspace.ok()) return keyspace.status();
  plan->set_keyspace(*keyspace);
  return absl::OkStatus();
}

absl::StatusOr<v1::SubmitMigrationResponse> Submit(Session& session, const v1::MigrationPlan& plan,
                                                   bool validate_only, grpc::Status* status) {
  v1::SubmitMigrationRequest request;
  *request.mutable_plan() = plan;
  request.set_validate_only(validate_only);
  request.set_request_id(validate_only ? "" : session.flags().request_id);
  v1::SubmitMigrationResponse response;
  *status = session.migrations().SubmitMigration(session.Call().get(), request, &response);
  if (!status->ok()) return absl::UnknownError("refused");
  return response;
}

struct FileFlags {
  std::string file;
  std::string load;
  bool exit_code = false;
  bool detach = false;
  bool dry_run = false;
};

// Gives the numbers of --load to the plan's rebalance by load.
absl::Status FillLoad(const std::string& path, v1::MigrationPlan* plan) {
  if (path.empty()) return absl::OkStatus();
  for (v1::Change& change : *plan->mutable_changes()) {
    if (!change.has_rebalance()) continue;
    v1::Rebalance* rebalance = change.mutable_rebalance();
    if (rebalance->by() == v1::REBALANCE_BY_SHARE || rebalance->bucket_load_size() > 0) {
      return absl::InvalidArgumentError(
          "--load: the rebalance of the plan file is by share or has a bucketLoad of its own");
    }
    const absl::StatusOr<std::vector<uint64_t>> load = ReadLoadFile(path);
    if (!load.ok()) return load.status();
    rebalance->mutable_bucket_load()->Add(load->begin(), load->end());
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("--load: no change of the plan file is a rebalance");
}

ExitCode WithPlanFile(Session& session, const FileFlags& flags,
                      const std::function<ExitCode(const v1::MigrationPlan&)>& then) {
  absl::StatusOr<v1::MigrationPlan> plan = ReadPlanFile(flags.file);
  if (!plan.ok()) return session.Usage(std::string(plan.status().message()));
  const absl::Status load = FillLoad(flags.load, &*plan);
  if (!load.ok()) return session.Usage(std::string(load.message()));
  const absl::Status keyspace = FillKeyspace(session, &*plan);
  if (!keyspace.ok()) return session.Fail(keyspace);
  if (plan->reason().empty()) plan->set_reason(session.flags().reason);
  return then(*plan);
}

ExitCode Plan(Session& session, const FileFlags& flags) {
  return WithPlanFile(session, flags, [&](const v1::MigrationPlan& plan) {
    const ExitCode code = SubmitPlan(session, plan, /*dry_run=*/true, /*detach=*/true);
    if (code != ExitCode::kDone || !flags.exit_code) return code;
    return ExitCode::kDifference;  // a plan without effect is refused, so there is one
  });
}

}  // namespace

ExitCode SubmitPlan(Session& session, const v1::MigrationPlan& asked, bool dry_run, bool detach) {
  v1::MigrationPlan plan = asked;
  grpc::Status status;
  const auto preview = Submit(session, plan, /*validate_only=*/true, &status);
  if (!preview.ok()) return session.Fail(status);
  if (dry_run) {
    if (session.json()) {
      session.PrintJson(preview->preview());
    } else {
      std::cout << RenderPreview(plan, preview->preview());
    }
    return ExitCode::kDone;
  }
  if (!session.json()) std::cout << RenderPreview(plan, preview->preview());
  // What was shown is what is submitted: a membership that moves on meanwhile is a conflict.
  plan.set_base_version(preview->preview().base_version());
  ExitCode code = ExitCode::kDone;
  if (!session.Confirm("Run it now?", &code)) return code;
  const auto submitted = Submit(session, plan, /*validate_only=*/false, &status);
  if (!submitted.ok()) return session.Fail(status);
  const v1::Migration& migration = submitted->migration();
  if (detach) {
    if (session.json()) {
      session.PrintJson(migration);
    } else {
      std::cout << fmt::format("migration {} started: warmring watch {}\n", migration.id(),
                               migration.id());
    }
    return ExitCode::kDone;
  }
  return FollowMigration(session, migration.keyspace(), migration.id());
}

ExitCode SubmitChange(Session& session, const PlanFlags& flags, v1::Change change) {
  const auto keyspace = session.Keyspace();
  if (!keyspace.ok()) return session.Fail(keyspace.status());
  absl::StatusOr<v1::MigrationPlan> plan = flags.ToPlan();
  if (!plan.ok()) return session.Usage(std::string(plan.status().message()));
  plan->set_keyspace(*keyspace);
  plan->set_reason(session.flags().reason);
  *plan->add_changes() = std::move(change);
  return SubmitPlan(session, *plan, flags.dry_run, flags.detach);
}

void AddPlan(CLI::App& app, Run* run) {
  auto plan_flags = std::make_shared<FileFlags>();
  CLI::App* plan = app.add_subcommand("plan", "show what a plan file would do");
  plan->add_option("-f,--file", plan_flags->file, "plan file (YAML)")->required();
  plan->add_option("--load", plan_flags->load, kLoadHelp);
  plan->add_flag("--exit-code", plan_flags->exit_code, "exit 3 when the plan changes something");
  plan->callback(
      [run, plan_flags] { *run = [plan_flags](Session& s) { return Plan(s, *plan_flags); }; });

  auto apply_flags = std::make_shared<FileFlags>();
  CLI::App* apply = app.add_subcommand("apply", "run a plan file: preview, question, migration");
  apply->add_option("-f,--file", apply_flags->file, "plan file (YAML)")->required();
  apply->add_option("--load", apply_flags->load, kLoadHelp);
  apply->add_flag("--dry-run", apply_flags->dry_run, "show the preview, change nothing");
  apply->add_flag("--detach", apply_flags->detach, "do not wait for the end");
  apply->callback([run, apply_flags] {
    *run = [apply_flags](Session& s) {
      return WithPlanFile(s, *apply_flags, [&](const v1::MigrationPlan& p) {
        return SubmitPlan(s, p, apply_flags->dry_run, apply_flags->detach);
      });
    };
  });
}

}  // namespace warmring::cli
