#include "proto/wire/membership.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "fmt/format.h"

namespace warmring::wire {
namespace {

absl::Status UnknownEnum(std::string_view field, int value, std::string_view known) {
  return absl::InvalidArgumentError(fmt::format("{}: {} is unknown: use {}", field, value, known));
}

v1::HashFunction ToProto(HashSpec::Function function) {
  switch (function) {
    case HashSpec::Function::kXxh3:
      return v1::HASH_FUNCTION_XXH3;
    case HashSpec::Function::kXxh64:
      return v1::HASH_FUNCTION_XXH64;
    case HashSpec::Function::kMurmur3:
      return v1::HASH_FUNCTION_MURMUR3;
    case HashSpec::Function::kKetama:
      return v1::HASH_FUNCTION_KETAMA;
    case HashSpec::Function::kCrc16:
      return v1::HASH_FUNCTION_CRC16;
  }
  return v1::HASH_FUNCTION_UNSPECIFIED;
}

absl::StatusOr<HashSpec::Function> HashFunctionFromProto(v1::HashFunction function) {
  switch (function) {
    case v1::HASH_FUNCTION_UNSPECIFIED:
    case v1::HASH_FUNCTION_XXH3:
      return HashSpec::Function::kXxh3;
    case v1::HASH_FUNCTION_XXH64:
      return HashSpec::Function::kXxh64;
    case v1::HASH_FUNCTION_MURMUR3:
      return HashSpec::Function::kMurmur3;
    case v1::HASH_FUNCTION_KETAMA:
      return HashSpec::Function::kKetama;
    case v1::HASH_FUNCTION_CRC16:
      return HashSpec::Function::kCrc16;
    default:
      return UnknownEnum("spec.hash_function", function,
                         "HASH_FUNCTION_XXH3, _XXH64, _MURMUR3, _KETAMA or _CRC16");
  }
}

v1::MovePhase ToProto(MovePhase phase) {
  return phase == MovePhase::kWarming ? v1::MOVE_PHASE_WARMING : v1::MOVE_PHASE_GRACE;
}

absl::StatusOr<MovePhase> MovePhaseFromProto(std::string_view field, v1::MovePhase phase) {
  if (phase == v1::MOVE_PHASE_WARMING) return MovePhase::kWarming;
  if (phase == v1::MOVE_PHASE_GRACE) return MovePhase::kGrace;
  return UnknownEnum(field, phase, "MOVE_PHASE_WARMING or MOVE_PHASE_GRACE");
}

v1::Move ToProto(const Move& move) {
  v1::Move proto;
  proto.set_migration(move.migration);
  proto.set_wave(move.wave);
  proto.set_from(move.from);
  proto.set_to(move.to);
  proto.set_phase(ToProto(move.phase));
  *proto.mutable_ranges() = wire::ToProto(move.ranges);
  return proto;
}

absl::StatusOr<Move> MoveFromProto(const std::string& field, const v1::Move& proto) {
  Move move;
  RETURN_IF_ERROR(ValidateId(field + ".migration", proto.migration()));
  RETURN_IF_ERROR(ValidateId(field + ".from", proto.from()));
  RETURN_IF_ERROR(ValidateId(field + ".to", proto.to()));
  move.migration = proto.migration();
  move.wave = proto.wave();
  move.from = proto.from();
  move.to = proto.to();
  ASSIGN_OR_RETURN(move.phase, MovePhaseFromProto(field + ".phase", proto.phase()));
  ASSIGN_OR_RETURN(move.ranges, HashRangesFromProto(field + ".ranges", proto.ranges()));
  return move;
}

template <typename Protos>
absl::StatusOr<std::vector<Node>> NodesFromProto(std::string_view field, const Protos& protos) {
  std::vector<Node> nodes;
  nodes.reserve(static_cast<size_t>(protos.size()));
  for (int i = 0; i < protos.size(); ++i) {
    ASSIGN_OR_RETURN(Node node, NodeFromProto(fmt::format("{}[{}]", field, i), protos[i]));
    nodes.push_back(std::move(node));
  }
  return nodes;
}

template <typename Protos>
absl::StatusOr<std::vector<Move>> MovesFromProto(std::string_view field, const Protos& protos) {
  std::vector<Move> moves;
  moves.reserve(static_cast<size_t>(protos.size()));
  for (int i = 0; i < protos.size(); ++i) {
    ASSIGN_OR_RETURN(Move move, MoveFromProto(fmt::format("{}[{}]", field, i), protos[i]));
    moves.push_back(std::move(move));
  }
  return moves;
}

v1::Override ToProto(const Override& item) {
  v1::Override proto;
  proto.set_plane(item.plane);
  *proto.mutable_rule() = wire::ToProto(item.rule);
  for (const OverrideRange& range : item.ranges) {
    proto.add_range_ends(range.end);
    proto.add_range_owners(range.owner);
  }
  proto.set_epoch(item.epoch.value);
  return proto;
}

absl::Status CheckOwnersOf(std::string_view field, int ends, int owners) {
  if (ends == owners) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: {} range_ends have {} range_owners: each needs one", field, ends, owners));
}

absl::StatusOr<Override> OverrideFromProto(const std::string& field, const v1::Override& proto) {
  Override item;
  item.plane = proto.plane();
  ASSIGN_OR_RETURN(item.rule, wire::OverrideRuleFromProto(field + ".rule", proto.rule()));
  RETURN_IF_ERROR(CheckOwnersOf(field, proto.range_ends_size(), proto.range_owners_size()));
  for (int i = 0; i < proto.range_ends_size(); ++i) {
    item.ranges.push_back({proto.range_ends(i), proto.range_owners(i)});
  }
  item.epoch = Epoch(proto.epoch());
  return item;
}

v1::PutOverride ToProto(const PutOverride& put) {
  v1::PutOverride proto;
  proto.set_plane(put.plane);
  *proto.mutable_rule() = wire::ToProto(put.rule);
  for (const PutOverride::Range& range : put.ranges) {
    proto.add_range_ends(range.end);
    proto.add_range_owners(range.owner);
  }
  proto.set_epoch(put.epoch.value);
  return proto;
}

absl::StatusOr<PutOverride> PutOverrideFromProto(const std::string& field,
                                                 const v1::PutOverride& proto) {
  PutOverride put;
  put.plane = proto.plane();
  ASSIGN_OR_RETURN(put.rule, wire::OverrideRuleFromProto(field + ".rule", proto.rule()));
  RETURN_IF_ERROR(CheckOwnersOf(field, proto.range_ends_size(), proto.range_owners_size()));
  for (int i = 0; i < proto.range_ends_size(); ++i) {
    RETURN_IF_ERROR(
        ValidateId(fmt::format("{}.range_owners[{}]", field, i), proto.range_owners(i)));
    put.ranges.push_back({proto.range_ends(i), proto.range_owners(i)});
  }
  put.epoch = Epoch(proto.epoch());
  return put;
}

template <typename Protos>
absl::StatusOr<std::vector<Pin>> PinsFromProto(std::string_view field, const Protos& protos) {
  std::vector<Pin> pins;
  pins.reserve(static_cast<size_t>(protos.size()));
  for (int i = 0; i < protos.size(); ++i) {
    RETURN_IF_ERROR(ValidateId(fmt::format("{}[{}].node", field, i), protos[i].node()));
    pins.push_back({protos[i].bucket(), protos[i].node()});
  }
  return pins;
}

template <typename Protos>
absl::Status ValidateIds(std::string_view field, const Protos& ids) {
  for (int i = 0; i < ids.size(); ++i) {
    RETURN_IF_ERROR(ValidateId(fmt::format("{}[{}]", field, i), ids[i]));
  }
  return absl::OkStatus();
}

// The ends of the ranges: on the wire for a ring, implied by the number of buckets on a directory.
absl::StatusOr<std::vector<HashPoint>> EndsFromProto(const KeyspaceSpec& spec,
                                                     const v1::Membership& proto) {
  if (spec.placement == PlacementKind::kRing) {
    return std::vector<HashPoint>(proto.range_ends().begin(), proto.range_ends().end());
  }
  if (!proto.range_ends().empty()) {
    return absl::InvalidArgumentError(
        fmt::format("range_ends: {} ends on a directory, whose ends are implied: leave it empty",
                    proto.range_ends_size()));
  }
  const size_t buckets = size_t{1} << spec.directory_bits;
  const uint32_t shift = 64 - spec.directory_bits;
  std::vector<HashPoint> ends(buckets);
  for (size_t i = 0; i < buckets; ++i) ends[i] = ((uint64_t{i} + 1) << shift) - 1;
  return ends;
}

}  // namespace

v1::HashRanges ToProto(const HashRangeSet& ranges) {
  v1::HashRanges proto;
  const std::vector<HashRange> list = ranges.Ranges();
  proto.mutable_starts()->Reserve(static_cast<int>(list.size()));
  proto.mutable_ends()->Reserve(static_cast<int>(list.size()));
  for (const HashRange& range : list) {
    proto.add_starts(range.start);
    proto.add_ends(range.end);
  }
  // By plane: the last is common only if all are.
  if (!list.empty() && list.back().plane != kCommonPlane) {
    for (const HashRange& range : list) proto.add_planes(range.plane);
  }
  return proto;
}

absl::StatusOr<HashRangeSet> HashRangesFromProto(std::string_view field,
                                                 const v1::HashRanges& proto) {
  if (proto.starts_size() != proto.ends_size()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} starts but {} ends: each range needs both", field, proto.starts_size(),
                    proto.ends_size()));
  }
  if (proto.planes_size() != 0 && proto.planes_size() != proto.starts_size()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} starts but {} planes: give one for each range, or none", field,
                    proto.starts_size(), proto.planes_size()));
  }
  std::vector<HashRange> ranges;
  ranges.reserve(static_cast<size_t>(proto.starts_size()));
  for (int i = 0; i < proto.starts_size(); ++i) {
    const Plane plane = proto.planes().empty() ? kCommonPlane : proto.planes(i);
    ranges.push_back({proto.starts(i), proto.ends(i), plane});
  }
  HashRangeSet set(ranges);
  constexpr size_t kMaxPlanes = OverrideTable::kMaxRules + 1;  // and the common one
  if (set.Planes().size() <= kMaxPlanes) return set;
  return absl::InvalidArgumentError(fmt::format("{}: {} planes are over the limit of {}", field,
                                                set.Planes().size(), kMaxPlanes));
}

