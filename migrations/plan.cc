#include "migrations/plan.h"

#include <set>

#include <fmt/format.h>

#include "core/base/status_macros.h"
#include "core/membership/keyspace_spec.h"

namespace warmring {
namespace {

constexpr size_t kMaxNameBytes = 255;
constexpr size_t kMaxReasonBytes = 1024;
constexpr size_t kMaxChanges = 10'000;
constexpr size_t kMaxCommitSteps = 256;
constexpr uint32_t kWholePpm = 1'000'000;
constexpr uint32_t kMaxVerifySample = 1'000'000;
constexpr uint32_t kMaxWaveAttempts = 100;
const absl::Duration kMaxDuration = absl::Hours(24 * 30);

absl::Status CheckLength(std::string_view field, const std::string& text, size_t max_bytes) {
  if (text.size() <= max_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{}: '{}' has {} bytes: use at most {}", field,
                                                Printable(text, 40), text.size(), max_bytes));
}

absl::Status CheckWeight(const std::string& field, uint32_t weight_milli) {
  if (weight_milli >= Node::kMinWeightMilli && weight_milli <= Node::kMaxWeightMilli) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: {} is out of bounds: use {} to {}", field, weight_milli / 1000.0,
                  Node::kMinWeightMilli / 1000.0, Node::kMaxWeightMilli / 1000.0));
}

absl::Status CheckRebalance(const std::string& field, const Rebalance& rebalance) {
  if (rebalance.by != Rebalance::By::kShare && rebalance.by != Rebalance::By::kLoad) {
    return absl::InvalidArgumentError(fmt::format("{}.by: {} is unknown: use share (1) or load (2)",
                                                  field, static_cast<uint32_t>(rebalance.by)));
  }
  const bool by_load = rebalance.by == Rebalance::By::kLoad;
  if (by_load == rebalance.bucket_load.empty()) {
    return absl::InvalidArgumentError(
        by_load ? fmt::format("{}.bucket_load: it is empty: give the load of each bucket, or "
                              "rebalance by share",
                              field)
                : fmt::format("{}.bucket_load: it is given and by is share: rebalance by load, or "
                              "leave it out",
                              field));
  }
  for (size_t i = 0; i < rebalance.bucket_load.size(); ++i) {
    if (rebalance.bucket_load[i] <= Rebalance::kMaxBucketLoad) continue;
    return absl::InvalidArgumentError(fmt::format("{}.bucket_load[{}]: {} is over the limit of {}",
                                                  field, i, rebalance.bucket_load[i],
                                                  Rebalance::kMaxBucketLoad));
  }
  if (rebalance.tolerance_ppm <= kWholePpm) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}.tolerance_ppm: {} is out of bounds: use 0 to {}", field,
                  rebalance.tolerance_ppm, kWholePpm));
}

// What stands in one change and must stand in no other.
class ChangeChecker {
 public:
  absl::Status Check(const std::string& field, const Change& change) {
    field_ = field;
    return std::visit([this](const auto& kind) { return CheckKind(kind); }, change);
  }

 private:
  absl::Status CheckKind(const AddNode& add) {
    RETURN_IF_ERROR(ValidateNode(field_ + ".add.node", add.node));
    return NameNode(add.node.id);
  }

  absl::Status CheckKind(const RemoveNode& remove) {
    RETURN_IF_ERROR(ValidateId(field_ + ".remove.node", remove.node));
    return NameNode(remove.node);
  }

  absl::Status CheckKind(const ReplaceNode& replace) {
    RETURN_IF_ERROR(ValidateId(field_ + ".replace.node", replace.node));
    RETURN_IF_ERROR(ValidateNode(field_ + ".replace.by", replace.by));
    RETURN_IF_ERROR(NameNode(replace.node));
    return NameNode(replace.by.id);
  }

  absl::Status CheckKind(const SetWeight& set) {
    RETURN_IF_ERROR(ValidateId(field_ + ".set_weight.node", set.node));
    RETURN_IF_ERROR(CheckWeight(field_ + ".set_weight.weight", set.weight_milli));
    return NameNode(set.node);
  }

  absl::Status CheckKind(const MoveBuckets& move) {
    RETURN_IF_ERROR(ValidateId(field_ + ".move_buckets.to", move.to));
    return NameBuckets(field_ + ".move_buckets.buckets", move.buckets, moved_);
  }

  absl::Status CheckKind(const Unpin& unpin) {
    return NameBuckets(field_ + ".unpin.buckets", unpin.buckets, unpinned_);
  }

  absl::Status CheckKind(const Rebalance& rebalance) {
    if (rebalanced_) {
      return absl::InvalidArgumentError(
          fmt::format("{}: an earlier change rebalances too: rebalance once", field_));
    }
    rebalanced_ = true;
    return CheckRebalance(field_ + ".rebalance", rebalance);
  }

