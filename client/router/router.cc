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

uint64_t NextRouterId() {
  static std::atomic<uint64_t> next = 1;
  return next.fetch_add(1, std::memory_order_relaxed);
}

struct NodeNames {
  std::string_view id;
  std::string_view address;
};

}  // namespace

// A membership with the names of its nodes in a form that outlives it. Immutable.
struct Router::Table {
  uint64_t generation = 0;
  Membership::Ptr membership;
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

Router::Router() : id_(NextRouterId()), state_(std::make_unique<State>()) {}

Router::~Router() = default;

void Router::Install(const Membership::Ptr& membership) {
  auto table = std::make_shared<Table>();
  table->membership = membership;
  table->nodes.reserve(membership->nodes().size());
  const std::lock_guard<std::mutex> lock(state_->mutex);
  table->history_tag = state_->Intern(membership->history().Tag());
  for (const Node& node : membership->nodes()) {
    table->nodes.push_back({state_->Intern(node.id), state_->Intern(node.address)});
  }
  table->generation = generation_.load(std::memory_order_relaxed) + 1;
  state_->table = table;
  generation_.store(table->generation, std::memory_order_release);
}

// Each thread keeps the tables of the routers it has used, and looks again when the generation has
// moved on. A table that a thread holds stays alive until then, or until the thread ends.
const Router::Table* Router::Present() const {
  struct Slot {
    uint64_t router = 0;
    std::shared_ptr<const Table> table;
  };
  thread_local std::array<Slot, kSlots> slots;
  Slot& slot = slots[id_ % kSlots];
  const uint64_t generation = generation_.load(std::memory_order_acquire);
  if (slot.router == id_ && slot.table != nullptr && slot.table->generation == generation) {
    return slot.table.get();
  }
  const std::lock_guard<std::mutex> lock(state_->mutex);
  slot.router = id_;
  slot.table = state_->table;
  return slot.table.get();
}

std::optional<Location> Router::Locate(std::string_view key) const {
  const Table* table = Present();
  if (table == nullptr) return std::nullopt;
  const Route route = RouteKey(*table->membership, key);
  Location location;
  const NodeNames& owner = table->nodes[route.owner];
  location.node = owner.id;
  location.address = owner.address;
  location.history_tag = table->history_tag;
  location.epoch = route.epoch;
  location.version = table->membership->version();
  location.hash = route.hash;
  if (route.pending) {
    location.pending_node = table->nodes[*route.pending].id;
    location.pending_address = table->nodes[*route.pending].address;
  }
  if (route.previous) {
    location.previous_node = table->nodes[*route.previous].id;
    location.previous_address = table->nodes[*route.previous].address;
  }
  return location;
}

Version Router::version() const {
  const Table* table = Present();
  return table == nullptr ? Version(0) : table->membership->version();
}

Membership::Ptr Router::membership() const {
  const Table* table = Present();
  return table == nullptr ? nullptr : table->membership;
}

}  // namespace warmring
