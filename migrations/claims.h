#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "migrations/handover.h"
#include "migrations/migration_machine.h"
#include "migrations/migration_record.h"
#include "migrations/node_reports.h"
#include "migrations/task.h"

// The claims behind the bits of transition_table.h, each computed from the record, the nodes'
// reports and their sessions. Pure. REQUIRES of all: `reports` holds only reports of present
// incarnations for the present nonce.

namespace warmring {

using Reports = std::map<NodeId, NodeReports>;
using Sessions = std::map<NodeId, SessionFact>;

// Whether something is so, and if not, what is missing: an empty text means that it only takes
// time.
struct Claim {
  bool holds = false;
  std::string missing;
};

// Each of them has a session.
Claim AllConnected(const std::set<NodeId>& nodes, const Sessions& sessions);

// Every recipient of the remaining moves has purged and has caught up; they and the donors know the
// prepare version and are connected. Of a dead donor nothing is wanted.
Claim AllWarmed(const MigrationRecord& record, const Reports& reports, const Sessions& sessions);

// Every donor of the hand-over has closed its ranges: an acknowledgement of this wave's floor, or
// it was passed over, for its lease was found expired or an operator says so. Missing names those
// who have not.
Claim DonorsClosed(const MigrationRecord& record, const Reports& reports);
bool IsPassedOver(const MigrationRecord& record, const NodeId& donor);
std::vector<NodeId> OpenDonors(const MigrationRecord& record, const Reports& reports);
std::vector<FenceEvidence> EvidenceOf(const MigrationRecord& record, const Reports& reports);

// What the recipient of a hand-over has to be complete for, by the donors of one mode.
//   kChanges  a wave's, that acknowledged.
//   kDirty    an undo's (the present owners), that acknowledged with a whole dirty set.
//   kPurge    those that were passed over, are taken for dead, or do not know any more what they
//             have changed. What the recipient has of the others stays: one donor that is lost must
//             not make it cold for all of them.
struct PrepareTerms {
  struct Donor {
    NodeId node;
    std::string log_id;  // of its acknowledgement; empty without one that counts
    uint64_t watermark = 0;
  };
  PrepareTask::Mode mode = PrepareTask::Mode::kChanges;
  std::vector<Donor> donors;
};
// At most one for each mode, none of them without donors, in the order of the modes. Nothing before
// all donors of `recipient` have closed.
std::vector<PrepareTerms> PrepareTermsOf(const MigrationRecord& record, const NodeId& recipient,
                                         const Reports& reports);

// Whether `donor` was passed over in the wave that is fencing. What was copied of it for the wave
// then counts for nothing. Known from the record alone, so it outlives a restart.
bool IsCopyVoid(const MigrationRecord& record, const NodeId& donor);

// Whether an undo that does not work now is tried again without being asked for. What is committed
// in part is neither here nor there, and is undone until it works. A migration that is complete may
// stay: each attempt makes writes wait, so that there are kMaxUndoAttempts of them. A present owner
// that lost its memory (and with it the dirty set) after it closed needs the second.
constexpr uint32_t kMaxUndoAttempts = 3;
bool IsUndoTriedAgain(const MigrationRecord& record);

// Every recipient of the hand-over has answered to its present terms.
Claim RecipientsReady(const MigrationRecord& record, const Reports& reports);

// Verification so far, over all recipients.
struct VerifySum {
  uint64_t compared = 0;
  uint64_t mismatched = 0;
  bool done = false;
};
VerifySum SumOfVerification(const MigrationRecord& record, const Reports& reports);

}  // namespace warmring
