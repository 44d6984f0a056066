#include "migrations/transition_table.h"

#include <utility>

namespace warmring {
namespace {

constexpr std::pair<Evidence, std::string_view> kClaims[] = {
    {kPlanChecked, "the plan fits the present membership"},
    {kWarmed, "every recipient is warm"},
    {kVerified, "sampled keys agree"},
    {kPromoted, "it is promoted"},
    {kDonorsClosed, "every donor refuses writes"},
    {kRecipientsReady, "every recipient is complete"},
    {kHoldOver, "the hold is over"},
    {kLastWave, "no wave is left"},
    {kSoakOver, "the soak is over"},
    {kUndoPossible, "an undo was asked for and its owners are connected"},
};

}  // namespace

std::string_view StepName(Step step) {
  switch (step) {
    case Step::kPrepare:
      return "P2 prepare";
    case Step::kStartVerify:
      return "P3 start verify";
    case Step::kRestartWarm:
      return "restart warm";
    case Step::kFenceWave:
      return "P5 fence wave";
    case Step::kCommitWave:
      return "P6 commit wave";
    case Step::kStartSoak:
      return "P7 start soak";
    case Step::kRelease:
      return "P8 release";
    case Step::kAbort:
      return "PA abort";
    case Step::kAbortFencing:
      return "PA abort fencing";
    case Step::kRetreat:
      return "PA retreat";
    case Step::kRetryFirst:
      return "PR retry first wave";
    case Step::kRetryWave:
      return "PR retry wave";
    case Step::kFenceUndo:
      return "PU5 fence undo";
    case Step::kCommitUndo:
      return "PU6 commit undo";
    case Step::kAbandonUndo:
      return "PA abandon undo";
    case Step::kGiveUp:
      return "give up";
    case Step::kSettle:
      return "P2 settle";
  }
  return "unknown step";
}

std::string MissingEvidence(Stage from, Step step, uint32_t evidence) {
  const TransitionRule* rule = FindRule(from, step);
  if (rule == nullptr) {
    return std::string(StepName(step)) + " is not a step of " + std::string(StageName(from));
  }
  std::string missing;
  for (const auto& [bit, claim] : kClaims) {
    if ((rule->needs & bit & ~evidence) == 0) continue;
    if (!missing.empty()) missing += ", ";
    missing += "not yet: ";
    missing += claim;
  }
  return missing;
}

}  // namespace warmring
