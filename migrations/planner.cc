#include "migrations/planner.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "absl/strings/str_join.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/placement/allocator.h"
#include "core/placement/bucket_change.h"
#include "core/placement/copy_change.h"
#include "core/placement/directory_allocator.h"
#include "core/placement/yardstick.h"
#include "migrations/conflict.h"

namespace warmring {
namespace {

// Keeps the delta of one wave, which names its ranges twice, well below 512 KiB.
constexpr size_t kMaxRangesPerWave = 8192;
constexpr uint32_t kWholePpm = 1'000'000;
constexpr double kWholeSpace = 18446744073709551616.0;  // 2^64

// A version that puts pins names a node for each: so many stay well below 512 KiB.
constexpr size_t kMaxPinChanges = 4096;

// What a plan changes, checked against the membership.
struct Changes {
  std::vector<Node> added;            // sorted by id
  std::vector<NodeId> removed;        // sorted
  std::map<NodeId, NodeId> replaced;  // removed -> added; either none of the changes, or all
  bool is_failover = false;           // the removed ones are dead
  std::vector<Reweight> reweights;    // sorted by id
  std::vector<Node> after;            // members when all is done, sorted by id
  std::vector<BucketChange::Placed> placed;
  std::vector<Pin> pins_put;             // sorted by bucket
  std::vector<uint32_t> pins_removed;    // sorted
  const Rebalance* rebalance = nullptr;  // of the plan
};

absl::Status CheckBase(const Membership& membership, const MigrationPlan& plan,
                       const std::vector<OtherMigration>& others) {
  const KeyspaceSpec& spec = membership.spec();
  if (plan.keyspace != spec.id) {
    return absl::InvalidArgumentError(
        fmt::format("keyspace: '{}' is not '{}', the keyspace of this membership",
                    Printable(plan.keyspace), spec.id));
  }
  if (spec.replication > 1 && IsAboutOverrides(plan)) {
    return WithReason(absl::FailedPreconditionError(
                          fmt::format("keyspace '{}' has replication {}, and keys of an override "
                                      "would have no followers: use a keyspace with replication 1",
                                      spec.id, spec.replication)),
                      "UNSUPPORTED", {{"replication", std::to_string(spec.replication)}});
  }
  for (const Move& move : membership.moves()) {
    const bool is_known =
        std::any_of(others.begin(), others.end(),
                    [&](const OtherMigration& other) { return other.id == move.migration; });
    if (is_known) continue;
    return WithReason(
        absl::AbortedError(fmt::format("migration '{}' is under way in keyspace '{}': wait for its "
                                       "end, abort it or undo it first",
                                       move.migration, spec.id)),
        "MIGRATION_IN_PROGRESS", {{"migration", move.migration}});
  }
  if (plan.base_version != Version() && plan.base_version != membership.version()) {
    return WithReason(
        absl::AbortedError(fmt::format(
            "base_version: the plan is for version {} and the membership is at {}: plan again",
            plan.base_version.value, membership.version().value)),
        "VERSION_MISMATCH",
        {{"base_version", std::to_string(plan.base_version.value)},
         {"version", std::to_string(membership.version().value)}});
  }
  return absl::OkStatus();
}

absl::Status CheckAdd(const Membership& membership, const std::string& field, const Node& node) {
  if (membership.FindNode(node.id).has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("{}.id: '{}' is already a node of keyspace '{}': choose another id", field,
                    node.id, membership.spec().id));
  }
  for (const Node& member : membership.nodes()) {
    if (member.address == node.address) {
      return absl::InvalidArgumentError(
          fmt::format("{}.address: '{}' is the address of '{}': one server cannot be two nodes",
                      field, Printable(node.address), member.id));
    }
  }
  return absl::OkStatus();
}

// Nodes that end up together must differ in address, and on a ring in the name of their tokens.
absl::Status CheckTogether(const KeyspaceSpec& spec, const std::vector<Node>& after) {
  std::map<std::string_view, std::string_view> addresses;
  std::map<std::string_view, std::string_view> names;
  for (const Node& node : after) {
    const auto [address, new_address] = addresses.emplace(node.address, node.id);
    if (!new_address) {
      return absl::InvalidArgumentError(
          fmt::format("changes: '{}' and '{}' have the same address '{}': one server cannot be "
                      "two nodes",
                      address->second, node.id, Printable(node.address)));
    }
    const auto [name, new_name] = names.emplace(node.HashName(), node.id);
    if (!new_name && spec.placement == PlacementKind::kRing) {
      return absl::InvalidArgumentError(
          fmt::format("changes: '{}' and '{}' would have the same tokens, since both are "
                      "hashed as '{}': give one another hash_name",
                      name->second, node.id, Printable(node.HashName())));
    }
  }
  return absl::OkStatus();
}

// Reads the changes of a plan one by one, against the membership.
class ChangeCollector {
 public:
  explicit ChangeCollector(const Membership& membership) : membership_(membership) {
    for (const Pin& pin : membership.pins()) pins_[pin.bucket] = pin.node;
  }

  absl::Status Add(const std::string& field, const Change& change) {
    field_ = field;
    return std::visit([this](const auto& kind) { return AddKind(kind); }, change);
  }

  absl::StatusOr<Changes> Collected() &&;

 private:
  // Where a bucket is to go, or stays with its pin.
  struct Wish {
    NodeId to;
    bool pin = false;
    std::string field;
  };

  absl::Status AddKind(const AddNode& add) {
    RETURN_IF_ERROR(CheckAdd(membership_, field_ + ".add.node", add.node));
    changes_.added.push_back(add.node);
    return absl::OkStatus();
  }

