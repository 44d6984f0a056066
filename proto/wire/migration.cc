#include "proto/wire/migration.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "proto/wire/membership.h"

namespace warmring::wire {
namespace {

// Longer than any bound of ValidatePlan, short enough that no arithmetic overflows.
constexpr int64_t kMaxSeconds = 315'576'000'000;

google::protobuf::Duration ToProtoDuration(absl::Duration duration) {
  google::protobuf::Duration proto;
  absl::Duration rest;
  proto.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return proto;
}

absl::StatusOr<absl::Duration> DurationFromProto(std::string_view field,
                                                 const google::protobuf::Duration& proto) {
  const bool in_bounds = proto.seconds() >= 0 && proto.seconds() <= kMaxSeconds &&
                         proto.nanos() >= 0 && proto.nanos() < 1'000'000'000;
  if (!in_bounds) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} seconds and {} nanoseconds are no length of time: use 0 or more", field,
                    proto.seconds(), proto.nanos()));
  }
  return absl::Seconds(proto.seconds()) + absl::Nanoseconds(proto.nanos());
}

google::protobuf::Timestamp ToProtoTime(absl::Time time) {
  google::protobuf::Timestamp proto;
  const int64_t nanos = absl::ToUnixNanos(time);
  int64_t seconds = nanos / 1'000'000'000;
  int64_t rest = nanos % 1'000'000'000;
  if (rest < 0) {
    rest += 1'000'000'000;
    --seconds;
  }
  proto.set_seconds(seconds);
  proto.set_nanos(static_cast<int32_t>(rest));
  return proto;
}

absl::StatusOr<uint32_t> PpmFromProto(const std::string& field, double share) {
  // The negation also catches NaN.
  if (!(share > 0.0 && share <= 1.0)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} is out of bounds: use a share above 0 and up to 1", field, share));
  }
  return static_cast<uint32_t>(std::lround(share * 1e6));
}

absl::StatusOr<Change> RebalanceFromProto(const std::string& field, const v1::Rebalance& proto) {
  Rebalance rebalance;
  switch (proto.by()) {
    case v1::REBALANCE_BY_UNSPECIFIED:
      rebalance.by = proto.bucket_load().empty() ? Rebalance::By::kShare : Rebalance::By::kLoad;
      break;
    case v1::REBALANCE_BY_SHARE:
      rebalance.by = Rebalance::By::kShare;
      break;
    case v1::REBALANCE_BY_LOAD:
      rebalance.by = Rebalance::By::kLoad;
      break;
    default:
      return absl::InvalidArgumentError(
          fmt::format("{}.by: {} is unknown: use REBALANCE_BY_SHARE or REBALANCE_BY_LOAD", field,
                      static_cast<int>(proto.by())));
  }
  if (proto.has_tolerance_ppm()) {
    if (rebalance.by == Rebalance::By::kShare) {
      return absl::InvalidArgumentError(fmt::format(
          "{}.tolerance_ppm: it is given and by is share, which is exact to one bucket: "
          "leave it out, or rebalance by load",
          field));
    }
    rebalance.tolerance_ppm = proto.tolerance_ppm();
  }
  rebalance.bucket_load.assign(proto.bucket_load().begin(), proto.bucket_load().end());
  return Change(std::move(rebalance));
}

std::vector<uint32_t> BucketsFromProto(const google::protobuf::RepeatedField<uint32_t>& buckets) {
  return {buckets.begin(), buckets.end()};
}

