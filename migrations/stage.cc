#include "migrations/stage.h"

namespace warmring {

std::string_view StageName(Stage stage) {
  switch (stage) {
    case Stage::kPlanned:
      return "Planned";
    case Stage::kWarming:
      return "Warming";
    case Stage::kVerifying:
      return "Verifying";
    case Stage::kFencing:
      return "Fencing";
    case Stage::kCommitted:
      return "Committed";
    case Stage::kSoaking:
      return "Soaking";
    case Stage::kUndoFencing:
      return "Undoing";
    case Stage::kSucceeded:
      return "Succeeded";
    case Stage::kAborted:
      return "Aborted";
    case Stage::kRolledBack:
      return "RolledBack";
    case Stage::kFailed:
      return "Failed";
  }
  return "Unknown";
}

}  // namespace warmring
