#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "warmring/client.h"

namespace warmring {

// What a cache node answered.
struct CacheReply {
  enum class Type : uint8_t { kNil, kString, kInteger, kArray };
  Type type = Type::kNil;
  std::string text;  // kString; also a status such as "OK"
  int64_t integer = 0;
  std::vector<CacheReply> elements;

  bool IsNil() const { return type == Type::kNil; }
  friend bool operator==(const CacheReply&, const CacheReply&) = default;
};

struct LoaderOptions {
  // How long a value that Get stores lives. Zero: until it is evicted.
  absl::Duration ttl = absl::ZeroDuration();
  // How long "the origin has no such value" is remembered. Zero: it is not stored.
  absl::Duration negative_ttl = absl::ZeroDuration();
  // What is stored for it. REQUIRES: no value of the application is equal to it.
  std::string absent_marker = std::string("\0warmring:absent", 16);
  // Get reads the origin (under the fill budget, storing nothing) when the owner cannot be reached,
  // or keeps refusing for half of the timeout. Else that is an error.
  bool origin_when_unreachable = true;
};

struct LoaderStats {
  uint64_t hits = 0;             // checked reads that found a value, or that there is none
  uint64_t misses = 0;           // checked reads that found nothing
  uint64_t coalesced = 0;        // misses that waited for another caller's read of the same key
  uint64_t origin_fills = 0;     // calls of the origin
  uint64_t origin_direct = 0;    // of these: because the owner could not be asked
  uint64_t grace_hits = 0;       // misses that the previous owner answered
  uint64_t fills_void = 0;       // values that were not stored, as somebody wrote meanwhile
  uint64_t refused_stale = 0;    // by an owner whose range has a newer epoch, or another history
  uint64_t refused_moved = 0;    // by a node that does not own the range any more
  uint64_t refused_fencing = 0;  // while the range was changing hands
  uint64_t refused_no_lease = 0;
  uint64_t refused_behind = 0;  // by an owner with an older membership than ours
  uint64_t retries = 0;
  uint64_t forgets_failed = 0;  // deletes that a recipient in warming could not be told at once
  uint64_t errors = 0;          // calls that ended with an error, of the origin too
};

// Reads `key` where the truth is: a database, an object store, a computation. Nothing: there is no
// such value. `left` is what remains of the caller's timeout. Called from any thread, by one caller
// for all who wait for the same key.
using Origin = std::function<absl::StatusOr<std::optional<std::string>>(std::string_view key,
                                                                        absl::Duration left)>;

// A read-through cache over the keyspace's nodes that stays fresh while ranges move.
//
// The application's part: **write the origin first, then Delete (or Set) the key here**, and do not
// tell anybody that the write is done before that has returned Ok. After an error, repeat it.
//
// What the loader does: every read and write is checked by the owner against the range's epoch, and
// a refusal refreshes the route and is retried until the timeout. A miss is read once for all
// callers that may share the answer; in grace it is first looked for at the previous owner; then
// the origin is read, within the keyspace's budget of fills. What was read is stored only if nobody
// has written, deleted or forgotten the key since the miss. Errors of the origin are returned and
// never stored.
//
// Thread-safe. Calls block the caller for at most their timeout, plus one call of the origin.
class Loader {
 public:
  // `client` must outlive the loader. Error: InvalidArgument naming the option.
  static absl::StatusOr<std::unique_ptr<Loader>> Create(Client* client, Origin origin,
                                                        LoaderOptions options = {});
  virtual ~Loader() = default;

  // The value, or nothing if the origin has none.
  // Errors: of the origin, as they are; ResourceExhausted: the fill budget has no room within the
  // timeout; Unavailable: the owner cannot be asked and origin_when_unreachable is off; else
  // FailedPrecondition: what the node said (a value of another type, say).
  virtual absl::StatusOr<std::optional<std::string>> Get(std::string_view key,
                                                         absl::Duration timeout) = 0;

  // Stores a value. `ttl` zero: until it is evicted. Only where the writers of one key take turns
  // from the origin to here: two that do not may leave the older value. Delete is always safe.
  // Errors: Unavailable, with RefusalOf(status) where an owner refused: not acknowledged within the
  // timeout, it may or may not be stored; ResourceExhausted: the node has no memory for it.
  virtual absl::Status Set(std::string_view key, std::string_view value, absl::Duration ttl,
                           absl::Duration timeout) = 0;

  // Deletes the key at its present owner, and at the recipient that is being warmed for it.
  // Errors: as Set. After one, the key may still be served: repeat.
  virtual absl::Status Delete(std::string_view key, absl::Duration timeout) = 0;

  // Any write command with one key, which the node allows: `<command> <key> <args>...`. Unlike Set
  // and Delete it is not sent again when a connection broke, since it may have run.
  // Errors: as Set; Unknown: the connection broke after it was sent.
  virtual absl::StatusOr<CacheReply> Write(std::string_view command, std::string_view key,
                                           const std::vector<std::string_view>& args,
                                           absl::Duration timeout) = 0;

  // Any read command with one key, checked; does not look anywhere else.
  // Errors: Unavailable; FailedPrecondition: what the node said.
  virtual absl::StatusOr<CacheReply> Read(std::string_view command, std::string_view key,
                                          const std::vector<std::string_view>& args,
                                          absl::Duration timeout) = 0;

  virtual LoaderStats Stats() const = 0;
};

}  // namespace warmring
