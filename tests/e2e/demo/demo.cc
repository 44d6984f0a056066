// The main job, end to end: the same load over the same keys on real Redis nodes in front of a real
// PostgreSQL, first with a fifth node that joins cold, then with one that joins through Warmring.

#include <csignal>

#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <iostream>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "CLI/CLI.hpp"
#include "absl/synchronization/mutex.h"
#include "client/base/boot_clock.h"
#include "client/redis/redis_pool.h"
#include "core/base/status_macros.h"
#include "core/ownership/owner_view.h"
#include "tests/e2e/demo/chart.h"
#include "tests/e2e/demo/fleet.h"
#include "tests/e2e/demo/load.h"
#include "tests/e2e/demo/naive_client.h"
#include "tests/e2e/demo/origin.h"
#include "tests/e2e/demo/prefill.h"
#include "tests/e2e/demo/staged_client.h"
#include "tests/e2e/demo/timeline.h"
#include "tests/support/postgres_server.h"

namespace warmring::demo {
namespace {

constexpr size_t kNodes = 5;
constexpr double kWindow = 5;  // seconds that a peak is the mean of
constexpr double kMaxPhase = 1200;

struct Settings {
  uint32_t keys = 50'000;
  double operations_per_second = 5000;
  int ttl_ms = 360'000;
  int threads = 48;
  int origin_connections = 6;
  double settle = 4;   // seconds of load before anything is measured
  double steady = 25;  // seconds before the change
  double after = 25;   // seconds after a cold join, and after the end of a staged one
  std::string hold = "3s";
  std::string soak = "5s";
  std::string key_rate = "4000/s";
};

std::atomic<bool> g_stop{false};
void OnSignal(int) { g_stop.store(true); }

absl::Status Interrupted() { return absl::CancelledError("interrupted"); }

// Lets the load run. Error: Cancelled after Ctrl-C.
absl::Status RunFor(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (g_stop.load()) return Interrupted();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return absl::OkStatus();
}

void Say(const std::string& text) { std::cout << text << std::endl; }

LoadOptions LoadOf(const Settings& settings) {
  LoadOptions load;
  load.keys = settings.keys;
  load.operations_per_second = settings.operations_per_second;
  load.threads = settings.threads;
  return load;
}

std::vector<Resident> Residents(const Settings& settings) {
  const LoadOptions load = LoadOf(settings);
  return SteadyState(Zipf(load.keys, load.zipf_exponent), load.keys,
                     load.operations_per_second * (1 - load.write_share), settings.ttl_ms, 7);
}

// Applies `put` to every resident, on several threads.
absl::Status Prefill(const std::vector<Resident>& residents,
                     const std::function<absl::Status(const Resident&)>& put) {
  constexpr size_t kThreads = 8;
  std::vector<std::future<absl::Status>> parts;
  for (size_t t = 0; t < kThreads; ++t) {
    parts.push_back(std::async(std::launch::async, [&residents, &put, t]() -> absl::Status {
      for (size_t i = t; i < residents.size() && !g_stop.load(); i += kThreads) {
        RETURN_IF_ERROR(put(residents[i]));
      }
      return absl::OkStatus();
    }));
  }
  absl::Status status;
  for (auto& part : parts) status.Update(part.get());
  if (g_stop.load()) return Interrupted();
  return status;
}

struct Phase {
  Series series;
  double steady = 0;  // largest 5-second mean before the change, over a window as long as after it
  double peak = 0;    // largest 5-second mean after it
  double miss_share = 0;
  uint64_t stale_reads = 0;
  uint64_t errors = 0;
  std::string note;
};

void Measure(const Timeline& timeline, double begin, double event, double end, double over,
             Phase* phase) {
  const double window = std::min(event - begin, end - event);
  phase->steady = timeline.Peak(event - window, event, kWindow);
  phase->peak = timeline.Peak(event, end, kWindow);
  phase->series.rates = timeline.Rates(begin, end, 1);
  phase->series.event_at = event - begin;
  phase->series.end_at = over > 0 ? over - begin : 0;
}

absl::StatusOr<Phase> RunCold(const Settings& settings, const std::string& postgres) {
  Timeline timeline(kMaxPhase);
  timeline.Start();
  ASSIGN_OR_RETURN(auto origin,
                   Origin::Create(postgres, settings.keys, settings.origin_connections, &timeline));
  ASSIGN_OR_RETURN(NaiveFleet fleet, StartNaiveFleet(kNodes));
  RedisPoolOptions pool_options;
  pool_options.max_connections = 64;
  RedisPool pool(pool_options);
  NaiveClient client(fleet.before, origin.get(), settings.ttl_ms, &pool);
  RETURN_IF_ERROR(Prefill(Residents(settings), [&](const Resident& resident) {
    return client.Put(resident.key, MakeValue(0), resident.ttl_ms);
  }));
  Load load(LoadOf(settings), &client);
  load.Start();
  RETURN_IF_ERROR(RunFor(settings.settle));
  const double begin = timeline.Now();
  const uint64_t reads_before = load.counts().reads;
  RETURN_IF_ERROR(RunFor(settings.steady));
  Phase phase;
  phase.series.name = "cold: the node joins at once, naive clients";
  const double event = timeline.Now();
  const uint64_t reads = load.counts().reads - reads_before;
  phase.miss_share = static_cast<double>(timeline.Total(begin, event)) / static_cast<double>(reads);
  Say(fmt::format("  steady: {} reads/s, {:.1f}% of them reach the origin; {} joins cold now",
                  static_cast<int>(static_cast<double>(reads) / settings.steady),
                  phase.miss_share * 100, NodeName(kNodes - 1)));
  client.Switch(fleet.after);
  RETURN_IF_ERROR(RunFor(settings.after));
  load.Stop();
  Measure(timeline, begin, event, timeline.Now(), 0, &phase);
  phase.stale_reads = load.counts().stale_reads;
  phase.errors = load.counts().errors;
  phase.note = load.FirstError();
  return phase;
}

// Writes with the epoch of before the move, at the former owner, for keys that have moved: every
// one must be refused. Returns how many were.
absl::StatusOr<uint64_t> WriteStale(const Membership& old, const Membership& now, uint32_t keys) {
  constexpr uint64_t kWanted = 200;
  uint64_t refused = 0;
  RedisPool pool(RedisPoolOptions{});
  for (uint32_t k = 0; k < keys && refused < kWanted; ++k) {
    const std::string key = KeyName(k);
    const Route before = RouteKey(old, key);
    const Route after = RouteKey(now, key);
    if (before.epoch == after.epoch) continue;
    const std::string& address = old.nodes()[before.owner].address;
    ASSIGN_OR_RETURN(RedisPool::Lease lease, pool.Acquire(address, BootNow() + absl::Seconds(2)));
    const std::string word = FormatEpochWord(old.history(), before.epoch);
    ASSIGN_OR_RETURN(RedisReply checked,
                     lease->Command({"WR.WRITE", word, "SET", key, "from a stale client"}));
    ASSIGN_OR_RETURN(RedisReply plain, lease->Command({"SET", key, "from an unmodified client"}));
    if (!checked.IsError() || !plain.IsError()) {
      return absl::InternalError(fmt::format("{}: a stale write was accepted at {}", key, address));
    }
    refused += 2;
  }
  return refused;
}

struct Staged {
  Phase phase;
  double moved_share = 0;
  double ideal_share = 0;
  double migration_seconds = 0;
  uint64_t refused = 0;
};

std::vector<std::string> AddNode(const Settings& settings, const std::string& address) {
  return {"node",
          "add",
          NodeName(kNodes - 1),
          "--address",
          address,
          "--steps",
          "10%,40%,70%,100%",
          "--hold",
          settings.hold,
          "--soak",
          settings.soak,
          "--key-rate",
          settings.key_rate,
          "--reason",
          "demo",
          "--yes"};
}

absl::StatusOr<Staged> RunStaged(const Settings& settings, const std::string& postgres) {
  Timeline timeline(kMaxPhase);
  timeline.Start();
  ASSIGN_OR_RETURN(auto origin,
                   Origin::Create(postgres, settings.keys, settings.origin_connections, &timeline));
  ASSIGN_OR_RETURN(WarmringFleet fleet, StartWarmringFleet(kNodes));
  const std::string server = fleet.server->Address();
  ASSIGN_OR_RETURN(auto client,
                   StagedClient::Connect(server, kKeyspace, origin.get(), settings.ttl_ms));
  RETURN_IF_ERROR(Prefill(Residents(settings), [&](const Resident& resident) {
    return client->Put(resident.key, MakeValue(0), resident.ttl_ms);
  }));
  Load load(LoadOf(settings), client.get());
  load.Start();
  RETURN_IF_ERROR(RunFor(settings.settle));
  const double begin = timeline.Now();
  const uint64_t reads_before = load.counts().reads;
  RETURN_IF_ERROR(RunFor(settings.steady));
  Staged staged;
  Phase& phase = staged.phase;
  phase.series.name = "staged: the same node joins through Warmring";
  const Membership::Ptr old = client->router().membership();
  const std::string address = fleet.nodes[kNodes - 1]->Address();
  std::vector<std::string> dry_run = AddNode(settings, address);
  dry_run.insert(dry_run.end(), {"--dry-run", "-o", "json"});
  ASSIGN_OR_RETURN(const std::string preview_text, Warmring(server, dry_run));
  const nlohmann::json preview = nlohmann::json::parse(preview_text);
  staged.moved_share = preview["moved_share"];
  staged.ideal_share = preview["ideal_share"];

  const double event = timeline.Now();
  const uint64_t reads = load.counts().reads - reads_before;
  phase.miss_share = static_cast<double>(timeline.Total(begin, event)) / static_cast<double>(reads);
  Say(
      fmt::format("  steady: {} reads/s, {:.1f}% of them reach the origin; now:\n"
                  "  $ warmring node add {} --address {} ...",
                  static_cast<int>(static_cast<double>(reads) / settings.steady),
                  phase.miss_share * 100, NodeName(kNodes - 1), address));
  auto migration =
      std::async(std::launch::async, [&] { return Warmring(server, AddNode(settings, address)); });
  while (migration.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    if (g_stop.load()) {
      load.Stop();
      return Interrupted();
    }
  }
  ASSIGN_OR_RETURN(const std::string log, migration.get());
  const double over = timeline.Now();
  staged.migration_seconds = over - event;
  Say(log);
  RETURN_IF_ERROR(RunFor(settings.after / 2));
  ASSIGN_OR_RETURN(staged.refused, WriteStale(*old, *client->router().membership(), settings.keys));
  load.Stop();
  Measure(timeline, begin, event, timeline.Now(), over, &phase);
  phase.stale_reads = load.counts().stale_reads;
  phase.errors = load.counts().errors;
  phase.note = load.FirstError() + load.FirstStale();
  const LoaderStats stats = client->Stats();
  staged.refused += stats.refused_stale + stats.refused_moved;
  return staged;
}

std::string Sentence(const Phase& cold, const Staged& staged) {
  return fmt::format(
      "Cold, the origin's peak was {:.1f} times the steady load; through Warmring {:.2f} times, "
      "with "
      "{} stale reads and {} errors.",
      cold.peak / cold.steady, staged.phase.peak / staged.phase.steady, staged.phase.stale_reads,
      staged.phase.errors);
}

nlohmann::json Figures(const Phase& cold, const Staged& staged) {
  return {{"steady_origin_qps", staged.phase.steady},
          {"cold_steady_origin_qps", cold.steady},
          {"cold_peak_origin_qps", cold.peak},
          {"staged_peak_origin_qps", staged.phase.peak},
          {"steady_miss_share", staged.phase.miss_share},
          {"stale_reads", staged.phase.stale_reads},
          {"errors", staged.phase.errors},
          {"stale_epoch_writes_refused", staged.refused},
          {"moved_share", staged.moved_share},
          {"ideal_share", staged.ideal_share},
          {"migration_seconds", staged.migration_seconds}};
}

// The demo's own bar: a run that shows nothing, or shows damage, does not end with 0.
absl::Status Judge(const Phase& cold, const Staged& staged) {
  if (staged.phase.stale_reads != 0 || staged.phase.errors != 0) {
    return absl::InternalError(fmt::format("{} stale reads, {} errors; first: {}",
                                           staged.phase.stale_reads, staged.phase.errors,
                                           staged.phase.note));
  }
  if (staged.refused == 0) return absl::InternalError("no stale write was refused");
  if (cold.peak < 2 * cold.steady) {
    return absl::FailedPreconditionError(
        fmt::format("the cold peak is only {:.2f} times the steady load: the machine is too slow "
                    "or too busy to "
                    "show the problem; run it again",
                    cold.peak / cold.steady));
  }
  if (staged.phase.peak > 1.25 * staged.phase.steady) {
    return absl::InternalError(
        fmt::format("the staged peak is {:.2f} times the steady load, over "
                    "1.25",
                    staged.phase.peak / staged.phase.steady));
  }
  return absl::OkStatus();
}

absl::Status Run(const Settings& settings, const std::string& json_file,
                 const std::string& svg_file) {
  Say("Starting PostgreSQL ...");
  ASSIGN_OR_RETURN(auto postgres, support::PostgresServer::Start());
  Say(fmt::format("\n1. Cold: four Redis nodes, naive clients, {:.0f} operations/s on {} keys",
                  settings.operations_per_second, settings.keys));
  ASSIGN_OR_RETURN(const Phase cold, RunCold(settings, postgres->ConnectionString()));
  Say(fmt::format("  origin: steady {:.0f}/s, peak {:.0f}/s", cold.steady, cold.peak));
  Say("\n2. Things put back; the same through Warmring");
  ASSIGN_OR_RETURN(const Staged staged, RunStaged(settings, postgres->ConnectionString()));
  Say(fmt::format("  origin: steady {:.0f}/s, peak {:.0f}/s\n", staged.phase.steady,
                  staged.phase.peak));
  Say("Origin queries per second\n");
  Say(TerminalChart(cold.series, staged.phase.series, 8));
  const std::string sentence = Sentence(cold, staged);
  Say(sentence);
  Say(
      fmt::format("{:.2f}% of hash space moved (ideal {:.2f}%) in {:.0f} s; {} writes with a stale "
                  "epoch were refused.",
                  staged.moved_share * 100, staged.ideal_share * 100, staged.migration_seconds,
                  staged.refused));
  if (!svg_file.empty()) {
    std::ofstream(svg_file) << SvgChart(cold.series, staged.phase.series, sentence);
    Say("Chart: " + svg_file);
  }
  if (!json_file.empty()) std::ofstream(json_file) << Figures(cold, staged).dump(2) << "\n";
  return Judge(cold, staged);
}

int Main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  std::signal(SIGINT, OnSignal);
  std::signal(SIGTERM, OnSignal);
  CLI::App app{"A cache node joins a live ring: cold, then through Warmring"};
  bool quick = false;
  std::string json_file;
  std::string svg_file;
  app.add_flag("--quick", quick, "about three minutes");
  app.add_option("--json", json_file, "write the figures to this file");
  app.add_option("--svg", svg_file, "write the chart to this file");
  CLI11_PARSE(app, argc, argv);
  Settings settings;
  if (!quick) {
    settings.steady = 60;
    settings.after = 60;
    settings.hold = "10s";
    settings.soak = "15s";
    settings.key_rate = "2000/s";
  }
  const absl::Status status = Run(settings, json_file, svg_file);
  if (status.ok()) return 0;
  std::cerr << "demo: " << status.message() << std::endl;
  return absl::IsCancelled(status) ? 130 : 1;
}

}  // namespace
}  // namespace warmring::demo

int main(int argc, char** argv) { return warmring::demo::Main(argc, argv); }
