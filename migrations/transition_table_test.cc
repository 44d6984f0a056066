#include "migrations/transition_table.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

// The table against an independent one written out by hand, over every stage, every step and every
// set of evidence: what is not named there is forbidden.

namespace warmring {
namespace {

constexpr Step kAllSteps[] = {Step::kPrepare,     Step::kStartVerify, Step::kRestartWarm,
                              Step::kFenceWave,   Step::kCommitWave,  Step::kStartSoak,
                              Step::kRelease,     Step::kAbort,       Step::kAbortFencing,
                              Step::kRetreat,     Step::kFenceUndo,   Step::kCommitUndo,
                              Step::kAbandonUndo, Step::kGiveUp,      Step::kSettle,
                              Step::kRetryFirst,  Step::kRetryWave};
constexpr uint32_t kEvidenceSets = 1u << 10;

struct Expected {
  Stage to;
  std::set<Evidence> needs;
};

const std::map<std::pair<Stage, Step>, Expected>& Table() {
  using S = Stage;
  using T = Step;
  static const auto* const kTable = new std::map<std::pair<Stage, Step>, Expected>{
      {{S::kPlanned, T::kPrepare}, {S::kWarming, {kPlanChecked}}},
      {{S::kPlanned, T::kSettle}, {S::kSucceeded, {kPlanChecked}}},
      {{S::kPlanned, T::kAbort}, {S::kAborted, {}}},
      {{S::kWarming, T::kStartVerify}, {S::kVerifying, {kWarmed}}},
      {{S::kWarming, T::kAbort}, {S::kAborted, {}}},
      {{S::kVerifying, T::kRestartWarm}, {S::kWarming, {}}},
      {{S::kVerifying, T::kFenceWave}, {S::kFencing, {kWarmed, kVerified, kPromoted, kHoldOver}}},
      {{S::kVerifying, T::kAbort}, {S::kAborted, {}}},
      {{S::kFencing, T::kCommitWave}, {S::kCommitted, {kDonorsClosed, kRecipientsReady}}},
      {{S::kFencing, T::kAbortFencing}, {S::kAborted, {}}},
      {{S::kFencing, T::kRetreat}, {S::kCommitted, {}}},
      {{S::kFencing, T::kRetryFirst}, {S::kWarming, {}}},
      {{S::kFencing, T::kRetryWave}, {S::kCommitted, {}}},
      {{S::kCommitted, T::kFenceWave}, {S::kFencing, {kWarmed, kPromoted, kHoldOver}}},
      {{S::kCommitted, T::kStartSoak}, {S::kSoaking, {kLastWave}}},
      {{S::kCommitted, T::kFenceUndo}, {S::kUndoFencing, {kUndoPossible}}},
      {{S::kCommitted, T::kGiveUp}, {S::kFailed, {}}},
      {{S::kSoaking, T::kRelease}, {S::kSucceeded, {kSoakOver}}},
      {{S::kSoaking, T::kGiveUp}, {S::kFailed, {}}},
      {{S::kSoaking, T::kFenceUndo}, {S::kUndoFencing, {kUndoPossible}}},
      {{S::kUndoFencing, T::kCommitUndo}, {S::kRolledBack, {kDonorsClosed, kRecipientsReady}}},
      {{S::kUndoFencing, T::kAbandonUndo}, {S::kSoaking, {}}},
  };
  return *kTable;
}

bool Contains(uint32_t evidence, const std::set<Evidence>& needs) {
  for (Evidence bit : needs) {
    if ((evidence & bit) == 0) return false;
  }
  return true;
}

TEST(TransitionTableTest, EveryStageStepAndSetOfEvidence) {
  for (Stage stage : kAllStages) {
    for (Step step : kAllSteps) {
      const auto expected = Table().find({stage, step});
      const TransitionRule* rule = FindRule(stage, step);
      ASSERT_EQ(rule != nullptr, expected != Table().end())
          << StageName(stage) << " " << StepName(step);
      if (rule != nullptr) {
        EXPECT_EQ(rule->to, expected->second.to);
      }
      for (uint32_t evidence = 0; evidence < kEvidenceSets; ++evidence) {
        const bool may = expected != Table().end() && Contains(evidence, expected->second.needs);
        ASSERT_EQ(MayTake(stage, step, evidence), may)
            << StageName(stage) << " " << StepName(step) << " " << evidence;
        ASSERT_EQ(MissingEvidence(stage, step, evidence).empty(), may);
      }
    }
  }
}

TEST(TransitionTableTest, NamesAreDistinct) {
  std::set<std::string_view> steps;
  for (Step step : kAllSteps) EXPECT_TRUE(steps.insert(StepName(step)).second) << StepName(step);
  std::set<std::string_view> stages;
  for (Stage s : kAllStages) EXPECT_TRUE(stages.insert(StageName(s)).second) << StageName(s);
}

TEST(TransitionTableTest, MissingEvidenceNamesEachClaim) {
  EXPECT_EQ(MissingEvidence(Stage::kFencing, Step::kCommitWave, kDonorsClosed),
            "not yet: every recipient is complete");
  EXPECT_EQ(MissingEvidence(Stage::kFencing, Step::kCommitWave, kNoEvidence),
            "not yet: every donor refuses writes, not yet: every recipient is complete");
  EXPECT_EQ(MissingEvidence(Stage::kSucceeded, Step::kRelease, kSoakOver),
            "P8 release is not a step of Succeeded");
}

// No write boundary moves without both proofs, from wherever one comes.
TEST(TransitionTableTest, OwnersChangeOnlyOnProof) {
  for (const TransitionRule& rule : kTransitions) {
    if (rule.step != Step::kCommitWave && rule.step != Step::kCommitUndo) continue;
    EXPECT_EQ(rule.needs, static_cast<uint32_t>(kDonorsClosed) | kRecipientsReady);
  }
}

}  // namespace
}  // namespace warmring
