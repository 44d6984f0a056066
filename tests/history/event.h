#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace warmring::history {

// What kind of thing happened, who says so, and which fields of Event it fills beside the times.
enum class Kind : uint8_t {
  // Of clients. One attempt at one owner: arc, key, owner, epoch, result, value.
  kWrite,  // value: what it writes, unique in the history; nothing for a delete
  kRead,   // value: what it found; nothing when it found nothing
  kWatch,  // owner (the watcher's name), version, text (digest): it routes by this version now
  // Of owners, where they can be observed. arc, owner, epoch.
  kActivate,  // it accepts under this epoch
  kFence,     // it accepts under no epoch up to this one any more
  kLost,      // owner only: whatever it held in memory is gone (t0: killed, t1: it runs again)
  // Of the store: the authority for what was decided.
  kVersion,  // version, text (digest; may be empty), term (0: not known)
  kCommit,   // arc, epoch, owner, version; unclean: a donor had not acknowledged its fence
  kBurn,     // epoch: was reserved, and its wave was given up
  kSubmit,   // text: the id of a migration
  kOutcome,  // text: the id of a migration; value: how it ended, as somebody saw it
  kAudit,    // text: the id of an audit line
  kRecord,   // text: the id of what an audit line says was done, as the store has it
  kEnd,      // nothing more comes: what has no end by now has none
};

// How an attempt of a client ended.
enum class Result : uint8_t {
  kOk,
  kRefused,  // it was not executed, and never will be
  kFenced,   // the same, as the range was fenced
  kUnknown,  // the answer was lost: it may have been executed, or may be executed at any later time
};

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// One line of a history. Times are nanoseconds of one clock of one machine; `t0` is taken before
// the request is sent, `t1` after the answer has come, and is kNever when none came.
struct Event {
  Kind kind = Kind::kEnd;
  int64_t t0 = 0;
  int64_t t1 = kNever;
  // The unit of ownership that the key belongs to: all its keys have one owner and one epoch at
  // each moment. Any name: a bucket, or the key itself.
  std::string arc;
  std::string key;
  std::string owner;
  uint64_t epoch = 0;
  Result result = Result::kOk;
  std::optional<std::string> value;
  uint64_t version = 0;
  uint64_t term = 0;
  bool unclean = false;
  std::string text;

  friend bool operator==(const Event&, const Event&) = default;
};

// One line of JSON without the line's end, and back; what an event's kind does not fill is left
// out.
std::string ToJson(const Event& event);
// Error: InvalidArgument saying what cannot be read.
absl::StatusOr<Event> FromJson(std::string_view line);

// A whole history, a line each. Errors: NotFound, or InvalidArgument naming the line.
absl::StatusOr<std::vector<Event>> ReadHistory(const std::string& path);
// Error: Internal if the file cannot be written.
absl::Status WriteHistory(const std::vector<Event>& events, const std::string& path);

// For messages: "write key-1=v2 at node-a under 5, ok, [10, 20]".
std::string Describe(const Event& event);

}  // namespace warmring::history