  absl::Status CheckKind(const SetOverride& set) {
    const std::string field = field_ + ".set_override";
    RETURN_IF_ERROR(NameRule(field, set.rule));
    if (set.nodes.empty() || set.nodes.size() > SetOverride::kMaxNodes) {
      return absl::InvalidArgumentError(fmt::format("{}.nodes: {} nodes: name 1 to {}", field,
                                                    set.nodes.size(), SetOverride::kMaxNodes));
    }
    std::set<std::string_view> seen;
    for (size_t i = 0; i < set.nodes.size(); ++i) {
      RETURN_IF_ERROR(ValidateId(fmt::format("{}.nodes[{}]", field, i), set.nodes[i]));
      if (seen.insert(set.nodes[i]).second) continue;
      return absl::InvalidArgumentError(
          fmt::format("{}.nodes[{}]: '{}' is named twice", field, i, set.nodes[i]));
    }
    return absl::OkStatus();
  }

  absl::Status CheckKind(const RemoveOverride& remove) {
    return NameRule(field_ + ".remove_override", remove.rule);
  }

  absl::Status NameRule(const std::string& field, const OverrideRule& rule) {
    RETURN_IF_ERROR(ValidateOverrideRule(field + ".rule", rule));
    if (rules_.insert(rule).second) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("{}.rule: {} is named by an earlier change too: name each rule once", field,
                    rule.ToString()));
  }

  absl::Status NameNode(const NodeId& node) {
    if (nodes_.insert(node).second) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format(
        "{}: node '{}' is named by an earlier change too: name each node once", field_, node));
  }

  static absl::Status NameBuckets(const std::string& field, const std::vector<uint32_t>& buckets,
                                  std::set<uint32_t>& named) {
    if (buckets.empty()) {
      return absl::InvalidArgumentError(fmt::format("{}: none is named: name at least one", field));
    }
    for (size_t i = 0; i < buckets.size(); ++i) {
      constexpr uint32_t kHighest = (uint32_t{1} << KeyspaceSpec::kMaxDirectoryBits) - 1;
      if (buckets[i] > kHighest) {
        return absl::InvalidArgumentError(
            fmt::format("{}[{}]: {} is no bucket: use 0 to {}", field, i, buckets[i], kHighest));
      }
      if (!named.insert(buckets[i]).second) {
        return absl::InvalidArgumentError(fmt::format(
            "{}[{}]: bucket {} is named before: name each bucket once", field, i, buckets[i]));
      }
    }
    return absl::OkStatus();
  }

  std::string field_;
  std::set<NodeId> nodes_;
  std::set<uint32_t> moved_;
  std::set<uint32_t> unpinned_;
  std::set<OverrideRule> rules_;
  bool rebalanced_ = false;
};

bool IsOfDeadNode(const Change& change) {
  const auto* remove = std::get_if<RemoveNode>(&change);
  const auto* replace = std::get_if<ReplaceNode>(&change);
  return (remove != nullptr && remove->is_dead) || (replace != nullptr && replace->is_dead);
}

bool IsReplacement(const Change& change) { return std::holds_alternative<ReplaceNode>(change); }

bool IsAboutOverride(const Change& change) {
  return std::holds_alternative<SetOverride>(change) ||
         std::holds_alternative<RemoveOverride>(change);
}

absl::Status CheckChanges(const std::vector<Change>& changes) {
  if (changes.empty()) {
    return absl::InvalidArgumentError("changes: it is empty: name at least one change");
  }
  if (changes.size() > kMaxChanges) {
    return absl::InvalidArgumentError(
        fmt::format("changes: {} changes are over the limit of {}: split the plan", changes.size(),
                    kMaxChanges));
  }
  ChangeChecker checker;
  for (size_t i = 0; i < changes.size(); ++i) {
    RETURN_IF_ERROR(checker.Check(fmt::format("changes[{}]", i), changes[i]));
    if (IsAboutOverride(changes[i]) != IsAboutOverride(changes[0])) {
      return absl::InvalidArgumentError(
          fmt::format("changes[{}]: overrides change in a plan of their own: submit two plans", i));
    }
    if (IsReplacement(changes[i]) != IsReplacement(changes[0])) {
      return absl::InvalidArgumentError(
          fmt::format("changes[{}]: nodes are replaced in a plan of their own, in which nothing "
                      "else moves: submit two plans",
                      i));
    }
    if (IsOfDeadNode(changes[i]) != IsOfDeadNode(changes[0])) {
      return absl::InvalidArgumentError(fmt::format(
          "changes[{}]: what takes over from dead nodes stands in a plan of its own, which waits "
          "for nobody: submit two plans",
          i));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCommitSteps(const std::vector<uint32_t>& steps) {
  constexpr std::string_view kField = "strategy.commit_steps";
  if (steps.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: it is empty: give ascending shares that end with 100%", kField));
  }
  if (steps.size() > kMaxCommitSteps) {
    return absl::InvalidArgumentError(fmt::format("{}: {} steps are over the limit of {}", kField,
                                                  steps.size(), kMaxCommitSteps));
  }
  uint32_t before = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i] <= before || steps[i] > kWholePpm) {
      return absl::InvalidArgumentError(
          fmt::format("{}[{}]: {}% does not ascend: use a share above {}% and up to 100%", kField,
                      i, steps[i] / 10'000.0, before / 10'000.0));
    }
    before = steps[i];
  }
  if (before != kWholePpm) {
    return absl::InvalidArgumentError(fmt::format("{}[{}]: the last step is {}%: it must be 100%",
                                                  kField, steps.size() - 1, before / 10'000.0));
  }
  return absl::OkStatus();
}

absl::Status CheckDuration(std::string_view field, absl::Duration value, absl::Duration low) {
  if (value >= low && value <= kMaxDuration) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "strategy.{}: {} is out of bounds: use {} to {}", field, absl::FormatDuration(value),
      absl::FormatDuration(low), absl::FormatDuration(kMaxDuration)));
}

