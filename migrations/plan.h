#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/ids.h"
#include "core/membership/node.h"
#include "core/membership/override.h"

namespace warmring {

// What an operator submits. Plain values; Validate is the only gate.

struct AddNode {
  Node node;
  friend bool operator==(const AddNode&, const AddNode&) = default;
};
struct RemoveNode {
  NodeId node;
  // The node is dead and does not come back: nothing is copied from it, and what proves that it
  // accepts no write any more is the end of its lease. A plan with a dead node is a failover: it
  // has nothing else in it, and goes before any migration that is in its way.
  bool is_dead = false;
  friend bool operator==(const RemoveNode&, const RemoveNode&) = default;
};
// A new node takes exactly what a member has, which then leaves. Nothing else moves.
struct ReplaceNode {
  NodeId node;
  Node by;
  bool is_dead = false;  // as in RemoveNode
  friend bool operator==(const ReplaceNode&, const ReplaceNode&) = default;
};
// The changes below are for a bucket directory.

// Gives a member another weight; balance then moves what it has to, in both directions.
struct SetWeight {
  NodeId node;
  uint32_t weight_milli = 1000;
  friend bool operator==(const SetWeight&, const SetWeight&) = default;
};
// Gives these buckets to a node, and nothing else for them. With `pin` they stay there until they
// are unpinned: the pins become part of the membership when the migration has succeeded.
struct MoveBuckets {
  std::vector<uint32_t> buckets;
  NodeId to;
  bool pin = false;
  friend bool operator==(const MoveBuckets&, const MoveBuckets&) = default;
};
// Later plans may move these buckets again. Moves nothing by itself.
struct Unpin {
  std::vector<uint32_t> buckets;
  friend bool operator==(const Unpin&, const Unpin&) = default;
};
// Moves buckets until every node is as close to its target as pins allow.
struct Rebalance {
  static constexpr uint32_t kDefaultTolerancePpm = 10'000;
  static constexpr uint64_t kMaxBucketLoad = uint64_t{1} << 40;

  enum class By : uint8_t { kShare = 1, kLoad = 2 };  // of hash space; of `bucket_load`
  By by = By::kShare;
  // kLoad: requests, keys, bytes: any one unit, a number for each bucket.
  std::vector<uint64_t> bucket_load;
  // kLoad: a node that is off its target by no more, in millionths of it, is left alone.
  uint32_t tolerance_ppm = kDefaultTolerancePpm;
  friend bool operator==(const Rebalance&, const Rebalance&) = default;
};
// The changes below are about overrides (core/membership/override.h), and stand in plans of their
// own.

// Gives the keys of a rule to these nodes, each an equal part of their hashes: a new override, or
// other nodes for one that is there. To one node: the keys are on their own; to several: they are
// spread over these and no others.
struct SetOverride {
  static constexpr size_t kMaxNodes = Override::kMaxRanges;
  OverrideRule rule;
  std::vector<NodeId> nodes;  // members; each once
  friend bool operator==(const SetOverride&, const SetOverride&) = default;
};
// Gives the keys of a rule back to whom they belong to without it.
struct RemoveOverride {
  OverrideRule rule;
  friend bool operator==(const RemoveOverride&, const RemoveOverride&) = default;
};
using Change = std::variant<AddNode, RemoveNode, ReplaceNode, SetWeight, MoveBuckets, Unpin,
                            Rebalance, SetOverride, RemoveOverride>;

// How a donor that does not acknowledge a fence may be passed over.
enum class FencePolicy : uint8_t { kAckOnly = 1, kAckOrLease = 2 };

// What becomes of a migration whose wave could not be committed in as many attempts as it has.
//   kUndo   everything that is committed is undone; nothing is, and it is aborted.
//   kPause  the wave is released and waits: resume tries it again, abort undoes the migration.
enum class WaveFailure : uint8_t { kUndo = 1, kPause = 2 };

// What becomes of a plan that is in the way of a migration that has not ended.
//   kRefuse  it is refused.
//   kQueue   it waits for its turn, and is planned again when that comes.
enum class OnConflict : uint8_t { kRefuse = 1, kQueue = 2 };

struct Strategy {
  // Share of the moving hash space committed after each wave, ascending, the last one 1'000'000
  // (parts per million). Default: 10%, 50%, 100%.
  std::vector<uint32_t> commit_steps_ppm = {100'000, 500'000, 1'000'000};
  absl::Duration hold = absl::Seconds(30);          // between two waves
  absl::Duration soak = absl::Minutes(15);          // undo without loss is possible so long
  absl::Duration warm_timeout = absl::Minutes(45);  // also bounds the wait for a node to join
  std::optional<absl::Duration> fence_timeout;      // default 2 x lease
  bool await_promotion = false;                     // stop after Verifying until promoted
  uint32_t verify_sample = 2000;                    // keys per (donor, recipient)
  uint32_t verify_max_mismatch = 0;
  FencePolicy fence_policy = FencePolicy::kAckOnly;
  uint32_t wave_attempts = 1;  // each makes writes to the wave's ranges wait until it is given up
  WaveFailure on_wave_failure = WaveFailure::kUndo;
  OnConflict on_conflict = OnConflict::kRefuse;
  friend bool operator==(const Strategy&, const Strategy&) = default;
};

struct TransferLimits {
  uint64_t keys_per_second = 0;   // per donor; 0 = unlimited
  uint64_t bytes_per_second = 0;  // per donor; 0 = unlimited
  friend bool operator==(const TransferLimits&, const TransferLimits&) = default;
};

struct MigrationPlan {
  std::string name;    // optional, for people; at most 255 bytes
  std::string reason;  // optional, for people; at most 1,024 bytes
  KeyspaceId keyspace;
  Version base_version;  // 0 = do not check
  std::vector<Change> changes;
  Strategy strategy;
  TransferLimits limits;
  friend bool operator==(const MigrationPlan&, const MigrationPlan&) = default;
};

// Checks everything that needs no membership. Error: InvalidArgument naming the field path in the
// plan file's words (`changes[0].add.node.weight`), the value and the bound.
absl::Status ValidatePlan(const MigrationPlan& plan);

// Whether it takes over from dead nodes. REQUIRES: ValidatePlan is ok.
bool IsFailover(const MigrationPlan& plan);

}  // namespace warmring