absl::StatusOr<Change> ChangeFromProto(const std::string& field, const v1::Change& proto) {
  switch (proto.change_case()) {
    case v1::Change::kAdd: {
      ASSIGN_OR_RETURN(Node node, NodeFromProto(field + ".add.node", proto.add().node()));
      return Change(AddNode{std::move(node)});
    }
    case v1::Change::kRemove:
      RETURN_IF_ERROR(ValidateId(field + ".remove.node", proto.remove().node()));
      return Change(RemoveNode{proto.remove().node(), proto.remove().dead()});
    case v1::Change::kReplace: {
      const std::string replace = field + ".replace";
      RETURN_IF_ERROR(ValidateId(replace + ".node", proto.replace().node()));
      ASSIGN_OR_RETURN(Node by, NodeFromProto(replace + ".by", proto.replace().by()));
      return Change(ReplaceNode{proto.replace().node(), std::move(by), proto.replace().dead()});
    }
    case v1::Change::kSetWeight: {
      RETURN_IF_ERROR(ValidateId(field + ".set_weight.node", proto.set_weight().node()));
      ASSIGN_OR_RETURN(const uint32_t weight,
                       WeightFromProto(field + ".set_weight", proto.set_weight().weight()));
      return Change(SetWeight{proto.set_weight().node(), weight});
    }
    case v1::Change::kMoveBuckets:
      RETURN_IF_ERROR(ValidateId(field + ".move_buckets.to", proto.move_buckets().to()));
      return Change(MoveBuckets{BucketsFromProto(proto.move_buckets().buckets()),
                                proto.move_buckets().to(), proto.move_buckets().pin()});
    case v1::Change::kUnpin:
      return Change(Unpin{BucketsFromProto(proto.unpin().buckets())});
    case v1::Change::kRebalance:
      return RebalanceFromProto(field + ".rebalance", proto.rebalance());
    case v1::Change::kSetOverride: {
      SetOverride set;
      ASSIGN_OR_RETURN(set.rule, OverrideRuleFromProto(field + ".set_override.rule",
                                                       proto.set_override().rule()));
      set.nodes.assign(proto.set_override().nodes().begin(), proto.set_override().nodes().end());
      return Change(std::move(set));
    }
    case v1::Change::kRemoveOverride: {
      RemoveOverride unset;
      ASSIGN_OR_RETURN(unset.rule, OverrideRuleFromProto(field + ".remove_override.rule",
                                                         proto.remove_override().rule()));
      return Change(std::move(unset));
    }
    case v1::Change::CHANGE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: it is empty or of an unknown kind: use add, remove, replace, set_weight, "
                  "move_buckets, unpin, rebalance, set_override or remove_override",
                  field));
}

// One overload for each kind of change.
class ChangeWriter {
 public:
  ChangeWriter(v1::Change* proto, RangeDetail detail) : proto_(proto), detail_(detail) {}

  void operator()(const AddNode& add) const {
    *proto_->mutable_add()->mutable_node() = ToProto(add.node);
  }
  void operator()(const RemoveNode& remove) const {
    proto_->mutable_remove()->set_node(remove.node);
    proto_->mutable_remove()->set_dead(remove.is_dead);
  }
  void operator()(const ReplaceNode& replace) const {
    proto_->mutable_replace()->set_node(replace.node);
    *proto_->mutable_replace()->mutable_by() = ToProto(replace.by);
    proto_->mutable_replace()->set_dead(replace.is_dead);
  }
  void operator()(const SetWeight& set) const {
    proto_->mutable_set_weight()->set_node(set.node);
    proto_->mutable_set_weight()->set_weight(set.weight_milli / 1000.0);
  }
  void operator()(const MoveBuckets& move) const {
    v1::MoveBuckets* out = proto_->mutable_move_buckets();
    out->mutable_buckets()->Add(move.buckets.begin(), move.buckets.end());
    out->set_to(move.to);
    out->set_pin(move.pin);
  }
  void operator()(const Unpin& unpin) const {
    proto_->mutable_unpin()->mutable_buckets()->Add(unpin.buckets.begin(), unpin.buckets.end());
  }
  void operator()(const Rebalance& rebalance) const {
    v1::Rebalance* out = proto_->mutable_rebalance();
    const bool by_load = rebalance.by == Rebalance::By::kLoad;
    out->set_by(by_load ? v1::REBALANCE_BY_LOAD : v1::REBALANCE_BY_SHARE);
    if (by_load) out->set_tolerance_ppm(rebalance.tolerance_ppm);
    if (detail_ == RangeDetail::kOmit) return;
    out->mutable_bucket_load()->Add(rebalance.bucket_load.begin(), rebalance.bucket_load.end());
  }
  void operator()(const SetOverride& set) const {
    *proto_->mutable_set_override()->mutable_rule() = ToProto(set.rule);
    for (const NodeId& node : set.nodes) proto_->mutable_set_override()->add_nodes(node);
  }
  void operator()(const RemoveOverride& remove) const {
    *proto_->mutable_remove_override()->mutable_rule() = ToProto(remove.rule);
  }

