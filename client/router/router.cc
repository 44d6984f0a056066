#include "warmring/router.h"

#include <array>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace warmring {
namespace {

// More routers than this in one process share slots, and pay the lock when they take turns.
constexpr size_t kSlots = 8;

size_t NextSlot() {
  static std::atomic<size_t> next = 0;
  return next.fetch_add(1, std::memory_order_relaxed) % kSlots;
}

}  // namespace

// A membership with the names of its nodes in a form that outlives it. Immutable.
struct Router::Table {
  // For each node, what a key that it owns is told; the hash, the epoch and the moves are missing.
  // To copy a location is less work than to make one, if no piece of it lies across two lines.
  struct alignas(16) Owner {
    Location location;
  };

  // Of a directory without overrides, whose keys need no more than their hash and one load; else
  // null. Read from here and not from the membership, each lookup saves two loads and two
  // questions.
  RoutingTable::DirectRows direct;
  const Membership::Tenure* tenures = nullptr;
  HashSpec hash;
  std::vector<Owner> owners;
  Membership::Ptr membership;

  std::optional<Location> Prepared(NodeIndex owner, Epoch epoch, HashPoint point) const;
  std::optional<Location> LocatePoint(HashPoint point) const;
  std::optional<Location> LocateKey(std::string_view key) const;
  std::optional<Location> Complete(NodeIndex owner, const Membership::Tenure& tenure,
                                   HashPoint point) const;
};

struct Router::State {
  mutable std::mutex mutex;
  std::shared_ptr<const Table> table;  // guarded by mutex
  std::set<std::string, std::less<>>
      names;  // guarded by mutex; grows by what was never seen before

  std::string_view Intern(std::string_view name) {
    const auto found = names.find(name);
    return found != names.end() ? *found : *names.emplace(name).first;
  }
};

std::string Location::EpochWord() const {
  std::string word(history_tag);
  word += ':';
  word += std::to_string(epoch.value);
  return word;
}

Router::Router() : slot_(NextSlot()), state_(std::make_unique<State>()) {}

Router::~Router() = default;

void Router::Install(const Membership::Ptr& membership) {
  auto table = std::make_shared<Table>();
  table->membership = membership;
  table->hash = membership->spec().hash;
  if (membership->overrides().empty()) table->direct = membership->DirectHolders();
  table->tenures = membership->tenures().data();
  Location location;
  location.version = membership->version();
  table->owners.reserve(membership->nodes().size());
  // Declared before the lock: the table that nobody else holds is destroyed after it.
  std::shared_ptr<const Table> previous;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  location.history_tag = state_->Intern(membership->history().Tag());
  for (const Node& node : membership->nodes()) {
    location.node = state_->Intern(node.id);
    location.address = state_->Intern(node.address);
    table->owners.push_back({location});
  }
  previous = std::exchange(state_->table, table);
  present_.store(table.get(), std::memory_order_release);
}

namespace {

// Each thread keeps a hold of the tables that it has used, so that a table is alive as long as a
// thread may look at it: until the thread looks again after a new version, or ends. While it is
// held, no other table can have its address, so that comparing addresses proves that the present
// table of a router is the one that is held here.
//
// The addresses are apart from the holds: constant-initialised and trivially destroyed, reading
// them needs no check whether they are there yet.
// The model saves the call that position-independent code makes otherwise to find them.
[[gnu::tls_model("initial-exec")]] constinit thread_local std::array<const void*, kSlots>
    held_tables = {};

struct Holds {
  ~Holds() { held_tables = {}; }
  std::array<std::shared_ptr<const void>, kSlots> tables;
};

}  // namespace

const Router::Table* Router::Present() const {
  const Table* const known = present_.load(std::memory_order_acquire);
  if (held_tables[slot_] == known) return known;
  thread_local Holds holds;
  std::shared_ptr<const Table> present;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    present = state_->table;
  }
  held_tables[slot_] = present.get();
  holds.tables[slot_] = present;
  return present.get();
}

