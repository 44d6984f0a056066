#pragma once

#include "absl/status/status.h"
#include "core/base/ids.h"
#include "core/membership/membership.h"
#include "tests/crash/cluster.h"
#include "tests/crash/ledger.h"

namespace warmring::crash {

// Looks at everything that must be true when a migration has ended, all processes run and the
// traffic rests: at the history of the keyspace, and at each Redis directly.
//
//   - Versions have no gap and are all readable; from one to the next no range's epoch goes back,
//     and no range changes its owner without a higher one.
//   - Nothing moves any more, and every member serves at the newest version.
//   - Each Redis holds keys of ranges that it owns, and no others.
//   - Each key is readable at its owner and nowhere else, and is absent there or not older than
//     its last completed write.
//   - A node refuses a plain SET of a key that is not its own.
//
// Thread rule: one thread at a time.
class Audit {
 public:
  Audit(Cluster* cluster, const Ledger* ledger) : cluster_(cluster), ledger_(ledger) {}

  // Waits, with a deadline, for what takes its time (nodes apply the newest version and release
  // what left); judges the rest at once.
  //
  // Errors: DataLoss naming the breach; DeadlineExceeded naming what did not come true.
  [[nodiscard]] absl::Status Run(absl::Duration within);

 private:
  absl::Status CheckHistory(const Membership::Ptr& head);
  absl::Status CheckAttached(CacheNode& node, const Membership& head);
  absl::Status CheckStored(CacheNode& node, const Membership& head);
  absl::Status CheckReadable(CacheNode& node, const Membership& head);
  absl::Status CheckRefusesStrangers(CacheNode& node, const Membership& head);

  Cluster* const cluster_;
  const Ledger* const ledger_;
  Membership::Ptr audited_;  // the newest membership of the last run
};

}  // namespace warmring::crash
