#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "core/membership/membership.h"
#include "core/ownership/owner_view.h"
#include "migrations/task.h"

namespace warmring {

// What an owner is to its session: the seam between OwnerSession (which talks to the server) and
// whoever holds the keys (the Redis module behind the agent, or OwnerGuard in a service). All calls
// come from the session's own threads, one at a time; they may block for as long as one command of
// the engine takes.
class OwnerPort {
 public:
  virtual ~OwnerPort() = default;

  struct Identity {
    Incarnation incarnation;
    std::string transfer_address;  // empty: nothing to copy
    uint32_t rdb_version = 0;      // 0: none or unknown
    std::string data_address;      // empty: unknown
  };
  // Binds to the history that the server serves and says who the owner is now. Called before each
  // Hello, and again when Renew says that the owner was restarted.
  // Errors: Unavailable: the engine cannot be reached now; the session retries.
  virtual absl::StatusOr<Identity> Attach(const HistoryId& history, OnRestart on_restart) = 0;

  struct Renewal {
    uint64_t seq = 0;
    Version applied_version;
    uint64_t keys = 0;
    uint64_t bytes = 0;
  };
  // Stamps a renewal on the owner's clock *before* it is sent.
  // Errors: Aborted: the owner is another incarnation now: attach again. Unavailable: as above.
  virtual absl::StatusOr<Renewal> Renew() = 0;

  // Floors at once, lease when the version is installed (OwnerView::Grant).
  virtual absl::Status Grant(const LeaseGrant& grant) = 0;

  // The complete present list of tasks. Must not block on them: work goes on elsewhere and answers
  // through TaskReports.
  virtual void SetTasks(const std::vector<Task>& tasks) = 0;

  // Reports that are due since the last call, in order. The session calls it after `notify` (given
  // to the session's constructor side) fires and sends each once per stream; the port gives the
  // newest report of every live task again after a new Hello (Attach was called).
  virtual std::vector<TaskReport> TakeReports() = 0;
};

}  // namespace warmring
