#include "core/membership/encoding.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <xxhash.h>

#include "core/base/byte_reader.h"
#include "core/base/byte_writer.h"
#include "core/base/status_macros.h"

namespace warmring {
namespace {

constexpr size_t kMaxIdBytes = 63;
constexpr size_t kMaxMoves = Membership::kMaxRanges;
constexpr std::string_view kSealMagic = "WRMEMBER";

// The fewest bytes that an item of a list can take, by which a count is held against what is left.
constexpr size_t kMinNodeBytes = 6;
constexpr size_t kMinRangeBytes = 2;
constexpr size_t kMinMoveBytes = 7;
constexpr size_t kMinAssignmentBytes = 11;
constexpr size_t kMinOverrideBytes = 12;
constexpr size_t kMinPutOverrideBytes = 12;
constexpr size_t kMinPinBytes = 2;
constexpr size_t kMinPutFollowersBytes = 4;

uint64_t Checksum(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

// Which planes of hash space a format knows.
constexpr uint32_t kCommonPlaneOnly = 1;

// Points of one plane are written as the gaps and lengths between their boundaries, divided by the
// largest power of two that divides them all: three bytes for a bucket of a directory instead
// of 16.
void WritePoints(ByteWriter& out, const HashRangeSet& set) {
  const std::vector<HashRange> ranges = set.Ranges();
  uint64_t boundaries = 0;
  for (const HashRange& range : ranges) boundaries |= (range.start + 1) | (range.end + 1);
  const int shift = std::min(std::countr_zero(boundaries), 63);
  out.Varint(ranges.size());
  out.Byte(static_cast<uint8_t>(shift));
  HashPoint at = 0;
  for (const HashRange& range : ranges) {
    out.Varint((range.start + 1 - at) >> shift);
    out.Varint((range.end - range.start) >> shift);  // 0 is the whole space
    at = range.end + 1;
  }
}

void ReadPoints(ByteReader& in, Plane plane, std::vector<HashRange>& ranges) {
  const size_t count = in.Count("ranges of a set", Membership::kMaxRanges, 2);
  const uint32_t shift = in.Byte();
  if (shift > 63) {
    in.Fail("the scale of a set of ranges is over 63");
    return;
  }
  HashPoint at = 0;
  for (size_t i = 0; i < count && in.ok(); ++i) {
    const HashPoint start = at + (in.Varint() << shift) - 1;
    const HashPoint end = start + (in.Varint() << shift);
    ranges.push_back({start, end, plane});
    at = end + 1;
  }
}

// The points of the common plane, then the other planes with theirs.
void WriteRangeSet(ByteWriter& out, const HashRangeSet& set, uint32_t format) {
  WritePoints(out, set.On(kCommonPlane));
  if (format == kCommonPlaneOnly) return;
  std::vector<Plane> planes = set.Planes();
  std::erase(planes, kCommonPlane);
  out.Varint(planes.size());
  for (const Plane plane : planes) {
    out.Varint(plane);
    WritePoints(out, set.On(plane));
  }
}

HashRangeSet ReadRangeSet(ByteReader& in, uint32_t format) {
  std::vector<HashRange> ranges;
  ReadPoints(in, kCommonPlane, ranges);
  if (format != kCommonPlaneOnly) {
    const size_t planes = in.Count("planes of a set", OverrideTable::kMaxRules, 3);
    for (size_t i = 0; i < planes && in.ok(); ++i) {
      const Plane plane = in.Varint32();
      ReadPoints(in, plane, ranges);
    }
  }
  return in.ok() ? HashRangeSet(ranges) : HashRangeSet();
}

bool IsCommon(const HashRangeSet& set) {
  const std::vector<Plane> planes = set.Planes();
  return planes.empty() || planes.back() == kCommonPlane;
}

uint32_t FormatOf(const MembershipData& data) {
  const bool old = data.overrides.empty() && data.next_plane == 1 && data.pins.empty() &&
                   std::all_of(data.moves.begin(), data.moves.end(),
                               [](const Move& move) { return IsCommon(move.ranges); });
  return old ? 1 : 2;
}

uint32_t FormatOf(const Update& update) {
  if (!update.put_followers.empty()) return kDeltaFormat;
  const bool old = update.directory_bits == 0 && update.put_overrides.empty() &&
                   update.remove_overrides.empty() && update.put_pins.empty() &&
                   update.remove_pins.empty() &&
                   std::all_of(update.assignments.begin(), update.assignments.end(),
                               [](const Assignment& item) { return IsCommon(item.ranges); }) &&
                   std::all_of(update.put_moves.begin(), update.put_moves.end(),
                               [](const Move& move) { return IsCommon(move.ranges); });
  return old ? 1 : 2;
}

void WriteSpec(ByteWriter& out, const KeyspaceSpec& spec) {
  out.String(spec.id);
  // The allocator has the high half of the byte: the standard one's is 0.
  out.Byte(static_cast<uint8_t>(static_cast<uint32_t>(spec.placement) |
                                static_cast<uint32_t>(spec.allocator) << 4));
  out.Varint(spec.directory_bits);
  out.Varint(spec.tokens_per_node);
  out.Byte(static_cast<uint8_t>(spec.hash.function));
  out.Bool(spec.hash.hash_tags);
  out.Varint(spec.replication);
  out.Byte(static_cast<uint8_t>(spec.on_restart));
  out.Varint(spec.origin_fill_qps);
  out.Varint(spec.grace_ms);
  // What replication brings with it is written only where there is replication.
  if (spec.replication == 1) return;
  out.Byte(static_cast<uint8_t>(spec.domains.level));
  out.Bool(spec.domains.best_effort);
}

KeyspaceSpec ReadSpec(ByteReader& in) {
  KeyspaceSpec spec;
  spec.id = in.String("spec.id", kMaxIdBytes);
  const uint32_t placement = in.Byte();
  spec.placement = static_cast<PlacementKind>(placement & 0xf);
  spec.allocator = static_cast<Allocator>(placement >> 4);
  spec.directory_bits = in.Varint32();
  spec.tokens_per_node = in.Varint32();
  spec.hash.function = static_cast<HashSpec::Function>(in.Byte());
  spec.hash.hash_tags = in.Bool();
  spec.replication = in.Varint32();
  spec.on_restart = static_cast<OnRestart>(in.Byte());
  spec.origin_fill_qps = in.Varint32();
  spec.grace_ms = in.Varint32();
  if (spec.replication == 1) return spec;
  spec.domains.level = static_cast<DomainLevel>(in.Byte());
  spec.domains.best_effort = in.Bool();
  return spec;
}

void WriteNode(ByteWriter& out, const Node& node) {
  out.String(node.id);
  out.String(node.hash_name);
  out.String(node.address);
  out.Varint(node.weight_milli);
  out.String(node.zone);
  out.Varint(node.labels.size());
  for (const auto& [key, value] : node.labels) {
    out.String(key);
    out.String(value);
  }
}

Node ReadNode(ByteReader& in) {
  Node node;
  node.id = in.String("node.id", kMaxIdBytes);
  node.hash_name = in.String("node.hash_name", Node::kMaxHashNameBytes);
  node.address = in.String("node.address", Node::kMaxAddressBytes);
  node.weight_milli = in.Varint32();
  node.zone = in.String("node.zone", Node::kMaxZoneBytes);
  const size_t labels = in.Count("node.labels", Node::kMaxLabels, 2);
  for (size_t i = 0; i < labels && in.ok(); ++i) {
    std::string key = in.String("node.labels", Node::kMaxLabelBytes);
    node.labels[std::move(key)] = in.String("node.labels", Node::kMaxLabelBytes);
  }
  return node;
}

// Millions of numbers on their way to a writer, a block at a time: what ByteWriter writes for them.
class NumberBlock {
 public:
  explicit NumberBlock(ByteWriter& out) : out_(out) {}

  void Fixed64(uint64_t value) {
    if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
    std::memcpy(&bytes_[size_], &value, sizeof value);
    size_ += sizeof value;
  }
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_[size_++] = static_cast<char>(value | 0x80);
    bytes_[size_++] = static_cast<char>(value);
  }
  // For three numbers; called after each two or three.
  void MakeRoom() {
    if (size_ > bytes_.size() - 32) Finish();
  }
  void Finish() {
    out_.Append({bytes_.data(), size_});
    size_ = 0;
  }

 private:
  ByteWriter& out_;
  size_t size_ = 0;
  std::array<char, 4096> bytes_;
};

bool EndsAreBuckets(const std::vector<OwnedRange>& ranges) {
  if (ranges.size() < 2 || !std::has_single_bit(ranges.size())) return false;
  const auto bits = static_cast<uint32_t>(std::countr_zero(ranges.size()));
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].end != BucketEnd(bits, i)) return false;
  }
  return true;
}