v1::OverrideRule ToProto(const OverrideRule& rule) {
  v1::OverrideRule proto;
  if (rule.match == OverrideRule::Match::kKey) {
    proto.set_key(rule.bytes);
  } else {
    proto.set_prefix(rule.bytes);
  }
  return proto;
}

absl::StatusOr<OverrideRule> OverrideRuleFromProto(std::string_view field,
                                                   const v1::OverrideRule& proto) {
  OverrideRule rule;
  switch (proto.match_case()) {
    case v1::OverrideRule::kKey:
      rule = {OverrideRule::Match::kKey, proto.key()};
      break;
    case v1::OverrideRule::kPrefix:
      rule = {OverrideRule::Match::kPrefix, proto.prefix()};
      break;
    case v1::OverrideRule::MATCH_NOT_SET:
      return absl::InvalidArgumentError(fmt::format("{}: set its key or its prefix", field));
  }
  RETURN_IF_ERROR(ValidateOverrideRule(field, rule));
  return rule;
}

v1::KeyspaceSpec ToProto(const KeyspaceSpec& spec) {
  v1::KeyspaceSpec proto;
  proto.set_id(spec.id);
  proto.set_placement(spec.placement == PlacementKind::kRing ? v1::PLACEMENT_KIND_RING
                                                             : v1::PLACEMENT_KIND_DIRECTORY);
  proto.set_directory_bits(spec.directory_bits);
  proto.set_tokens_per_node(spec.tokens_per_node);
  proto.set_hash_function(ToProto(spec.hash.function));
  proto.set_hash_tags(spec.hash.hash_tags);
  proto.set_replication(spec.replication);
  proto.set_on_restart(spec.on_restart == OnRestart::kTrust ? v1::ON_RESTART_TRUST
                                                            : v1::ON_RESTART_PURGE);
  proto.set_origin_fill_qps(spec.origin_fill_qps);
  proto.set_grace_ms(spec.grace_ms);
  proto.set_failure_domain(static_cast<v1::DomainLevel>(spec.domains.level));
  proto.set_best_effort_domains(spec.domains.best_effort);
  proto.set_allocator(static_cast<v1::Allocator>(spec.allocator));
  return proto;
}