 private:
  v1::Change* const proto_;
  const RangeDetail detail_;
};

v1::FencePolicy ToProto(FencePolicy policy) {
  return policy == FencePolicy::kAckOrLease ? v1::FENCE_POLICY_ACK_OR_LEASE
                                            : v1::FENCE_POLICY_ACK_ONLY;
}

v1::Strategy ToProto(const Strategy& strategy) {
  v1::Strategy proto;
  for (uint32_t ppm : strategy.commit_steps_ppm) proto.add_commit_steps(ppm / 1e6);
  *proto.mutable_hold() = ToProtoDuration(strategy.hold);
  *proto.mutable_soak() = ToProtoDuration(strategy.soak);
  *proto.mutable_warm_timeout() = ToProtoDuration(strategy.warm_timeout);
  if (strategy.fence_timeout) {
    *proto.mutable_fence_timeout() = ToProtoDuration(*strategy.fence_timeout);
  }
  proto.set_await_promotion(strategy.await_promotion);
  proto.set_verify_sample(strategy.verify_sample);
  proto.set_verify_max_mismatch(strategy.verify_max_mismatch);
  proto.set_fence_policy(ToProto(strategy.fence_policy));
  proto.set_wave_attempts(strategy.wave_attempts);
  proto.set_on_wave_failure(strategy.on_wave_failure == WaveFailure::kPause
                                ? v1::WAVE_FAILURE_PAUSE
                                : v1::WAVE_FAILURE_UNDO);
  proto.set_on_conflict(strategy.on_conflict == OnConflict::kQueue ? v1::ON_CONFLICT_QUEUE
                                                                   : v1::ON_CONFLICT_REFUSE);
  return proto;
}

absl::Status PoliciesFromProto(const v1::Strategy& proto, Strategy& strategy) {
  switch (proto.on_wave_failure()) {
    case v1::WAVE_FAILURE_UNSPECIFIED:
    case v1::WAVE_FAILURE_UNDO:
      strategy.on_wave_failure = WaveFailure::kUndo;
      break;
    case v1::WAVE_FAILURE_PAUSE:
      strategy.on_wave_failure = WaveFailure::kPause;
      break;
    default:
      return absl::InvalidArgumentError(
          fmt::format("strategy.on_wave_failure: {} is unknown: use WAVE_FAILURE_UNDO or "
                      "WAVE_FAILURE_PAUSE",
                      static_cast<int>(proto.on_wave_failure())));
  }
  switch (proto.on_conflict()) {
    case v1::ON_CONFLICT_UNSPECIFIED:
    case v1::ON_CONFLICT_REFUSE:
      strategy.on_conflict = OnConflict::kRefuse;
      break;
    case v1::ON_CONFLICT_QUEUE:
      strategy.on_conflict = OnConflict::kQueue;
      break;
    default:
      return absl::InvalidArgumentError(fmt::format(
          "strategy.on_conflict: {} is unknown: use ON_CONFLICT_REFUSE or ON_CONFLICT_QUEUE",
          static_cast<int>(proto.on_conflict())));
  }
  return absl::OkStatus();
}

