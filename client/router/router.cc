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

struct NodeNames {
  std::string_view id;
  std::string_view address;
};

}  // namespace

// A membership with the names of its nodes in a form that outlives it. Immutable.
struct Router::Table {
  Membership::Ptr membership;
  HashSpec hash;
  Version version;
  std::string_view history_tag;
  std::vector<NodeNames> nodes;
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
  table->version = membership->version();
  table->nodes.reserve(membership->nodes().size());
  const std::lock_guard<std::mutex> lock(state_->mutex);
  table->history_tag = state_->Intern(membership->history().Tag());
  for (const Node& node : membership->nodes()) {
    table->nodes.push_back({state_->Intern(node.id), state_->Intern(node.address)});
  }
  state_->table = table;
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
constinit thread_local std::array<const void*, kSlots> held_tables = {};

struct Holds {
  ~Holds() { held_tables = {}; }
  std::array<std::shared_ptr<const void>, kSlots> tables;
};

}  // namespace

inline const Router::Table* Router::Present() const {
  const Table* const present = present_.load(std::memory_order_acquire);
  if (held_tables[slot_] == present) [[likely]] {
    return present;
  }
  return LookAgain();
}

[[gnu::noinline]] const Router::Table* Router::LookAgain() const {
  thread_local Holds holds;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  held_tables[slot_] = state_->table.get();
  holds.tables[slot_] = state_->table;
  return state_->table.get();
}

std::optional<Location> Router::Locate(std::string_view key) const {
  const Table* const table = Present();
  std::optional<Location> result;
  if (table == nullptr) [[unlikely]] {
    return result;
  }
  const HashPoint hash = HashKey(table->hash, key);
  const Route& route = table->membership->SharedRoute(hash);
  const NodeNames& owner = table->nodes[route.owner];
  Location& location = result.emplace();
  location.node = owner.id;
  location.address = owner.address;
  location.history_tag = table->history_tag;
  location.epoch = route.epoch;
  location.version = table->version;
  location.hash = hash;
  if (route.pending) {
    location.pending_node = table->nodes[*route.pending].id;
    location.pending_address = table->nodes[*route.pending].address;
  }
  if (route.previous) {
    location.previous_node = table->nodes[*route.previous].id;
    location.previous_address = table->nodes[*route.previous].address;
  }
  return result;
}

Version Router::version() const {
  const Table* table = Present();
  return table == nullptr ? Version(0) : table->version;
}

Membership::Ptr Router::membership() const {
  const Table* table = Present();
  return table == nullptr ? nullptr : table->membership;
}

}  // namespace warmring
