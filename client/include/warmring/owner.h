#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/hash_range.h"
#include "core/base/ids.h"
#include "core/base/instant.h"
#include "warmring/status.h"

namespace warmring {

struct OwnerOptions {
  std::vector<std::string> endpoints;  // host:port of warmringd servers; tried in turn
  std::string keyspace;
  std::string node;          // this member's id
  std::string data_address;  // host:port where clients reach this service

  // Ranges hold points; that of a key is OwnerGuard::PointOf(key).

  // This node is to own these ranges soon: fetch what they hold. Called while they warm, and again
  // for the ranges of a wave once their owners are fenced: what is fetched then is complete, and
  // writes to these ranges wait for it. An error is shown and tried again with a new attempt. Null:
  // nothing to fetch.
  std::function<absl::Status(const HashRangeSet& ranges)> on_warm;
  // Drop what these ranges hold: they have left this node, or what was fetched must not be served.
  // An error is tried again. Null: nothing to drop.
  std::function<absl::Status(const HashRangeSet& ranges)> on_release;

  // How long a fence waits for writes that are in flight. After that, those that have not passed
  // StillHeld yet never will, and only those that have are still waited for.
  absl::Duration drain_timeout = absl::Seconds(5);

  // Leases are counted on this clock. Null: CLOCK_BOOTTIME.
  std::function<Instant()> clock;
};

class GuardCore;
class WriteSlot;

// One write that was admitted and is counted as in flight until the guard is destroyed. Destroy it
// after the answer has been given to the client. Moves between threads; one thread at a time.
// Must not outlive the OwnerGuard that gave it.
class WriteGuard {
 public:
  WriteGuard(WriteGuard&& other) noexcept
      : core_(std::exchange(other.core_, nullptr)), slot_(other.slot_) {}
  WriteGuard& operator=(WriteGuard&& other) noexcept {
    if (this == &other) return *this;
    if (core_ != nullptr) End();
    core_ = std::exchange(other.core_, nullptr);
    slot_ = other.slot_;
    return *this;
  }
  ~WriteGuard() {
    if (core_ != nullptr) End();
  }

  // Immediately before the answer, or before the write becomes visible: may it be acknowledged?
  // Error: Unknown, with RefusalOf(status): the lease is over or the range has gone meanwhile. The
  // write may exist; the answer must not be "ok".
  absl::Status StillHeld();

 private:
  friend class GuardCore;
  WriteGuard(GuardCore* core, WriteSlot* slot) : core_(core), slot_(slot) {}
  void End();

  GuardCore* core_;  // null once moved from
  WriteSlot* slot_;
};

// For a service that holds keys itself: says which writes and reads it may serve, so that no two
// owners of a key ever accept writes at the same time. Holds the node's session with the server,
// follows the membership, and answers the server's tasks (fences and hand-overs) in the background.
// Starts closed, and closes by itself when the lease runs out. Thread-safe.
//
//   auto guard = owner->Begin(key, request.epoch_word());
//   if (!guard.ok()) return guard.status();          // carries what cures the client
//   store.Put(key, value);
//   RETURN_IF_ERROR(guard->StillHeld());
//   return Acknowledge();                            // the guard ends after this
class OwnerGuard {
 public:
  // Does not wait for the server. Errors: InvalidArgument naming the option.
  static absl::StatusOr<std::unique_ptr<OwnerGuard>> Start(OwnerOptions options);

  // Ends the session. REQUIRES: no WriteGuard is left.
  virtual ~OwnerGuard() = default;

  // May this write begin? `epoch_word` is what the client sends ("a1b2c3d4:17").
  // Errors, all but the last with RefusalOf(status): FailedPrecondition: another node owns the key,
  // or the client's epoch or history is old; Unavailable: no lease now, the range is changing
  // hands, or this owner is behind the client; InvalidArgument: not an epoch word.
  virtual absl::StatusOr<WriteGuard> Begin(std::string_view key, std::string_view epoch_word) = 0;

  // May this read be served? As a write, but without the lease. Errors: as Begin.
  virtual absl::Status BeginRead(std::string_view key, std::string_view epoch_word) = 0;

  // Where a key is by the installed membership, to find those of a range that a callback names. It
  // follows the membership: do not keep it. The key's hash alone while there is none.
  virtual KeyPoint PointOf(std::string_view key) const = 0;

  virtual bool HasLease() const = 0;
  // Of the installed membership; 0: none yet.
  virtual Version version() const = 0;
  // The last trouble of the session, Ok when connected.
  virtual absl::Status SessionStatus() const = 0;
};

}  // namespace warmring
