#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/ids.h"

namespace warmring {

enum class RefusalCode : uint8_t {
  kMoved,    // another node owns the range: refresh, route again
  kStale,    // the epoch is older than the range's: refresh, route again
  kHistory,  // another history: refresh, route again
  kBehind,   // the epoch is newer than the owner's map: wait
  kFencing,  // the range is changing hands: wait
  kNoLease,  // the owner holds no lease now: wait
  kBusy,     // the write may or may not exist
};

// What an owner answers instead of running a command (docs/protocol.md
// section 2.2).
struct Refusal {
  RefusalCode code = RefusalCode::kMoved;
  std::string word;           // epoch word of the range in the owner's map; empty without a map
  Version version;            // of the owner's map; 0 without a map
  std::string owner_address;  // of the owner by that map; empty when unknown
  std::string text;           // for people
  friend bool operator==(const Refusal&, const Refusal&) = default;
};

// The code as it stands on the wire: "WRMOVED".
std::string_view RefusalName(RefusalCode code);

// Reads the text of an error reply. Nothing when it is no refusal of an owner
// (an error of the command itself, a code of the agent's commands, or a
// malformed line). Total, any thread.
std::optional<Refusal> ParseRefusal(std::string_view error);

}  // namespace warmring
