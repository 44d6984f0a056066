#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/crash/crash_points.h"
#include "tests/crash/rig.h"
#include "tests/crash/victim.h"
#include "tests/support/status_matchers.h"

// The story: somebody is killed at the worst moments of a migration, and nobody reads an old value.
//
// A change of owner has two facts in the store: the wave is fenced (P5) and the wave is committed
// (P6); an undo has the same two (pu5, pu6), and an abort from Fencing (PA) has one. Around each
// fact are four edges where a crash leaves the parties with different knowledge:
//
//   before      the transaction is built, and nobody knows of it
//   after       it is durable, and nobody was told
//   published   the new version went to those who watch, and no task was sent
//   sent        the tasks went out, and nobody has answered yet
//
// and two where only warmringd can die:
//
//   unknown     it is durable, and the store's answer is lost: warmringd ends itself
//   partial     one owner has its new tasks, another one has not
//
// On each edge each victim dies: warmringd (it ends itself there), the donor's or the recipient's
// agent, the donor's or the recipient's Redis (whose data are gone), or warmringd together with the
// donor's agent. For a victim other than warmringd, warmringd stops itself on the edge, the victim
// is killed and started again, and then warmringd goes on: a moment as narrow as the edge.
//
// In nine more runs the warmringd that comes after a dead one dies too, on an edge of what it does
// next.
//
// Every other run tries the second wave, in which some ranges have a new owner already. An
// application writes and reads all the while. Each run must end Succeeded, Aborted or RolledBack
// with a clean house (Audit), which the next run begins with.
//
// To run some edges only: WARMRING_CRASH_ONLY=p6.after or =donor-redis (part of a run's name).

namespace warmring::crash {
namespace {

constexpr absl::Duration kHitWithin = absl::Seconds(30);
constexpr int kExitAtFailpoint = 137;
// A warmringd that does not know what it has written.
constexpr int kExitByItself = 1;
const absl::Duration kShortSoak = absl::Milliseconds(300);
// The undo comes before it is over.
const absl::Duration kLongSoak = absl::Minutes(10);

struct Edge {
  std::string persist;  // "p5"
  std::string point;    // "before"
  Victim victim = Victim::kServer;
  int wave = 1;  // the failpoint's nth hit
  // Where the warmringd that comes after the first one dies too. Empty: nowhere.
  std::string then;

  // "p5.before at wave 1, server"
  std::string Name() const {
    return fmt::format("{}.{} at wave {}, {}{}", persist, point, wave, crash::Name(victim),
                       then.empty() ? "" : ", then " + then);
  }
  MigrationId Id() const {
    std::string id = fmt::format("{}-{}-{}{}", persist, point, crash::Name(victim),
                                 then.empty() ? "" : "-" + then);
    std::replace(id.begin(), id.end(), '.', '-');
    return id;
  }
  std::string Failpoint() const {
    const char* const action = point == "unknown"       ? "error"
                               : IncludesServer(victim) ? "exit"
                                                        : "stop";
    return fmt::format("{}.{}={}@{}", persist, point, action,
                       persist == "p5" || persist == "p6" ? wave : 1);
  }
};

std::vector<Edge> EdgesOf(const std::string& persist) {
  // An undo takes all waves back at once.
  const int waves = persist.starts_with("pu") ? 1 : 2;
  std::vector<Edge> edges;
  int turn = 0;
  for (const char* point : {"before", "after", "published", "sent"}) {
    for (const Victim victim : kAllVictims) {
      edges.push_back({persist, point, victim, turn++ % waves + 1, ""});
    }
    // Else a victim would always meet the same wave.
    ++turn;
  }
  edges.push_back({persist, "unknown", Victim::kServer, turn++ % waves + 1, ""});
  const std::vector<std::string>& of_many = PersistsOfMany();
  if (std::find(of_many.begin(), of_many.end(), persist) != of_many.end()) {
    edges.push_back({persist, "partial", Victim::kServer, turn++ % waves + 1, ""});
  }
  return edges;
}

// A crash, and another while what comes after it is being done.
std::vector<Edge> Pairs() {
  constexpr Victim kServer = Victim::kServer;
  return {
      {"p5", "after", kServer, 1, "p6.before"}, {"p5", "sent", kServer, 1, "p6.after"},
      {"p6", "after", kServer, 1, "p5.after"},  {"p6", "published", kServer, 1, "p6.published"},
      {"p6", "sent", kServer, 2, "p7.after"},   {"pa", "after", kServer, 2, "pu5.after"},
      {"pa", "sent", kServer, 2, "pu6.after"},  {"pu5", "after", kServer, 1, "pu6.before"},
      {"pu5", "sent", kServer, 1, "pu6.after"},
  };
}

bool IsWanted(const Edge& edge) {
  const char* const only = std::getenv("WARMRING_CRASH_ONLY");
  return only == nullptr || edge.Name().find(only) != std::string::npos;
}

class CrashEdgesTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(rig_, Rig::Start()); }

