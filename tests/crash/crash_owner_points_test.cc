#include <signal.h>

#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/crash/crash_points.h"
#include "tests/crash/rig.h"
#include "tests/support/status_matchers.h"

// The story: a process ends at a point that is not the edge of a hand-over (crash_edges_test has
// those): warmringd at the persists around it, an agent or a Redis in the midst of what it does as
// an owner. It is started again, and the migration ends in a clean house, with a history that
// breaks no rule.

namespace warmring::crash {
namespace {

constexpr absl::Duration kHitWithin = absl::Seconds(30);
constexpr int kExitAtFailpoint = 137;

class CrashOwnerPointsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    RigOptions options;
    options.application = false;
    options.title = "crash_owner_points_test";
    ASSERT_OK_AND_ASSIGN(rig_, Rig::Start(options));
  }
  void TearDown() override {
    if (rig_ == nullptr || HasFailure()) return;
    const absl::Status judged = rig_->JudgeForTheLastTime();
    std::cout << rig_->HistorySummary() << std::endl;
    EXPECT_OK(judged);
  }

  Cluster& GetCluster() { return rig_->GetCluster(); }

  static absl::Status AwaitEnd(support::ServerProcess& process, std::string_view point,
                               int code = kExitAtFailpoint) {
    const absl::StatusOr<support::ExitStatus> ended = process.WaitForExit(kHitWithin);
    if (!ended.ok()) {
      return absl::DeadlineExceededError(
          fmt::format("{} was never reached: {}", point, std::string(ended.status().message())));
    }
    if (ended->signal == 0 && ended->code == code) return absl::OkStatus();
    return absl::InternalError(
        fmt::format("instead of at {} it ended by {}", point, ended->Describe()));
  }

  MigrationTerms Terms() const { return {.hold = {}, .soak = absl::Milliseconds(300)}; }

  void Say(std::string_view point, const absl::StatusOr<v1::Migration>& ended, absl::Time begin) {
    std::cout << fmt::format("{}: {} ({:.1f} s)\n", point,
                             ended.ok() ? Describe(*ended) : ended.status().ToString(),
                             absl::ToDoubleSeconds(absl::Now() - begin))
              << std::flush;
  }

  // warmringd ends at `point` while `act` is under way, and comes back.
  absl::Status EndServerAt(const std::string& point, const std::function<absl::Status()>& act) {
    const bool unknown = point.ends_with(".unknown");
    const absl::Status restarted =
        GetCluster().RestartServer(point + (unknown ? "=error" : "=exit"));
    // At the first session it may end before it is ready.
    if (GetCluster().Server().Server().Running()) RETURN_IF_ERROR(restarted);
    std::future<absl::Status> acted = std::async(std::launch::async, act);
    const absl::Status ended =
        AwaitEnd(GetCluster().Server().Server(), point, unknown ? 1 : kExitAtFailpoint);
    const absl::Status back = GetCluster().RestartServer();
    const absl::Status done = acted.get();
    RETURN_IF_ERROR(ended);
    RETURN_IF_ERROR(back);
    return done;
  }

  absl::StatusOr<v1::Migration> RunServerPoint(const MigrationId& id, const std::string& point) {
    RETURN_IF_ERROR(EndServerAt(point, [&] { return rig_->SubmitNext(id, Terms()).status(); }));
    return rig_->AwaitCleanEnd(id);
  }

  // The donor does not answer in time, and the wave is tried again.
  absl::StatusOr<v1::Migration> RunRetry(const MigrationId& id, const std::string& point) {
    MigrationTerms terms = Terms();
    terms.fence_timeout = absl::Milliseconds(300);
    terms.wave_attempts = 20;
    support::Process& agent = GetCluster().Find("node-a").agent->Server().Latest();
    RETURN_IF_ERROR(GetCluster().RestartServer("p5.after=stop"));
    support::Process& stopped = GetCluster().Server().Server().Latest();
    RETURN_IF_ERROR(rig_->SubmitNext(id, terms).status());
    RETURN_IF_ERROR(stopped.WaitUntilStopped(kHitWithin));
    RETURN_IF_ERROR(agent.Kill(SIGSTOP));
    RETURN_IF_ERROR(EndServerAt(point, [] { return absl::OkStatus(); }));
    RETURN_IF_ERROR(agent.Kill(SIGCONT));
    return rig_->AwaitCleanEnd(id);
  }

