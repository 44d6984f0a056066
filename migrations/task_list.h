#pragma once

#include <map>
#include <vector>

#include "core/base/ids.h"
#include "migrations/claims.h"
#include "migrations/migration_record.h"
#include "migrations/task.h"

namespace warmring {

// What each node has to do in the record's stage: the complete list, so that it can be sent again
// at any time. A function of what is durable, of reports and of sessions, and of nothing else.
// Pure.
//   Warming      WarmTask
//   Verifying    WarmTask, VerifyTask
//   Fencing      WarmTask, FenceTask to donors, PrepareTask once a recipient's donors have closed;
//   a
//                recipient that has to purge its part of the wave warms only later ones
//   Committed    WarmTask for what is left, unless it is to be undone
//   UndoFencing  FenceTask to present owners, PrepareTask to previous ones
std::map<NodeId, std::vector<Task>> TasksOf(const MigrationRecord& record, const Reports& reports,
                                            const Sessions& sessions);

}  // namespace warmring
