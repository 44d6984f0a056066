#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/hash_range.h"
#include "core/base/ids.h"
#include "migrations/plan.h"

// What the conductor asks of an owner, and what the owner answers. Tasks are level-triggered: an
// owner always holds the complete present list for itself, and a task that left the list is over.
// All are idempotent facts or states; a repeated or late one does no harm.

namespace warmring {

// The source of a transfer as the recipient needs it.
struct TransferSource {
  NodeId donor;
  std::string transfer_address;  // empty: the donor has no session now; wait for the next list
  HashRangeSet ranges;
  friend bool operator==(const TransferSource&, const TransferSource&) = default;
};

// To a recipient: purge the ranges, then pull entries and changes until told otherwise. The ranges
// are those of the waves not committed yet: the list shrinks with each commit and the transfer of
// the rest goes on under the same nonce. (Were a committed range still in it, an agent that begins
// afresh would purge what its node owns.)
struct WarmTask {
  std::vector<TransferSource> sources;
  TransferLimits limits;
  friend bool operator==(const WarmTask&, const WarmTask&) = default;
};

// To a recipient that is warm: compare a sample with the donor, in the order of the stream.
struct VerifyTask {
  uint32_t sample = 0;  // keys per source
  friend bool operator==(const VerifyTask&, const VerifyTask&) = default;
};

// To a donor: raise the floor in `ranges` to `floor`, drain, answer FenceAck.
struct FenceTask {
  HashRangeSet ranges;
  Epoch floor;
  friend bool operator==(const FenceTask&, const FenceTask&) = default;
};

// To a recipient: be complete up to the donors' watermarks, then answer Prepared. A hand-over has
// one for each mode that its donors are in, each donor being in one of them.
struct PrepareTask {
  enum class Mode : uint8_t {
    kChanges = 1,  // the warm transfer, up to each donor's watermark
    kDirty = 2,    // undo: the fenced owner's dirty set, applied with replace
    kPurge = 3,    // nobody knows what these donors changed: drop everything in their ranges
  };
  struct Donor {
    TransferSource source;
    std::string log_id;  // of its FenceAck
    uint64_t watermark = 0;
    friend bool operator==(const Donor&, const Donor&) = default;
  };
  Mode mode = Mode::kChanges;
  Epoch epoch;  // under which the recipient will own the ranges
  std::vector<Donor> donors;
  TransferLimits limits;
  // kPurge: of these the recipient was a follower of a dead owner. Whoever keeps followers' copies
  // keeps what it has of them: there is no better one. Others drop it like the rest.
  HashRangeSet kept;
  friend bool operator==(const PrepareTask&, const PrepareTask&) = default;
};

struct Task {
  MigrationId migration;
  uint32_t wave = 0;  // WarmTask and VerifyTask span all waves and carry 0
  Id128 nonce;        // of the transfer; a new attempt has a new one
  std::variant<WarmTask, VerifyTask, FenceTask, PrepareTask> body;
  friend bool operator==(const Task&, const Task&) = default;
};

// Of all sources, or donors.
HashRangeSet RangesOf(const std::vector<TransferSource>& sources);
HashRangeSet RangesOf(const PrepareTask& task);

// Whether what was done for one of them is done for the other too: they differ at most in what
// comes and goes with sessions (addresses, watermarks of repeated acknowledgements) and in limits.
bool IsSameWork(const PrepareTask& a, const PrepareTask& b);

// The task if it is a PrepareTask for kChanges, or null.
const PrepareTask* ChangesTaskOf(const Task& task);

// Whether the warm transfer of this task's nonce must live on for it.
bool NeedsTransfer(const Task& task);

// Answers. Each names the incarnation that gives it.
struct WarmReport {
  bool purged = false;     // the full scan before the transfer is done
  bool caught_up = false;  // scan complete and changes applied up to (nearly) now, on all sources
  uint64_t keys = 0;
  uint64_t bytes = 0;
  uint64_t keys_total = 0;  // estimate of what there is to copy; 0 = unknown
  friend bool operator==(const WarmReport&, const WarmReport&) = default;
};
struct VerifyReport {
  uint64_t compared = 0;
  uint64_t mismatched = 0;
  bool done = false;
  friend bool operator==(const VerifyReport&, const VerifyReport&) = default;
};
struct FenceAck {
  Epoch floor;
  std::string log_id;
  uint64_t watermark = 0;
  bool dirty_complete = false;  // the dirty set since activation is whole (asked for by undo)
  friend bool operator==(const FenceAck&, const FenceAck&) = default;
};
struct PreparedReport {
  Epoch epoch;
  PrepareTask::Mode mode = PrepareTask::Mode::kChanges;
  std::vector<NodeId> donors;        // of the task, in its order, as all below
  std::vector<std::string> log_ids;  // per donor; not looked at for kPurge
  std::vector<uint64_t> applied;     // position applied, per donor; looked at for kChanges only
  friend bool operator==(const PreparedReport&, const PreparedReport&) = default;
};
// The task cannot succeed as it stands (transfer suspect, engine refused a payload ...).
struct TaskFailure {
  std::string reason;   // for people
  bool restart = true;  // true: a new transfer attempt may succeed; false: it will not
  friend bool operator==(const TaskFailure&, const TaskFailure&) = default;
};

struct TaskReport {
  MigrationId migration;
  uint32_t wave = 0;
  Id128 nonce;
  NodeId node;
  Incarnation incarnation;
  std::variant<WarmReport, VerifyReport, FenceAck, PreparedReport, TaskFailure> body;
  friend bool operator==(const TaskReport&, const TaskReport&) = default;
};

}  // namespace warmring
