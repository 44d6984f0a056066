#pragma once

#include "absl/status/statusor.h"
#include "core/ownership/owner_view.h"
#include "migrations/task.h"
#include "warmring/v1/owner_service.pb.h"

// What passes through an owner's session, between protobuf and the values of core and migrations.
// Pure, any thread. Errors are InvalidArgument and name the field, the value and the bound.

namespace warmring::wire {

v1::Task ToProto(const Task& task);
absl::StatusOr<Task> TaskFromProto(const v1::Task& proto);

// The reporting node is the session's and not part of the message.
v1::Report ToProto(const TaskReport& report);
absl::StatusOr<TaskReport> TaskReportFromProto(const NodeId& node, const v1::Report& proto);

v1::Grant ToProto(const LeaseGrant& grant);
absl::StatusOr<LeaseGrant> LeaseGrantFromProto(const v1::Grant& proto);

}  // namespace warmring::wire