// Uniform ends are left out, and epochs are counted down from the highest, which most ranges are
// near to: two or three bytes for a bucket.
void WriteOwnedRanges(ByteWriter& out, const std::vector<OwnedRange>& ranges) {
  Epoch highest;
  for (const OwnedRange& range : ranges) highest = std::max(highest, range.epoch);
  const bool buckets = EndsAreBuckets(ranges);
  out.Bool(buckets);
  out.Fixed64(highest.value);
  out.Varint(ranges.size());
  out.Reserve(ranges.size() * (buckets ? 3 : 11));
  NumberBlock block(out);
  for (const OwnedRange& range : ranges) {
    if (!buckets) block.Fixed64(range.end);
    block.Varint(range.owner);
    block.Varint(highest.value - range.epoch.value);
    block.MakeRoom();
  }
  block.Finish();
}

std::vector<OwnedRange> ReadOwnedRanges(ByteReader& in) {
  const bool buckets = in.Bool();
  const Epoch highest(in.Fixed64());
  const size_t count = in.Count("ranges", Membership::kMaxRanges,
                                kMinRangeBytes + (buckets ? 0 : sizeof(HashPoint)));
  if (buckets && (count < 2 || !std::has_single_bit(count))) {
    in.Fail(fmt::format("ranges: {} uniform ranges are no power of two", count));
    return {};
  }
  const auto bits = static_cast<uint32_t>(std::countr_zero(count));
  std::vector<OwnedRange> ranges;
  ranges.reserve(count);
  for (size_t i = 0; i < count && in.ok(); ++i) {
    const HashPoint end = buckets ? BucketEnd(bits, i) : in.Fixed64();
    const NodeIndex owner = in.Varint32();
    const uint64_t below = in.Varint();
    if (below > highest.value) in.Fail(fmt::format("ranges[{}].epoch is below 0", i));
    ranges.push_back({end, owner, Epoch(highest.value - below)});
  }
  return ranges;
}