absl::StatusOr<KeyspaceSpec> KeyspaceSpecFromProto(const v1::KeyspaceSpec& proto) {
  KeyspaceSpec spec;
  spec.id = proto.id();
  switch (proto.placement()) {
    case v1::PLACEMENT_KIND_UNSPECIFIED:
    case v1::PLACEMENT_KIND_DIRECTORY:
      spec.placement = PlacementKind::kDirectory;
      break;
    case v1::PLACEMENT_KIND_RING:
      spec.placement = PlacementKind::kRing;
      break;
    default:
      return UnknownEnum("spec.placement", proto.placement(),
                         "PLACEMENT_KIND_RING or PLACEMENT_KIND_DIRECTORY");
  }
  if (proto.directory_bits() != 0) spec.directory_bits = proto.directory_bits();
  if (proto.tokens_per_node() != 0) spec.tokens_per_node = proto.tokens_per_node();
  ASSIGN_OR_RETURN(spec.hash.function, HashFunctionFromProto(proto.hash_function()));
  spec.hash.hash_tags = proto.hash_tags() || spec.hash.function == HashSpec::Function::kCrc16;
  if (proto.replication() != 0) spec.replication = proto.replication();
  switch (proto.on_restart()) {
    case v1::ON_RESTART_UNSPECIFIED:
    case v1::ON_RESTART_PURGE:
      spec.on_restart = OnRestart::kPurge;
      break;
    case v1::ON_RESTART_TRUST:
      spec.on_restart = OnRestart::kTrust;
      break;
    default:
      return UnknownEnum("spec.on_restart", proto.on_restart(),
                         "ON_RESTART_PURGE or ON_RESTART_TRUST");
  }
  spec.origin_fill_qps = proto.origin_fill_qps();
  if (proto.grace_ms() != 0) spec.grace_ms = proto.grace_ms();
  if (proto.failure_domain() != v1::DOMAIN_LEVEL_UNSPECIFIED) {
    spec.domains.level = static_cast<DomainLevel>(std::clamp<int>(proto.failure_domain(), 0, 255));
  }
  spec.domains.best_effort = proto.best_effort_domains();
  spec.allocator = static_cast<Allocator>(std::clamp<int>(proto.allocator(), 0, 255));
  RETURN_IF_ERROR(ValidateKeyspaceSpec(spec));
  return spec;
}

