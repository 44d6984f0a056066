#include "core/membership/encoding.h"

#include <algorithm>
#include <bit>

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

uint64_t Checksum(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

// A set of hash points is written as the gaps and lengths between its boundaries, divided by the
// largest power of two that divides them all: three bytes for a bucket of a directory instead
// of 16.
void WriteRangeSet(ByteWriter& out, const HashRangeSet& set) {
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

HashRangeSet ReadRangeSet(ByteReader& in) {
  const size_t count = in.Count("ranges of a set", Membership::kMaxRanges, 2);
  const uint32_t shift = in.Byte();
  if (shift > 63) {
    in.Fail("the scale of a set of ranges is over 63");
    return {};
  }
  std::vector<HashRange> ranges;
  ranges.reserve(count);
  HashPoint at = 0;
  for (size_t i = 0; i < count && in.ok(); ++i) {
    const HashPoint start = at + (in.Varint() << shift) - 1;
    const HashPoint end = start + (in.Varint() << shift);
    ranges.push_back({start, end});
    at = end + 1;
  }
  return in.ok() ? HashRangeSet(ranges) : HashRangeSet();
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
  for (const OwnedRange& range : ranges) {
    if (!buckets) out.Fixed64(range.end);
    out.Varint(range.owner);
    out.Varint(highest.value - range.epoch.value);
  }
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
  for (const NodeIndex follower : data.followers)
    out.Varint(follower == kNoNode ? 0 : follower + 1);
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

void WriteMove(ByteWriter& out, const Move& move) {
  out.String(move.migration);
  out.Varint(move.wave);
  out.String(move.from);
  out.String(move.to);
  out.Byte(static_cast<uint8_t>(move.phase));
  WriteRangeSet(out, move.ranges);
}

Move ReadMove(ByteReader& in) {
  Move move;
  move.migration = in.String("move.migration", kMaxIdBytes);
  move.wave = in.Varint32();
  move.from = in.String("move.from", kMaxIdBytes);
  move.to = in.String("move.to", kMaxIdBytes);
  move.phase = static_cast<MovePhase>(in.Byte());
  move.ranges = ReadRangeSet(in);
  return move;
}

void WriteAssignment(ByteWriter& out, const Assignment& assignment) {
  out.String(assignment.owner);
  out.Fixed64(assignment.epoch.value);
  WriteRangeSet(out, assignment.ranges);
}

Assignment ReadAssignment(ByteReader& in) {
  Assignment assignment;
  assignment.owner = in.String("assignment.owner", kMaxIdBytes);
  assignment.epoch = Epoch(in.Fixed64());
  assignment.ranges = ReadRangeSet(in);
  return assignment;
}

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

void WriteUpdate(ByteWriter& out, const Update& update) {
  WriteList(out, update.put_nodes, WriteNode);
  WriteList(out, update.split_at, WritePoint);
  WriteList(out, update.assignments, WriteAssignment);
  WriteList(out, update.remove_moves, WriteId);
  WriteList(out, update.put_moves, WriteMove);
  WriteList(out, update.merge_at, WritePoint);
  WriteList(out, update.remove_nodes, WriteId);
}

Update ReadUpdate(ByteReader& in) {
  constexpr size_t kMaxRanges = Membership::kMaxRanges;
  Update update;
  update.put_nodes = ReadList(in, "put_nodes", Membership::kMaxNodes, kMinNodeBytes, ReadNode);
  update.split_at = ReadList(in, "split_at", kMaxRanges, sizeof(HashPoint), ReadPoint);
  update.assignments = ReadList(in, "assignments", kMaxRanges, kMinAssignmentBytes, ReadAssignment);
  update.remove_moves = ReadList(in, "remove_moves", kMaxMoves, 1, ReadId);
  update.put_moves = ReadList(in, "put_moves", kMaxMoves, kMinMoveBytes, ReadMove);
  update.merge_at = ReadList(in, "merge_at", kMaxRanges, sizeof(HashPoint), ReadPoint);
  update.remove_nodes = ReadList(in, "remove_nodes", Membership::kMaxNodes, 1, ReadId);
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

absl::Status ReadFormat(ByteReader& in, std::string_view what) {
  const uint32_t format = in.Fixed32();
  if (!in.ok()) return in.status();
  if (format > kMembershipFormat) {
    return absl::UnimplementedError(
        fmt::format("{}: format {} is newer than the newest that this program reads, {}: upgrade "
                    "this program",
                    what, format, kMembershipFormat));
  }
  if (format != kMembershipFormat) {
    return absl::InvalidArgumentError(fmt::format("{}: there is no format {}", what, format));
  }
  return absl::OkStatus();
}

absl::Status NotCanonical(std::string_view what) {
  return absl::InvalidArgumentError(
      fmt::format("{}: the bytes are not in canonical form: something else than this program wrote "
                  "them, or they are corrupt",
                  what));
}

}  // namespace

std::string EncodeMembership(const MembershipData& data) {
  ByteWriter out;
  out.Fixed32(kMembershipFormat);
  WriteHistory(out, data.history);
  out.Fixed64(data.version.value);
  WriteSpec(out, data.spec);
  WriteList(out, data.nodes, WriteNode);
  WriteOwnedRanges(out, data.ranges);
  WriteFollowers(out, data);
  WriteList(out, data.moves, WriteMove);
  return out.Take();
}

absl::StatusOr<Membership::Ptr> DecodeMembership(std::string_view bytes) {
  ByteReader in(bytes);
  RETURN_IF_ERROR(ReadFormat(in, "membership"));
  MembershipData data;
  data.history = ReadHistory(in);
  data.version = Version(in.Fixed64());
  data.spec = ReadSpec(in);
  data.nodes = ReadList(in, "nodes", Membership::kMaxNodes, kMinNodeBytes, ReadNode);
  data.ranges = ReadOwnedRanges(in);
  data.followers = ReadFollowers(in, data);
  data.moves = ReadList(in, "moves", kMaxMoves, kMinMoveBytes, ReadMove);
  RETURN_IF_ERROR(in.Finish());
  ASSIGN_OR_RETURN(Membership::Ptr membership, Membership::Create(std::move(data)));
  if (membership->digest() != Checksum(bytes)) return NotCanonical("membership");
  return membership;
}

std::string EncodeDelta(const Delta& delta) {
  ByteWriter out;
  out.Fixed32(kMembershipFormat);
  WriteHistory(out, delta.history);
  out.Fixed64(delta.from.value);
  out.Fixed64(delta.to.value);
  out.Fixed64(delta.digest);
  WriteUpdate(out, delta.update);
  return out.Take();
}

absl::StatusOr<Delta> DecodeDelta(std::string_view bytes) {
  ByteReader in(bytes);
  RETURN_IF_ERROR(ReadFormat(in, "delta"));
  Delta delta;
  delta.history = ReadHistory(in);
  delta.from = Version(in.Fixed64());
  delta.to = Version(in.Fixed64());
  delta.digest = in.Fixed64();
  delta.update = ReadUpdate(in);
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