absl::StatusOr<Strategy> StrategyFromProto(const v1::Strategy& proto) {
  Strategy strategy;
  if (!proto.commit_steps().empty()) strategy.commit_steps_ppm.clear();
  for (int i = 0; i < proto.commit_steps_size(); ++i) {
    ASSIGN_OR_RETURN(const uint32_t ppm, PpmFromProto(fmt::format("strategy.commit_steps[{}]", i),
                                                      proto.commit_steps(i)));
    strategy.commit_steps_ppm.push_back(ppm);
  }
  const auto read = [](std::string_view field, bool set, const google::protobuf::Duration& value,
                       absl::Duration& into) {
    if (!set) return absl::OkStatus();
    ASSIGN_OR_RETURN(into, DurationFromProto(field, value));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(read("strategy.hold", proto.has_hold(), proto.hold(), strategy.hold));
  RETURN_IF_ERROR(read("strategy.soak", proto.has_soak(), proto.soak(), strategy.soak));
  RETURN_IF_ERROR(read("strategy.warm_timeout", proto.has_warm_timeout(), proto.warm_timeout(),
                       strategy.warm_timeout));
  if (proto.has_fence_timeout()) {
    ASSIGN_OR_RETURN(strategy.fence_timeout,
                     DurationFromProto("strategy.fence_timeout", proto.fence_timeout()));
  }
  strategy.await_promotion = proto.await_promotion();
  if (proto.has_verify_sample()) strategy.verify_sample = proto.verify_sample();
  strategy.verify_max_mismatch = proto.verify_max_mismatch();
  switch (proto.fence_policy()) {
    case v1::FENCE_POLICY_UNSPECIFIED:
    case v1::FENCE_POLICY_ACK_ONLY:
      strategy.fence_policy = FencePolicy::kAckOnly;
      break;
    case v1::FENCE_POLICY_ACK_OR_LEASE:
      strategy.fence_policy = FencePolicy::kAckOrLease;
      break;
    default:
      return absl::InvalidArgumentError(
          fmt::format("strategy.fence_policy: {} is unknown: use FENCE_POLICY_ACK_ONLY or "
                      "FENCE_POLICY_ACK_OR_LEASE",
                      static_cast<int>(proto.fence_policy())));
  }
  if (proto.has_wave_attempts()) strategy.wave_attempts = proto.wave_attempts();
  RETURN_IF_ERROR(PoliciesFromProto(proto, strategy));
  return strategy;
}

v1::Migration::Progress ToProto(const MigrationProgress& progress) {
  v1::Migration::Progress proto;
  proto.set_keys_done(progress.keys_done);
  proto.set_keys_total(progress.keys_total);
  proto.set_bytes_done(progress.bytes_done);
  for (const MigrationProgress::Transfer& transfer : progress.transfers) {
    v1::Migration::Transfer* out = proto.add_transfers();
    out->set_from(transfer.from);
    out->set_to(transfer.to);
    out->set_keys(transfer.keys);
    out->set_bytes(transfer.bytes);
    out->set_caught_up(transfer.caught_up);
  }
  return proto;
}

}  // namespace

v1::MigrationPlan ToProto(const MigrationPlan& plan, RangeDetail detail) {
  v1::MigrationPlan proto;
  proto.set_name(plan.name);
  proto.set_keyspace(plan.keyspace);
  proto.set_reason(plan.reason);
  proto.set_base_version(plan.base_version.value);
  for (const Change& change : plan.changes) {
    std::visit(ChangeWriter(proto.add_changes(), detail), change);
  }
  *proto.mutable_strategy() = ToProto(plan.strategy);
  *proto.mutable_limits() = ToProto(plan.limits);
  return proto;
}