v1::Node ToProto(const Node& node) {
  v1::Node proto;
  proto.set_id(node.id);
  proto.set_hash_name(node.hash_name);
  proto.set_address(node.address);
  proto.set_weight(node.weight_milli / 1000.0);
  proto.set_zone(node.zone);
  proto.mutable_labels()->insert(node.labels.begin(), node.labels.end());
  return proto;
}

absl::StatusOr<uint32_t> WeightFromProto(std::string_view field, double weight) {
  if (!std::isfinite(weight) || weight < 0.01 || weight > 1000.0) {
    return absl::InvalidArgumentError(
        fmt::format("{}.weight: {} is out of bounds: use 0.01 to 1000", field, weight));
  }
  return static_cast<uint32_t>(std::lround(weight * 1000.0));
}

v1::Pin ToProto(const Pin& pin) {
  v1::Pin proto;
  proto.set_bucket(pin.bucket);
  proto.set_node(pin.node);
  return proto;
}

absl::StatusOr<Node> NodeFromProto(std::string_view field, const v1::Node& proto) {
  Node node;
  node.id = proto.id();
  node.hash_name = proto.hash_name();
  node.address = proto.address();
  if (proto.has_weight()) {
    ASSIGN_OR_RETURN(node.weight_milli, WeightFromProto(field, proto.weight()));
  }
  node.zone = proto.zone();
  node.labels.insert(proto.labels().begin(), proto.labels().end());
  RETURN_IF_ERROR(ValidateNode(field, node));
  return node;
}

