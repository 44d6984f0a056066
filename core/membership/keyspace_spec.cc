#include "core/membership/keyspace_spec.h"

#include <fmt/format.h>

#include "core/base/status_macros.h"

namespace warmring {
namespace {

absl::Status CheckBounds(const char* field, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: {} is out of bounds: use {} to {}", field, value, low, high));
}

absl::Status CheckAllocator(const KeyspaceSpec& spec) {
  switch (spec.allocator) {
    case Allocator::kStandard:
      return absl::OkStatus();
    case Allocator::kRendezvous:
      if (spec.placement == PlacementKind::kDirectory) return absl::OkStatus();
      return absl::InvalidArgumentError(
          "spec.allocator: rendezvous on a ring: use it with a directory, or deliberate");
    case Allocator::kDeliberate:
      if (spec.placement == PlacementKind::kRing) return absl::OkStatus();
      return absl::InvalidArgumentError(
          "spec.allocator: deliberate on a directory: use it with a ring, or leave it out");
  }
  return absl::InvalidArgumentError(
      fmt::format("spec.allocator: {} is unknown: use standard (0), rendezvous (1) or deliberate "
                  "(2)",
                  static_cast<uint32_t>(spec.allocator)));
}

absl::Status CheckPlacement(const KeyspaceSpec& spec) {
  switch (spec.placement) {
    case PlacementKind::kRing:
      return CheckBounds("spec.tokens_per_node", spec.tokens_per_node, 1,
                         KeyspaceSpec::kMaxTokensPerNode);
    case PlacementKind::kDirectory:
      return CheckBounds("spec.directory_bits", spec.directory_bits,
                         KeyspaceSpec::kMinDirectoryBits, KeyspaceSpec::kMaxDirectoryBits);
  }
  return absl::InvalidArgumentError(
      fmt::format("spec.placement: {} is unknown: use ring (1) or directory (2)",
                  static_cast<uint32_t>(spec.placement)));
}

}  // namespace

absl::Status ValidateKeyspaceSpec(const KeyspaceSpec& spec) {
  RETURN_IF_ERROR(ValidateId("spec.id", spec.id));
  RETURN_IF_ERROR(CheckPlacement(spec));
  RETURN_IF_ERROR(CheckAllocator(spec));
  if (spec.hash.function != HashSpec::Function::kXxh3) {
    return absl::InvalidArgumentError(fmt::format("spec.hash.function: {} is unknown: use xxh3 (1)",
                                                  static_cast<uint32_t>(spec.hash.function)));
  }
  RETURN_IF_ERROR(
      CheckBounds("spec.replication", spec.replication, 1, KeyspaceSpec::kMaxReplication));
  RETURN_IF_ERROR(ValidateDomainRule("spec.failure_domain", spec.domains));
  if (spec.replication == 1 && spec.domains != DomainRule()) {
    return absl::InvalidArgumentError(fmt::format(
        "spec.failure_domain: {}{} with replication 1: it is a rule for further "
        "copies; raise the replication, or leave it out",
        DomainLevelName(spec.domains.level), spec.domains.best_effort ? " (best effort)" : ""));
  }
  if (spec.on_restart != OnRestart::kPurge && spec.on_restart != OnRestart::kTrust) {
    return absl::InvalidArgumentError(
        fmt::format("spec.on_restart: {} is unknown: use purge (1) or trust (2)",
                    static_cast<uint32_t>(spec.on_restart)));
  }
  return CheckBounds("spec.grace_ms", spec.grace_ms, 0, KeyspaceSpec::kMaxGraceMs);
}

}  // namespace warmring
