#include "tests/bench/handover.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "client/base/backoff.h"
#include "client/base/boot_clock.h"
#include "client/redis/redis_pool.h"
#include "client/redis/refusal.h"
#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "tests/crash/cluster.h"
#include "tests/support/binary.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait.h"
#include "warmring/client.h"

namespace warmring::bench {
namespace {

using crash::CacheNode;
using crash::Cluster;
using Clock = std::chrono::steady_clock;

constexpr absl::Duration kWithin = absl::Seconds(60);

double Seconds(Clock::duration span) { return std::chrono::duration<double>(span).count(); }

// Writes to given keys, each thread with a pace and a client of its own.
class Writers {
 public:
  struct Options {
    std::string server;
    std::vector<std::string> keys;
    int clients = 4;
    double per_second = 1000;  // of all together
    bool keep_acknowledged = false;
  };
  struct Acknowledged {
    Clock::time_point at;
    uint64_t epoch = 0;
  };

  static absl::StatusOr<std::unique_ptr<Writers>> Start(Options options,
                                                        const KeyspaceId& keyspace) {
    std::unique_ptr<Writers> writers(new Writers(std::move(options)));
    for (int i = 0; i < writers->options_.clients; ++i) {
      ClientOptions client;
      client.endpoints = {writers->options_.server};
      client.keyspace = keyspace;
      client.connect_timeout = absl::Seconds(20);
      ASSIGN_OR_RETURN(std::unique_ptr<Client> connected, Client::Connect(std::move(client)));
      writers->clients_.push_back(std::move(connected));
    }
    for (size_t i = 0; i < writers->clients_.size(); ++i) {
      writers->threads_.emplace_back(
          [raw = writers.get(), i](const std::stop_token& stop) { raw->Work(i, stop); });
    }
    return writers;
  }
  ~Writers() {
    for (std::jthread& thread : threads_) thread.request_stop();
    threads_.clear();
  }

  uint64_t Attempts() const { return attempts_; }
  uint64_t Refused() const { return refused_; }
  std::vector<Acknowledged> TakeAcknowledged() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(acknowledged_, {});
  }

 private:
  explicit Writers(Options options) : options_(std::move(options)), pool_(PoolOptions()) {}

  static RedisPoolOptions PoolOptions() {
    RedisPoolOptions options;
    options.command_timeout = absl::Seconds(2);
    options.down_time = absl::Milliseconds(5);
    return options;
  }

  void Work(size_t index, const std::stop_token& stop) {
    const auto period = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(options_.clients / options_.per_second));
    // Not all at the same instant.
    auto next = Clock::now() + period * static_cast<int>(index) / options_.clients;
    for (size_t turn = index; !stop.stop_requested(); ++turn) {
      std::this_thread::sleep_until(next);
      Write(*clients_[index], options_.keys[turn % options_.keys.size()], stop);
      // What was late is not made up for in a burst.
      next = std::max(next + period, Clock::now() - period);
    }
  }

  // Until it is acknowledged, as the client library does it: a refusal that names a newer version
  // waits for that, others for a moment that grows from 2 to 50 ms, or until a new version comes.
  void Write(Client& client, const std::string& key, const std::stop_token& stop) {
    Backoff backoff(absl::Milliseconds(2), absl::Milliseconds(50), std::hash<std::string>()(key));
    while (!stop.stop_requested()) {
      const std::optional<Location> at = client.router().Locate(key);
      if (!at) return;
      const std::string word = at->EpochWord();
      auto lease = pool_.Acquire(at->address, BootNow() + absl::Seconds(2));
      if (!lease.ok()) {
        client.WaitForVersion(at->version.Next(), absl::Milliseconds(2)).IgnoreError();
        continue;
      }
      ++attempts_;
      const auto reply = (*lease)->Command({"WR.WRITE", word, "SET", key, "v"});
      if (!reply.ok()) continue;
      if (!reply->IsError()) {
        if (!options_.keep_acknowledged) return;
        const std::lock_guard<std::mutex> lock(mutex_);
        acknowledged_.push_back({Clock::now(), at->epoch.value});
        return;
      }
      ++refused_;
      const std::optional<Refusal> refusal = ParseRefusal(reply->text);
      const bool newer = refusal && refusal->version > at->version;
      client
          .WaitForVersion(newer ? refusal->version : at->version.Next(),
                          newer ? absl::Milliseconds(500) : backoff.Next())
          .IgnoreError();
    }
  }

