#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "core/ownership/owner_view.h"
#include "migrations/task.h"
#include "server/executor/clock.h"
#include "server/executor/executor.h"
#include "server/registry/keyspace.h"
#include "server/registry/store_identity.h"
#include "server/sessions/session_table.h"
#include "server/store/committer.h"

namespace warmring {

struct SessionWelcome {
  HistoryId history;
  Term term;
  absl::Duration lease;
  OnRestart on_restart = OnRestart::kPurge;
};
struct SessionTasks {
  Term term;
  std::vector<Task> tasks;
};
using SessionMessage = std::variant<SessionWelcome, LeaseGrant, SessionTasks>;

// The way to one owner. Any thread; neither call blocks.
class SessionLink {
 public:
  virtual ~SessionLink() = default;
  virtual void Send(SessionMessage message) = 0;
  // Ends the stream with this error. Nothing is sent after it.
  virtual void Close(absl::Status status) = 0;
};

// The owners' sessions of one keyspace: opens them (P0 before anything is granted), grants leases
// with the floors of fences that are under way, hands out tasks and takes in reports. A new
// incarnation's acknowledgement of a fence is passed on no earlier than it may be granted a lease:
// before, its predecessor may still accept writes. Everything runs on the keyspace's strand.
class Sessions {
 public:
  struct Environment {
    const Clock* clock = nullptr;
    Executor* strand = nullptr;
    Committer* committer = nullptr;
    const Keyspace* keyspace = nullptr;
    StoreIdentity identity;
    absl::Duration lease;
    // Some session opened, closed or applied another version. Posted to the strand.
    std::function<void()> on_change;
    // A report of a node's present session. Called on the strand.
    std::function<void(const TaskReport&)> on_report;
  };
  explicit Sessions(Environment environment);

  // What the store holds, at the start. REQUIRES: before anything else.
  void Restore(const NodeId& node, const schema::SessionRecord& record);

  // A stream begins, says something, ends. `link` is used until Closed.
  void Open(StreamId stream, SessionHello hello, std::shared_ptr<SessionLink> link);
  void Renew(StreamId stream, const SessionRenewal& renewal);
  void Report(StreamId stream, TaskReport report);
  void Closed(StreamId stream);

  // Everything that the nodes have to do now; nodes that are not named have nothing to do.
  void SetWork(std::map<NodeId, std::vector<Task>> tasks,
               std::map<NodeId, std::vector<Floor>> floors);

  std::map<NodeId, SessionFact> Facts() const { return table_.Facts(); }
  std::map<NodeId, SessionStatus> Statuses() const { return table_.Statuses(); }

  // Ends all streams.
  void CloseAll(const absl::Status& status);

 private:
  struct Stream {
    SessionHello hello;
    std::shared_ptr<SessionLink> link;
    bool open = false;                         // P0 is durable
    std::optional<SessionRenewal> unanswered;  // the newest renewal without a grant
    std::vector<TaskReport> early_acks;        // of fences, while its predecessor may hold a lease
  };

  void Opened(StreamId stream, const std::optional<schema::SessionRecord>& record);
  void TryGrant(StreamId stream);
  void TakeEarlyAcks(StreamId stream);
  void Settle(const NodeId& node);
  void SendTasks(const NodeId& node);

  const Environment env_;
  SessionTable table_;
  std::map<StreamId, Stream> streams_;
  std::map<NodeId, std::vector<Task>> tasks_;
  std::map<NodeId, std::vector<Floor>> floors_;
};

}  // namespace warmring
