#include "proto/wire/task.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "proto/wire/membership.h"
#include "proto/wire/migration.h"

namespace warmring::wire {
namespace {

// A log id is the donor's word for its change log; the reason of a failure is for people.
constexpr size_t kMaxLogIdBytes = 255;
constexpr size_t kMaxFailureBytes = 1024;
constexpr int kMaxDonors = 100'000;
constexpr absl::Duration kMaxTtl = absl::Hours(24);

absl::Status CheckLength(std::string_view field, const std::string& text, size_t max_bytes) {
  if (text.size() <= max_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{}: '{}' has {} bytes: use at most {}", field,
                                                Printable(text, 40), text.size(), max_bytes));
}

absl::Status CheckCount(std::string_view field, int count) {
  if (count <= kMaxDonors) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: {} entries are over the limit of {}", field, count, kMaxDonors));
}

v1::TransferSource ToProto(const TransferSource& source) {
  v1::TransferSource proto;
  proto.set_donor(source.donor);
  proto.set_transfer_address(source.transfer_address);
  *proto.mutable_ranges() = wire::ToProto(source.ranges);
  return proto;
}

absl::StatusOr<TransferSource> SourceFromProto(const std::string& field,
                                               const v1::TransferSource& proto) {
  TransferSource source;
  RETURN_IF_ERROR(ValidateId(field + ".donor", proto.donor()));
  source.donor = proto.donor();
  if (!proto.transfer_address().empty()) {
    RETURN_IF_ERROR(ValidateAddress(field + ".transfer_address", proto.transfer_address()));
    source.transfer_address = proto.transfer_address();
  }
  ASSIGN_OR_RETURN(source.ranges, HashRangesFromProto(field + ".ranges", proto.ranges()));
  return source;
}

v1::PrepareMode ToProto(PrepareTask::Mode mode) {
  switch (mode) {
    case PrepareTask::Mode::kChanges:
      return v1::PREPARE_MODE_CHANGES;
    case PrepareTask::Mode::kDirty:
      return v1::PREPARE_MODE_DIRTY;
    case PrepareTask::Mode::kPurge:
      return v1::PREPARE_MODE_PURGE;
  }
  return v1::PREPARE_MODE_UNSPECIFIED;
}

absl::StatusOr<PrepareTask::Mode> ModeFromProto(std::string_view field, v1::PrepareMode mode) {
  if (mode == v1::PREPARE_MODE_CHANGES) return PrepareTask::Mode::kChanges;
  if (mode == v1::PREPARE_MODE_DIRTY) return PrepareTask::Mode::kDirty;
  if (mode == v1::PREPARE_MODE_PURGE) return PrepareTask::Mode::kPurge;
  return absl::InvalidArgumentError(
      fmt::format("{}: {} is unknown: use PREPARE_MODE_CHANGES, PREPARE_MODE_DIRTY or "
                  "PREPARE_MODE_PURGE",
                  field, static_cast<int>(mode)));
}

struct TaskBodyToProto {
  v1::Task* out;

  void operator()(const WarmTask& task) const {
    v1::WarmTask* proto = out->mutable_warm();
    for (const TransferSource& source : task.sources) *proto->add_sources() = ToProto(source);
    *proto->mutable_limits() = wire::ToProto(task.limits);
  }
  void operator()(const VerifyTask& task) const { out->mutable_verify()->set_sample(task.sample); }
  void operator()(const FenceTask& task) const {
    *out->mutable_fence()->mutable_ranges() = wire::ToProto(task.ranges);
    out->mutable_fence()->set_floor(task.floor.value);
  }
  void operator()(const PrepareTask& task) const {
    v1::PrepareTask* proto = out->mutable_prepare();
    proto->set_mode(ToProto(task.mode));
    proto->set_epoch(task.epoch.value);
    for (const PrepareTask::Donor& donor : task.donors) {
      v1::PrepareDonor* to = proto->add_donors();
      *to->mutable_source() = ToProto(donor.source);
      to->set_log_id(donor.log_id);
      to->set_watermark(donor.watermark);
    }
    *proto->mutable_limits() = wire::ToProto(task.limits);
    if (!task.kept.empty()) *proto->mutable_kept() = wire::ToProto(task.kept);
  }
};

absl::StatusOr<WarmTask> WarmTaskFromProto(const v1::WarmTask& proto) {
  WarmTask task;
  RETURN_IF_ERROR(CheckCount("warm.sources", proto.sources_size()));
  for (int i = 0; i < proto.sources_size(); ++i) {
    ASSIGN_OR_RETURN(TransferSource source,
                     SourceFromProto(fmt::format("warm.sources[{}]", i), proto.sources(i)));
    task.sources.push_back(std::move(source));
  }
  task.limits = LimitsFromProto(proto.limits());
  return task;
}

absl::StatusOr<PrepareTask> PrepareTaskFromProto(const v1::PrepareTask& proto) {
  PrepareTask task;
  ASSIGN_OR_RETURN(task.mode, ModeFromProto("prepare.mode", proto.mode()));
  task.epoch = Epoch(proto.epoch());
  RETURN_IF_ERROR(CheckCount("prepare.donors", proto.donors_size()));
  for (int i = 0; i < proto.donors_size(); ++i) {
    const std::string field = fmt::format("prepare.donors[{}]", i);
    PrepareTask::Donor donor;
    ASSIGN_OR_RETURN(donor.source, SourceFromProto(field + ".source", proto.donors(i).source()));
    RETURN_IF_ERROR(CheckLength(field + ".log_id", proto.donors(i).log_id(), kMaxLogIdBytes));
    donor.log_id = proto.donors(i).log_id();
    donor.watermark = proto.donors(i).watermark();
    task.donors.push_back(std::move(donor));
  }
  task.limits = LimitsFromProto(proto.limits());
  if (proto.has_kept()) {
    ASSIGN_OR_RETURN(task.kept, HashRangesFromProto("prepare.kept", proto.kept()));
  }
  return task;
}

absl::StatusOr<FenceTask> FenceTaskFromProto(const v1::FenceTask& proto) {
  FenceTask task;
  ASSIGN_OR_RETURN(task.ranges, HashRangesFromProto("fence.ranges", proto.ranges()));
  task.floor = Epoch(proto.floor());
  return task;
}

struct ReportBodyToProto {
  v1::Report* out;