absl::StatusOr<MigrationPlan> MigrationPlanFromProto(const v1::MigrationPlan& proto) {
  MigrationPlan plan;
  plan.name = proto.name();
  plan.keyspace = proto.keyspace();
  plan.reason = proto.reason();
  plan.base_version = Version(proto.base_version());
  constexpr int kMaxChanges = 10'000;  // ValidatePlan's bound, before work is spent on them
  if (proto.changes_size() > kMaxChanges) {
    return absl::InvalidArgumentError(
        fmt::format("changes: {} changes are over the limit of {}: split the plan",
                    proto.changes_size(), kMaxChanges));
  }
  for (int i = 0; i < proto.changes_size(); ++i) {
    ASSIGN_OR_RETURN(Change change,
                     ChangeFromProto(fmt::format("changes[{}]", i), proto.changes(i)));
    plan.changes.push_back(std::move(change));
  }
  ASSIGN_OR_RETURN(plan.strategy, StrategyFromProto(proto.strategy()));
  plan.limits = LimitsFromProto(proto.limits());
  return plan;
}

v1::Limits ToProto(const TransferLimits& limits) {
  v1::Limits proto;
  proto.set_keys_per_second(limits.keys_per_second);
  proto.set_bytes_per_second(limits.bytes_per_second);
  return proto;
}

TransferLimits LimitsFromProto(const v1::Limits& proto) {
  return {proto.keys_per_second(), proto.bytes_per_second()};
}

v1::Preview ToProto(const Preview& preview, RangeDetail detail) {
  v1::Preview proto;
  proto.set_keyspace(preview.keyspace);
  proto.set_base_version(preview.base_version.value);
  proto.set_waves(preview.waves);
  proto.set_moved_share(preview.moved_share);
  proto.set_ideal_share(preview.ideal_share);
  proto.set_modulo_share(preview.modulo_share);
  proto.set_plain_ring_share(preview.plain_ring_share);
  proto.set_max_over_mean_before(preview.max_over_mean_before);
  proto.set_max_over_mean_after(preview.max_over_mean_after);
  for (const NodeShare& share : preview.shares) {
    v1::NodeShare* out = proto.add_shares();
    out->set_node(share.node);
    out->set_before(share.before);
    out->set_after(share.after);
    out->set_ideal_after(share.ideal_after);
    out->set_keys_out(share.keys_out);
    out->set_bytes_out(share.bytes_out);
    out->set_load_before(share.load_before);
    out->set_load_after(share.load_after);
  }
  proto.set_keys_moved(preview.keys_moved);
  proto.set_bytes_moved(preview.bytes_moved);
  for (const std::string& warning : preview.warnings) proto.add_warnings(warning);
  size_t ranges_moved = 0;
  for (const PlannedMove& move : preview.moves) {
    v1::PlannedMove* out = proto.add_moves();
    out->set_wave(move.wave);
    out->set_from(move.from);
    out->set_to(move.to);
    out->set_share(move.ranges.Share());
    v1::HashRanges ranges = ToProto(move.ranges);
    ranges_moved += static_cast<size_t>(ranges.ends_size());
    if (detail == RangeDetail::kShow) *out->mutable_ranges() = std::move(ranges);
  }
  for (const Node& node : preview.nodes_added) *proto.add_nodes_added() = ToProto(node);
  for (const NodeId& id : preview.nodes_removed) proto.add_nodes_removed(id);
  for (const NodeId& id : preview.nodes_dead) proto.add_nodes_dead(id);
  for (const OverrideChange& change : preview.overrides) {
    v1::OverrideChange* out = proto.add_overrides();
    *out->mutable_rule() = ToProto(change.rule);
    out->set_plane(change.plane);
    for (const PutOverride::Range& range : change.before) out->add_nodes_before(range.owner);
    for (const PutOverride::Range& range : change.after) out->add_nodes_after(range.owner);
  }
  proto.set_ranges_moved(static_cast<uint32_t>(ranges_moved));
  for (const Reweight& reweight : preview.reweights) {
    v1::Reweight* out = proto.add_reweights();
    out->set_node(reweight.node);
    out->set_before(reweight.before_milli / 1000.0);
    out->set_after(reweight.after_milli / 1000.0);
  }
  for (const Pin& pin : preview.pins_put) *proto.add_pins_put() = ToProto(pin);
  proto.mutable_pins_removed()->Add(preview.pins_removed.begin(), preview.pins_removed.end());
  if (preview.load.has_value()) {
    proto.mutable_load()->set_moved_share(preview.load->moved_share);
    proto.mutable_load()->set_ideal_share(preview.load->ideal_share);
    proto.mutable_load()->set_max_over_mean_before(preview.load->max_over_mean_before);
    proto.mutable_load()->set_max_over_mean_after(preview.load->max_over_mean_after);
  }
  return proto;
}

