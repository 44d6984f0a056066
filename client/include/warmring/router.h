#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/ids.h"
#include "core/hashing/key_hash.h"
#include "core/membership/membership.h"

namespace warmring {

// Where a key goes. All views stay valid as long as the router.
struct Location {
  std::string_view node;     // the owner
  std::string_view address;  // host:port of its data service
  // The two pieces of the epoch word, "a1b2c3d4:17", that travels with every checked command.
  std::string_view history_tag;
  Epoch epoch;
  Version version;  // of the membership that says so
  HashPoint hash = 0;
  // The recipient that is being warmed for this key: deletes go there too, values never. Else
  // empty.
  std::string_view pending_node;
  std::string_view pending_address;
  // The previous owner while a miss may be read there. Else empty.
  std::string_view previous_node;
  std::string_view previous_address;

  std::string EpochWord() const;
};

// A node that has a copy of a key's range beside the owner's. The views stay valid as long as the
// router.
struct Follower {
  std::string_view node;
  std::string_view address;
};

// The followers of one key, the preferred first; empty without replication. A place for
// LocateReplicas to fill: made once and used again, it costs nothing per key. Not thread-safe.
class Followers {
 public:
  static constexpr size_t kCapacity = KeyspaceSpec::kMaxReplication - 1;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const Follower& operator[](size_t rank) const { return items_[rank]; }
  const Follower* begin() const { return items_.data(); }
  const Follower* end() const { return items_.data() + size_; }

 private:
  friend class Router;
  size_t size_ = 0;
  std::array<Follower, kCapacity> items_;
};

// Keys to owners, by the newest membership that this process has.
//
// Thread-safe. Locate is wait-free once a thread has seen the present version: it reads one atomic,
// writes nothing that another thread reads, takes no lock and allocates nothing. A thread's first
// Locate after a new version takes a lock that is held for the copy of a pointer.
class Router {
 public:
  Router();
  ~Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  // Nothing before the first membership has come.
  std::optional<Location> Locate(std::string_view key) const;

  // Everybody who has a copy of `key`, of one version: the owner as Locate says it, and `followers`
  // filled with the others. Reads may go to any of them, the owner first; a follower may be behind
  // the owner. Writes and deletes go to the owner only. Waits for nothing, as Locate.
  std::optional<Location> LocateReplicas(std::string_view key, Followers& followers) const;

  // 0 before the first membership.
  Version version() const;
  // Null before the first membership.
  Membership::Ptr membership() const;

  // Routes by this membership from now on. Called by the client's watch.
  void Install(const Membership::Ptr& membership);

 private:
  struct Table;
  struct State;
  const Table* Present() const;
  std::optional<Location> LocateAnew(std::string_view key) const;

  std::atomic<const Table*> present_ = nullptr;  // owned by state_
  const size_t slot_;                            // where each thread keeps its hold of a table
  const std::unique_ptr<State> state_;
};

}  // namespace warmring
