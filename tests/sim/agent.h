#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "migrations/task.h"
#include "server/sessions/sessions.h"
#include "tests/sim/donor.h"
#include "tests/sim/engine.h"
#include "tests/sim/network.h"
#include "tests/sim/watcher.h"

namespace warmring::sim {

// The agent beside an engine: session, watch, tasks and transfers, by the rules of client/owner,
// agent/owner_link.cc, agent/task_runner.cc and agent/transfer, which have threads and cannot be
// run on simulated time themselves.
class Agent final : public Process {
 public:
  Agent(World* world, NodeId node, Site site, int64_t rate_ppm, Nanos clock_start);
  void Start();

  // From a server: message `order` of stream `turn` of the session.
  void OnSessionMessage(uint64_t turn, uint64_t order, const SessionMessage& message);
  // From another agent.
  void OnOrder(const Order& order, std::shared_ptr<Stream> stream,
               std::function<void(const Parcel&)> deliver, std::weak_ptr<Donor>* end);

  // Asks the engine; the answer comes later, unless this agent is gone by then. Commands that are
  // under way when it dies are carried out.
  template <typename Result>
  void Ask(std::function<Result(Engine&, uint64_t)> work, std::function<void(Result)> done) {
    auto result = std::make_shared<Result>(absl::UnavailableError("the engine is gone"));
    Visit([work = std::move(work), result](
              Engine& engine, uint64_t generation) { *result = work(engine, generation); },
          [done = std::move(done), result](bool answered) {
            done(answered ? *result : Result(absl::UnavailableError("the engine is gone")));
          });
  }

  const NodeId& node() const { return node_; }
  World& world() { return *world_; }
  const Membership::Ptr& installed() const { return installed_; }
  std::optional<LogPlace> FencedAt(const MigrationId& migration, const HashRangeSet& ranges) const;
  std::string Describe() const;
  // Its transfers to others are lost, and they will learn of it later.
  void HangUp();

 private:
  friend class Donor;
  enum class Kind : uint8_t { kWarm, kVerify, kFence, kPrepare };
  struct Key {
    MigrationId migration;
    uint32_t wave = 0;
    Id128 nonce;
    Kind kind = Kind::kWarm;
    uint64_t epoch = 0;
    PrepareTask::Mode mode = PrepareTask::Mode::kChanges;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Preparation {
    Key key;
    PrepareTask first_task;
    PrepareTask task;
    Id128 open;
    bool cancelled = false;
    bool asleep = false;  // between two attempts
    bool busy = false;    // the engine was asked something for it
    bool ended = false;
    std::shared_ptr<Stream> stream;
    std::deque<Parcel> inbox;
    std::vector<LogPlace> applied;  // by donor, in the order of the task
    uint64_t attempt = 0;
  };
  using PreparationPtr = std::shared_ptr<Preparation>;
  struct Entry {
    Task task;
    std::optional<TaskReport> report;
    uint64_t due = 0;
    bool answered = false;
    bool asking = false;  // a fence is with the engine
    std::optional<LogPlace> fenced;
    PreparationPtr preparation;
  };
  struct Source {
    NodeId donor;
    TransferSource wanted;
    std::string log_id;
    HashRangeSet ranges;
    bool running = false;  // from the opening to the closing of an attempt
    bool restart = false;
    bool purged = false;
    bool scan_done = false;
    bool caught_up = false;
    bool idle = false;
    uint64_t applied = 0;
    std::string promised_log_id;
    uint64_t promised = 0;
    HashRangeSet promised_ranges;
    uint64_t attempt = 0;                // number of the newest
    Id128 open;                          // its nonce in the engine
    bool busy = false;                   // the engine was asked something for it
    std::optional<absl::Status> ending;  // as soon as the engine has answered
    std::shared_ptr<Stream> stream;
    std::deque<Parcel> inbox;
    std::function<void(uint64_t)> acknowledge;
    Nanos delay = 0;  // before the next attempt
  };
  // agent/transfer/transfer_client.cc.
  struct Transfer {
    MigrationId migration;
    Id128 nonce;
    std::map<NodeId, Source> sources;
    HashRangeSet excluded;
    bool cancelled = false;
    bool verify = false;
    std::optional<TaskFailure> failure;
    // What waits for attempts to end: until when, and what then.
    std::vector<std::pair<std::function<bool()>, std::function<void()>>> waiting;
    bool over() const { return cancelled || failure.has_value(); }
  };
  using TransferPtr = std::shared_ptr<Transfer>;

  static Key KeyOf(const Task& task);

