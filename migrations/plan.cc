#include "migrations/plan.h"

#include <set>

#include <fmt/format.h>

#include "core/base/status_macros.h"

namespace warmring {
namespace {

constexpr size_t kMaxNameBytes = 255;
constexpr size_t kMaxReasonBytes = 1024;
constexpr size_t kMaxChanges = 10'000;
constexpr size_t kMaxCommitSteps = 64;
constexpr uint32_t kWholePpm = 1'000'000;
constexpr uint32_t kMaxVerifySample = 1'000'000;
const absl::Duration kMaxDuration = absl::Hours(24 * 30);

absl::Status CheckLength(std::string_view field, const std::string& text, size_t max_bytes) {
  if (text.size() <= max_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{}: '{}' has {} bytes: use at most {}", field,
                                                Printable(text, 40), text.size(), max_bytes));
}

// What a change is about: a node, or the rule of an override.
std::string SubjectOf(const Change& change) {
  if (const auto* add = std::get_if<AddNode>(&change)) {
    return fmt::format("node '{}'", add->node.id);
  }
  if (const auto* remove = std::get_if<RemoveNode>(&change)) {
    return fmt::format("node '{}'", remove->node);
  }
  if (const auto* set = std::get_if<SetOverride>(&change)) return set->rule.ToString();
  return std::get<RemoveOverride>(change).rule.ToString();
}

absl::Status CheckSetOverride(const std::string& field, const SetOverride& set) {
  RETURN_IF_ERROR(ValidateOverrideRule(field + ".rule", set.rule));
  if (set.nodes.empty() || set.nodes.size() > SetOverride::kMaxNodes) {
    return absl::InvalidArgumentError(fmt::format(
        "{}.nodes: {} nodes: name 1 to {}", field, set.nodes.size(), SetOverride::kMaxNodes));
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

absl::Status CheckChange(const std::string& field, const Change& change) {
  if (const auto* add = std::get_if<AddNode>(&change)) {
    return ValidateNode(field + ".add.node", add->node);
  }
  if (const auto* set = std::get_if<SetOverride>(&change)) {
    return CheckSetOverride(field + ".set_override", *set);
  }
  if (const auto* remove = std::get_if<RemoveOverride>(&change)) {
    return ValidateOverrideRule(field + ".remove_override.rule", remove->rule);
  }
  return ValidateId(field + ".remove.node", std::get<RemoveNode>(change).node);
}

bool IsOverride(const Change& change) {
  return std::holds_alternative<SetOverride>(change) ||
         std::holds_alternative<RemoveOverride>(change);
}

absl::Status CheckChanges(const std::vector<Change>& changes) {
  if (changes.empty()) {
    return absl::InvalidArgumentError("changes: it is empty: add or remove at least one node");
  }
  if (changes.size() > kMaxChanges) {
    return absl::InvalidArgumentError(
        fmt::format("changes: {} changes are over the limit of {}: split the plan", changes.size(),
                    kMaxChanges));
  }
  std::set<std::string> seen;
  for (size_t i = 0; i < changes.size(); ++i) {
    const std::string field = fmt::format("changes[{}]", i);
    RETURN_IF_ERROR(CheckChange(field, changes[i]));
    if (!seen.insert(SubjectOf(changes[i])).second) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {} is named by an earlier change too: name each once", field,
                      SubjectOf(changes[i])));
    }
    if (IsOverride(changes[i]) != IsOverride(changes[0])) {
      return absl::InvalidArgumentError(
          fmt::format("{}: overrides change in a plan of their own: submit two plans", field));
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
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidatePlan(const MigrationPlan& plan) {
  RETURN_IF_ERROR(CheckLength("name", plan.name, kMaxNameBytes));
  RETURN_IF_ERROR(CheckLength("reason", plan.reason, kMaxReasonBytes));
  RETURN_IF_ERROR(ValidateId("keyspace", plan.keyspace));
  RETURN_IF_ERROR(CheckChanges(plan.changes));
  return CheckStrategy(plan.strategy);
}

}  // namespace warmring