v1::Membership ToProto(const Membership& membership) {
  v1::Membership proto;
  proto.set_history(membership.history().ToString());
  proto.set_version(membership.version().value);
  *proto.mutable_spec() = ToProto(membership.spec());
  for (const Node& node : membership.nodes()) *proto.add_nodes() = ToProto(node);
  const auto ranges = static_cast<int>(membership.ranges().size());
  const bool ring = membership.spec().placement == PlacementKind::kRing;
  if (ring) proto.mutable_range_ends()->Reserve(ranges);
  proto.mutable_range_owners()->Reserve(ranges);
  proto.mutable_range_epochs()->Reserve(ranges);
  for (const OwnedRange& range : membership.ranges()) {
    if (ring) proto.add_range_ends(range.end);
    proto.add_range_owners(range.owner);
    proto.add_range_epochs(range.epoch.value);
  }
  for (const NodeIndex follower : membership.data().followers) {
    proto.add_range_followers(follower == kNoNode ? 0 : follower + 1);
  }
  for (const Move& move : membership.moves()) *proto.add_moves() = ToProto(move);
  for (const Override& item : membership.overrides()) *proto.add_overrides() = ToProto(item);
  if (membership.data().next_plane > 1) proto.set_next_plane(membership.data().next_plane);
  for (const Pin& pin : membership.pins()) *proto.add_pins() = ToProto(pin);
  proto.set_digest(membership.digest());
  return proto;
}

absl::StatusOr<Membership::Ptr> MembershipFromProto(const v1::Membership& proto) {
  MembershipData data;
  ASSIGN_OR_RETURN(data.history, IdFromProto<HistoryId>("history", proto.history()));
  data.version = Version(proto.version());
  ASSIGN_OR_RETURN(data.spec, KeyspaceSpecFromProto(proto.spec()));
  ASSIGN_OR_RETURN(data.nodes, NodesFromProto("nodes", proto.nodes()));
  ASSIGN_OR_RETURN(const std::vector<HashPoint> ends, EndsFromProto(data.spec, proto));
  if (ends.size() != static_cast<size_t>(proto.range_owners_size()) ||
      ends.size() != static_cast<size_t>(proto.range_epochs_size())) {
    return absl::InvalidArgumentError(
        fmt::format("range_owners: {} ranges have {} owners and {} epochs: each needs one",
                    ends.size(), proto.range_owners_size(), proto.range_epochs_size()));
  }
  data.ranges.resize(ends.size());
  for (size_t i = 0; i < ends.size(); ++i) {
    const auto at = static_cast<int>(i);
    data.ranges[i] = {ends[i], proto.range_owners(at), Epoch(proto.range_epochs(at))};
  }
  // 0 becomes kNoNode.
  for (const uint32_t follower : proto.range_followers()) data.followers.push_back(follower - 1);
  ASSIGN_OR_RETURN(data.moves, MovesFromProto("moves", proto.moves()));
  for (int i = 0; i < proto.overrides_size(); ++i) {
    ASSIGN_OR_RETURN(Override item,
                     OverrideFromProto(fmt::format("overrides[{}]", i), proto.overrides(i)));
    data.overrides.push_back(std::move(item));
  }
  if (proto.next_plane() != 0) data.next_plane = proto.next_plane();
  ASSIGN_OR_RETURN(data.pins, PinsFromProto("pins", proto.pins()));
  ASSIGN_OR_RETURN(Membership::Ptr membership, Membership::Create(std::move(data)));
  if (membership->digest() != proto.digest()) {
    return absl::DataLossError(
        fmt::format("digest: {:016x} is not that of the content, {:016x}: fetch it again",
                    proto.digest(), membership->digest()));
  }
  return membership;
}

