#pragma once

#include "tests/bench/ownership_part.h"

// What a change of owner costs on real processes, and whether kills break a rule.

namespace warmring::bench {

// headline: fsync_p50_ms, fsync_p99_ms (of the disk beside it), moving_range_pause_p50_ms and
// _p99_ms, unmoved_range_refusals, failover_after_lease_s, leader_restart_resume_s, refused_share.
void AddHandover(const PartOptions& options, OwnershipReport& report);

// headline: kill_runs, kill_violations.
void AddKills(const PartOptions& options, OwnershipReport& report);

}  // namespace warmring::bench
