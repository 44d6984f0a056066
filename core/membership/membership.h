#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/hash_range.h"
#include "core/base/ids.h"
#include "core/hashing/key_hash.h"
#include "core/membership/keyspace_spec.h"
#include "core/membership/node.h"
#include "core/membership/override.h"
#include "core/membership/owned_range.h"
#include "core/placement/routing_table.h"

namespace warmring {

// A part of a migration that clients and owners must know about. `from` and `to` are members.
//   kWarming: `from` owns the ranges, `to` is pending: forgets go to both.
//   kGrace:   `to` owns the ranges, a miss may be peeked at `from`.
enum class MovePhase : uint8_t { kWarming = 1, kGrace = 2 };
struct Move {
  MigrationId migration;
  uint32_t wave = 0;  // from 0
  NodeId from;
  NodeId to;
  MovePhase phase = MovePhase::kWarming;
  HashRangeSet ranges;
  friend bool operator==(const Move&, const Move&) = default;
};

// The owner of this bucket is chosen by hand: no plan moves it for balance. Directory only.
struct Pin {
  uint32_t bucket = 0;
  NodeId node;
  friend bool operator==(const Pin&, const Pin&) = default;
};

// The fields of a membership, for building one. See Membership for the invariants.
struct MembershipData {
  HistoryId history;
  Version version;
  KeyspaceSpec spec;
  std::vector<Node> nodes;         // sorted by id, unique, at least one
  std::vector<OwnedRange> ranges;  // sorted by end, unique ends, cover the space (the first wraps)
  std::vector<Move> moves;         // sorted by (migration, wave, from, to), disjoint ranges
  // spec.replication - 1 for each range, side by side, the preferred first; kNoNode where there are
  // not enough nodes. Read targets: only the owner accepts writes.
  std::vector<NodeIndex> followers;
  std::vector<Override> overrides;  // sorted by plane
  Plane next_plane = 1;             // for the next override; above that of any there has been
  std::vector<Pin> pins;            // sorted by bucket, unique
  friend bool operator==(const MembershipData&, const MembershipData&) = default;
};

// Where a key goes at one version.
struct Route {
  HashPoint hash = 0;
  NodeIndex owner = 0;
  Epoch epoch;
  // Recipient that is being warmed for this key: send forgets (deletes) there too, never values.
  std::optional<NodeIndex> pending;
  // Previous owner during grace: a miss may be peeked there.
  std::optional<NodeIndex> previous;
  Plane plane = kCommonPlane;
  friend bool operator==(const Route&, const Route&) = default;
};

// The immutable value of a keyspace at one version: who owns every range under which epoch, and
// which moves are under way. Thread-safe because it never changes; readers hold a shared_ptr.
// Invariants, checked by Create: version above 0; spec and nodes valid, nodes unique; ranges cover
// the space; every owner index is a node and every epoch above 0; on a directory the ends are
// exactly the bucket ends; each range has its followers, all of them nodes that differ from its
// owner and from each other; moves name members, are pairwise disjoint, and the owner of each
// moving point is `from` (kWarming) or `to` (kGrace); overrides have planes below next_plane and
// rules of their own, and exist only without followers; pins name buckets and members.
class Membership {
 public:
  using Ptr = std::shared_ptr<const Membership>;

  static constexpr size_t kMaxNodes = 100'000;
  static constexpr size_t kMaxRanges = size_t{8} << 20;
  static constexpr size_t kMaxPins = 65'536;

  // Error: InvalidArgument naming the field and the broken invariant.
  static absl::StatusOr<Ptr> Create(MembershipData data);

  // What Create makes of `data`, membership or error, in less time where `data` is that of `base`
  // after a change: what they have in common is neither checked nor compiled again.
  static absl::StatusOr<Ptr> CreateAfter(const Membership& base, MembershipData data);

