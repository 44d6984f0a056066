#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "migrations/stage.h"

namespace warmring {

// Claims that somebody checked. A transition needs all bits of its rule.
enum Evidence : uint32_t {
  kNoEvidence = 0,
  kPlanChecked = 1u << 0,   // the plan fits the head membership
  kWarmed = 1u << 1,        // every recipient: purged, then caught up, in its present incarnation
  kVerified = 1u << 2,      // sampled keys agree within the limit
  kPromoted = 1u << 3,      // nobody's approval is awaited any more
  kDonorsClosed = 1u << 4,  // every donor of the wave: FenceAck, or lease expired under policy
  kRecipientsReady = 1u << 5,  // every recipient: Prepared for this epoch, log and watermark
  kHoldOver = 1u << 6,         // the pause between waves is over and nothing holds the migration
  kLastWave = 1u << 7,         // no wave is left
  kSoakOver = 1u << 8,
  kUndoPossible = 1u << 9,  // an undo was asked for, and its owners are known
};

// The persists of the protocol by name; P0 (session) and the release are beside the table's stages.
enum class Step : uint8_t {
  kPrepare = 1,   // P2  Planned -> Warming, writes the prepare version
  kStartVerify,   // P3  Warming -> Verifying
  kRestartWarm,   //     Verifying -> Warming with a new transfer attempt
  kFenceWave,     // P5  Verifying | Committed -> Fencing, reserves the wave's epoch
  kCommitWave,    // P6  Fencing -> Committed, writes the wave's version
  kStartSoak,     // P7  Committed -> Soaking
  kRelease,       // P8  Soaking -> Succeeded, writes the release version
  kAbort,         // PA  Planned | Warming | Verifying -> Aborted
  kAbortFencing,  // PA  Fencing -> Aborted, donors go on under a fresh epoch
  kRetreat,       // PA  Fencing of a later wave -> Committed with an undo requested
  kRetryFirst,    // PR  Fencing of the first wave -> Warming: it will be tried again
  kRetryWave,     // PR  Fencing of a later wave -> Committed: likewise
  kFenceUndo,     //     Committed | Soaking -> UndoFencing, reserves an epoch
  kCommitUndo,    //     UndoFencing -> RolledBack, writes the undo version
  kAbandonUndo,   //     UndoFencing -> Soaking: present owners go on under a fresh epoch
  kGiveUp,        //     committed in part -> Failed: what is committed stays, the rest will not be
  kSettle,        // P2  Planned -> Succeeded, when nothing moves: one version does it all
};

struct TransitionRule {
  Step step;
  Stage from;
  Stage to;
  uint32_t needs;  // Evidence bits
};

inline constexpr TransitionRule kTransitions[] = {
    {Step::kPrepare, Stage::kPlanned, Stage::kWarming, kPlanChecked},
    {Step::kSettle, Stage::kPlanned, Stage::kSucceeded, kPlanChecked},
    {Step::kStartVerify, Stage::kWarming, Stage::kVerifying, kWarmed},
    {Step::kRestartWarm, Stage::kVerifying, Stage::kWarming, kNoEvidence},
    {Step::kFenceWave, Stage::kVerifying, Stage::kFencing,
     kWarmed | kVerified | kPromoted | kHoldOver},
    {Step::kFenceWave, Stage::kCommitted, Stage::kFencing, kWarmed | kPromoted | kHoldOver},
    {Step::kCommitWave, Stage::kFencing, Stage::kCommitted, kDonorsClosed | kRecipientsReady},
    {Step::kStartSoak, Stage::kCommitted, Stage::kSoaking, kLastWave},
    {Step::kRelease, Stage::kSoaking, Stage::kSucceeded, kSoakOver},
    {Step::kAbort, Stage::kPlanned, Stage::kAborted, kNoEvidence},
    {Step::kAbort, Stage::kWarming, Stage::kAborted, kNoEvidence},
    {Step::kAbort, Stage::kVerifying, Stage::kAborted, kNoEvidence},
    {Step::kAbortFencing, Stage::kFencing, Stage::kAborted, kNoEvidence},
    {Step::kRetreat, Stage::kFencing, Stage::kCommitted, kNoEvidence},
    {Step::kRetryFirst, Stage::kFencing, Stage::kWarming, kNoEvidence},
    {Step::kRetryWave, Stage::kFencing, Stage::kCommitted, kNoEvidence},
    {Step::kFenceUndo, Stage::kCommitted, Stage::kUndoFencing, kUndoPossible},
    {Step::kFenceUndo, Stage::kSoaking, Stage::kUndoFencing, kUndoPossible},
    {Step::kCommitUndo, Stage::kUndoFencing, Stage::kRolledBack, kDonorsClosed | kRecipientsReady},
    {Step::kAbandonUndo, Stage::kUndoFencing, Stage::kSoaking, kNoEvidence},
    {Step::kGiveUp, Stage::kCommitted, Stage::kFailed, kNoEvidence},
    {Step::kGiveUp, Stage::kSoaking, Stage::kFailed, kNoEvidence},
};

// The rule for (from, step), or null.
constexpr const TransitionRule* FindRule(Stage from, Step step) {
  for (const TransitionRule& rule : kTransitions) {
    if (rule.from == from && rule.step == step) return &rule;
  }
  return nullptr;
}

// Whether `step` may be taken from `from` with these bits.
constexpr bool MayTake(Stage from, Step step, uint32_t evidence) {
  const TransitionRule* rule = FindRule(from, step);
  return rule != nullptr && (rule->needs & ~evidence) == 0;
}

namespace internal {
constexpr bool TableIsSound() {
  for (const TransitionRule& a : kTransitions) {
    if (IsTerminal(a.from)) return false;  // an end has no exit
    int same = 0;
    for (const TransitionRule& b : kTransitions) {
      if (a.step == b.step && a.from == b.from) ++same;
    }
    if (same != 1) return false;  // one rule per (stage, step)
  }
  for (Stage s : kAllStages) {
    bool exit = false;
    for (const TransitionRule& r : kTransitions) exit = exit || r.from == s;
    if (exit == IsTerminal(s)) return false;  // every live stage has an exit
  }
  return true;
}
}  // namespace internal
static_assert(internal::TableIsSound());

std::string_view StepName(Step step);  // "P5 fence wave"; for logs and histories
std::string MissingEvidence(Stage from, Step step, uint32_t evidence);  // names what is missing

}  // namespace warmring
