#include "tests/crash/chronicle.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>

#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "server/store/rocksdb/rocksdb_store.h"
#include "server/store/schema/key.h"
#include "server/store/schema/record.h"
#include "tests/history/checker.h"

namespace warmring::crash {
namespace {

using history::Event;
using history::Kind;

// The time of a commit is taken before its version is written, and moved from the wall clock to the
// recorder's, which are not read at the same instant.
constexpr int64_t kRounding = 1'000'000;

Event Named(Kind kind, std::string text) {
  Event event;
  event.kind = kind;
  event.text = std::move(text);
  return event;
}

// What a mutation is called in its audit line and in the record of its request.
std::string MutationName(std::string_view method, std::string_view resource, absl::Time time) {
  return fmt::format("{} {} {}", method, resource, absl::ToUnixNanos(time));
}

absl::StatusOr<std::string> MakeLastingDirectory(std::string parent) {
  if (parent.empty()) {
    const char* const base = std::getenv("TMPDIR");
    parent = base == nullptr || *base == '\0' ? "/tmp" : base;
  }
  std::string path = parent + "/warmring-violation-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return absl::InternalError(fmt::format("{} cannot be made", path));
  }
  return path;
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

}  // namespace

absl::Status Chronicle::Judge() {
  RETURN_IF_ERROR(ReadVersions());
  RETURN_IF_ERROR(ReadMigrations());
  return JudgeAll();
}

absl::Status Chronicle::JudgeForTheLastTime() {
  RETURN_IF_ERROR(ReadVersions());
  RETURN_IF_ERROR(ReadMigrations());
  RETURN_IF_ERROR(cluster_->Server().Stop());
  RETURN_IF_ERROR(ReadStore());
  of_store_.push_back(Named(Kind::kEnd, ""));
  return JudgeAll();
}

absl::Status Chronicle::ReadVersions() {
  ASSIGN_OR_RETURN(std::vector<v1::VersionInfo> infos, cluster_->VersionInfos());
  std::reverse(infos.begin(), infos.end());
  for (const v1::VersionInfo& info : infos) {
    if (info.version() <= newest_.value) continue;
    newest_ = Version(info.version());
    ASSIGN_OR_RETURN(const Membership::Ptr membership, cluster_->MembershipAt(newest_));
    Event version = Named(Kind::kVersion, fmt::format("{:016x}", membership->digest()));
    version.version = newest_.value;
    of_store_.push_back(std::move(version));
    for (const OwnedRange& range : membership->ranges()) epochs_.insert(range.epoch);
    for (const Override& item : membership->overrides()) epochs_.insert(item.epoch);
    const int64_t time = history::Recorder::FromWallNanos(
        info.commit_time().seconds() * 1'000'000'000 + info.commit_time().nanos());
    std::set<std::string> seen;
    for (const HistoryKey& key : keys_) {
      if (!seen.insert(key.arc).second) continue;
      const Route route = RouteKey(*membership, key.name);
      const Tenure tenure{membership->nodes()[route.owner].id, route.epoch};
      const auto before = tenures_.find(key.arc);
      if (before != tenures_.end() && before->second == tenure) continue;
      tenures_[key.arc] = tenure;
      Event commit = Named(Kind::kCommit, "");
      // Whole seconds, rounded down; the store knows them to the nanosecond (ReadStore).
      commit.t0 = time - kRounding;
      commit.arc = key.arc;
      commit.owner = tenure.owner;
      commit.epoch = tenure.epoch.value;
      commit.version = newest_.value;
      commits_.emplace_back(of_store_.size(), info.migration());
      of_store_.push_back(std::move(commit));
    }
  }
  return absl::OkStatus();
}

absl::Status Chronicle::ReadMigrations() {
  ASSIGN_OR_RETURN(const std::vector<v1::Migration> migrations, cluster_->Migrations());
  std::set<MigrationId> unclean;
  for (const v1::Migration& migration : migrations) {
    if (migration.unclean()) unclean.insert(migration.id());
    if (!outcomes_.contains(migration.id())) {
      outcomes_[migration.id()];
      of_store_.push_back(Named(Kind::kSubmit, migration.id()));
    }
    if (!migration.ended()) continue;
    const std::string outcome = v1::MigrationState_Name(migration.state());
    std::string& known = outcomes_[migration.id()];
    if (known == outcome) continue;
    known = outcome;
    Event event = Named(Kind::kOutcome, migration.id());
    event.value = outcome;
    of_store_.push_back(std::move(event));
  }
  // Which of its waves it was is not told.
  for (const auto& [index, migration] : commits_) {
    if (unclean.contains(migration)) of_store_[index].unclean = true;
  }
  return absl::OkStatus();
}

absl::Status Chronicle::ReadStore() {
  ASSIGN_OR_RETURN(const auto store, RocksDbStore::Open(cluster_->Server().DataDir()));
  ASSIGN_OR_RETURN(const std::optional<std::string> head_text,
                   store->Get(schema::HeadKey(cluster_->Keyspace())));
  if (!head_text) return absl::DataLossError("the store has no head");
  ASSIGN_OR_RETURN(const schema::HeadRecord head, schema::DecodeHead(*head_text));
  for (const auto& [index, migration] : commits_) {
    Event& commit = of_store_[index];
    ASSIGN_OR_RETURN(const std::optional<std::string> row,
                     store->Get(schema::DeltaKey(cluster_->Keyspace(), Version(commit.version))));
    if (!row) return absl::DataLossError(fmt::format("version {} has no record", commit.version));
    ASSIGN_OR_RETURN(const schema::VersionEntry entry, schema::DecodeVersion(*row));
    commit.t0 = history::Recorder::FromWallNanos(absl::ToUnixNanos(entry.record.time)) - kRounding;
  }
  for (uint64_t epoch = 1; epoch < head.next_epoch.value; ++epoch) {
    if (epochs_.contains(Epoch(epoch))) continue;
    Event burned = Named(Kind::kBurn, "");
    burned.epoch = epoch;
    of_store_.push_back(std::move(burned));
  }

  ASSIGN_OR_RETURN(const std::vector<KeyValue> audits, ScanPrefix(*store, "audit/"));
  for (const KeyValue& row : audits) {
    ASSIGN_OR_RETURN(const schema::AuditRecord audit, schema::DecodeAudit(row.value));
    of_store_.push_back(
        Named(Kind::kAudit, MutationName(audit.method, audit.resource, audit.time)));
  }
  ASSIGN_OR_RETURN(const std::vector<KeyValue> requests,
                   ScanPrefix(*store, schema::RequestsPrefix()));
  for (const KeyValue& row : requests) {
    ASSIGN_OR_RETURN(const schema::RequestRecord request, schema::DecodeRequest(row.value));
    std::string resource = fmt::format("keyspaces/{}", request.keyspace);
    if (!request.migration.empty()) resource += "/migrations/" + request.migration;
    of_store_.push_back(Named(Kind::kRecord, MutationName(request.method, resource, request.time)));
  }
  return absl::OkStatus();
}

absl::Status Chronicle::JudgeAll() {
  std::vector<Event> events = recorder_->Events();
  events.insert(events.end(), of_store_.begin(), of_store_.end());
  const history::Verdict verdict = history::Check(events);
  summary_ = verdict.Describe();
  if (verdict.ok()) return absl::OkStatus();
  violations_ += verdict.findings.size();
  return Save(events, verdict.Describe(1000));
}

absl::Status Chronicle::Save(const std::vector<Event>& events, const std::string& findings) {
  ASSIGN_OR_RETURN(const std::string directory, MakeLastingDirectory(evidence_directory_));
  RETURN_IF_ERROR(history::WriteHistory(events, directory + "/history.jsonl"));
  WriteText(directory + "/findings.txt", fmt::format("{}\n{}\n", title_, findings));
  WriteText(directory + "/warmringd.log", cluster_->Server().LogText());
  for (const CacheNode& node : cluster_->Nodes()) {
    WriteText(fmt::format("{}/agent-{}.log", directory, node.id), node.agent->LogText());
    WriteText(fmt::format("{}/redis-{}.log", directory, node.id), node.redis->LogText());
  }
  return absl::DataLossError(fmt::format("{}\n{}\nkept in {}", title_, summary_, directory));
}

}  // namespace warmring::crash