  const HistoryId& history() const { return data_.history; }
  Version version() const { return data_.version; }
  const KeyspaceSpec& spec() const { return data_.spec; }
  const std::vector<Node>& nodes() const { return data_.nodes; }
  const std::vector<OwnedRange>& ranges() const { return data_.ranges; }
  const std::vector<Move>& moves() const { return data_.moves; }
  const std::vector<Override>& overrides() const { return data_.overrides; }
  const std::vector<Pin>& pins() const { return data_.pins; }
  const MembershipData& data() const { return data_; }
  // XXH3_64 of the canonical encoding (encoding.h): equal exactly for equal memberships.
  uint64_t digest() const { return digest_; }

  std::optional<NodeIndex> FindNode(std::string_view id) const;

  // Where a key is: its hash, and the plane of the rule that it falls under.
  KeyPoint PointOf(std::string_view key) const {
    if (data_.overrides.empty()) [[likely]] {
      return HashKey(data_.spec.hash, key);
    }
    return OverriddenPointOf(key);
  }
  // Whether points on each plane of `ranges` can be told: this membership has, or had, its rule.
  // Who holds keys must not act on a range whose keys it cannot find yet.
  bool KnowsPlanesOf(const HashRangeSet& ranges) const;
  // Null when there is no such plane.
  const Override* OverrideOn(Plane plane) const;
  // The plane that the keys of `item` would be on without it. REQUIRES: `item` is in overrides().
  Plane ParentOf(const Override& item) const;
  // Where the holders of a plane's points are written down: through overrides that are as hashed,
  // to one that has ranges, or to the common plane. REQUIRES: the plane is common or that of an
  // override.
  Plane SourceOf(Plane plane) const;

  // The interval of hash space that ranges()[index] covers.
  HashRange RangeAt(size_t index) const;
  // Index into ranges() of the range that holds `h`. Constant or near-constant time.
  size_t RangeIndexOf(HashPoint h) const { return table_.Find(h); }
  // What holds `point`. A plane that is not there (any more) counts as the common one.
  OwnedRange RangeOf(KeyPoint point) const {
    if (point.plane == kCommonPlane) [[likely]] {
      return data_.ranges[table_.Find(point.hash)];
    }
    return OverriddenRangeOf(point);
  }
  // The followers of range `index`, the preferred first; may end with kNoNode.
  std::span<const NodeIndex> FollowersAt(size_t index) const {
    const size_t count = data_.spec.replication - 1;
    return std::span<const NodeIndex>(data_.followers).subspan(index * count, count);
  }
  // Under what an owner holds a range, and the move that it is part of.
  struct Tenure {
    Epoch epoch;
    std::optional<NodeIndex> pending;   // as in Route
    std::optional<NodeIndex> previous;  // as in Route
    bool is_moving = false;             // one of the two is there
    friend bool operator==(const Tenure&, const Tenure&) = default;
  };
  // `move`: an index into moves(), or -1.
  Tenure TenureOf(Epoch epoch, int move) const;
  // All tenures that differ: about as many as there are epochs still held. After CreateAfter, some
  // may be left that no range is held under any more, but not more than twice as many and a
  // thousand.
  const std::vector<Tenure>& tenures() const { return tenures_; }
  // Who holds `h`, and how, with or without moves: one load from a dense table on a directory, two
  // on a ring.
  struct Holder {
    NodeIndex owner = 0;
    uint32_t tenure = 0;  // index into tenures()
  };
  bool HasUniformRanges() const { return table_.is_uniform(); }
  // HolderOf, by way of RoutingTable::DirectRows.
  RoutingTable::DirectRows DirectHolders() const { return table_.direct_rows(); }
  Holder HolderOf(HashPoint h) const {
    const RoutingTable::Two found = table_.FirstTwo(h);
    return {found.first, found.second};
  }
  // Everybody who has a copy of `h`, from one row of the table: what HolderOf loads, and beside it,
  // in the same cache line, the followers. Valid as long as the membership.
  class Holders {
   public:
    NodeIndex owner() const { return row_[0]; }
    uint32_t tenure() const { return row_[1]; }  // index into tenures()
    // The follower at `rank`, the preferred first; kNoNode where there is none.
    // REQUIRES: rank < spec().replication - 1.
    NodeIndex follower(size_t rank) const {
      const NodeIndex node = row_[kRowFollowers + rank];
      return node == nobody_ ? kNoNode : node;
    }