// One more than the index, so that nobody is 0.
void WriteFollowers(ByteWriter& out, const MembershipData& data) {
  NumberBlock block(out);
  for (const NodeIndex follower : data.followers) {
    block.Varint(follower == kNoNode ? 0 : follower + 1);
    block.MakeRoom();
  }
  block.Finish();
}

std::vector<NodeIndex> ReadFollowers(ByteReader& in, const MembershipData& data) {
  std::vector<NodeIndex> followers;
  if (data.spec.replication < 2 || data.spec.replication > KeyspaceSpec::kMaxReplication) {
    return followers;
  }
  const size_t count = data.ranges.size() * (data.spec.replication - 1);
  for (size_t i = 0; i < count && in.ok(); ++i) followers.push_back(in.Varint32() - 1);
  return followers;
}

void WriteMove(ByteWriter& out, const Move& move, uint32_t format) {
  out.String(move.migration);
  out.Varint(move.wave);
  out.String(move.from);
  out.String(move.to);
  out.Byte(static_cast<uint8_t>(move.phase));
  WriteRangeSet(out, move.ranges, format);
}

Move ReadMove(ByteReader& in, uint32_t format) {
  Move move;
  move.migration = in.String("move.migration", kMaxIdBytes);
  move.wave = in.Varint32();
  move.from = in.String("move.from", kMaxIdBytes);
  move.to = in.String("move.to", kMaxIdBytes);
  move.phase = static_cast<MovePhase>(in.Byte());
  move.ranges = ReadRangeSet(in, format);
  return move;
}