  absl::Status AddKind(const RemoveNode& remove) {
    RETURN_IF_ERROR(FindMember(field_ + ".remove.node", remove.node).status());
    if (!remove.is_dead) {
      RETURN_IF_ERROR(CheckOwnsNoOverride(field_ + ".remove.node", remove.node));
    }
    changes_.removed.push_back(remove.node);
    changes_.is_failover = remove.is_dead;
    return absl::OkStatus();
  }

  absl::Status AddKind(const ReplaceNode& replace) {
    const std::string field = field_ + ".replace";
    ASSIGN_OR_RETURN(const Node* const node, FindMember(field + ".node", replace.node));
    RETURN_IF_ERROR(CheckAdd(membership_, field + ".by", replace.by));
    Node by = replace.by;
    if (membership_.spec().placement == PlacementKind::kRing) {
      // A later plan must find its tokens where they are.
      if (!by.hash_name.empty() && by.HashName() != node->HashName()) {
        return absl::InvalidArgumentError(
            fmt::format("{}.by.hash_name: '{}' has other tokens than '{}', which the node takes "
                        "over: leave it out",
                        field, Printable(by.hash_name), node->id));
      }
      by.hash_name = std::string(node->HashName());
    }
    changes_.added.push_back(std::move(by));
    changes_.removed.push_back(replace.node);
    changes_.replaced[replace.node] = replace.by.id;
    changes_.is_failover = replace.is_dead;
    return absl::OkStatus();
  }

  absl::Status AddKind(const SetWeight& set) {
    const std::string field = field_ + ".set_weight";
    RETURN_IF_ERROR(NeedDirectory(
        field,
        "the tokens of a ring stay where they are: remove the node and add it again, or use"));
    ASSIGN_OR_RETURN(const Node* const node, FindMember(field + ".node", set.node));
    if (node->weight_milli == set.weight_milli) {
      return absl::InvalidArgumentError(
          fmt::format("{}.weight: {} is the weight of '{}' already: choose another, or leave the "
                      "change out",
                      field, set.weight_milli / 1000.0, set.node));
    }
    changes_.reweights.push_back({set.node, node->weight_milli, set.weight_milli});
    return absl::OkStatus();
  }

  absl::Status AddKind(const MoveBuckets& move) {
    const std::string field = field_ + ".move_buckets";
    RETURN_IF_ERROR(NeedDirectory(field, "a ring has no buckets: use"));
    if (!move.pin && membership_.spec().allocator == Allocator::kRendezvous) {
      return absl::InvalidArgumentError(fmt::format(
          "{}.pin: rendezvous would move the buckets back with the next plan: pin them", field));
    }
    RETURN_IF_ERROR(CheckBuckets(field, move.buckets));
    for (const uint32_t bucket : move.buckets) wishes_[bucket] = {move.to, move.pin, field};
    return absl::OkStatus();
  }

  absl::Status AddKind(const Unpin& unpin) {
    const std::string field = field_ + ".unpin";
    RETURN_IF_ERROR(NeedDirectory(field, "a ring has no buckets: use"));
    RETURN_IF_ERROR(CheckBuckets(field, unpin.buckets));
    for (size_t i = 0; i < unpin.buckets.size(); ++i) {
      if (!pins_.contains(unpin.buckets[i])) {
        return absl::InvalidArgumentError(fmt::format(
            "{}.buckets[{}]: bucket {} is not pinned: leave it out", field, i, unpin.buckets[i]));
      }
      unpinned_.insert(unpin.buckets[i]);
    }
    return absl::OkStatus();
  }

  absl::Status AddKind(const Rebalance& rebalance) {
    const std::string field = field_ + ".rebalance";
    RETURN_IF_ERROR(NeedDirectory(field, "the tokens of a ring stay where they are: use"));
    changes_.rebalance = &rebalance;
    if (rebalance.bucket_load.empty()) return absl::OkStatus();
    if (membership_.spec().allocator == Allocator::kRendezvous) {
      return absl::InvalidArgumentError(fmt::format(
          "{}.bucket_load: rendezvous decides by names and weights alone: give weights, "
          "or pin the buckets that are hot",
          field));
    }
    if (rebalance.bucket_load.size() != membership_.ranges().size()) {
      return absl::InvalidArgumentError(fmt::format(
          "{}.bucket_load: it has {} numbers: give one for each of the {} buckets of keyspace '{}'",
          field, rebalance.bucket_load.size(), membership_.ranges().size(), membership_.spec().id));
    }
    const bool loaded = std::any_of(rebalance.bucket_load.begin(), rebalance.bucket_load.end(),
                                    [](uint64_t load) { return load > 0; });
    if (loaded) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("{}.bucket_load: it is 0 everywhere: leave it out to balance by share", field));
  }

  // Plans about overrides take another way.
  absl::Status AddKind(const SetOverride&) { return absl::OkStatus(); }
  absl::Status AddKind(const RemoveOverride&) { return absl::OkStatus(); }

