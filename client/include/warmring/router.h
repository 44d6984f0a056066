#pragma once

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
