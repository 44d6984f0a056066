#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/base/backoff.h"
#include "client/sync/watch_transport.h"
#include "core/base/instant.h"
#include "core/membership/membership.h"

namespace warmring {

// Decodes an assembled snapshot. Errors: InvalidArgument.
using SnapshotDecoder = std::function<absl::StatusOr<Membership::Ptr>(std::string_view bytes)>;

struct MembershipSyncOptions {
  KeyspaceId keyspace;
  absl::Duration backoff_min = absl::Milliseconds(50);
  absl::Duration backoff_max = absl::Seconds(5);
  // A stream that does not come up, or is silent, for so long is given up.
  absl::Duration idle_timeout = absl::Seconds(30);
  size_t max_snapshot_bytes = size_t{256} << 20;
  uint64_t seed = 0;  // of the back-off, and of the endpoint that comes first
  SnapshotDecoder decode;
};

// How a client follows the membership of one keyspace, as a passive machine:
// events in, ordered actions and the next wake-up out. Reads no clock and does
// no I/O. Not thread-safe.
//
// What it keeps: the membership never goes back in version within a history;
// another history is taken only as a whole snapshot; a delta is applied only on
// its exact base and with its digest, and whatever does not fit is answered by
// asking for a snapshot; a snapshot in pieces is bounded.
class MembershipSyncMachine {
 public:
  // Actions, to be done in order.
  struct Connect {
    uint64_t turn = 0;  // endpoints[turn % size]
    friend bool operator==(const Connect&, const Connect&) = default;
  };
  struct Send {
    WatchRequest request;
    friend bool operator==(const Send&, const Send&) = default;
  };
  struct Install {
    Membership::Ptr membership;
    friend bool operator==(const Install&, const Install&) = default;
  };
  // Gives the stream up; events of it that are still on their way must not be
  // told.
  struct Disconnect {
    friend bool operator==(const Disconnect&, const Disconnect&) = default;
  };
  using Action = std::variant<Connect, Send, Install, Disconnect>;

  struct Step {
    std::vector<Action> actions;
    Instant wake_at = Instant::Never();  // when OnTimer is due; replaces the one before
  };

  // `last_known_good` may be null. REQUIRES: options.decode is set.
  MembershipSyncMachine(MembershipSyncOptions options, Membership::Ptr last_known_good);

  // The first event.
  Step Start(Instant now);
  Step OnConnected(Instant now);
  Step OnMessage(Instant now, const WatchMessage& message);
  Step OnDisconnected(Instant now, const absl::Status& why);
  // A spurious one is harmless.
  Step OnTimer(Instant now);

  const Membership::Ptr& current() const { return current_; }
  // When the server last said that current() is the newest version.
  std::optional<Instant> fresh_at() const { return fresh_at_; }
  uint32_t watchers() const { return watchers_; }
  // Ok while connected and subscribed, else the last trouble.
  const absl::Status& status() const { return status_; }

 private:
  enum class State : uint8_t { kConnecting, kSubscribed, kWaiting };
  struct Assembly {
    Version version;
    uint32_t count = 0;
    uint32_t next = 0;
    std::string bytes;
  };

  void OnPiece(Instant now, const SnapshotPiece& piece, Step& step);
  void OnSnapshot(Instant now, Version version, const std::string& bytes, Step& step);
  void OnDelta(Instant now, const Delta& delta, Step& step);
  void OnProgress(Instant now, const WatchProgress& progress, Step& step);
  void Take(Instant now, Membership::Ptr membership, Step& step);
  void AskForSnapshot(Instant now, const absl::Status& why, Step& step);
  void GiveUp(Instant now, const absl::Status& why, Step& step);
  void Wait(Instant now, const absl::Status& why);
  Step Done(Step step) const;

  const MembershipSyncOptions options_;
  Membership::Ptr current_;
  State state_ = State::kWaiting;
  Backoff backoff_;
  uint64_t turn_ = 0;
  Instant wake_at_ = Instant::Never();
  std::optional<Assembly> assembly_;
  bool wants_snapshot_ = false;    // deltas of the subscription before are still on their way
  bool ahead_ = false;             // the server announced a version that has not come
  uint32_t failed_snapshots_ = 0;  // since the last one that was taken, on this stream
  std::optional<Instant> fresh_at_;
  uint32_t watchers_ = 1;
  absl::Status status_ = absl::UnavailableError("not connected yet");
};

}  // namespace warmring
