#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/base/backoff.h"
#include "client/base/boot_clock.h"
#include "client/loader/node_transport.h"
#include "client/redis/refusal.h"
#include "client/sync/membership_watch.h"
#include "warmring/loader.h"
#include "warmring/router.h"

namespace warmring {

// The counters behind LoaderStats.
struct LoaderCounters {
  std::atomic<uint64_t> hits = 0;
  std::atomic<uint64_t> misses = 0;
  std::atomic<uint64_t> coalesced = 0;
  std::atomic<uint64_t> origin_fills = 0;
  std::atomic<uint64_t> origin_direct = 0;
  std::atomic<uint64_t> grace_hits = 0;
  std::atomic<uint64_t> fills_void = 0;
  std::atomic<uint64_t> refused_stale = 0;
  std::atomic<uint64_t> refused_moved = 0;
  std::atomic<uint64_t> refused_fencing = 0;
  std::atomic<uint64_t> refused_no_lease = 0;
  std::atomic<uint64_t> refused_behind = 0;
  std::atomic<uint64_t> retries = 0;
  std::atomic<uint64_t> forgets_failed = 0;
  std::atomic<uint64_t> errors = 0;
};

// The checked commands of docs/protocol.md section 2.1, with the rule that a refusal cures the
// client: it waits for the version that the owner names, or a moment where waiting is the cure,
// then routes again, until the deadline. Thread-safe.
class CheckedCache {
 public:
  using Args = std::vector<std::string_view>;

  // All must outlive it.
  CheckedCache(const Router* router, MembershipWatch* watch, NodeTransport* nodes,
               LoaderCounters* counters);

  struct ReadReply {
    RedisReply reply;
    std::string token;          // for a fill, when the reply is a miss
    bool peek_allowed = false;  // the previous owner may be asked for this key
    Location at;                // where it was read
  };
  // Errors: Unavailable, with RefusalOf(status) where an owner refused; FailedPrecondition or
  // ResourceExhausted: an error of the command; Internal: not the reply of an owner.
  absl::StatusOr<ReadReply> Read(std::string_view command, std::string_view key, const Args& args,
                                 Instant deadline);

  enum class Repeat : uint8_t {
    kMayRunTwice,  // sent again when a connection broke
    kMustNot,      // then the outcome is Unknown
  };
  // Errors: as Read; Unknown.
  absl::StatusOr<RedisReply> Write(std::string_view command, std::string_view key, const Args& args,
                                   Repeat repeat, Instant deadline);

  // After a delete was acknowledged: tells the recipient that is being warmed for the key, if there
  // is one. One that cannot be told soon is counted and left: the donor's change log brings the
  // delete to it, or the transfer is void.
  void ForgetAtPending(std::string_view key, Instant deadline);

  // Stores what was found for a miss. False: it was dropped, for whatever reason.
  bool Fill(const ReadReply& miss, std::string_view key, std::string_view value, absl::Duration ttl,
            Instant deadline);

  struct Peeked {
    std::string value;
    absl::Duration ttl;  // zero: none
  };
  // Looks at the previous owner. Nothing: not there, or not allowed, or not reachable.
  std::optional<Peeked> Peek(const ReadReply& miss, std::string_view key, Instant deadline);

 private:
  // One call and its retries.
  struct Trial {
    std::string_view what;  // the command, for messages
    std::string_view key;
    Instant deadline;
    Backoff backoff;
    uint32_t attempts = 0;
    bool broke = false;
  };

  Trial Begin(std::string_view what, std::string_view key, Instant deadline);
  absl::StatusOr<Location> Locate(const Trial& trial);
  absl::Status Cure(const Refusal& refusal, const Location& at, Trial& trial);
  absl::Status Pause(const Location& at, const absl::Status& why, Trial& trial);
  absl::Status AfterError(const std::string& error, const Location& at, Trial& trial);
  void Count(RefusalCode code);

  const Router* const router_;
  MembershipWatch* const watch_;
  NodeTransport* const nodes_;
  LoaderCounters* const counters_;
  std::atomic<uint64_t> seed_;
};

}  // namespace warmring