v1::MigrationState ToProto(Stage stage) {
  switch (stage) {
    case Stage::kPlanned:
      return v1::MIGRATION_STATE_PLANNED;
    case Stage::kWarming:
      return v1::MIGRATION_STATE_WARMING;
    case Stage::kVerifying:
      return v1::MIGRATION_STATE_VERIFYING;
    case Stage::kFencing:
      return v1::MIGRATION_STATE_FENCING;
    case Stage::kCommitted:
      return v1::MIGRATION_STATE_COMMITTED;
    case Stage::kSoaking:
      return v1::MIGRATION_STATE_SOAKING;
    case Stage::kUndoFencing:
      return v1::MIGRATION_STATE_UNDO_FENCING;
    case Stage::kSucceeded:
      return v1::MIGRATION_STATE_SUCCEEDED;
    case Stage::kAborted:
      return v1::MIGRATION_STATE_ABORTED;
    case Stage::kRolledBack:
      return v1::MIGRATION_STATE_ROLLED_BACK;
    case Stage::kFailed:
      return v1::MIGRATION_STATE_FAILED;
  }
  return v1::MIGRATION_STATE_UNSPECIFIED;
}

v1::Migration ToProto(const MigrationRecord& record, const MigrationProgress& progress,
                      RangeDetail detail) {
  v1::Migration proto;
  proto.set_id(record.id);
  proto.set_keyspace(record.plan.keyspace);
  proto.set_author(record.author);
  *proto.mutable_plan() = ToProto(record.plan, detail);
  *proto.mutable_preview() = ToProto(record.preview, detail);
  proto.set_state(ToProto(record.stage));
  proto.set_wave(record.wave);
  proto.set_waves(record.preview.waves);
  proto.set_waves_committed(record.waves_committed);
  proto.set_paused(record.paused);
  proto.set_awaiting_promotion(record.awaiting_promotion);
  proto.set_ended(IsTerminal(record.stage));
  proto.set_held(progress.held);
  proto.set_failure(record.failure);
  proto.set_unclean(record.unclean);
  *proto.mutable_create_time() = ToProtoTime(record.created);
  *proto.mutable_stage_time() = ToProtoTime(record.stage_since);
  for (const StageEntry& entry : record.history) {
    v1::StageEntry* out = proto.add_stages();
    out->set_state(ToProto(entry.stage));
    out->set_wave(entry.wave);
    *out->mutable_enter_time() = ToProtoTime(entry.time);
    out->set_note(entry.note);
  }
  *proto.mutable_transfer() = ToProto(progress);
  proto.set_verify_compared(record.verify_compared);
  proto.set_verify_mismatched(record.verify_mismatched);
  proto.set_final_version(record.final_version.value);
  proto.set_revision(record.revision);
  proto.set_queued(record.queued);
  proto.set_wave_attempt(record.wave_attempt);
  proto.set_preempted_by(record.preempted_by);
  for (const ForcedFence& forced : record.forced) {
    v1::Migration::ForcedFence* out = proto.add_forced();
    out->set_donor(forced.donor);
    out->set_author(forced.author);
    out->set_reason(forced.reason);
    *out->mutable_time() = ToProtoTime(forced.time);
    out->set_wave(forced.wave);
    out->set_undo(forced.is_undo);
    *out->mutable_lease_left() = ToProtoDuration(forced.lease_left);
  }
  return proto;
}

}  // namespace warmring::wire
