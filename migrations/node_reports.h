#pragma once

#include <map>
#include <optional>

#include "core/base/ids.h"
#include "migrations/task.h"

namespace warmring {

// The last answers of one node's present incarnation in the present transfer attempt.
struct NodeReports {
  Incarnation incarnation;
  std::optional<WarmReport> warm;
  std::optional<VerifyReport> verify;
  std::optional<FenceAck> fence;
  std::map<PrepareTask::Mode, PreparedReport> prepared;
  std::optional<TaskFailure> failure;
};

}  // namespace warmring