absl::Status CheckVerify(const Strategy& strategy) {
  if (strategy.verify_sample < 1 || strategy.verify_sample > kMaxVerifySample) {
    return absl::InvalidArgumentError(
        fmt::format("strategy.verify_sample: {} is out of bounds: use 1 to {}",
                    strategy.verify_sample, kMaxVerifySample));
  }
  if (strategy.verify_max_mismatch > strategy.verify_sample) {
    return absl::InvalidArgumentError(fmt::format(
        "strategy.verify_max_mismatch: {} is more than verify_sample, which is {}: lower it",
        strategy.verify_max_mismatch, strategy.verify_sample));
  }
  return absl::OkStatus();
}

absl::Status CheckStrategy(const Strategy& strategy) {
  RETURN_IF_ERROR(CheckCommitSteps(strategy.commit_steps_ppm));
  RETURN_IF_ERROR(CheckDuration("hold", strategy.hold, absl::ZeroDuration()));
  RETURN_IF_ERROR(CheckDuration("soak", strategy.soak, absl::ZeroDuration()));
  RETURN_IF_ERROR(CheckDuration("warm_timeout", strategy.warm_timeout, absl::Milliseconds(1)));
  if (strategy.fence_timeout.has_value()) {
    RETURN_IF_ERROR(CheckDuration("fence_timeout", *strategy.fence_timeout, absl::Milliseconds(1)));
  }
  RETURN_IF_ERROR(CheckVerify(strategy));
  if (strategy.fence_policy != FencePolicy::kAckOnly &&
      strategy.fence_policy != FencePolicy::kAckOrLease) {
    return absl::InvalidArgumentError(
        fmt::format("strategy.fence_policy: {} is unknown: use ack_only (1) or ack_or_lease (2)",
                    static_cast<uint32_t>(strategy.fence_policy)));
  }
  if (strategy.wave_attempts < 1 || strategy.wave_attempts > kMaxWaveAttempts) {
    return absl::InvalidArgumentError(
        fmt::format("strategy.wave_attempts: {} is out of bounds: use 1 to {}",
                    strategy.wave_attempts, kMaxWaveAttempts));
  }
  if (strategy.on_wave_failure != WaveFailure::kUndo &&
      strategy.on_wave_failure != WaveFailure::kPause) {
    return absl::InvalidArgumentError(
        fmt::format("strategy.on_wave_failure: {} is unknown: use undo (1) or pause (2)",
                    static_cast<uint32_t>(strategy.on_wave_failure)));
  }
  if (strategy.on_conflict != OnConflict::kRefuse && strategy.on_conflict != OnConflict::kQueue) {
    return absl::InvalidArgumentError(
        fmt::format("strategy.on_conflict: {} is unknown: use refuse (1) or queue (2)",
                    static_cast<uint32_t>(strategy.on_conflict)));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsFailover(const MigrationPlan& plan) {
  return !plan.changes.empty() && IsOfDeadNode(plan.changes.front());
}

absl::Status ValidatePlan(const MigrationPlan& plan) {
  RETURN_IF_ERROR(CheckLength("name", plan.name, kMaxNameBytes));
  RETURN_IF_ERROR(CheckLength("reason", plan.reason, kMaxReasonBytes));
  RETURN_IF_ERROR(ValidateId("keyspace", plan.keyspace));
  RETURN_IF_ERROR(CheckChanges(plan.changes));
  return CheckStrategy(plan.strategy);
}

}  // namespace warmring
