#pragma once

#include <cstdint>
#include <string_view>

namespace warmring {

// Where a migration is. The invariant of each stage:
//   kPlanned      nothing has changed; the preview is stored.
//   kWarming      the prepare version is out: boundaries and pending moves exist, no owner changed.
//                 Donors own and serve; recipients refuse clients and are being filled.
//   kVerifying    as kWarming; every transfer has caught up and goes on streaming changes.
//   kFencing      wave `wave` has a reserved epoch; its donors refuse (or are about to).
//   kCommitted    waves 0..wave are owned by their recipients; donors keep their copy (grace).
//   kSoaking      all waves are committed; undo is possible without loss.
//   kUndoFencing  committed ranges are on the way back; present owners refuse (or are about to).
//   kSucceeded    moves are gone from the membership; donors drop what left.
//   kAborted      no wave was committed; recipients drop what they were given.
//   kRolledBack   committed waves were undone.
//   kFailed       needs a person; the membership is consistent and keeps serving.
// Operators see kFencing and kCommitted as "Committing i/n" and kUndoFencing as "Undoing".
enum class Stage : uint8_t {
  kPlanned = 1,
  kWarming,
  kVerifying,
  kFencing,
  kCommitted,
  kSoaking,
  kUndoFencing,
  kSucceeded,
  kAborted,
  kRolledBack,
  kFailed,
};
inline constexpr Stage kAllStages[] = {Stage::kPlanned,     Stage::kWarming,   Stage::kVerifying,
                                       Stage::kFencing,     Stage::kCommitted, Stage::kSoaking,
                                       Stage::kUndoFencing, Stage::kSucceeded, Stage::kAborted,
                                       Stage::kRolledBack,  Stage::kFailed};

constexpr bool IsTerminal(Stage s) {
  return s == Stage::kSucceeded || s == Stage::kAborted || s == Stage::kRolledBack ||
         s == Stage::kFailed;
}

std::string_view StageName(Stage stage);  // "Warming"; as in the glossary

}  // namespace warmring