   private:
    friend class Membership;
    Holders(RoutingTable::Row row, NodeIndex nobody) : row_(row), nobody_(nobody) {}
    RoutingTable::Row row_;
    NodeIndex nobody_;
  };
  Holders HoldersOf(HashPoint h) const {
    return {table_.Values(h), static_cast<NodeIndex>(data_.nodes.size())};
  }
  // Index into moves() of the move that covers range `index`, or -1. (Moves cover whole ranges.)
  int MoveAt(size_t index) const { return move_of_range_.empty() ? -1 : move_of_range_[index]; }

  // Index into moves() of the move that covers `point`, or -1.
  int MoveOf(KeyPoint point) const {
    if (data_.moves.empty()) [[likely]] {
      return -1;
    }
    return point.plane == kCommonPlane ? MoveAt(RangeIndexOf(point.hash)) : OverriddenMoveOf(point);
  }

  // `from` and `to` of moves()[move] as node indices.
  struct MoveNodes {
    NodeIndex from = 0;
    NodeIndex to = 0;
  };
  const MoveNodes& NodesOfMove(size_t move) const { return move_nodes_[move]; }

  // On all planes.
  HashRangeSet OwnedBy(std::string_view node) const;
  // What `node` follows: it may hold a copy of it, and accepts no write.
  HashRangeSet FollowedBy(std::string_view node) const;
  bool IsFollower(NodeIndex node, HashPoint h) const;
  // Points of `plane` that `node` owns. REQUIRES: the plane is common or that of an override.
  HashRangeSet OwnedOn(Plane plane, NodeIndex node) const;
  // Points of `plane` that are held under an epoch of at most `epoch`. Same REQUIRES.
  HashRangeSet HeldUpTo(Plane plane, Epoch epoch) const;
  // The highest of any range and override.
  Epoch HighestEpoch() const;

 private:
  explicit Membership(MembershipData data);
  absl::Status IndexMoves();
  absl::Status CheckMovesOnPlanes() const;
  KeyPoint OverriddenPointOf(std::string_view key) const;
  OwnedRange OverriddenRangeOf(KeyPoint point) const;
  int OverriddenMoveOf(KeyPoint point) const;
  // `same_ends`: null, or a table of the same ends.
  static absl::StatusOr<Ptr> CreateWith(const RoutingTable* same_ends, MembershipData data);
  void CompileTable(const RoutingTable* same_ends);
  // `changed`: the ranges whose fields differ from those of `base`.
  void PatchTable(const Membership& base, const std::vector<uint32_t>& changed);

  // A row of the table: the owner, an index into tenures_, the followers. Nobody is the number of
  // nodes there, because kNoNode would take 32 bits.
  static constexpr size_t kRowFollowers = 2;
  static_assert(kRowFollowers + KeyspaceSpec::kMaxReplication - 1 <= RoutingTable::kMaxWidth);

  RoutingTable table_;  // first, with the tenures: what every lookup reads
  std::vector<Tenure> tenures_;
  MembershipData data_;
  std::vector<MoveNodes> move_nodes_;
  std::vector<int32_t> move_of_range_;  // empty when there is no move
  uint64_t digest_ = 0;
  OverrideTable override_table_;
  size_t tenures_in_use_ = 0;  // when all rows were compiled last
};

// Whether an override came and went between the two, so that neither has it. REQUIRES (also below):
// `after` is a later version of the same history.
bool HasMissedOverrides(const Membership& before, const Membership& after);
// Whether an override that `before` had, or that came after it, is over in `after`: its keys may
// have been elsewhere in between, although their epoch is again what it was. What was learnt about
// them by their epoch is void then.
bool HasEndedOverrides(const Membership& before, const Membership& after);

Route RoutePoint(const Membership& membership, KeyPoint point);
Route RouteKey(const Membership& membership, std::string_view key);

// The ranges that the migration moves between these two in this phase.
HashRangeSet MovingRanges(const Membership& membership, const MigrationId& migration,
                          MovePhase phase, const NodeId& from, const NodeId& to);

}  // namespace warmring