void WriteAssignment(ByteWriter& out, const Assignment& assignment, uint32_t format) {
  out.String(assignment.owner);
  out.Fixed64(assignment.epoch.value);
  WriteRangeSet(out, assignment.ranges, format);
}

Assignment ReadAssignment(ByteReader& in, uint32_t format) {
  Assignment assignment;
  assignment.owner = in.String("assignment.owner", kMaxIdBytes);
  assignment.epoch = Epoch(in.Fixed64());
  assignment.ranges = ReadRangeSet(in, format);
  return assignment;
}

void WriteRule(ByteWriter& out, const OverrideRule& rule) {
  out.Byte(static_cast<uint8_t>(rule.match));
  out.String(rule.bytes);
}

OverrideRule ReadRule(ByteReader& in) {
  OverrideRule rule;
  rule.match = static_cast<OverrideRule::Match>(in.Byte());
  rule.bytes = in.String("override.rule", OverrideRule::kMaxBytes);
  return rule;
}

void WriteOverride(ByteWriter& out, const Override& item) {
  out.Varint(item.plane);
  WriteRule(out, item.rule);
  out.Fixed64(item.epoch.value);
  out.Varint(item.ranges.size());
  for (const OverrideRange& range : item.ranges) {
    out.Fixed64(range.end);
    out.Varint(range.owner);
  }
}

Override ReadOverride(ByteReader& in) {
  Override item;
  item.plane = in.Varint32();
  item.rule = ReadRule(in);
  item.epoch = Epoch(in.Fixed64());
  const size_t count = in.Count("override.ranges", Override::kMaxRanges, 9);
  for (size_t i = 0; i < count && in.ok(); ++i) {
    const HashPoint end = in.Fixed64();
    item.ranges.push_back({end, in.Varint32()});
  }
  return item;
}

void WritePutOverride(ByteWriter& out, const PutOverride& put) {
  out.Varint(put.plane);
  WriteRule(out, put.rule);
  out.Fixed64(put.epoch.value);
  out.Varint(put.ranges.size());
  for (const PutOverride::Range& range : put.ranges) {
    out.Fixed64(range.end);
    out.String(range.owner);
  }
}

PutOverride ReadPutOverride(ByteReader& in) {
  PutOverride put;
  put.plane = in.Varint32();
  put.rule = ReadRule(in);
  put.epoch = Epoch(in.Fixed64());
  const size_t count = in.Count("put_override.ranges", Override::kMaxRanges, 9);
  for (size_t i = 0; i < count && in.ok(); ++i) {
    const HashPoint end = in.Fixed64();
    put.ranges.push_back({end, in.String("put_override.owner", kMaxIdBytes)});
  }
  return put;
}

void WritePin(ByteWriter& out, const Pin& pin) {
  out.Varint(pin.bucket);
  out.String(pin.node);
}

Pin ReadPin(ByteReader& in) {
  Pin pin;
  pin.bucket = in.Varint32();
  pin.node = in.String("pin.node", kMaxIdBytes);
  return pin;
}

// Every id once, and then its place among them: there are many more ranges than nodes.
std::vector<NodeId> FollowersNamed(const std::vector<PutFollowers>& puts) {
  std::set<NodeId> ids;
  for (const PutFollowers& put : puts) ids.insert(put.followers.begin(), put.followers.end());
  ids.erase(NodeId());
  return {ids.begin(), ids.end()};
}

