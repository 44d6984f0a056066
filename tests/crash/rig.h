#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/crash/audit.h"
#include "tests/crash/chronicle.h"
#include "tests/crash/cluster.h"
#include "tests/crash/ledger.h"
#include "tests/crash/recorded_clients.h"
#include "tests/crash/traffic.h"

namespace warmring::crash {

struct RigOptions {
  ClusterOptions cluster;
  // For what is kept when the history breaks a rule.
  std::string title;
  // Where it is kept. Empty: where temporary files are.
  std::string evidence_directory = {};
  uint64_t seed = 1;  // of the recorded clients
  // Only the recorded clients.
  bool application = true;
};

// What each crash test works with: two members and a third node that joins and leaves again, an
// application that reads and writes through the client library all the while, and beside it clients
// whose every operation is recorded and judged at the end of each migration.
//
// Thread rule: one thread at a time, except GetCluster()'s calls to warmringd.
class Rig {
 public:
  // Errors: those of Cluster::Start and of the client library.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Rig>> Start(const RigOptions& options = {});
  ~Rig();

  Cluster& GetCluster() { return *cluster_; }

  // The third node.
  static const NodeId& Guest();
  // Submits a migration that adds the guest, or removes it if it is a member.
  //
  // Errors: those of Cluster::SubmitAdd.
  [[nodiscard]] absl::StatusOr<v1::Migration> SubmitNext(const MigrationId& id,
                                                         const MigrationTerms& terms);

  // Submits one that gives the keys of a tenant, some of which are recorded, to the second member,
  // or lets them go back.
  [[nodiscard]] absl::StatusOr<v1::Migration> SubmitTenant(const MigrationId& id,
                                                           const MigrationTerms& terms);

  // Waits until the application has written enough keys that every hand-over has some of them to
  // get right.
  //
  // Errors: DeadlineExceeded.
  [[nodiscard]] absl::Status LetApplicationWrite();

  // Waits for the migration's end and for a clean house after it: the outcome is one of Succeeded,
  // Aborted, RolledBack; no value was stale; the audit is clean; every key can be written; the
  // history breaks no rule. Returns the migration as it ended.
  //
  // Errors: DataLoss for a breach; DeadlineExceeded for what did not come true.
  [[nodiscard]] absl::StatusOr<v1::Migration> AwaitCleanEnd(const MigrationId& id);
  // The history so far, while everything runs. Errors: as Chronicle::Judge.
  [[nodiscard]] absl::Status JudgeHistory();
  // Stops the traffic and warmringd, and judges all. Nothing else may follow.
  [[nodiscard]] absl::Status JudgeForTheLastTime();

  RecordedClients& Clients() { return *clients_; }
  history::Recorder& GetRecorder() { return recorder_; }
  const std::string& HistorySummary() const { return chronicle_->Summary(); }
  size_t Violations() const { return chronicle_->Violations(); }

  // What the application did in all.
  std::string TrafficSummary() const;
  // What an investigation begins with: the migration, the traffic and the ends of the logs.
  std::string Evidence(const MigrationId& id);

 private:
  Rig() = default;

  absl::Status CheckHouse();
  void PauseTraffic();
  void ResumeTraffic();

  history::Recorder recorder_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<RecordedClients> clients_;
  std::unique_ptr<Chronicle> chronicle_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<Traffic> traffic_;
  std::unique_ptr<Audit> audit_;
};

}  // namespace warmring::crash