  // A migration waits for another one of the same ranges.
  absl::StatusOr<v1::Migration> RunQueue(const MigrationId& id, const std::string& point) {
    const MigrationId second = id + "-second";
    const auto submit_both = [&]() -> absl::Status {
      MigrationTerms terms = Terms();
      RETURN_IF_ERROR(rig_->SubmitNext(id, terms).status());
      terms.queue = true;
      v1::Change change;
      change.mutable_set_weight()->set_node("node-a");
      change.mutable_set_weight()->set_weight(point.ends_with("unknown") ? 1.5
                                              : point.ends_with("after") ? 1.0
                                                                         : 2.0);
      return GetCluster().SubmitChange(second, change, terms).status();
    };
    RETURN_IF_ERROR(EndServerAt(point, submit_both));
    RETURN_IF_ERROR(rig_->AwaitCleanEnd(second).status());
    return rig_->AwaitCleanEnd(id);
  }

  absl::StatusOr<v1::Migration> RunOwnerPoint(const MigrationId& id, const std::string& point) {
    // What every owner does, the third node does too; only a fence comes to a donor, which it is
    // when it leaves.
    CacheNode* node = &GetCluster().Find(Rig::Guest());
    ASSIGN_OR_RETURN(const Membership::Ptr head, GetCluster().MembershipAt());
    const bool leaves = head->FindNode(Rig::Guest()).has_value();
    const bool is_donor = point.find("fence") != std::string::npos;
    if (is_donor != leaves) node = &GetCluster().Find("node-a");
    const bool is_module = point.starts_with("module.");
    const absl::Status restarted = is_module ? GetCluster().RestartRedis(*node, point + "=exit@2")
                                             : GetCluster().RestartAgent(*node, point + "=exit");
    support::ServerProcess& process = is_module ? node->redis->Server() : node->agent->Server();
    // It may come to its point before it is ready.
    if (process.Running()) RETURN_IF_ERROR(restarted);
    RETURN_IF_ERROR(rig_->SubmitNext(id, Terms()).status());
    RETURN_IF_ERROR(AwaitEnd(process, point));
    RETURN_IF_ERROR(is_module ? GetCluster().RestartRedis(*node)
                              : GetCluster().RestartAgent(*node));
    return rig_->AwaitCleanEnd(id);
  }

  std::unique_ptr<Rig> rig_;
};

TEST_F(CrashOwnerPointsTest, ServerAtOtherPersists) {
  std::vector<std::pair<std::string, std::function<absl::StatusOr<v1::Migration>(
                                         const MigrationId&, const std::string&)>>>
      runs;
  for (const char* persist : {"p0", "p1", "p2", "p3", "p7", "p8"}) {
    for (const char* point : {"unknown", "after"}) {
      runs.emplace_back(fmt::format("{}.{}", persist, point),
                        [this](const MigrationId& id, const std::string& name) {
                          return RunServerPoint(id, name);
                        });
    }
  }
  // The third node leaves in each second run, which makes recipients of both others.
  runs.emplace(
      runs.begin() + 1, "p2.partial",
      [this](const MigrationId& id, const std::string& name) { return RunServerPoint(id, name); });
  for (const char* point : {"pr.unknown", "pr.after", "pr.sent"}) {
    runs.emplace_back(point, [this](const MigrationId& id, const std::string& name) {
      return RunRetry(id, name);
    });
  }
  for (const char* point : {"pq.unknown", "pq.after", "pq.sent"}) {
    runs.emplace_back(point, [this](const MigrationId& id, const std::string& name) {
      return RunQueue(id, name);
    });
  }
  int number = 0;
  for (const auto& [point, run] : runs) {
    const MigrationId id = fmt::format("server-{}", ++number);
    const absl::Time begin = absl::Now();
    const absl::StatusOr<v1::Migration> ended = run(id, point);
    Say(point, ended, begin);
    ASSERT_OK(ended) << point << "\n" << rig_->Evidence(id);
  }
  uint32_t bits = KeyspaceSpec::kMinDirectoryBits;
  for (const char* point : {"g1.before", "g1.unknown", "g1.after"}) {
    ++bits;
    EXPECT_OK(EndServerAt(point, [&] { return GetCluster().Grow(bits); })) << point;
  }
}

TEST_F(CrashOwnerPointsTest, AgentAndRedisAsOwners) {
  const CrashPoints points = ListedCrashPoints();
  std::vector<std::string> names = points.agent;
  names.insert(names.end(), points.module.begin(), points.module.end());
  int number = 0;
  for (const std::string& point : names) {
    const MigrationId id = fmt::format("owner-{}", ++number);
    const absl::Time begin = absl::Now();
    const absl::StatusOr<v1::Migration> ended = RunOwnerPoint(id, point);
    Say(point, ended, begin);
    ASSERT_OK(ended) << point << "\n" << rig_->Evidence(id);
  }
}

}  // namespace
}  // namespace warmring::crash