void WritePutFollowers(ByteWriter& out, const std::vector<NodeId>& ids, const PutFollowers& put,
                       uint32_t format) {
  out.Varint(put.followers.size());
  for (const NodeId& id : put.followers) {
    const auto at = std::lower_bound(ids.begin(), ids.end(), id);
    out.Varint(id.empty() ? 0 : static_cast<uint64_t>(at - ids.begin()) + 1);
  }
  WriteRangeSet(out, put.ranges, format);
}

PutFollowers ReadPutFollowers(ByteReader& in, const std::vector<NodeId>& ids, uint32_t format) {
  PutFollowers put;
  const size_t count = in.Count("put_followers.followers", KeyspaceSpec::kMaxReplication, 1);
  for (size_t i = 0; i < count && in.ok(); ++i) {
    const uint32_t at = in.Varint32();
    if (at > ids.size()) {
      in.Fail(fmt::format("put_followers.followers: there are {} ids and no number {}", ids.size(),
                          at));
      break;
    }
    put.followers.push_back(at == 0 ? NodeId() : ids[at - 1]);
  }
  put.ranges = ReadRangeSet(in, format);
  return put;
}

void WriteNumber(ByteWriter& out, uint32_t number) { out.Varint(number); }
uint32_t ReadNumber(ByteReader& in) { return in.Varint32(); }

template <typename T, typename Write>
void WriteList(ByteWriter& out, const std::vector<T>& items, Write write) {
  out.Varint(items.size());
  for (const T& item : items) write(out, item);
}

template <typename Read>
auto ReadList(ByteReader& in, std::string_view field, size_t max, size_t min_item_bytes,
              Read read) {
  std::vector<decltype(read(in))> items;
  const size_t count = in.Count(field, max, min_item_bytes);
  // Items are larger in memory than in bytes, so that the list grows with what is really there.
  for (size_t i = 0; i < count && in.ok(); ++i) items.push_back(read(in));
  return items;
}

void WritePoint(ByteWriter& out, HashPoint point) { out.Fixed64(point); }
HashPoint ReadPoint(ByteReader& in) { return in.Fixed64(); }
void WriteId(ByteWriter& out, const std::string& id) { out.String(id); }
std::string ReadId(ByteReader& in) { return in.String("id", kMaxIdBytes); }

void WriteUpdate(ByteWriter& out, const Update& update, uint32_t format) {
  const auto write_assignment = [format](ByteWriter& to, const Assignment& item) {
    WriteAssignment(to, item, format);
  };
  const auto write_move = [format](ByteWriter& to, const Move& move) {
    WriteMove(to, move, format);
  };
  WriteList(out, update.put_nodes, WriteNode);
  WriteList(out, update.split_at, WritePoint);
  WriteList(out, update.assignments, write_assignment);
  WriteList(out, update.remove_moves, WriteId);
  WriteList(out, update.put_moves, write_move);
  WriteList(out, update.merge_at, WritePoint);
  WriteList(out, update.remove_nodes, WriteId);
  if (format == 1) return;
  out.Varint(update.directory_bits);
  WriteList(out, update.put_overrides, WritePutOverride);
  WriteList(out, update.remove_overrides, WriteNumber);
  WriteList(out, update.remove_pins, WriteNumber);
  WriteList(out, update.put_pins, WritePin);
  if (format == 2) return;
  const std::vector<NodeId> ids = FollowersNamed(update.put_followers);
  WriteList(out, ids, WriteId);
  WriteList(out, update.put_followers, [&](ByteWriter& to, const PutFollowers& put) {
    WritePutFollowers(to, ids, put, format);
  });
}

