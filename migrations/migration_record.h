#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/ids.h"
#include "migrations/plan.h"
#include "migrations/planner.h"
#include "migrations/stage.h"

namespace warmring {

// Why a donor may be believed not to write any more.
//   kAck    it said so itself.
//   kLease  nobody can believe in its lease any more.
//   kForce  an operator said so.
enum class EvidenceKind : uint8_t { kAck = 1, kLease = 2, kForce = 3 };

struct FenceEvidence {
  NodeId donor;
  EvidenceKind kind = EvidenceKind::kAck;
  Incarnation incarnation;  // kAck: who acknowledged
  std::string log_id;       // kAck
  uint64_t watermark = 0;   // kAck
  bool dirty_complete = false;
  friend bool operator==(const FenceEvidence&, const FenceEvidence&) = default;
};

// An operator's word that a donor is dead, given before its lease was over or in place of the
// policy that would have waited for it. Kept for ever.
struct ForcedFence {
  NodeId donor;
  std::string author;
  std::string reason;
  absl::Time time;
  uint32_t wave = 0;
  bool is_undo = false;
  // For so long the donor may have gone on accepting writes, which are lost; zero: its lease was
  // over.
  absl::Duration lease_left;
  friend bool operator==(const ForcedFence&, const ForcedFence&) = default;
};

struct StageEntry {
  Stage stage = Stage::kPlanned;
  uint32_t wave = 0;
  absl::Time time;   // wall clock, for people
  std::string note;  // why, with value, comparison, threshold
  friend bool operator==(const StageEntry&, const StageEntry&) = default;
};

inline constexpr size_t kMaxForced = 32;

// Everything about a migration that must survive a crash: the one durable plan object.
struct MigrationRecord {
  MigrationId id;
  std::string author;
  absl::Time created;
  MigrationPlan plan;
  Preview preview;        // what is executed
  uint64_t revision = 0;  // grows by one at each persist; guards the next

  Stage stage = Stage::kPlanned;
  uint32_t wave = 0;  // kFencing: being committed; kCommitted: last committed
  uint32_t waves_committed = 0;
  Epoch wave_epoch;           // reserved for the wave (or the undo) that is fencing
  Id128 nonce;                // of the present transfer attempt
  uint32_t attempt = 0;       // of the transfer; of the undo since it was last asked for
  uint32_t wave_attempt = 0;  // of the present wave; so many have failed
  bool paused = false;
  bool queued = false;  // waits for other migrations; its preview is made anew when it may begin
  bool awaiting_promotion = false;
  bool promoted = false;         // approved; asked for once, so it must survive a crash
  bool abort_requested = false;  // PA or undo is due as soon as the stage allows
  bool undo_requested = false;
  // The failover that this migration makes way for, or empty.
  MigrationId preempted_by;
  Version prepared_version;  // of the prepare version; 0 before
  Version final_version;     // of the last version that the migration wrote
  bool unclean = false;      // some wave was committed without what a donor had
  // Of the last committed (or undone) wave. While a wave is fencing: the donors that were passed
  // over, a fact that needs no second look after a restart.
  std::vector<FenceEvidence> evidence;
  std::vector<ForcedFence> forced;  // at most kMaxForced
  uint64_t verify_compared = 0;
  uint64_t verify_mismatched = 0;
  std::string failure;  // why it was aborted, rolled back or failed; empty otherwise
  std::vector<StageEntry> history;
  absl::Time stage_since;  // wall clock
  friend bool operator==(const MigrationRecord&, const MigrationRecord&) = default;
};

}  // namespace warmring
