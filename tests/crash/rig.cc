#include "tests/crash/rig.h"

#include <algorithm>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "tests/crash/sdk_cache.h"

namespace warmring::crash {
namespace {

constexpr size_t kKeys = 300;
// Of the recorded history.
constexpr size_t kBuckets = 24;
constexpr size_t kKeysPerBucket = 2;
constexpr char kTenant[] = "tenant-";
constexpr int kTenantKeys = 6;
// Upper bounds for a loaded machine under sanitizers.
constexpr absl::Duration kEndsWithin = absl::Seconds(60);
constexpr absl::Duration kSettlesWithin = absl::Seconds(30);

}  // namespace

const NodeId& Rig::Guest() {
  static const NodeId* const guest = new NodeId("node-c");
  return *guest;
}

Rig::~Rig() {
  if (cluster_ != nullptr) cluster_->SetRecorder(nullptr);
}

absl::StatusOr<std::unique_ptr<Rig>> Rig::Start(const RigOptions& options) {
  std::unique_ptr<Rig> rig(new Rig);
  ASSIGN_OR_RETURN(rig->cluster_, Cluster::Start(options.cluster));
  Cluster& cluster = *rig->cluster_;
  cluster.SetRecorder(&rig->recorder_);
  rig->ledger_ = std::make_unique<Ledger>(kKeys);
  rig->audit_ = std::make_unique<Audit>(&cluster, rig->ledger_.get());

  RecordedClientsOptions clients;
  clients.server = cluster.Server().Address();
  if (options.cluster.proxies) {
    clients.server = cluster.ClientsToServer().Address();
    clients.dial = [&cluster](std::string_view address) { return cluster.DialledBy(address); };
  }
  clients.keyspace = cluster.Keyspace();
  clients.keys = HistoryKeys(kBuckets, kKeysPerBucket);
  for (int i = 0; i < kTenantKeys; ++i) {
    const std::string name = fmt::format("{}{}", kTenant, i);
    clients.keys.push_back({name, name});
  }
  clients.seed = options.seed;
  rig->chronicle_ = std::make_unique<Chronicle>(&cluster, clients.keys, &rig->recorder_);
  rig->chronicle_->SetTitle(options.title);
  rig->chronicle_->SetEvidenceDirectory(options.evidence_directory);
  ASSIGN_OR_RETURN(rig->clients_, RecordedClients::Start(std::move(clients), &rig->recorder_));

  if (options.application) {
    ASSIGN_OR_RETURN(rig->cache_, StartSdkCache(cluster.Server().Address(), cluster.Keyspace(),
                                                rig->ledger_.get()));
    rig->traffic_ =
        std::make_unique<Traffic>(TrafficOptions(), rig->ledger_.get(), rig->cache_.get());
  }
  RETURN_IF_ERROR(rig->CheckHouse());
  return rig;
}

absl::StatusOr<v1::Migration> Rig::SubmitNext(const MigrationId& id, const MigrationTerms& terms) {
  ASSIGN_OR_RETURN(const Membership::Ptr head, cluster_->MembershipAt());
  return head->FindNode(Guest()).has_value() ? cluster_->SubmitRemove(id, Guest(), terms)
                                             : cluster_->SubmitAdd(id, Guest(), terms);
}

absl::StatusOr<v1::Migration> Rig::SubmitTenant(const MigrationId& id,
                                                const MigrationTerms& terms) {
  ASSIGN_OR_RETURN(const Membership::Ptr head, cluster_->MembershipAt());
  const std::vector<Override>& present = head->overrides();
  const bool is_set = std::any_of(present.begin(), present.end(), [](const Override& item) {
    return item.rule.bytes == kTenant && !item.IsAsHashed();
  });
  // A plan of one rule has one wave.
  MigrationTerms one_wave = terms;
  one_wave.commit_steps = {1};
  v1::Change change;
  if (is_set) {
    change.mutable_remove_override()->mutable_rule()->set_prefix(kTenant);
  } else {
    change.mutable_set_override()->mutable_rule()->set_prefix(kTenant);
    change.mutable_set_override()->add_nodes("node-b");
  }
  return cluster_->SubmitChange(id, change, one_wave);
}

absl::Status Rig::LetApplicationWrite() {
  RETURN_IF_ERROR(clients_->AwaitAcknowledged(kBuckets * kKeysPerBucket, kSettlesWithin));
  return traffic_ == nullptr ? absl::OkStatus() : traffic_->AwaitWrites(kKeys / 3, kSettlesWithin);
}

absl::StatusOr<v1::Migration> Rig::AwaitCleanEnd(const MigrationId& id) {
  ASSIGN_OR_RETURN(v1::Migration ended,
                   cluster_->WaitForMigration(id, "at its end", kEndsWithin,
                                              [](const v1::Migration& m) { return m.ended(); }));
  RETURN_IF_ERROR(CheckHouse());
  switch (ended.state()) {
    case v1::MIGRATION_STATE_SUCCEEDED:
    case v1::MIGRATION_STATE_ABORTED:
    case v1::MIGRATION_STATE_ROLLED_BACK:
      return ended;
    default:
      return absl::DataLossError(fmt::format("{} ended as {}", id, Describe(ended)));
  }
}

void Rig::PauseTraffic() {
  clients_->Pause();
  if (traffic_ != nullptr) traffic_->Pause();
}

void Rig::ResumeTraffic() {
  clients_->Resume();
  if (traffic_ != nullptr) traffic_->Resume();
}

absl::Status Rig::CheckHouse() {
  PauseTraffic();
  if (traffic_ != nullptr) RETURN_IF_ERROR(traffic_->FirstViolation());
  RETURN_IF_ERROR(audit_->Run(kSettlesWithin));
  if (traffic_ != nullptr) RETURN_IF_ERROR(traffic_->WriteEachKey(kSettlesWithin));
  RETURN_IF_ERROR(chronicle_->Judge());
  ResumeTraffic();
  return absl::OkStatus();
}

absl::Status Rig::JudgeHistory() { return chronicle_->Judge(); }

absl::Status Rig::JudgeForTheLastTime() {
  PauseTraffic();
  return chronicle_->JudgeForTheLastTime();
}

std::string Rig::TrafficSummary() const {
  std::string text = fmt::format("{} recorded, {} acknowledged, {} refused", clients_->Attempts(),
                                 clients_->Acknowledged(), clients_->Refused());
  if (traffic_ != nullptr) text += "; " + traffic_->Summary();
  return text;
}

std::string Rig::Evidence(const MigrationId& id) {
  std::string text = fmt::format("traffic: {}\n", TrafficSummary());
  const absl::StatusOr<v1::Migration> migration = cluster_->Get(id);
  text += migration.ok() ? migration->DebugString() : migration.status().ToString();
  text += fmt::format("\nwarmringd:\n{}\n", cluster_->Server().Server().Latest().LogTail());
  for (CacheNode& node : cluster_->Nodes()) {
    text += fmt::format("agent of {}:\n{}\n", node.id, node.agent->Server().Latest().LogTail());
  }
  return text;
}

}  // namespace warmring::crash