  const Options options_;
  RedisPool pool_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::atomic<uint64_t> attempts_{0};
  std::atomic<uint64_t> refused_{0};
  std::mutex mutex_;
  std::vector<Acknowledged> acknowledged_;  // guarded by mutex_
  std::vector<std::jthread> threads_;
};

uint32_t BucketOf(const Membership& membership, std::string_view key) {
  return static_cast<uint32_t>(membership.PointOf(key).hash >>
                               (64 - membership.spec().directory_bits));
}

absl::Status AwaitEnd(Cluster& cluster, const MigrationId& id, absl::Duration within = kWithin) {
  ASSIGN_OR_RETURN(const v1::Migration ended,
                   cluster.WaitForMigration(id, "at its end", within,
                                            [](const v1::Migration& m) { return m.ended(); }));
  if (ended.state() == v1::MIGRATION_STATE_SUCCEEDED) return absl::OkStatus();
  return absl::InternalError(fmt::format("{}: {}", id, crash::Describe(ended)));
}

}  // namespace

Quantiles QuantilesOf(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&samples](double share) {
    const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(samples.size())));
    return samples[std::max<size_t>(rank, 1) - 1];
  };
  return {at(0.5), at(0.99), samples.size()};
}

absl::StatusOr<Quantiles> MeasureFsync(int times) {
  ASSIGN_OR_RETURN(const auto dir, support::TempDir::Create("fsync"));
  const int file = open(dir->File("log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return absl::InternalError("cannot write into the directory of temporary files");
  const std::string block(4096, 'x');
  std::vector<double> samples;
  for (int i = 0; i < times; ++i) {
    const auto begin = Clock::now();
    const bool ok = write(file, block.data(), block.size()) == 4096 && fdatasync(file) == 0;
    if (!ok) break;
    samples.push_back(Seconds(Clock::now() - begin) * 1000);
  }
  close(file);
  if (samples.empty()) return absl::InternalError("fdatasync failed");
  return QuantilesOf(std::move(samples));
}

absl::StatusOr<MovingRange> MeasureMovingRange(int migrations) {
  crash::ClusterOptions options;
  options.nodes = 2;
  options.lease = "5s";
  ASSIGN_OR_RETURN(const auto cluster, Cluster::Start(options));
  ASSIGN_OR_RETURN(const Membership::Ptr head, cluster->MembershipAt());
  // Sixteen buckets of the first node move to and fro.
  std::set<uint32_t> buckets;
  std::vector<std::string> moving;
  std::vector<std::string> others;
  for (int i = 0; moving.size() < 64 || others.size() < 64; ++i) {
    const std::string key = fmt::format("key-{}", i);
    const bool first = head->nodes()[RouteKey(*head, key).owner].id == "node-a";
    const uint32_t bucket = BucketOf(*head, key);
    if (first && buckets.size() < 16) buckets.insert(bucket);
    std::vector<std::string>& keys = buckets.contains(bucket) ? moving : others;
    if (keys.size() < 64) keys.push_back(key);
  }
  ASSIGN_OR_RETURN(const auto writers, Writers::Start({.server = cluster->Server().Address(),
                                                       .keys = moving,
                                                       .keep_acknowledged = true},
                                                      cluster->Keyspace()));
  ASSIGN_OR_RETURN(
      const auto bystanders,
      Writers::Start({.server = cluster->Server().Address(), .keys = others}, cluster->Keyspace()));
  const auto writes = [&](uint64_t count) {
    const uint64_t goal = writers->Attempts() + count;
    return support::WaitFor("writes", kWithin, [&] { return writers->Attempts() >= goal; });
  };
  RETURN_IF_ERROR(writes(300));
  MovingRange result;
  const uint64_t refused_before = bystanders->Refused();
  const uint64_t written_before = bystanders->Attempts();
  std::vector<double> pauses;
  for (int i = 0; i < migrations; ++i) {
    writers->TakeAcknowledged();
    v1::Change change;
    for (const uint32_t bucket : buckets) change.mutable_move_buckets()->add_buckets(bucket);
    change.mutable_move_buckets()->set_to(i % 2 == 0 ? "node-b" : "node-a");
    const MigrationId id = fmt::format("move-{}", i);
    RETURN_IF_ERROR(
        cluster
            ->SubmitChange(id, change,
                           {.hold = {}, .soak = absl::Milliseconds(1), .commit_steps = {1}})
            .status());
    RETURN_IF_ERROR(AwaitEnd(*cluster, id));
    RETURN_IF_ERROR(writes(100));
    std::optional<Clock::time_point> last_old;
    std::optional<Clock::time_point> first_new;
    const std::vector<Writers::Acknowledged> all = writers->TakeAcknowledged();
    uint64_t newest = 0;
    for (const auto& item : all) newest = std::max(newest, item.epoch);
    for (const auto& item : all) {
      if (item.epoch == newest) {
        if (!first_new || item.at < *first_new) first_new = item.at;
      } else if (!last_old || item.at > *last_old) {
        last_old = item.at;
      }
    }
    if (last_old && first_new) pauses.push_back(Seconds(*first_new - *last_old) * 1000);
  }
  if (pauses.empty()) return absl::InternalError("no write fell before and after a move");
  result.pause_ms = QuantilesOf(std::move(pauses));
  result.unmoved_refusals = bystanders->Refused() - refused_before;
  result.unmoved_writes = bystanders->Attempts() - written_before;
  return result;
}

absl::StatusOr<Failover> MeasureFailover() {
  constexpr absl::Duration kLease = absl::Seconds(2);
  crash::ClusterOptions options;
  options.members = 3;
  options.lease = "2s";
  ASSIGN_OR_RETURN(const auto cluster, Cluster::Start(options));
  ASSIGN_OR_RETURN(const Membership::Ptr head, cluster->MembershipAt());
  std::string key;
  for (int i = 0; key.empty(); ++i) {
    const std::string name = fmt::format("key-{}", i);
    if (head->nodes()[RouteKey(*head, name).owner].id == "node-c") key = name;
  }
  ASSIGN_OR_RETURN(const auto writers, Writers::Start({.server = cluster->Server().Address(),
                                                       .keys = {key},
                                                       .clients = 1,
                                                       .per_second = 200,
                                                       .keep_acknowledged = true},
                                                      cluster->Keyspace()));
  RETURN_IF_ERROR(support::WaitFor("writes", kWithin, [&] { return writers->Attempts() >= 50; }));
  CacheNode& node = cluster->Find("node-c");
  const auto killed = Clock::now();
  node.agent->Kill9();
  cluster->KillRedis(node);
  v1::MigrationPlan plan;
  plan.set_reason("it was killed");
  plan.add_changes()->mutable_remove()->set_node("node-c");
  plan.mutable_changes(0)->mutable_remove()->set_dead(true);
  RETURN_IF_ERROR(
      cluster->Submit("failover", std::move(plan), {.hold = {}, .soak = absl::Milliseconds(1)})
          .status());
  const uint64_t old_epoch = RouteKey(*head, key).epoch.value;
  std::optional<Clock::time_point> written;
  RETURN_IF_ERROR(support::WaitFor("a write under a new epoch", kWithin, [&] {
    for (const auto& item : writers->TakeAcknowledged()) {
      if (item.epoch > old_epoch && !written) written = item.at;
    }
    return written.has_value();
  }));
  Failover result;
  result.lease_s = absl::ToDoubleSeconds(kLease);
  result.writable_after_s = Seconds(*written - killed);
  result.after_lease_s = result.writable_after_s - result.lease_s;
  return result;
}

absl::StatusOr<LeaderRestart> MeasureLeaderRestart() {
  constexpr uint32_t kWaves = 10;
  crash::ClusterOptions options;
  options.lease = "5s";
  ASSIGN_OR_RETURN(const auto cluster, Cluster::Start(options));
  std::vector<double> steps;
  for (uint32_t i = 1; i <= kWaves; ++i) steps.push_back(static_cast<double>(i) / kWaves);
  const MigrationId id = "waves";
  RETURN_IF_ERROR(cluster
                      ->SubmitAdd(id, "node-c",
                                  {.hold = absl::Milliseconds(200),
                                   .soak = absl::Milliseconds(1),
                                   .commit_steps = steps})
                      .status());
  RETURN_IF_ERROR(
      cluster
          ->WaitForMigration(id, "in its fourth wave", kWithin,
                             [](const v1::Migration& m) { return m.waves_committed() >= 3; })
          .status());
  ASSIGN_OR_RETURN(const v1::Migration before, cluster->Get(id));
  const auto killed = Clock::now();
  RETURN_IF_ERROR(cluster->RestartServer());
  LeaderRestart result;
  result.ready_s = Seconds(Clock::now() - killed);
  RETURN_IF_ERROR(cluster
                      ->WaitForMigration(id, "one wave further", kWithin,
                                         [&](const v1::Migration& m) {
                                           return m.waves_committed() > before.waves_committed() ||
                                                  m.ended();
                                         })
                      .status());
  result.resume_s = Seconds(Clock::now() - killed);
  RETURN_IF_ERROR(AwaitEnd(*cluster, id));
  return result;
}

absl::StatusOr<RefusedShare> MeasureRefusedShare(int waves, absl::Duration hold, int clients,
                                                 double writes_per_second) {
  crash::ClusterOptions options;
  options.lease = "5s";
  ASSIGN_OR_RETURN(const auto cluster, Cluster::Start(options));
  std::vector<std::string> keys;
  for (int i = 0; i < 20'000; ++i) keys.push_back(fmt::format("key-{}", i));
  ASSIGN_OR_RETURN(const auto writers, Writers::Start({.server = cluster->Server().Address(),
                                                       .keys = std::move(keys),
                                                       .clients = clients,
                                                       .per_second = writes_per_second},
                                                      cluster->Keyspace()));
  RETURN_IF_ERROR(support::WaitFor("writes", kWithin, [&] { return writers->Attempts() >= 500; }));
  std::vector<double> steps;
  for (int i = 1; i <= waves; ++i) steps.push_back(static_cast<double>(i) / waves);
  RefusedShare result;
  const uint64_t attempts = writers->Attempts();
  const uint64_t refused = writers->Refused();
  const auto begin = Clock::now();
  const MigrationId id = "waves";
  RETURN_IF_ERROR(
      cluster
          ->SubmitAdd(id, "node-c",
                      {.hold = hold, .soak = absl::Milliseconds(1), .commit_steps = steps})
          .status());
  RETURN_IF_ERROR(AwaitEnd(*cluster, id, hold * waves * 2 + kWithin));
  result.seconds = Seconds(Clock::now() - begin);
  result.requests = writers->Attempts() - attempts;
  result.refused = writers->Refused() - refused;
  result.share = static_cast<double>(result.refused) / static_cast<double>(result.requests);
  ASSIGN_OR_RETURN(const v1::Migration ended, cluster->Get(id));
  result.waves = static_cast<int>(ended.waves_committed());
  result.clients = clients;
  result.wanted_per_second = writes_per_second;
  return result;
}

absl::StatusOr<KillRuns> RunKills(absl::Duration within) {
  ASSIGN_OR_RETURN(const std::string binary, support::BinaryPath("crash_random_test"));
  ASSIGN_OR_RETURN(const auto dir, support::TempDir::Create("kills"));
  KillRuns result;
  const absl::Time end = absl::Now() + within;
  while (absl::Now() < end) {
    support::ProcessOptions options;
    options.argv = {binary};
    options.log_path = dir->File(fmt::format("run-{}.log", result.runs));
    ASSIGN_OR_RETURN(const auto process, support::Process::Start(std::move(options)));
    ASSIGN_OR_RETURN(const support::ExitStatus ended, process->Wait(absl::Minutes(10)));
    const std::string log = process->LogText();
    const uint64_t before = result.runs;
    for (size_t at = log.find(" of "); at != std::string::npos; at = log.find(" of ", at + 1)) {
      // "3 of 8: ...", at the beginning of a line.
      const size_t line = log.rfind('\n', at) + 1;
      if (log.find_first_not_of("0123456789", line) == at) ++result.runs;
    }
    if (!ended.Succeeded()) {
      if (result.runs == before) {
        return absl::InternalError("the kill test ended before its first run: " +
                                   process->LogTail());
      }
      ++result.violations;
      fmt::print(stderr, "{}\n", process->LogTail());
    }
  }
  return result;
}

}  // namespace warmring::bench
