#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "migrations/plan.h"
#include "server/store/memory/memory_store.h"
#include "tests/sim/agent.h"
#include "tests/sim/checker.h"
#include "tests/sim/client.h"
#include "tests/sim/engine.h"
#include "tests/sim/network.h"
#include "tests/sim/random.h"
#include "tests/sim/scheduler.h"
#include "tests/sim/server.h"

namespace warmring::sim {

// What befalls a migration on purpose, at the moments that matter most.
enum class Trap : uint8_t {
  kNone,
  kCutDonor,       // right after P5: neither fence nor grant reaches the donor
  kCutAndRestart,  // and the server begins again
  kSecondWave,     // the first wave takes longer than a renewal, then as kCutDonor
  kSlowGrant,      // the donor's last grant is on its way for long
  kReplaceEngine,  // another engine takes the donor's place, and the old one lives on
  kReplaceAndRestart,
  kLoseTasks,            // the fence is never heard of, renewals go on
  kRestartAcknowledged,  // the donor begins again right after its acknowledgement
  kHalfOpen,             // the donor's session is lost, and the server does not know
  kDonorHangsUp,         // the transfer is lost before P5, and the recipient does not know
  kLast = kDonorHangsUp,
};

struct Options {
  uint64_t seed = 1;
  uint64_t steps = 20'000;  // then the faults stop and everything has to come to its end
  // By how much the rates of an owner's and a server's clock differ at most, in millionths. The
  // protocol is promised for 10,000.
  int64_t clock_rate_ppm = 10'000;
  // What befalls migrations on purpose; kNone: anything.
  Trap focus = Trap::kNone;
  std::function<void(const std::string&)> trace;  // told what happens
};

struct Result {
  uint64_t steps = 0;
  uint64_t hash = 0;  // of everything that happened
  Nanos time = 0;     // simulated
  uint64_t acknowledged = 0;
  uint64_t succeeded = 0;
  uint64_t aborted = 0;
  uint64_t rolled_back = 0;
  uint64_t unclean = 0;  // hand-overs on an expired lease
  uint64_t restarts = 0;
  // Empty when every promise was kept; of several the first is the cause.
  std::vector<std::string> violations;
};

// One keyspace with all that belongs to it, from one seed.
class World {
 public:
  explicit World(const Options& options);
  ~World();

  Result Run();

  // For the parts.
  Scheduler& scheduler() { return scheduler_; }
  Random& random() { return random_; }
  Network& network() { return network_; }
  Checker& checker() { return *checker_; }
  MemoryStore& durable() { return durable_; }
  const KeyspaceId& keyspace() const { return keyspace_; }
  const HistoryId& history() const { return history_; }
  const std::string& history_tag() const { return history_tag_; }
  absl::Duration lease() const { return lease_; }
  const std::vector<std::string>& keys() const { return keys_; }
  const std::vector<NodeId>& nodes() const { return nodes_; }
  // All that live, the replaced ones too.
  const std::vector<std::shared_ptr<Engine>>& engines() const { return engines_; }

  // A server that can be reached from there, or null.
  std::shared_ptr<Server> PickServer(Site from);
  std::shared_ptr<Engine> EngineOf(const NodeId& node) const;
  std::shared_ptr<Engine> EngineForClient(const NodeId& node);
  std::shared_ptr<Agent> AgentOf(const NodeId& node) const;
  Incarnation FreshIncarnation();
  uint64_t NextStreamId() { return ++last_stream_; }
  uint64_t NextValue() { return ++last_value_; }
  Nanos LoopbackDelay() { return random_.Between(20 * kMicro, profile_.loopback_max); }
  Nanos WriteTime();  // from the admission of a write to its answer
  Nanos DiskDelay();
  Nanos ClientPause();
  enum class Outcome : uint8_t { kKnown, kWritten, kNotWritten, kWrittenLater };
  Outcome NextOutcome();
  // Whether the tasks that are sent to a node are lost just now.
  bool LosesTasks(const NodeId& node) const;
  // How much longer than others a grant to the node is on its way.
  Nanos GrantDelay(const NodeId& node);

  // What the parts tell.
  void OnServerFailed(Server* server);
  void OnLeaseGranted(const NodeId& node);
  void OnFenceAcknowledged(const NodeId& node);
  void OnStage(const MigrationId& id, Stage was, const Checker::Migration& now);

  void Mix(uint64_t value) { hash_ ^= value + 0x9e3779b97f4a7c15 + (hash_ << 6) + (hash_ >> 2); }
  // `text` is called only when somebody listens.
  template <typename Text>
  void Note(const Text& text) {
    if (options_.trace) Trace(text());
  }

 private:
  struct Profile {
    uint32_t faults = 0;  // per mille of the looks, of which there are several a second
    Nanos loopback_max = 300 * kMicro;
    Nanos disk_min = 100 * kMicro;
    Nanos disk_max = 2 * kMilli;
    uint32_t disk_slow = 0;  // per mille
    uint32_t unknown = 0;    // per hundred thousand commits
    Nanos client_pause = 100 * kMilli;
    bool two_steps = false;
    bool ring = false;
    uint32_t traps = 500;  // per mille of the migrations
  };
  struct Trapped {
    MigrationId id;
    Trap trap = Trap::kNone;
    std::vector<NodeId> donors;
    std::vector<NodeId> recipients;
    bool armed = true;
    bool promote = false;
  };

  void DrawProfile();
  void CreateKeyspace();
  void Trace(const std::string& what);
  Site SiteOf(const NodeId& node) const;

  void StartServer();
  void RestartServer(Nanos after);
  void CrashServer(Nanos down);
  void DeposeServer();
  void StartEngine(const NodeId& node);
  void RestartEngine(const NodeId& node, Nanos down);
  void ReplaceEngine(const NodeId& node, Nanos old_lives);
  void StartAgent(const NodeId& node);
  void RestartAgent(const NodeId& node, Nanos down);
  void CutSites(Site a, Site b, bool both, Nanos time);
  void CutDonors(const Trapped& trapped, Nanos time);

  void LookForFaults();
  void Misfortune();
  void LookForOperators();
  void Operate();
  void SubmitPlan();
  MigrationPlan DrawPlan();
  absl::Duration DrawFenceTimeout();
  void Spring(Trapped trapped);
  void Calm();
  void Reap();

  const Options options_;
  Scheduler scheduler_;
  Random random_;
  Network network_;
  MemoryStore durable_;
  std::unique_ptr<Checker> checker_;
  Profile profile_;
  const KeyspaceId keyspace_ = "sim";
  HistoryId history_;
  std::string history_tag_;
  absl::Duration lease_ = absl::Seconds(10);
  int64_t server_rate_ = 0;
  std::map<NodeId, int64_t> owner_rates_;
  std::vector<std::string> keys_;
  std::vector<NodeId> nodes_;

  std::shared_ptr<Server> server_;  // null while it is down
  std::vector<std::shared_ptr<Server>> deposed_;
  std::vector<std::shared_ptr<Engine>> engines_;
  std::map<NodeId, std::shared_ptr<Engine>> present_;
  std::map<NodeId, std::shared_ptr<Agent>> agents_;
  std::vector<std::shared_ptr<Client>> clients_;

  bool calm_ = false;
  uint64_t next_migration_ = 0;
  Trapped trapped_;
  std::map<NodeId, Nanos> tasks_lost_until_;
  std::optional<NodeId> restart_when_acknowledged_;
  uint64_t last_stream_ = 0;
  uint64_t last_value_ = 0;
  uint64_t restarts_ = 0;
  uint64_t hash_ = 0;
};

}  // namespace warmring::sim