  absl::Status CheckOwnsNoOverride(const std::string& field, const NodeId& node) const {
    for (const Override& item : membership_.overrides()) {
      for (const OverrideRange& range : item.ranges) {
        if (membership_.nodes()[range.owner].id != node) continue;
        return absl::InvalidArgumentError(
            fmt::format("{}: '{}' has keys of the override for {}: give them to other "
                        "nodes, or remove the override, in a plan before this one",
                        field, node, item.rule.ToString()));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<const Node*> FindMember(const std::string& field, const NodeId& id) const {
    const std::optional<NodeIndex> index = membership_.FindNode(id);
    if (index.has_value()) return &membership_.nodes()[*index];
    return absl::InvalidArgumentError(
        fmt::format("{}: '{}' is not a node of keyspace '{}'", field, id, membership_.spec().id));
  }

  absl::Status NeedDirectory(const std::string& field, std::string_view why) const {
    if (membership_.spec().placement == PlacementKind::kDirectory) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("{}: keyspace '{}' is a ring: {} a keyspace with placement directory", field,
                    membership_.spec().id, why));
  }

  absl::Status CheckBuckets(const std::string& field, const std::vector<uint32_t>& buckets) const {
    for (size_t i = 0; i < buckets.size(); ++i) {
      if (buckets[i] < membership_.ranges().size()) continue;
      return absl::InvalidArgumentError(
          fmt::format("{}.buckets[{}]: keyspace '{}' has no bucket {}: use 0 to {}", field, i,
                      membership_.spec().id, buckets[i], membership_.ranges().size() - 1));
    }
    return absl::OkStatus();
  }

  absl::Status FindMembersAfter();
  absl::Status PlaceBuckets();
  absl::Status CheckPinsOfRemoved();
  absl::Status CheckNumberOfPins() const;

  const Membership& membership_;
  std::string field_;  // of the change that is read
  Changes changes_;
  std::map<uint32_t, NodeId> pins_;  // as they are
  std::map<uint32_t, Wish> wishes_;
  std::set<uint32_t> unpinned_;
};

absl::Status ChangeCollector::FindMembersAfter() {
  const auto by_id = [](const Node& a, const Node& b) { return a.id < b.id; };
  std::sort(changes_.added.begin(), changes_.added.end(), by_id);
  std::sort(changes_.removed.begin(), changes_.removed.end());
  std::sort(changes_.reweights.begin(), changes_.reweights.end(),
            [](const Reweight& a, const Reweight& b) { return a.node < b.node; });
  std::map<std::string_view, uint32_t> weights;
  for (const Reweight& reweight : changes_.reweights) weights[reweight.node] = reweight.after_milli;
  changes_.after = changes_.added;
  for (const Node& node : membership_.nodes()) {
    if (std::binary_search(changes_.removed.begin(), changes_.removed.end(), node.id)) continue;
    changes_.after.push_back(node);
    const auto weight = weights.find(node.id);
    if (weight != weights.end()) changes_.after.back().weight_milli = weight->second;
  }
  std::sort(changes_.after.begin(), changes_.after.end(), by_id);
  if (changes_.after.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("changes: they remove the last node of keyspace '{}': add another one in "
                    "the same plan, or keep one",
                    membership_.spec().id));
  }
  RETURN_IF_ERROR(CheckTogether(membership_.spec(), changes_.after));
  return ValidatePlacementSize(membership_.spec(), changes_.after);
}

absl::Status ChangeCollector::PlaceBuckets() {
  std::set<std::string_view> members;
  for (const Node& node : changes_.after) members.insert(node.id);
  for (const auto& [bucket, wish] : wishes_) {
    if (!members.contains(wish.to)) {
      return absl::InvalidArgumentError(
          fmt::format("{}.to: '{}' is not a node of keyspace '{}' after this plan: name one that "
                      "stays, or add it in the same plan",
                      wish.field, wish.to, membership_.spec().id));
    }
    changes_.placed.push_back({bucket, wish.to});
    const auto pin = pins_.find(bucket);
    const bool was_pinned = pin != pins_.end();
    if (wish.pin) {
      if (!was_pinned || pin->second != wish.to) changes_.pins_put.push_back({bucket, wish.to});
    } else if (was_pinned && !unpinned_.contains(bucket)) {
      return absl::InvalidArgumentError(
          fmt::format("{}: bucket {} is pinned to '{}': pin it where it goes, or unpin it in the "
                      "same plan",
                      wish.field, bucket, pin->second));
    }
  }
  // Pins stay with what a node is replaced by.
  for (const auto& [bucket, node] : pins_) {
    const auto by = changes_.replaced.find(node);
    if (by != changes_.replaced.end()) changes_.pins_put.push_back({bucket, by->second});
  }
  for (const uint32_t bucket : unpinned_) {
    const auto wish = wishes_.find(bucket);
    if (wish == wishes_.end() || !wish->second.pin) changes_.pins_removed.push_back(bucket);
  }
  return absl::OkStatus();
}

absl::Status ChangeCollector::CheckNumberOfPins() const {
  if (changes_.pins_put.size() + changes_.pins_removed.size() <= kMaxPinChanges) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("changes: they pin {} buckets and unpin {}: change at most {} pins in one plan",
                  changes_.pins_put.size(), changes_.pins_removed.size(), kMaxPinChanges));
}

