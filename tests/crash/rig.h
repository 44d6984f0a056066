#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/crash/audit.h"
#include "tests/crash/cluster.h"
#include "tests/crash/ledger.h"
#include "tests/crash/traffic.h"

namespace warmring::crash {

// What each crash test works with: two members and a third node that joins and leaves again, and an
// application that reads and writes through the client library all the while.
//
// Thread rule: one thread at a time, except GetCluster()'s calls to warmringd.
class Rig {
 public:
  // Errors: those of Cluster::Start and of the client library.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Rig>> Start();

  Cluster& GetCluster() { return *cluster_; }

  // The third node.
  static const NodeId& Guest();
  // Submits a migration that adds the guest, or removes it if it is a member.
  //
  // Errors: those of Cluster::SubmitAdd.
  [[nodiscard]] absl::StatusOr<v1::Migration> SubmitNext(const MigrationId& id,
                                                         const MigrationTerms& terms);

  // Waits until the application has written enough keys that every hand-over has some of them to
  // get right.
  //
  // Errors: DeadlineExceeded.
  [[nodiscard]] absl::Status LetApplicationWrite();

  // Waits for the migration's end and for a clean house after it: the outcome is one of Succeeded,
  // Aborted, RolledBack; no value was stale; the audit is clean; every key can be written. Returns
  // the migration as it ended.
  //
  // Errors: DataLoss for a breach; DeadlineExceeded for what did not come true.
  [[nodiscard]] absl::StatusOr<v1::Migration> AwaitCleanEnd(const MigrationId& id);

  // What the application did in all.
  std::string TrafficSummary() const { return traffic_->Summary(); }
  // What an investigation begins with: the migration, the traffic and the ends of the logs.
  std::string Evidence(const MigrationId& id);

 private:
  Rig() = default;

  absl::Status CheckHouse();

  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<Traffic> traffic_;
  std::unique_ptr<Audit> audit_;
};

}  // namespace warmring::crash