Update ReadUpdate(ByteReader& in, uint32_t format) {
  constexpr size_t kMaxRanges = Membership::kMaxRanges;
  const auto read_assignment = [format](ByteReader& from) { return ReadAssignment(from, format); };
  const auto read_move = [format](ByteReader& from) { return ReadMove(from, format); };
  Update update;
  update.put_nodes = ReadList(in, "put_nodes", Membership::kMaxNodes, kMinNodeBytes, ReadNode);
  update.split_at = ReadList(in, "split_at", kMaxRanges, sizeof(HashPoint), ReadPoint);
  update.assignments =
      ReadList(in, "assignments", kMaxRanges, kMinAssignmentBytes, read_assignment);
  update.remove_moves = ReadList(in, "remove_moves", kMaxMoves, 1, ReadId);
  update.put_moves = ReadList(in, "put_moves", kMaxMoves, kMinMoveBytes, read_move);
  update.merge_at = ReadList(in, "merge_at", kMaxRanges, sizeof(HashPoint), ReadPoint);
  update.remove_nodes = ReadList(in, "remove_nodes", Membership::kMaxNodes, 1, ReadId);
  if (format == 1) return update;
  constexpr size_t kMaxRules = OverrideTable::kMaxRules;
  constexpr size_t kMaxPins = Membership::kMaxPins;
  update.directory_bits = in.Varint32();
  update.put_overrides =
      ReadList(in, "put_overrides", kMaxRules, kMinPutOverrideBytes, ReadPutOverride);
  update.remove_overrides = ReadList(in, "remove_overrides", kMaxRules, 1, ReadNumber);
  update.remove_pins = ReadList(in, "remove_pins", kMaxPins, 1, ReadNumber);
  update.put_pins = ReadList(in, "put_pins", kMaxPins, kMinPinBytes, ReadPin);
  if (format == 2) return update;
  const std::vector<NodeId> ids =
      ReadList(in, "put_followers.ids", Membership::kMaxNodes, 1, ReadId);
  update.put_followers =
      ReadList(in, "put_followers", kMaxRanges, kMinPutFollowersBytes,
               [&](ByteReader& from) { return ReadPutFollowers(from, ids, format); });
  return update;
}

void WriteHistory(ByteWriter& out, const HistoryId& history) {
  out.Fixed64(history.high);
  out.Fixed64(history.low);
}

HistoryId ReadHistory(ByteReader& in) {
  HistoryId history;
  history.high = in.Fixed64();
  history.low = in.Fixed64();
  return history;
}

absl::StatusOr<uint32_t> ReadFormat(ByteReader& in, std::string_view what, uint32_t newest) {
  const uint32_t format = in.Fixed32();
  if (!in.ok()) return in.status();
  if (format > newest) {
    return absl::UnimplementedError(
        fmt::format("{}: format {} is newer than the newest that this program reads, {}: upgrade "
                    "this program",
                    what, format, newest));
  }
  if (format == 0) {
    return absl::InvalidArgumentError(fmt::format("{}: there is no format {}", what, format));
  }
  return format;
}

absl::Status NotCanonical(std::string_view what) {
  return absl::InvalidArgumentError(
      fmt::format("{}: the bytes are not in canonical form: something else than this program wrote "
                  "them, or they are corrupt",
                  what));
}

void WriteMembership(ByteWriter& out, const MembershipData& data) {
  const uint32_t format = FormatOf(data);
  out.Fixed32(format);
  WriteHistory(out, data.history);
  out.Fixed64(data.version.value);
  WriteSpec(out, data.spec);
  WriteList(out, data.nodes, WriteNode);
  WriteOwnedRanges(out, data.ranges);
  WriteFollowers(out, data);
  WriteList(out, data.moves,
            [format](ByteWriter& to, const Move& move) { WriteMove(to, move, format); });
  if (format == 1) return;
  out.Varint(data.next_plane);
  WriteList(out, data.overrides, WriteOverride);
  WriteList(out, data.pins, WritePin);
}

}  // namespace

std::string EncodeMembership(const MembershipData& data) {
  ByteWriter out;
  WriteMembership(out, data);
  return out.Take();
}