// A pin is a decision of somebody: it does not go away with its node unless somebody says so.
absl::Status ChangeCollector::CheckPinsOfRemoved() {
  for (const NodeId& node : changes_.removed) {
    if (changes_.replaced.contains(node)) continue;
    constexpr size_t kNamed = 5;
    std::vector<uint32_t> left;
    for (const auto& [bucket, pinned_to] : pins_) {
      const auto wish = wishes_.find(bucket);
      const bool repinned = wish != wishes_.end() && wish->second.pin;
      if (pinned_to == node && !unpinned_.contains(bucket) && !repinned) left.push_back(bucket);
    }
    if (left.empty()) continue;
    if (changes_.is_failover) {
      // Nobody is left to keep them for.
      changes_.pins_removed.insert(changes_.pins_removed.end(), left.begin(), left.end());
      continue;
    }
    const size_t more = left.size() - std::min(left.size(), kNamed);
    left.resize(left.size() - more);
    return absl::InvalidArgumentError(
        fmt::format("changes: '{}' is removed, and bucket{} {}{} pinned to it: unpin them, or move "
                    "them with a pin to another node, in the same plan",
                    node, left.size() > 1 ? "s" : "", absl::StrJoin(left, ", "),
                    more > 0          ? fmt::format(" and {} more are", more)
                    : left.size() > 1 ? " are"
                                      : " is"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Changes> ChangeCollector::Collected() && {
  RETURN_IF_ERROR(FindMembersAfter());
  RETURN_IF_ERROR(PlaceBuckets());
  RETURN_IF_ERROR(CheckPinsOfRemoved());
  std::sort(changes_.pins_put.begin(), changes_.pins_put.end(),
            [](const Pin& a, const Pin& b) { return a.bucket < b.bucket; });
  std::sort(changes_.pins_removed.begin(), changes_.pins_removed.end());
  RETURN_IF_ERROR(CheckNumberOfPins());
  return std::move(changes_);
}

// REQUIRES: `plan` outlives the result.
absl::StatusOr<Changes> CollectChanges(const Membership& membership, const MigrationPlan& plan) {
  ChangeCollector collector(membership);
  for (size_t i = 0; i < plan.changes.size(); ++i) {
    RETURN_IF_ERROR(collector.Add(fmt::format("changes[{}]", i), plan.changes[i]));
  }
  return std::move(collector).Collected();
}

using Balance = ReallocateOptions::Balance;

// What may move beside what is asked for by name.
Balance BalanceOf(const Changes& changes) {
  if (changes.rebalance != nullptr || !changes.reweights.empty()) return Balance::kAll;
  return changes.added.empty() && changes.removed.empty() ? Balance::kNothing : Balance::kAddedOnly;
}

Reallocation ReplacementOf(const Membership& membership, const Changes& changes) {
  Reallocation reallocation;
  for (const auto& [from, to] : changes.replaced) {
    const HashRangeSet ranges = membership.OwnedBy(from).On(kCommonPlane);
    if (!ranges.empty()) reallocation.moves.push_back({from, to, ranges});
  }
  return reallocation;
}

BucketChange BucketChangeOf(const Changes& changes) {
  BucketChange change;
  change.added = changes.added;
  change.removed = changes.removed;
  for (const Reweight& reweight : changes.reweights) {
    change.weight_milli[reweight.node] = reweight.after_milli;
  }
  change.placed = changes.placed;
  change.unpinned = changes.pins_removed;
  change.balance = BalanceOf(changes);
  if (changes.rebalance != nullptr) {
    change.load = changes.rebalance->bucket_load;
    change.load_tolerance_ppm = changes.rebalance->tolerance_ppm;
  }
  return change;
}

absl::StatusOr<Reallocation> ReallocationOf(const Membership& membership, const Changes& changes) {
  if (!changes.replaced.empty()) return ReplacementOf(membership, changes);
  if (membership.spec().placement == PlacementKind::kRing) {
    return Reallocate(membership, changes.added, changes.removed);
  }
  return ReallocateBuckets(membership, BucketChangeOf(changes));
}

absl::StatusOr<CopiesAfter> CopiesOf(const Membership& membership, const Changes& changes) {
  if (membership.spec().replication > 1) {
    return ReallocateCopies(membership,
                            {BucketChangeOf(changes), changes.replaced, changes.is_failover});
  }
  CopiesAfter copies;
  ASSIGN_OR_RETURN(copies.reallocation, ReallocationOf(membership, changes));
  return copies;
}

absl::Status CheckEffect(const Changes& changes, const CopiesAfter& copies) {
  if (!copies.reallocation.moves.empty()) return absl::OkStatus();
  if (!changes.added.empty() && changes.replaced.empty()) {
    return absl::InvalidArgumentError(
        "changes: nothing would move: an added node is too light for a single range; raise its "
        "weight");
  }
  const bool has_effect = !changes.removed.empty() || !changes.reweights.empty() ||
                          !changes.pins_put.empty() || !changes.pins_removed.empty() ||
                          !copies.followers.empty();
  if (has_effect) return absl::OkStatus();
  return absl::InvalidArgumentError(
      changes.rebalance != nullptr
          ? "changes: nothing would move: every node is as close to its target as buckets, pins "
            "and "
            "tolerance allow"
          : "changes: nothing would move: the buckets are where the plan wants them");
}

absl::Status CheckRdbVersions(const std::vector<RangeMove>& moves,
                              const std::map<NodeId, NodeFact>& facts) {
  for (const RangeMove& move : moves) {
    const auto from = facts.find(move.from);
    const auto to = facts.find(move.to);
    if (from == facts.end() || to == facts.end()) continue;
    const uint32_t donor = from->second.rdb_version;
    const uint32_t recipient = to->second.rdb_version;
    if (donor == 0 || recipient == 0 || donor <= recipient) continue;
    return absl::FailedPreconditionError(fmt::format(
        "'{}' writes RDB version {} and '{}' reads up to {}: it would refuse the copied values; "
        "upgrade the server of '{}' first",
        move.from, donor, move.to, recipient, move.to));
  }
  return absl::OkStatus();
}

// One range of the prepared membership on its way from one node to another.
struct Unit {
  uint32_t progress = 0;  // of its move, where its middle lies: 0 = begin, 2^32 - 1 = end
  int move = 0;
  HashRange range;
  HashMeasure measure = 0;
};

// All that moves, in the order in which it is committed: each move advances evenly.
std::vector<Unit> OrderedUnits(const Membership& prepared) {
  std::vector<HashMeasure> totals(prepared.moves().size(), 0);
  for (size_t i = 0; i < prepared.moves().size(); ++i) {
    totals[i] = prepared.moves()[i].ranges.Measure();
  }
  std::vector<HashMeasure> before(totals.size(), 0);
  std::vector<Unit> units;
  for (size_t i = 0; i < prepared.ranges().size(); ++i) {
    const int move = prepared.MoveAt(i);
    if (move < 0) continue;
    const auto m = static_cast<size_t>(move);
    const HashRange range = prepared.RangeAt(i);
    const HashMeasure measure = static_cast<HashMeasure>(range.SizeMinusOne()) + 1;
    const HashMeasure middle = before[m] + measure / 2;
    units.push_back(
        {static_cast<uint32_t>(((middle << 32) - 1) / totals[m]), move, range, measure});
    before[m] += measure;
  }
  std::stable_sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) {
    return std::tie(a.progress, a.move) < std::tie(b.progress, b.move);
  });
  return units;
}

// Every range is named again for each override that is as hashed: its keys go along.
size_t MaxRangesPerWave(const Membership& membership) {
  const auto followers = std::count_if(membership.overrides().begin(), membership.overrides().end(),
                                       [](const Override& item) { return item.IsAsHashed(); });
  return std::max<size_t>(kMaxRangesPerWave / (1 + static_cast<size_t>(followers)), 1);
}

// Gives each unit its wave: a wave ends where the next unit would pass its step's share of all that
// moves, so the first is no larger than asked for unless a single range is.
std::vector<uint32_t> WavesOf(const std::vector<Unit>& units, const std::vector<uint32_t>& steps,
                              size_t max_in_wave) {
  HashMeasure total = 0;
  for (const Unit& unit : units) total += unit.measure;
  std::vector<uint32_t> waves;
  HashMeasure done = 0;
  size_t step = 0;
  uint32_t wave = 0;
  size_t in_wave = 0;
  for (const Unit& unit : units) {
    done += unit.measure;
    const bool passes = done * kWholePpm > total * steps[step];
    if (in_wave > 0 && (passes || in_wave == max_in_wave)) {
      ++wave;
      in_wave = 0;
    }
    if (in_wave == 0) {
      while (step + 1 < steps.size() && done * kWholePpm > total * steps[step]) ++step;
    }
    waves.push_back(wave);
    ++in_wave;
  }
  return waves;
}

std::vector<PlannedMove> CutIntoWaves(const Membership& prepared,
                                      const std::vector<uint32_t>& steps) {
  const std::vector<Unit> units = OrderedUnits(prepared);
  const std::vector<uint32_t> waves = WavesOf(units, steps, MaxRangesPerWave(prepared));
  // Moves of the prepared membership are sorted by (from, to), so their index sorts as they do.
  std::map<std::pair<uint32_t, int>, std::vector<HashRange>> cut;
  for (size_t i = 0; i < units.size(); ++i) {
    cut[{waves[i], units[i].move}].push_back(units[i].range);
  }
  std::vector<PlannedMove> moves;
  for (const auto& [key, ranges] : cut) {
    const Move& move = prepared.moves()[static_cast<size_t>(key.second)];
    moves.push_back(
        {key.first, move.from, move.to, WithKeysAsHashed(prepared, HashRangeSet(ranges))});
  }
  return moves;
}

// The membership with all boundaries and everything that moves in one wave: for cutting it.
absl::StatusOr<Membership::Ptr> Prepared(const Membership& membership, const Changes& changes,
                                         const Reallocation& reallocation) {
  Update update;
  update.put_nodes = changes.after;
  update.split_at = reallocation.splits;
  for (const RangeMove& move : reallocation.moves) {
    update.put_moves.push_back({"plan", 0, move.from, move.to, MovePhase::kWarming, move.ranges});
  }
  return Apply(membership, update);
}

double WeightOf(const std::vector<Node>& nodes) {
  double weight = 0;
  for (const Node& node : nodes) weight += node.weight_milli;
  return weight;
}

uint64_t PartOf(uint64_t count, double share, double of) {
  if (count == 0 || of <= 0) return 0;
  return static_cast<uint64_t>(std::llround(static_cast<double>(count) * share / of));
}

std::vector<NodeShare> SharesOf(const Membership& membership, const Changes& changes,
                                const std::vector<RangeMove>& moves,
                                const std::map<NodeId, NodeFact>& facts) {
  std::map<NodeId, NodeShare> shares;
  std::vector<HashMeasure> owned(membership.nodes().size(), 0);
  for (size_t i = 0; i < membership.ranges().size(); ++i) {
    owned[membership.ranges()[i].owner] +=
        static_cast<HashMeasure>(membership.RangeAt(i).SizeMinusOne()) + 1;
  }
  for (size_t i = 0; i < owned.size(); ++i) {
    shares[membership.nodes()[i].id].before = static_cast<double>(owned[i]) / kWholeSpace;
  }
  std::map<NodeId, double> given;
  std::map<NodeId, double> got;
  for (const RangeMove& move : moves) {
    given[move.from] += move.ranges.Share();
    got[move.to] += move.ranges.Share();
  }
  const double weight = WeightOf(changes.after);
  for (const Node& node : changes.after) shares[node.id].ideal_after = node.weight_milli / weight;
  std::vector<NodeShare> sorted;
  for (auto& [id, share] : shares) {
    share.node = id;
    share.after = std::max(0.0, share.before - given[id] + got[id]);
    if (const auto fact = facts.find(id); fact != facts.end()) {
      share.keys_out = PartOf(fact->second.keys, given[id], share.before);
      share.bytes_out = PartOf(fact->second.bytes, given[id], share.before);
    }
    sorted.push_back(share);
  }
  return sorted;
}

double MaxOverMean(const std::vector<Node>& nodes, const std::map<NodeId, double>& shares) {
  const double weight = WeightOf(nodes);
  double worst = 0;
  for (const Node& node : nodes) {
    worst = std::max(worst, shares.at(node.id) / (node.weight_milli / weight));
  }
  return worst;
}

// What nodes must gain at least to have their part by weight, with `had` as it is.
double LeastGain(const std::vector<Node>& after, const std::map<NodeId, double>& had) {
  const double weight = WeightOf(after);
  double gain = 0;
  for (const Node& node : after) {
    const auto at = had.find(node.id);
    gain += std::max(0.0, node.weight_milli / weight - (at == had.end() ? 0.0 : at->second));
  }
  return gain;
}

// `prepared` has the moves; its ranges are the buckets.
void FillLoad(const Membership& membership, const Changes& changes, const Membership& prepared,
              Preview& preview) {
  const std::vector<uint64_t>& load = changes.rebalance->bucket_load;
  double total = 0;
  for (const uint64_t of_bucket : load) total += static_cast<double>(of_bucket);
  std::map<NodeId, double> before;
  std::map<NodeId, double> after;
  for (const Node& node : membership.nodes()) before[node.id] = 0;
  for (const Node& node : changes.after) after[node.id] = 0;
  LoadFigures figures;
  for (size_t bucket = 0; bucket < load.size(); ++bucket) {
    const double share = static_cast<double>(load[bucket]) / total;
    const NodeId& owner = membership.nodes()[membership.ranges()[bucket].owner].id;
    const int move = prepared.MoveAt(bucket);
    before[owner] += share;
    after[move < 0 ? owner : prepared.moves()[static_cast<size_t>(move)].to] += share;
    if (move >= 0) figures.moved_share += share;
  }
  figures.ideal_share = LeastGain(changes.after, before);
  figures.max_over_mean_before = MaxOverMean(membership.nodes(), before);
  figures.max_over_mean_after = MaxOverMean(changes.after, after);
  for (NodeShare& share : preview.shares) {
    share.load_before = before[share.node];
    share.load_after = after[share.node];
  }
  preview.load = figures;
}

double IdealShareOf(const Membership& membership, const Changes& changes,
                    const std::map<NodeId, double>& before, double moved) {
  switch (BalanceOf(changes)) {
    case Balance::kAddedOnly:
      return IdealShare(membership.nodes(), changes.after);
    case Balance::kAll:
      return LeastGain(changes.after, before);
    case Balance::kNothing:
      break;
  }
  return moved;
}

void FillFigures(const Membership& membership, const Changes& changes,
                 const std::vector<RangeMove>& moves, const std::map<NodeId, NodeFact>& facts,
                 Preview& preview) {
  preview.shares = SharesOf(membership, changes, moves, facts);
  std::map<NodeId, double> before;
  std::map<NodeId, double> after;
  for (const NodeShare& share : preview.shares) {
    before[share.node] = share.before;
    after[share.node] = share.after;
    preview.keys_moved += share.keys_out;
    preview.bytes_moved += share.bytes_out;
  }
  for (const RangeMove& move : moves) preview.moved_share += move.ranges.Share();
  preview.ideal_share = IdealShareOf(membership, changes, before, preview.moved_share);
  preview.modulo_share = ModuloShare(membership.nodes(), changes.after);
  preview.plain_ring_share = PlainRingShare(membership.nodes(), changes.after);
  preview.max_over_mean_before = MaxOverMean(membership.nodes(), before);
  preview.max_over_mean_after = MaxOverMean(changes.after, after);
}

// Balance stops at pins, which whoever reads the figures should know.
void WarnOfPins(const Membership& membership, const Changes& changes,
                std::vector<std::string>& warnings) {
  if (BalanceOf(changes) != Balance::kAll) return;
  std::set<uint32_t> changed(changes.pins_removed.begin(), changes.pins_removed.end());
  for (const BucketChange::Placed& placed : changes.placed) changed.insert(placed.bucket);
  const auto stay = std::count_if(membership.pins().begin(), membership.pins().end(),
                                  [&](const Pin& pin) { return !changed.contains(pin.bucket); });
  if (stay == 0) return;
  warnings.push_back(fmt::format("{} pinned bucket{} where {}", stay,
                                 stay == 1 ? " stays" : "s stay",
                                 stay == 1 ? "it is" : "they are"));
}

// Nobody copies what followers are to have.
void WarnOfFollowers(const CopiesAfter& copies, std::vector<std::string>& warnings) {
  std::vector<HashRange> ranges;
  for (const CopiesAfter::Followers& followers : copies.followers) {
    const auto had = [&](const NodeId& node) {
      return node.empty() || std::find(followers.before.begin(), followers.before.end(), node) !=
                                 followers.before.end();
    };
    const bool all_had = std::all_of(followers.after.begin(), followers.after.end(), had);
    if (!all_had) ranges.push_back(followers.range);
  }
  if (ranges.empty()) return;
  warnings.push_back(fmt::format(
      "{:.1f}% of hash space gets followers to which the migration copies nothing: what "
      "they have of it is up to the application or the engine",
      HashRangeSet(ranges).Share() * 100));
}

// What followers of the dead take over, copies and all.
HashRangeSet TakenOver(const CopiesAfter& copies) {
  std::vector<HashRange> ranges;
  for (const CopiesAfter::Followers& followers : copies.followers) {
    if (followers.owner_before == followers.owner_after) continue;
    const auto at =
        std::find(followers.before.begin(), followers.before.end(), followers.owner_after);
    if (at != followers.before.end()) ranges.push_back(followers.range);
  }
  return HashRangeSet(ranges);
}

void WarnOfLoss(const Changes& changes, const CopiesAfter& copies,
                std::vector<std::string>& warnings) {
  double share = 0;
  for (const RangeMove& move : copies.reallocation.moves) share += move.ranges.Share();
  const double taken_over = TakenOver(copies).Share();
  const std::string dead = absl::StrJoin(changes.removed, ", ");
  if (taken_over > 0) {
    warnings.push_back(fmt::format(
        "{:.1f}% of hash space is taken over by followers with the copies they have: what {} "
        "accepted and they did not get is lost, and an older value may be read in its place",
        taken_over * 100, dead));
  }
  if (taken_over > 0 && share <= taken_over) return;
  warnings.push_back(fmt::format(
      "{:.1f}% of hash space starts cold, and what {} alone had is lost: its copy is not used, "
      "even if it comes back",
      (share - taken_over) * 100, dead));
}

std::vector<std::string> WarningsOf(const Membership& membership, const Changes& changes,
                                    const MigrationPlan& plan, const CopiesAfter& copies,
                                    const std::map<NodeId, NodeFact>& facts) {
  const std::vector<RangeMove>& moves = copies.reallocation.moves;
  const std::string timeout = absl::FormatDuration(plan.strategy.warm_timeout);
  std::set<NodeId> involved;
  for (const Node& node : changes.added) involved.insert(node.id);
  for (const RangeMove& move : moves) involved.insert({move.from, move.to});
  std::vector<std::string> warnings;
  std::vector<NodeId> unknown_rdb;
  for (const NodeId& id : involved) {
    if (changes.is_failover &&
        std::binary_search(changes.removed.begin(), changes.removed.end(), id)) {
      continue;
    }
    const auto fact = facts.find(id);
    if (fact != facts.end() && fact->second.has_session) {
      if (fact->second.rdb_version == 0) unknown_rdb.push_back(id);
      continue;
    }
    const bool added = std::any_of(changes.added.begin(), changes.added.end(),
                                   [&](const Node& node) { return node.id == id; });
    warnings.push_back(
        fmt::format("{} has no session{}: start its agent, the migration waits up to {}", id,
                    added ? " yet" : " now", timeout));
  }
  if (!unknown_rdb.empty()) {
    warnings.push_back(
        fmt::format("RDB version unknown: {}: a server refuses values that a newer one has "
                    "written, and only the "
                    "transfer will tell",
                    absl::StrJoin(unknown_rdb, ", ")));
  }
  WarnOfPins(membership, changes, warnings);
  if (changes.is_failover) WarnOfLoss(changes, copies, warnings);
  WarnOfFollowers(copies, warnings);
  return warnings;
}

// A plan about overrides moves nothing of the common plane: every figure of balance stays.
absl::StatusOr<Preview> PreviewOverrides(const Membership& membership, const MigrationPlan& plan,
                                         const std::map<NodeId, NodeFact>& facts) {
  ASSIGN_OR_RETURN(OverridePlan overrides, PlanOverrides(membership, plan));
  RETURN_IF_ERROR(CheckRdbVersions(overrides.moves, facts));
  Changes changes;
  changes.after = membership.nodes();
  Preview preview;
  preview.keyspace = membership.spec().id;
  preview.base_version = membership.version();
  preview.waves = overrides.moves.empty() ? 0 : 1;
  for (const RangeMove& move : overrides.moves) {
    preview.moves.push_back({0, move.from, move.to, move.ranges});
  }
  preview.overrides = std::move(overrides.changes);
  FillFigures(membership, changes, {}, facts, preview);
  preview.warnings = WarningsOf(membership, changes, plan, {{{}, overrides.moves}, {}}, facts);
  if (!preview.moves.empty()) {
    preview.warnings.push_back(
        "how many keys the rules match is known when their donors have looked through all they "
        "hold");
  }
  return preview;
}

// The node that has most room for keys that nobody counted.
NodeId RoomiestOf(const Changes& changes, const Preview& preview) {
  NodeId roomiest;
  double lowest = 0;
  for (const NodeShare& share : preview.shares) {
    const auto node = std::find_if(changes.after.begin(), changes.after.end(),
                                   [&](const Node& stays) { return stays.id == share.node; });
    if (node == changes.after.end()) continue;
    const double load = share.after / node->weight_milli;
    if (!roomiest.empty() && load >= lowest) continue;
    roomiest = share.node;
    lowest = load;
  }
  return roomiest;
}

// Keys of overrides that are on nodes that leave by a replacement or a failover go along, in the
// first wave.
absl::Status PassOverridesOn(const Membership& membership, const Changes& changes,
                             Preview& preview) {
  std::map<NodeId, std::vector<NodeId>> heirs;
  for (const auto& [node, by] : changes.replaced) heirs[node] = {by};
  if (changes.is_failover && changes.replaced.empty()) {
    for (const NodeId& node : changes.removed) heirs[node] = {RoomiestOf(changes, preview)};
  }
  if (heirs.empty() || membership.overrides().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(OverridePlan passed, PassOverridesOn(membership, heirs, changes.added));
  preview.overrides = std::move(passed.changes);
  for (const RangeMove& move : passed.moves) {
    const auto same =
        std::find_if(preview.moves.begin(), preview.moves.end(), [&](const PlannedMove& planned) {
          return planned.wave == 0 && planned.from == move.from && planned.to == move.to;
        });
    if (same != preview.moves.end()) {
      same->ranges = same->ranges.Union(move.ranges);
    } else {
      preview.moves.push_back({0, move.from, move.to, move.ranges});
    }
  }
  std::sort(preview.moves.begin(), preview.moves.end(),
            [](const PlannedMove& a, const PlannedMove& b) {
              return std::tie(a.wave, a.from, a.to) < std::tie(b.wave, b.from, b.to);
            });
  preview.waves = preview.moves.empty() ? 0 : preview.moves.back().wave + 1;
  return absl::OkStatus();
}

// REQUIRES: nothing moves in `membership`.
absl::StatusOr<Preview> PlanAlone(const Membership& membership, const MigrationPlan& plan,
                                  const std::map<NodeId, NodeFact>& facts) {
  if (IsAboutOverrides(plan)) return PreviewOverrides(membership, plan, facts);
  ASSIGN_OR_RETURN(const Changes changes, CollectChanges(membership, plan));
  ASSIGN_OR_RETURN(const CopiesAfter copies, CopiesOf(membership, changes));
  const Reallocation& reallocation = copies.reallocation;
  RETURN_IF_ERROR(CheckEffect(changes, copies));
  RETURN_IF_ERROR(CheckRdbVersions(reallocation.moves, facts));
  ASSIGN_OR_RETURN(const Membership::Ptr prepared, Prepared(membership, changes, reallocation));

  Preview preview;
  preview.keyspace = membership.spec().id;
  preview.base_version = membership.version();
  // What is down is not made to wait for what is down too.
  preview.moves = CutIntoWaves(*prepared, changes.is_failover ? std::vector<uint32_t>{kWholePpm}
                                                              : plan.strategy.commit_steps_ppm);
  preview.waves = preview.moves.empty() ? 0 : preview.moves.back().wave + 1;
  ASSIGN_OR_RETURN(preview.follower_changes,
                   PlanFollowers(copies, preview.moves, preview.waves, changes.is_failover));
  preview.nodes_added = changes.added;
  preview.nodes_removed = changes.removed;
  if (changes.is_failover) preview.nodes_dead = changes.removed;
  preview.reweights = changes.reweights;
  preview.pins_put = changes.pins_put;
  preview.pins_removed = changes.pins_removed;
  preview.splits = reallocation.splits;
  FillFigures(membership, changes, reallocation.moves, facts, preview);
  if (changes.rebalance != nullptr && !changes.rebalance->bucket_load.empty()) {
    FillLoad(membership, changes, *prepared, preview);
  }
  RETURN_IF_ERROR(PassOverridesOn(membership, changes, preview));
  preview.warnings = WarningsOf(membership, changes, plan, copies, facts);
  return preview;
}

// An end that another migration has not inserted yet may be one of this plan's, too.
void TakeOverSplits(const std::vector<OtherMigration>& others, Preview& preview) {
  for (const OtherMigration& other : others) {
    const std::vector<HashPoint>& splits = other.preview->splits;
    preview.splits.insert(preview.splits.end(), splits.begin(), splits.end());
  }
  std::sort(preview.splits.begin(), preview.splits.end());
  preview.splits.erase(std::unique(preview.splits.begin(), preview.splits.end()),
                       preview.splits.end());
}

// With copies one migration runs at a time: a plan that waits for its turn is made for what is
// there now, and anew when that comes.
absl::StatusOr<Preview> PlanBehind(const Membership& membership, const MigrationPlan& plan,
                                   const std::map<NodeId, NodeFact>& facts,
                                   const std::vector<OtherMigration>& others) {
  MembershipData data = membership.data();
  data.moves.clear();
  ASSIGN_OR_RETURN(const Membership::Ptr still,
                   Membership::CreateAfter(membership, std::move(data)));
  ASSIGN_OR_RETURN(Preview preview, PlanAlone(*still, plan, facts));
  for (const OtherMigration& other : others) {
    preview.warnings.push_back(
        fmt::format("migration '{}' goes first: the figures are those of now", other.id));
  }
  return preview;
}

}  // namespace

absl::StatusOr<Preview> PlanForLater(const Membership& membership, const MigrationPlan& plan,
                                     const std::map<NodeId, NodeFact>& facts,
                                     const std::vector<OtherMigration>& others) {
  RETURN_IF_ERROR(ValidatePlan(plan));
  RETURN_IF_ERROR(CheckBase(membership, plan, others));
  if (others.empty()) return PlanAlone(membership, plan, facts);
  if (membership.spec().replication > 1) return PlanBehind(membership, plan, facts, others);
  ASSIGN_OR_RETURN(const Membership::Ptr expected,
                   ExpectedMembership(membership, others, NamedNodes(plan)));
  ASSIGN_OR_RETURN(Preview preview, PlanAlone(*expected, plan, facts));
  preview.base_version = membership.version();
  TakeOverSplits(others, preview);
  for (const OtherMigration& other : others) {
    preview.warnings.push_back(
        fmt::format("migration '{}' goes on beside it: the figures take what leaves its nodes as "
                    "moved, and what joins by it as not there",
                    other.id));
  }
  return preview;
}

absl::StatusOr<Preview> Plan(const Membership& membership, const MigrationPlan& plan,
                             const std::map<NodeId, NodeFact>& facts,
                             const std::vector<OtherMigration>& others) {
  RETURN_IF_ERROR(CheckNamedNodes(plan, others));
  ASSIGN_OR_RETURN(Preview preview, PlanForLater(membership, plan, facts, others));
  for (const OtherMigration& other : others) {
    RETURN_IF_ERROR(ConflictWith(membership, preview, other));
  }
  return preview;
}

}  // namespace warmring
