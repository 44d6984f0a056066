#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/crash/rig.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

// The story: somebody is killed at any moment of a migration, and nobody reads an old value.
//
// A node joins and leaves in turn, and in some runs the keys of a tenant are given to nodes of
// their own instead, or go back. Some plans wait for an acknowledgement only, some pass over a
// donor whose lease is over, some try a wave again. In each migration a random stage is waited for,
// then a random span, and then some random processes are killed with SIGKILL and started again; in
// a third of the runs others follow while the first are still recovering, and in half of them an
// operator wants an abort or an undo in between. An application writes and reads all the while.
// Each run must end Succeeded, Aborted or RolledBack with a clean house (Audit).
//
//   WARMRING_CRASH_RUNS=100    migrations (8)
//   WARMRING_CRASH_SEED=17     makes the same choices again; which thread was where is not chosen

namespace warmring::crash {
namespace {

constexpr int kRuns = 8;
constexpr absl::Duration kReachedWithin = absl::Seconds(60);
// Warming takes about a second, so that it can be hit.
constexpr uint64_t kKeysPerSecond = 200;
const absl::Duration kHold = absl::Milliseconds(200);
const absl::Duration kSoak = absl::Milliseconds(500);
constexpr int kMaxDelayMs = 400;

uint64_t NumberFrom(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// What dies together.
struct Strike {
  bool server = false;
  std::vector<NodeId> agents;
  std::vector<NodeId> engines;

  std::string Describe() const {
    std::string text = server ? " warmringd" : "";
    for (const NodeId& node : agents) text += fmt::format(" agent of {}", node);
    for (const NodeId& node : engines) text += fmt::format(" Redis of {}", node);
    return text;
  }
};

// What an operator asks for after the first strike, if the stage allows it.
enum class Wish { kNothing, kAbort, kUndo };

struct Choice {
  bool is_override = false;  // of a tenant; else the third node joins or leaves
  bool ack_or_lease = false;
  uint32_t wave_attempts = 1;
  v1::MigrationState stage = v1::MIGRATION_STATE_PLANNED;  // or later
  absl::Duration delay;
  std::vector<Strike> strikes;
  Wish wish = Wish::kNothing;

  std::string Describe() const {
    std::string text =
        fmt::format("{}{}{} at {} + {}:", is_override ? "a tenant" : "the guest",
                    ack_or_lease ? ", by lease too" : "", wave_attempts > 1 ? ", again" : "",
                    v1::MigrationState_Name(stage), absl::FormatDuration(delay));
    for (const Strike& strike : strikes) text += strike.Describe() + ";";
    if (wish == Wish::kAbort) text += " abort;";
    if (wish == Wish::kUndo) text += " undo;";
    return text;
  }
};

class Chooser {
 public:
  explicit Chooser(uint64_t seed) : random_(seed) {}

  Choice Choose() {
    constexpr v1::MigrationState kStages[] = {
        v1::MIGRATION_STATE_PLANNED, v1::MIGRATION_STATE_WARMING, v1::MIGRATION_STATE_VERIFYING,
        v1::MIGRATION_STATE_FENCING, v1::MIGRATION_STATE_SOAKING};
    Choice choice;
    choice.stage = kStages[Below(std::size(kStages))];
    choice.delay = absl::Milliseconds(Below(kMaxDelayMs));
    choice.strikes.push_back(ChooseStrike());
    if (Below(3) == 0) choice.strikes.push_back(ChooseStrike());
    constexpr Wish kWishes[] = {Wish::kNothing, Wish::kNothing, Wish::kAbort, Wish::kUndo};
    choice.wish = kWishes[Below(std::size(kWishes))];
    choice.is_override = Below(4) == 0;
    choice.ack_or_lease = Below(2) == 0;
    choice.wave_attempts = Below(3) == 0 ? 3 : 1;
    return choice;
  }

 private:
  // Any of the seven processes, and in half of the cases a second one.
  Strike ChooseStrike() {
    Strike strike;
    for (size_t i = 0; i <= Below(2); ++i) {
      const NodeId node = fmt::format("node-{}", static_cast<char>('a' + Below(3)));
      switch (Below(3)) {
        case 0:
          strike.server = true;
          break;
        case 1:
          strike.agents.push_back(node);
          break;
        default:
          strike.engines.push_back(node);
          break;
      }
    }
    return strike;
  }

  // Not std::uniform_int_distribution, whose results differ between standard libraries.
  size_t Below(size_t bound) { return static_cast<size_t>(random_() % bound); }

  std::mt19937_64 random_;
};

absl::Status Execute(const Strike& strike, Cluster& cluster) {
  if (strike.server) cluster.Server().Kill9();
  for (const NodeId& node : strike.agents) cluster.Find(node).agent->Kill9();
  for (const NodeId& node : strike.engines) cluster.KillRedis(cluster.Find(node));
  if (strike.server) RETURN_IF_ERROR(cluster.RestartServer());
  for (const NodeId& node : strike.engines) {
    RETURN_IF_ERROR(cluster.RestartRedis(cluster.Find(node)));
  }
  for (const NodeId& node : strike.agents) {
    RETURN_IF_ERROR(cluster.RestartAgent(cluster.Find(node)));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Migration> RunChoice(const MigrationId& id, const Choice& choice, Rig& rig) {
  const MigrationTerms terms = {.hold = kHold,
                                .soak = kSoak,
                                .keys_per_second = kKeysPerSecond,
                                .wave_attempts = choice.wave_attempts,
                                .ack_or_lease = choice.ack_or_lease};
  RETURN_IF_ERROR(
      (choice.is_override ? rig.SubmitTenant(id, terms) : rig.SubmitNext(id, terms)).status());
  RETURN_IF_ERROR(
      rig.GetCluster()
          .WaitForMigration(id, "at the chosen stage", kReachedWithin,
                            [&](const v1::Migration& m) { return m.state() >= choice.stage; })
          .status());
  const auto moment = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(choice.delay);
  RETURN_IF_ERROR(support::WaitFor("the chosen moment", kReachedWithin, [moment] {
    return std::chrono::steady_clock::now() >= moment;
  }));
  for (const Strike& strike : choice.strikes) {
    RETURN_IF_ERROR(Execute(strike, rig.GetCluster()));
    if (&strike != &choice.strikes.front()) continue;
    if (choice.wish == Wish::kAbort) RETURN_IF_ERROR(rig.GetCluster().Abort(id));
    if (choice.wish == Wish::kUndo) RETURN_IF_ERROR(rig.GetCluster().Undo(id));
  }
  return rig.AwaitCleanEnd(id);
}

TEST(CrashRandomTest, EndsCleanWhateverDies) {
  const uint64_t runs = NumberFrom("WARMRING_CRASH_RUNS", kRuns);
  const uint64_t seed = NumberFrom("WARMRING_CRASH_SEED", std::random_device()());
  std::cout << fmt::format("WARMRING_CRASH_SEED={} repeats these choices\n", seed) << std::flush;
  Chooser chooser(seed);
  RigOptions options;
  options.seed = seed;
  options.title = fmt::format("crash_random_test, WARMRING_CRASH_SEED={}", seed);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Rig> rig, Rig::Start(options));
  for (uint64_t run = 1; run <= runs; ++run) {
    const MigrationId id = fmt::format("run-{}", run);
    const Choice choice = chooser.Choose();
    const absl::Time begin = absl::Now();
    const absl::StatusOr<v1::Migration> ended = RunChoice(id, choice, *rig);
    std::cout << fmt::format("{} of {}: {} {} ({:.1f} s)\n", run, runs, choice.Describe(),
                             ended.ok() ? Describe(*ended) : ended.status().ToString(),
                             absl::ToDoubleSeconds(absl::Now() - begin))
              << std::flush;
    ASSERT_OK(ended) << "WARMRING_CRASH_SEED=" << seed << ", run " << run << ": "
                     << choice.Describe() << "\n"
                     << rig->Evidence(id);
  }
  std::cout << rig->TrafficSummary() << std::endl;
  const absl::Status judged = rig->JudgeForTheLastTime();
  std::cout << rig->HistorySummary() << std::endl;
  EXPECT_OK(judged);
}

}  // namespace
}  // namespace warmring::crash