  void operator()(const WarmReport& report) const {
    v1::WarmReport* proto = out->mutable_warm();
    proto->set_purged(report.purged);
    proto->set_caught_up(report.caught_up);
    proto->set_keys(report.keys);
    proto->set_bytes(report.bytes);
    proto->set_keys_total(report.keys_total);
  }
  void operator()(const VerifyReport& report) const {
    v1::VerifyReport* proto = out->mutable_verify();
    proto->set_compared(report.compared);
    proto->set_mismatched(report.mismatched);
    proto->set_done(report.done);
  }
  void operator()(const FenceAck& report) const {
    v1::FenceAck* proto = out->mutable_fence();
    proto->set_floor(report.floor.value);
    proto->set_log_id(report.log_id);
    proto->set_watermark(report.watermark);
    proto->set_dirty_complete(report.dirty_complete);
  }
  void operator()(const PreparedReport& report) const {
    v1::PreparedReport* proto = out->mutable_prepared();
    proto->set_epoch(report.epoch.value);
    proto->set_mode(ToProto(report.mode));
    for (const NodeId& donor : report.donors) proto->add_donors(donor);
    for (const std::string& log_id : report.log_ids) proto->add_log_ids(log_id);
    for (uint64_t position : report.applied) proto->add_applied(position);
  }
  void operator()(const TaskFailure& report) const {
    out->mutable_failure()->set_reason(report.reason);
    out->mutable_failure()->set_restart(report.restart);
  }
};

absl::StatusOr<PreparedReport> PreparedFromProto(const v1::PreparedReport& proto) {
  PreparedReport report;
  report.epoch = Epoch(proto.epoch());
  ASSIGN_OR_RETURN(report.mode, ModeFromProto("prepared.mode", proto.mode()));
  RETURN_IF_ERROR(CheckCount("prepared.donors", proto.donors_size()));
  RETURN_IF_ERROR(CheckCount("prepared.log_ids", proto.log_ids_size()));
  RETURN_IF_ERROR(CheckCount("prepared.applied", proto.applied_size()));
  for (const std::string& donor : proto.donors()) {
    RETURN_IF_ERROR(ValidateId("prepared.donors", donor));
    report.donors.push_back(donor);
  }
  for (const std::string& log_id : proto.log_ids()) {
    RETURN_IF_ERROR(CheckLength("prepared.log_ids", log_id, kMaxLogIdBytes));
    report.log_ids.push_back(log_id);
  }
  report.applied.assign(proto.applied().begin(), proto.applied().end());
  return report;
}

}  // namespace

v1::Task ToProto(const Task& task) {
  v1::Task proto;
  proto.set_migration(task.migration);
  proto.set_wave(task.wave);
  proto.set_nonce(task.nonce.ToString());
  std::visit(TaskBodyToProto{&proto}, task.body);
  return proto;
}

