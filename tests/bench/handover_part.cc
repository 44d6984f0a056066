#include "tests/bench/handover_part.h"

#include <initializer_list>
#include <string>

#include "tests/bench/handover.h"
#include "tests/bench/missing_figure.h"

namespace warmring::bench {
namespace {

constexpr int kKillSeconds = 120;

OwnershipReport ToJson(const Quantiles& quantiles) {
  return {{"p50", quantiles.p50}, {"p99", quantiles.p99}, {"samples", quantiles.samples}};
}

void AddFsync(bool quick, OwnershipReport& headline) {
  const auto fsync = MeasureFsync(quick ? 50 : 500);
  if (!fsync.ok()) return Miss(headline, {"fsync_p50_ms", "fsync_p99_ms"}, fsync.status());
  headline["fsync_p50_ms"] = fsync->p50;
  headline["fsync_p99_ms"] = fsync->p99;
}

void AddMovingRange(bool quick, OwnershipReport& report) {
  OwnershipReport& headline = report["headline"];
  const auto moving = MeasureMovingRange(quick ? 6 : 120);
  if (!moving.ok()) {
    return Miss(
        headline,
        {"moving_range_pause_p50_ms", "moving_range_pause_p99_ms", "unmoved_range_refusals"},
        moving.status());
  }
  headline["moving_range_pause_p50_ms"] = moving->pause_ms.p50;
  headline["moving_range_pause_p99_ms"] = moving->pause_ms.p99;
  headline["unmoved_range_refusals"] = moving->unmoved_refusals;
  report["moving_range"] = {{"pause_ms", ToJson(moving->pause_ms)},
                            {"unmoved_writes", moving->unmoved_writes}};
}

void AddFailover(OwnershipReport& report) {
  const auto failover = MeasureFailover();
  if (!failover.ok()) {
    return Miss(report["headline"], {"failover_after_lease_s"}, failover.status());
  }
  report["headline"]["failover_after_lease_s"] = failover->after_lease_s;
  report["failover"] = {{"lease_s", failover->lease_s},
                        {"writable_after_s", failover->writable_after_s}};
}

void AddLeaderRestart(OwnershipReport& report) {
  const auto restart = MeasureLeaderRestart();
  if (!restart.ok()) {
    return Miss(report["headline"], {"leader_restart_resume_s"}, restart.status());
  }
  report["headline"]["leader_restart_resume_s"] = restart->resume_s;
  report["leader_restart"] = {{"ready_s", restart->ready_s}, {"hold_s", 0.2}};
}

void AddRefusedShare(bool quick, OwnershipReport& report) {
  const auto share = quick ? MeasureRefusedShare(10, absl::Milliseconds(300), 4, 1000)
                           : MeasureRefusedShare(100, absl::Seconds(1), 20, 5000);
  if (!share.ok()) return Miss(report["headline"], {"refused_share"}, share.status());
  report["headline"]["refused_share"] = share->share;
  report["refused"] = {
      {"waves", share->waves},       {"seconds", share->seconds},
      {"clients", share->clients},   {"writes_per_second_wanted", share->wanted_per_second},
      {"requests", share->requests}, {"refused", share->refused}};
}

}  // namespace

void AddHandover(const PartOptions& options, OwnershipReport& report) {
  AddFsync(options.quick, report["headline"]);
  AddMovingRange(options.quick, report);
  AddFailover(report);
  AddLeaderRestart(report);
  AddRefusedShare(options.quick, report);
}

void AddKills(const PartOptions& options, OwnershipReport& report) {
  OwnershipReport& headline = report["headline"];
  const auto kills = RunKills(absl::Seconds(options.quick ? 1 : kKillSeconds));
  if (!kills.ok()) return Miss(headline, {"kill_runs", "kill_violations"}, kills.status());
  headline["kill_runs"] = kills->runs;
  headline["kill_violations"] = kills->violations;
}

}  // namespace warmring::bench