namespace {

void PutFollowersToProto(const std::vector<PutFollowers>& puts, v1::Delta& proto) {
  std::map<NodeId, uint32_t> numbers = {{NodeId(), 0}};
  for (const PutFollowers& put : puts) {
    v1::PutFollowers* out = proto.add_put_followers();
    *out->mutable_ranges() = wire::ToProto(put.ranges);
    for (const NodeId& id : put.followers) {
      const auto [at, is_new] = numbers.emplace(id, static_cast<uint32_t>(numbers.size()));
      if (is_new) proto.add_follower_ids(id);
      out->add_followers(at->second);
    }
  }
}

absl::StatusOr<std::vector<PutFollowers>> PutFollowersFromProto(const v1::Delta& proto) {
  RETURN_IF_ERROR(ValidateIds("follower_ids", proto.follower_ids()));
  std::vector<PutFollowers> puts;
  for (int i = 0; i < proto.put_followers_size(); ++i) {
    const v1::PutFollowers& in = proto.put_followers(i);
    const std::string field = fmt::format("put_followers[{}]", i);
    PutFollowers put;
    ASSIGN_OR_RETURN(put.ranges, HashRangesFromProto(field + ".ranges", in.ranges()));
    for (const uint32_t follower : in.followers()) {
      if (follower > static_cast<uint32_t>(proto.follower_ids_size())) {
        return absl::InvalidArgumentError(
            fmt::format("{}.followers: {} is no number of one of the {} follower_ids", field,
                        follower, proto.follower_ids_size()));
      }
      put.followers.push_back(follower == 0 ? NodeId()
                                            : proto.follower_ids(static_cast<int>(follower) - 1));
    }
    puts.push_back(std::move(put));
  }
  return puts;
}

}  // namespace

v1::Delta ToProto(const Delta& delta) {
  v1::Delta proto;
  proto.set_history(delta.history.ToString());
  proto.set_from_version(delta.from.value);
  proto.set_to_version(delta.to.value);
  const Update& update = delta.update;
  for (const Node& node : update.put_nodes) *proto.add_put_nodes() = ToProto(node);
  for (HashPoint end : update.split_at) proto.add_split_at(end);
  for (const Assignment& assignment : update.assignments) {
    v1::Assignment* out = proto.add_assignments();
    *out->mutable_ranges() = ToProto(assignment.ranges);
    out->set_owner(assignment.owner);
    out->set_epoch(assignment.epoch.value);
  }
  for (const MigrationId& id : update.remove_moves) proto.add_remove_moves(id);
  for (const Move& move : update.put_moves) *proto.add_put_moves() = ToProto(move);
  for (HashPoint end : update.merge_at) proto.add_merge_at(end);
  for (const NodeId& id : update.remove_nodes) proto.add_remove_nodes(id);
  proto.set_directory_bits(update.directory_bits);
  for (const PutOverride& put : update.put_overrides) *proto.add_put_overrides() = ToProto(put);
  for (const Plane plane : update.remove_overrides) proto.add_remove_overrides(plane);
  for (const uint32_t bucket : update.remove_pins) proto.add_remove_pins(bucket);
  for (const Pin& pin : update.put_pins) *proto.add_put_pins() = ToProto(pin);
  PutFollowersToProto(update.put_followers, proto);
  proto.set_digest(delta.digest);
  return proto;
}