uint64_t DigestOf(const MembershipData& data) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  ByteWriter out([&state](std::string_view bytes) {
    XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
  });
  WriteMembership(out, data);
  out.Drain();
  return XXH3_64bits_digest(state.get());
}

absl::StatusOr<Membership::Ptr> DecodeMembership(std::string_view bytes) {
  ByteReader in(bytes);
  ASSIGN_OR_RETURN(const uint32_t format, ReadFormat(in, "membership", kMembershipFormat));
  MembershipData data;
  data.history = ReadHistory(in);
  data.version = Version(in.Fixed64());
  data.spec = ReadSpec(in);
  data.nodes = ReadList(in, "nodes", Membership::kMaxNodes, kMinNodeBytes, ReadNode);
  data.ranges = ReadOwnedRanges(in);
  data.followers = ReadFollowers(in, data);
  data.moves = ReadList(in, "moves", kMaxMoves, kMinMoveBytes,
                        [format](ByteReader& from) { return ReadMove(from, format); });
  if (format > 1) {
    data.next_plane = in.Varint32();
    data.overrides =
        ReadList(in, "overrides", OverrideTable::kMaxRules, kMinOverrideBytes, ReadOverride);
    data.pins = ReadList(in, "pins", Membership::kMaxPins, kMinPinBytes, ReadPin);
  }
  RETURN_IF_ERROR(in.Finish());
  ASSIGN_OR_RETURN(Membership::Ptr membership, Membership::Create(std::move(data)));
  if (membership->digest() != Checksum(bytes)) return NotCanonical("membership");
  return membership;
}

std::string EncodeDelta(const Delta& delta) {
  ByteWriter out;
  const uint32_t format = FormatOf(delta.update);
  out.Fixed32(format);
  WriteHistory(out, delta.history);
  out.Fixed64(delta.from.value);
  out.Fixed64(delta.to.value);
  out.Fixed64(delta.digest);
  WriteUpdate(out, delta.update, format);
  return out.Take();
}

absl::StatusOr<Delta> DecodeDelta(std::string_view bytes) {
  ByteReader in(bytes);
  ASSIGN_OR_RETURN(const uint32_t format, ReadFormat(in, "delta", kDeltaFormat));
  Delta delta;
  delta.history = ReadHistory(in);
  delta.from = Version(in.Fixed64());
  delta.to = Version(in.Fixed64());
  delta.digest = in.Fixed64();
  delta.update = ReadUpdate(in, format);
  RETURN_IF_ERROR(in.Finish());
  if (EncodeDelta(delta) != bytes) return NotCanonical("delta");
  return delta;
}

std::string SealMembership(const Membership& membership) {
  const std::string payload = EncodeMembership(membership.data());
  ByteWriter header;
  header.Fixed64(payload.size());
  header.Fixed64(Checksum(payload));
  return std::string(kSealMagic) + header.Take() + payload;
}

absl::StatusOr<Membership::Ptr> UnsealMembership(std::string_view bytes) {
  constexpr size_t kHeaderBytes = kSealMagic.size() + 2 * sizeof(uint64_t);
  if (bytes.size() < kHeaderBytes || bytes.substr(0, kSealMagic.size()) != kSealMagic) {
    return absl::DataLossError("not a membership file: its first bytes are not WRMEMBER");
  }
  ByteReader header(bytes.substr(kSealMagic.size()));
  const uint64_t length = header.Fixed64();
  const uint64_t checksum = header.Fixed64();
  const std::string_view payload = bytes.substr(kHeaderBytes);
  if (length != payload.size()) {
    return absl::DataLossError(
        fmt::format("membership file: {} bytes where {} were written", payload.size(), length));
  }
  if (checksum != Checksum(payload)) {
    return absl::DataLossError("membership file: its checksum does not fit: it is corrupt");
  }
  return DecodeMembership(payload);
}

}  // namespace warmring