absl::StatusOr<Task> TaskFromProto(const v1::Task& proto) {
  Task task;
  RETURN_IF_ERROR(ValidateId("migration", proto.migration()));
  task.migration = proto.migration();
  task.wave = proto.wave();
  ASSIGN_OR_RETURN(task.nonce, IdFromProto<Id128>("nonce", proto.nonce()));
  switch (proto.body_case()) {
    case v1::Task::kWarm: {
      ASSIGN_OR_RETURN(task.body, WarmTaskFromProto(proto.warm()));
      return task;
    }
    case v1::Task::kVerify:
      task.body = VerifyTask{proto.verify().sample()};
      return task;
    case v1::Task::kFence: {
      ASSIGN_OR_RETURN(task.body, FenceTaskFromProto(proto.fence()));
      return task;
    }
    case v1::Task::kPrepare: {
      ASSIGN_OR_RETURN(task.body, PrepareTaskFromProto(proto.prepare()));
      return task;
    }
    case v1::Task::BODY_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("body: the task is of an unknown kind: update this owner");
}

v1::Report ToProto(const TaskReport& report) {
  v1::Report proto;
  proto.set_migration(report.migration);
  proto.set_wave(report.wave);
  proto.set_nonce(report.nonce.ToString());
  proto.set_incarnation(report.incarnation.ToString());
  std::visit(ReportBodyToProto{&proto}, report.body);
  return proto;
}

absl::StatusOr<TaskReport> TaskReportFromProto(const NodeId& node, const v1::Report& proto) {
  TaskReport report;
  report.node = node;
  RETURN_IF_ERROR(ValidateId("migration", proto.migration()));
  report.migration = proto.migration();
  report.wave = proto.wave();
  ASSIGN_OR_RETURN(report.nonce, IdFromProto<Id128>("nonce", proto.nonce()));
  ASSIGN_OR_RETURN(report.incarnation,
                   IdFromProto<Incarnation>("incarnation", proto.incarnation()));
  switch (proto.body_case()) {
    case v1::Report::kWarm:
      report.body = WarmReport{proto.warm().purged(), proto.warm().caught_up(), proto.warm().keys(),
                               proto.warm().bytes(), proto.warm().keys_total()};
      return report;
    case v1::Report::kVerify:
      report.body = VerifyReport{proto.verify().compared(), proto.verify().mismatched(),
                                 proto.verify().done()};
      return report;
    case v1::Report::kFence:
      RETURN_IF_ERROR(CheckLength("fence.log_id", proto.fence().log_id(), kMaxLogIdBytes));
      report.body = FenceAck{Epoch(proto.fence().floor()), proto.fence().log_id(),
                             proto.fence().watermark(), proto.fence().dirty_complete()};
      return report;
    case v1::Report::kPrepared: {
      ASSIGN_OR_RETURN(report.body, PreparedFromProto(proto.prepared()));
      return report;
    }
    case v1::Report::kFailure:
      report.body = TaskFailure{Printable(proto.failure().reason(), kMaxFailureBytes),
                                proto.failure().restart()};
      return report;
    case v1::Report::BODY_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("body: the report is of an unknown kind");
}

v1::Grant ToProto(const LeaseGrant& grant) {
  v1::Grant proto;
  proto.set_seq(grant.seq);
  proto.set_term(grant.term.value);
  absl::Duration rest;
  proto.mutable_ttl()->set_seconds(absl::IDivDuration(grant.ttl, absl::Seconds(1), &rest));
  proto.mutable_ttl()->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  proto.set_version(grant.version.value);
  for (const Floor& floor : grant.floors) {
    v1::Floor* out = proto.add_floors();
    *out->mutable_ranges() = ToProto(floor.ranges);
    out->set_epoch(floor.epoch.value);
  }
  return proto;
}

absl::StatusOr<LeaseGrant> LeaseGrantFromProto(const v1::Grant& proto) {
  LeaseGrant grant;
  grant.seq = proto.seq();
  grant.term = Term(proto.term());
  const google::protobuf::Duration& ttl = proto.ttl();
  if (ttl.seconds() < 0 || ttl.nanos() < 0 || ttl.nanos() >= 1'000'000'000 ||
      ttl.seconds() > absl::ToInt64Seconds(kMaxTtl)) {
    return absl::InvalidArgumentError(
        fmt::format("ttl: {} seconds and {} nanoseconds are out of bounds: use 0 to {}",
                    ttl.seconds(), ttl.nanos(), absl::FormatDuration(kMaxTtl)));
  }
  grant.ttl = absl::Seconds(ttl.seconds()) + absl::Nanoseconds(ttl.nanos());
  grant.version = Version(proto.version());
  for (int i = 0; i < proto.floors_size(); ++i) {
    Floor floor;
    ASSIGN_OR_RETURN(floor.ranges, HashRangesFromProto(fmt::format("floors[{}].ranges", i),
                                                       proto.floors(i).ranges()));
    floor.epoch = Epoch(proto.floors(i).epoch());
    grant.floors.push_back(std::move(floor));
  }
  return grant;
}

}  // namespace warmring::wire