  Cluster& GetCluster() { return rig_->GetCluster(); }

  // Waits until warmringd has ended or stopped itself.
  absl::Status AwaitHit(const std::string& failpoint, bool is_exit) {
    support::ServerProcess& server = GetCluster().Server().Server();
    if (!is_exit) {
      const absl::Status stopped = server.Latest().WaitUntilStopped(kHitWithin);
      if (stopped.ok()) return stopped;
      return absl::DeadlineExceededError(
          fmt::format("{} was never hit: {}", failpoint, std::string(stopped.message())));
    }
    const absl::StatusOr<support::ExitStatus> ended = server.WaitForExit(kHitWithin);
    if (!ended.ok()) {
      return absl::DeadlineExceededError(
          fmt::format("{} was never hit: {}", failpoint, std::string(ended.status().message())));
    }
    const int expected =
        failpoint.find("=error") == std::string::npos ? kExitAtFailpoint : kExitByItself;
    if (ended->signal == 0 && ended->code == expected) return absl::OkStatus();
    return absl::InternalError(
        fmt::format("instead of {} warmringd ended by {}", failpoint, ended->Describe()));
  }

  // Does the deed and lets warmringd go on.
  absl::Status Strike(const Edge& edge, const Roles& roles) {
    const absl::Status restarted = KillAndRestart(edge.victim, roles, GetCluster(),
                                                  edge.then.empty() ? "" : edge.then + "=exit");
    // It may come to its point before it is ready; how it ended is looked at later.
    if (!edge.then.empty() && !GetCluster().Server().Server().Running()) return absl::OkStatus();
    RETURN_IF_ERROR(restarted);
    if (IncludesServer(edge.victim)) return absl::OkStatus();
    return GetCluster().Server().Server().Latest().Kill(SIGCONT);
  }
  absl::Status AwaitSecondStrike(const Edge& edge) {
    if (edge.then.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(AwaitHit(edge.then, true));
    return GetCluster().RestartServer();
  }

  // Donor and recipient of the first move in a wave (from 1).
  static Roles RolesIn(const v1::Migration& migration, int wave) {
    for (const v1::PlannedMove& move : migration.preview().moves()) {
      if (static_cast<int>(move.wave()) == wave - 1) return {move.from(), move.to()};
    }
    return {};
  }

  // A wave is being fenced or committed.
  absl::StatusOr<v1::Migration> RunHandOver(const Edge& edge) {
    RETURN_IF_ERROR(GetCluster().RestartServer(edge.Failpoint()));
    ASSIGN_OR_RETURN(const v1::Migration migration,
                     rig_->SubmitNext(edge.Id(), {.hold = {}, .soak = kShortSoak}));
    RETURN_IF_ERROR(AwaitHit(edge.Failpoint(), IncludesServer(edge.victim)));
    RETURN_IF_ERROR(Strike(edge, RolesIn(migration, edge.wave)));
    RETURN_IF_ERROR(AwaitSecondStrike(edge));
    return rig_->AwaitCleanEnd(edge.Id());
  }

  // An operator aborts while a wave is being fenced, which lasts because its donors' agents are
  // suspended. After the first wave this is the beginning of an undo.
  absl::StatusOr<v1::Migration> RunAbort(const Edge& edge) {
    const std::string fenced = fmt::format("p5.after=stop@{}", edge.wave);
    RETURN_IF_ERROR(GetCluster().RestartServer(fenced + ";" + edge.Failpoint()));
    ASSIGN_OR_RETURN(const v1::Migration migration,
                     rig_->SubmitNext(edge.Id(), {.hold = {}, .soak = kShortSoak}));
    RETURN_IF_ERROR(AwaitHit(fenced, false));
    std::set<NodeId> donors;
    for (const v1::PlannedMove& move : migration.preview().moves()) {
      if (static_cast<int>(move.wave()) == edge.wave - 1) donors.insert(move.from());
    }
    for (const NodeId& donor : donors) {
      support::Process& agent = GetCluster().Find(donor).agent->Server().Latest();
      RETURN_IF_ERROR(agent.Kill(SIGSTOP));
      RETURN_IF_ERROR(agent.WaitUntilStopped(kHitWithin));
    }
    RETURN_IF_ERROR(GetCluster().Server().Server().Latest().Kill(SIGCONT));
    std::future<absl::Status> aborted =
        std::async(std::launch::async, [&] { return GetCluster().Abort(edge.Id()); });
    RETURN_IF_ERROR(AwaitHit(edge.Failpoint(), IncludesServer(edge.victim)));
    RETURN_IF_ERROR(Strike(edge, RolesIn(migration, edge.wave)));
    for (const NodeId& donor : donors) {
      support::Process& agent = GetCluster().Find(donor).agent->Server().Latest();
      RETURN_IF_ERROR(agent.Kill(SIGCONT));
    }
    RETURN_IF_ERROR(AwaitSecondStrike(edge));
    RETURN_IF_ERROR(aborted.get());
    return rig_->AwaitCleanEnd(edge.Id());
  }

  // An operator undoes a migration that is soaking: its recipients are now the donors.
  absl::StatusOr<v1::Migration> RunUndo(const Edge& edge) {
    RETURN_IF_ERROR(GetCluster().RestartServer(edge.Failpoint()));
    ASSIGN_OR_RETURN(const v1::Migration migration,
                     rig_->SubmitNext(edge.Id(), {.hold = {}, .soak = kLongSoak}));
    RETURN_IF_ERROR(GetCluster()
                        .WaitForMigration(edge.Id(), "soaking", kHitWithin,
                                          [](const v1::Migration& m) {
                                            return m.state() == v1::MIGRATION_STATE_SOAKING ||
                                                   m.ended();
                                          })
                        .status());
    // What is undone has changed since it was committed.
    RETURN_IF_ERROR(rig_->LetApplicationWrite());
    std::future<absl::Status> undone =
        std::async(std::launch::async, [&] { return GetCluster().Undo(edge.Id()); });
    RETURN_IF_ERROR(AwaitHit(edge.Failpoint(), IncludesServer(edge.victim)));
    const Roles forth = RolesIn(migration, edge.wave);
    RETURN_IF_ERROR(Strike(edge, {.donor = forth.recipient, .recipient = forth.donor}));
    RETURN_IF_ERROR(AwaitSecondStrike(edge));
    RETURN_IF_ERROR(undone.get());
    return rig_->AwaitCleanEnd(edge.Id());
  }

  absl::StatusOr<v1::Migration> RunEdge(const Edge& edge) {
    if (edge.persist == "pa") return RunAbort(edge);
    if (edge.persist.starts_with("pu")) return RunUndo(edge);
    return RunHandOver(edge);
  }

  void RunAll(std::vector<Edge> edges) {
    std::erase_if(edges, [](const Edge& edge) { return !IsWanted(edge); });
    int number = 0;
    for (const Edge& edge : edges) {
      const absl::Time begin = absl::Now();
      const absl::StatusOr<v1::Migration> ended = RunEdge(edge);
      std::cout << fmt::format("{:2} of {}: {}: {} ({:.1f} s)\n", ++number, edges.size(),
                               edge.Name(),
                               ended.ok() ? Describe(*ended) : ended.status().ToString(),
                               absl::ToDoubleSeconds(absl::Now() - begin))
                << std::flush;
      // The runs after it would find a house that is not clean.
      ASSERT_OK(ended) << edge.Name() << "\n" << rig_->Evidence(edge.Id());
    }
    std::cout << rig_->TrafficSummary() << std::endl;
  }

  std::unique_ptr<Rig> rig_;
};

TEST_F(CrashEdgesTest, FencingOfAWave) { RunAll(EdgesOf("p5")); }
TEST_F(CrashEdgesTest, CommitOfAWave) { RunAll(EdgesOf("p6")); }
TEST_F(CrashEdgesTest, AbortWhileFencing) { RunAll(EdgesOf("pa")); }
TEST_F(CrashEdgesTest, FencingOfAnUndo) { RunAll(EdgesOf("pu5")); }
TEST_F(CrashEdgesTest, CommitOfAnUndo) { RunAll(EdgesOf("pu6")); }
TEST_F(CrashEdgesTest, CrashWhileRecovering) { RunAll(Pairs()); }

}  // namespace
}  // namespace warmring::crash