absl::StatusOr<Delta> DeltaFromProto(const v1::Delta& proto) {
  Delta delta;
  ASSIGN_OR_RETURN(delta.history, IdFromProto<HistoryId>("history", proto.history()));
  delta.from = Version(proto.from_version());
  delta.to = Version(proto.to_version());
  if (delta.from.value == 0 || delta.to.value == 0 || delta.to != delta.from.Next()) {
    return absl::InvalidArgumentError(
        fmt::format("to_version: {} does not follow from_version {}: a delta is one step",
                    proto.to_version(), proto.from_version()));
  }
  Update& update = delta.update;
  ASSIGN_OR_RETURN(update.put_nodes, NodesFromProto("put_nodes", proto.put_nodes()));
  update.split_at.assign(proto.split_at().begin(), proto.split_at().end());
  for (int i = 0; i < proto.assignments_size(); ++i) {
    const v1::Assignment& in = proto.assignments(i);
    const std::string field = fmt::format("assignments[{}]", i);
    Assignment assignment;
    RETURN_IF_ERROR(ValidateId(field + ".owner", in.owner()));
    assignment.owner = in.owner();
    assignment.epoch = Epoch(in.epoch());
    ASSIGN_OR_RETURN(assignment.ranges, HashRangesFromProto(field + ".ranges", in.ranges()));
    update.assignments.push_back(std::move(assignment));
  }
  RETURN_IF_ERROR(ValidateIds("remove_moves", proto.remove_moves()));
  update.remove_moves.assign(proto.remove_moves().begin(), proto.remove_moves().end());
  ASSIGN_OR_RETURN(update.put_moves, MovesFromProto("put_moves", proto.put_moves()));
  update.merge_at.assign(proto.merge_at().begin(), proto.merge_at().end());
  RETURN_IF_ERROR(ValidateIds("remove_nodes", proto.remove_nodes()));
  update.remove_nodes.assign(proto.remove_nodes().begin(), proto.remove_nodes().end());
  update.directory_bits = proto.directory_bits();
  for (int i = 0; i < proto.put_overrides_size(); ++i) {
    ASSIGN_OR_RETURN(PutOverride put, PutOverrideFromProto(fmt::format("put_overrides[{}]", i),
                                                           proto.put_overrides(i)));
    update.put_overrides.push_back(std::move(put));
  }
  update.remove_overrides.assign(proto.remove_overrides().begin(), proto.remove_overrides().end());
  update.remove_pins.assign(proto.remove_pins().begin(), proto.remove_pins().end());
  ASSIGN_OR_RETURN(update.put_pins, PinsFromProto("put_pins", proto.put_pins()));
  ASSIGN_OR_RETURN(update.put_followers, PutFollowersFromProto(proto));
  delta.digest = proto.digest();
  return delta;
}

template <typename Id>
absl::StatusOr<Id> IdFromProto(std::string_view field, std::string_view text) {
  const absl::StatusOr<Id128> id = Id128::Parse(text);
  if (!id.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: '{}' is not an id: use 32 lower-case hex digits", field, Printable(text)));
  }
  Id result;
  result.high = id->high;
  result.low = id->low;
  return result;
}
template absl::StatusOr<Id128> IdFromProto<Id128>(std::string_view, std::string_view);
template absl::StatusOr<HistoryId> IdFromProto<HistoryId>(std::string_view, std::string_view);
template absl::StatusOr<Incarnation> IdFromProto<Incarnation>(std::string_view, std::string_view);

}  // namespace warmring::wire
