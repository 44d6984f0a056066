#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

// What a change of owner costs those who write, measured on real processes on this machine:
// warmringd, agents, Redis servers with the module. Each function starts what it needs and ends it.

namespace warmring::bench {

// Milliseconds at shares of the samples.
struct Quantiles {
  double p50 = 0;
  double p99 = 0;
  uint64_t samples = 0;
};
// `samples`, in any order. REQUIRES: not empty.
Quantiles QuantilesOf(std::vector<double> samples);

// How long fdatasync takes after 4 KiB, in the directory of temporary files, in milliseconds.
absl::StatusOr<Quantiles> MeasureFsync(int times);

// Buckets go to and fro between two live nodes, a migration each, while clients write 1,000 times a
// second to keys of these buckets and as often to others.
struct MovingRange {
  // Of one migration: from the last acknowledgement under the old epoch to the first one under the
  // new one. It contains the time between two writes, a millisecond.
  Quantiles pause_ms;
  uint64_t unmoved_writes = 0;
  uint64_t unmoved_refusals = 0;
};
absl::StatusOr<MovingRange> MeasureMovingRange(int migrations);

// The processes of a member are killed, and at once an operator takes it for dead.
struct Failover {
  double lease_s = 0;
  double writable_after_s = 0;  // from the kill to the first write of a key of its that is accepted
  double after_lease_s = 0;     // the same without the lease
};
absl::StatusOr<Failover> MeasureFailover();

// warmringd is killed between two waves' commits and started again at once.
struct LeaderRestart {
  double ready_s = 0;   // until its port takes connections
  double resume_s = 0;  // until the next wave is committed, hold of the waves included
};
absl::StatusOr<LeaderRestart> MeasureLeaderRestart();

// A node joins in so many waves, `hold` apart, while clients write; a refused write is sent again
// as the client library does it.
struct RefusedShare {
  int waves = 0;
  int clients = 0;
  double seconds = 0;
  uint64_t requests = 0;  // attempts
  uint64_t refused = 0;   // of these
  double share = 0;
  double wanted_per_second = 0;
};
absl::StatusOr<RefusedShare> MeasureRefusedShare(int waves, absl::Duration hold, int clients,
                                                 double writes_per_second);

// Runs the random kill test again and again for so long: kills of random processes in random
// migrations, each history judged.
struct KillRuns {
  uint64_t runs = 0;
  uint64_t violations = 0;  // runs that did not end clean, whatever was wrong
};
absl::StatusOr<KillRuns> RunKills(absl::Duration within);

}  // namespace warmring::bench