// Made where the caller of Locate wants it, without a copy: nothing else is returned here.
[[gnu::always_inline]] inline std::optional<Location> Router::Table::Prepared(
    NodeIndex owner, Epoch epoch, HashPoint point) const {
  std::optional<Location> location(owners[owner].location);
  location->epoch = epoch;
  location->hash = point;
  return location;
}

[[gnu::always_inline]] inline std::optional<Location> Router::Table::Complete(
    NodeIndex owner, const Membership::Tenure& tenure, HashPoint point) const {
  std::optional<Location> location = Prepared(owner, tenure.epoch, point);
  if (tenure.pending) {
    location->pending_node = owners[*tenure.pending].location.node;
    location->pending_address = owners[*tenure.pending].location.address;
  }
  if (tenure.previous) {
    location->previous_node = owners[*tenure.previous].location.node;
    location->previous_address = owners[*tenure.previous].location.address;
  }
  return location;
}

// On a ring, and where something moves. Out of line: a directory's keys need fewer registers and
// instructions without it.
[[gnu::noinline]] std::optional<Location> Router::Table::LocatePoint(HashPoint point) const {
  const Membership::Holder holder = membership->HolderOf(point);
  return Complete(holder.owner, membership->tenures()[holder.tenure], point);
}

// Of any membership.
[[gnu::noinline]] std::optional<Location> Router::Table::LocateKey(std::string_view key) const {
  const KeyPoint point = membership->PointOf(key);
  if (point.plane == kCommonPlane) return LocatePoint(point.hash);
  const OwnedRange range = membership->RangeOf(point);
  return Complete(range.owner, membership->TenureOf(range.epoch, membership->MoveOf(point)),
                  point.hash);
}

std::optional<Location> Router::Locate(std::string_view key) const {
  const Table* const table = present_.load(std::memory_order_acquire);
  if (table == nullptr || held_tables[slot_] != table) [[unlikely]] {
    return LocateAnew(key);
  }
  if (table->direct.rows == nullptr) return table->LocateKey(key);
  const HashPoint point = HashKey(table->hash, key);
  const RoutingTable::Two holder = table->direct.At(point);
  const Membership::Tenure& tenure = table->tenures[holder.second];
  if (tenure.is_moving) [[unlikely]] {
    return table->LocatePoint(point);
  }
  return table->Prepared(holder.first, tenure.epoch, point);
}

[[gnu::noinline]] std::optional<Location> Router::LocateAnew(std::string_view key) const {
  const Table* const table = Present();
  if (table == nullptr) return std::nullopt;
  return table->LocateKey(key);
}

std::optional<Location> Router::LocateReplicas(std::string_view key, Followers& followers) const {
  followers.size_ = 0;
  const Table* table = present_.load(std::memory_order_acquire);
  if (table == nullptr || held_tables[slot_] != table) [[unlikely]] {
    table = Present();
    if (table == nullptr) return std::nullopt;
  }
  const Membership& membership = *table->membership;
  // Where there are overrides there are no followers.
  if (!membership.overrides().empty()) [[unlikely]] {
    return table->LocateKey(key);
  }
  const HashPoint point = HashKey(table->hash, key);
  const Membership::Holders holders = membership.HoldersOf(point);
  const size_t ranks = membership.spec().replication - 1;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const NodeIndex follower = holders.follower(rank);
    if (follower == kNoNode) continue;
    const Location& known = table->owners[follower].location;
    followers.items_[followers.size_++] = {known.node, known.address};
  }
  return table->Complete(holders.owner(), membership.tenures()[holders.tenure()], point);
}

Version Router::version() const {
  const Table* const table = Present();
  return table == nullptr ? Version(0) : table->membership->version();
}

Membership::Ptr Router::membership() const {
  const Table* const table = Present();
  return table == nullptr ? nullptr : table->membership;
}

}  // namespace warmring