  void Visit(std::function<void(Engine&, uint64_t)> work, std::function<void(bool)> done);
  // Session.
  void Connect();
  void Attach(uint64_t turn);
  void OpenSession(uint64_t turn, const Engine::Attachment& attachment);
  void FailSession(uint64_t turn, bool at_once);
  void Tick(uint64_t turn);
  void SendRenewal(uint64_t turn);
  bool TermIsPresent(Term term);
  void OnGrant(uint64_t turn, const LeaseGrant& grant);
  void SendReports();
  // Watch.
  void OnMembership(const Membership::Ptr& membership);
  void Install();
  // Tasks.
  void SetTasks(const std::vector<Task>& tasks);
  void ForgetOldIncarnation();
  void RepeatReports();
  void BeginAll();
  void Begin(const Key& key, Entry& entry);
  void BeginWarm(const Key& key, const WarmTask& task);
  void BeginFence(const Key& key);
  void BeginPreparation(const Key& key, Entry& entry, const PrepareTask& task);
  bool IsPreparing(const Key& warm) const;
  void Refresh();
  void RefreshPrepare(const Key& key, Entry& entry);
  void Put(const Key& key, Entry& entry, decltype(TaskReport::body) body);
  void Retire(const TransferPtr& transfer);
  void Retire(Entry& entry);
  void Retired();
  // Transfers.
  TransferPtr TransferOf(const Key& key) const;
  void SetWanted(const TransferPtr& transfer, const WarmTask& task);
  void Attempt(const TransferPtr& transfer, Source& source);
  // Asks for the present attempt of a source, and goes on with `done` unless it is to end by then.
  template <typename Result>
  void AskFor(const TransferPtr& transfer, Source& source,
              std::function<Result(Engine&, uint64_t)> work, std::function<void(Result)> done);
  void PurgeStep(const TransferPtr& transfer, Source& source, const std::string& cursor);
  void Dial(const TransferPtr& transfer, Source& source);
  void Take(const TransferPtr& transfer, Source& source);
  void Took(const TransferPtr& transfer, Source& source, const Parcel& parcel);
  void EndAttempt(const TransferPtr& transfer, Source& source, const absl::Status& why);
  void AttemptEnded(const TransferPtr& transfer, Source& source, const absl::Status& why);
  void CloseUntil(const Id128& nonce, std::function<void()> then);
  HashRangeSet Wanted(const Transfer& transfer, Source& source) const;
  enum class Preparedness : uint8_t { kNotYet, kPrepared, kTooLate };
  static Preparedness TryPrepare(Transfer& transfer, const PrepareTask& task,
                                 PreparedReport* report);
  void Exclude(const TransferPtr& transfer, const HashRangeSet& ranges, std::function<void()> then);
  void CheckWaiting(const TransferPtr& transfer);
  // Preparations.
  void Prepare(const PreparationPtr& preparation);
  template <typename Result>
  void AskFor(const PreparationPtr& preparation, std::function<Result(Engine&, uint64_t)> work,
              std::function<void(Result)> done);
  void PullDirty(const PreparationPtr& preparation, size_t donor);
  void TakeDirty(const PreparationPtr& preparation, size_t donor);
  void PurgePrepared(const PreparationPtr& preparation, const std::string& cursor);
  void EndPreparation(const PreparationPtr& preparation, const absl::Status& status);
  // To the agent of `donor`; null when it cannot be reached. `broken` is told when it ends.
  std::shared_ptr<Stream> DialDonor(const NodeId& donor, const Order& order,
                                    std::function<void(const Parcel&)> deliver,
                                    std::function<void()> broken,
                                    std::function<void(uint64_t)>* acknowledge);

  World* const world_;
  const NodeId node_;
  Watcher watcher_;

  // Session.
  std::shared_ptr<Stream> stream_;
  std::weak_ptr<class Server> server_;
  uint64_t stream_id_ = 0;
  uint64_t newest_list_ = 0;  // of the stream
  uint64_t turn_ = 0;
  Backoff backoff_;
  bool welcomed_ = false;
  bool granted_ = false;
  bool renewing_ = false;
  absl::Duration lease_;
  uint64_t seq_ = 0;
  std::optional<Instant> renewed_at_;
  Instant renew_at_ = Instant::Never();
  Instant give_up_at_ = Instant::Never();
  Term highest_term_;

  // Engine.
  uint64_t generation_ = 0;
  std::optional<Incarnation> incarnation_;
  uint64_t attachments_ = 0;
  Membership::Ptr newest_;
  Membership::Ptr installed_;
  bool installing_ = false;

  // Tasks.
  std::map<Key, Entry> tasks_;
  std::map<std::pair<MigrationId, Id128>, TransferPtr> transfers_;
  size_t retiring_ = 0;
  uint64_t next_due_ = 1;
  uint64_t epoch_ = 0;  // grows with the incarnation
  std::optional<Incarnation> seen_incarnation_;
  std::vector<std::shared_ptr<Donor>> donors_;
};

}  // namespace warmring::sim
