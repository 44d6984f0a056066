#pragma once

#include <string>
#include <vector>

#include "migrations/migration_machine.h"
#include "migrations/migration_record.h"

// Turns a step of the protocol into the persist that takes it: the next record, the membership
// change and whether an epoch is reserved. Decides nothing. Pure.

namespace warmring {

// REQUIRES: the table has a rule for (record.stage, step). `note` is why, for the history; for the
// steps that end or reverse a migration it is also the record's failure.
PersistCommand BuildStep(const MigrationRecord& record, Step step, std::string note,
                         const MachineView& view);

// A persist inside the stage. The caller has changed the record, and adds what it did to the
// history.
PersistCommand BuildTouch(const MigrationRecord& record);

// Planes of overrides that `migration` can remove: as hashed, no other migration moves anything,
// and every member is connected and has applied the head, so that no owner can have missed them
// (core/membership/override.h).
std::vector<Plane> EndedOverrides(const MigrationId& migration, const MachineView& view);

// Appends to the history, of which the beginning and the latest entries are kept.
void AddHistory(MigrationRecord& record, absl::Time time, std::string note);

}  // namespace warmring
