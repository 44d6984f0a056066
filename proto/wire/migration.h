#pragma once

#include "absl/status/statusor.h"
#include "migrations/migration_machine.h"
#include "migrations/migration_record.h"
#include "migrations/plan.h"
#include "migrations/planner.h"
#include "migrations/stage.h"
#include "warmring/v1/migration_service.pb.h"

// Plans, previews and migrations between protobuf and `migrations`. Pure, any thread.

namespace warmring::wire {

// Whether what is there range by range or bucket by bucket (megabytes on a large directory) is
// shown, or only its sums.
enum class RangeDetail { kOmit, kShow };

v1::MigrationPlan ToProto(const MigrationPlan& plan, RangeDetail detail = RangeDetail::kShow);
// Unset fields get their defaults. What protobuf can express and MigrationPlan cannot is refused
// here; ValidatePlan checks the rest.
// Errors: InvalidArgument naming the field in the plan file's words (`changes[0].add.node.weight`),
// the value and the bound.
absl::StatusOr<MigrationPlan> MigrationPlanFromProto(const v1::MigrationPlan& proto);

v1::Limits ToProto(const TransferLimits& limits);
TransferLimits LimitsFromProto(const v1::Limits& proto);

v1::Preview ToProto(const Preview& preview, RangeDetail detail);

v1::MigrationState ToProto(Stage stage);

// `progress` is what the machine says now; empty for a migration that has ended.
v1::Migration ToProto(const MigrationRecord& record, const MigrationProgress& progress,
                      RangeDetail detail);

}  // namespace warmring::wire
