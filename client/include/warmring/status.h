#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "core/base/ids.h"

namespace warmring {

// Why an owner did not do what was asked, and what cures it. The client library acts on it by
// itself; it reaches an application only when no retry within its timeout helped, or from an owner
// of its own (owner.h).
enum class RefusalReason : uint8_t {
  kNotOwner,      // NOT_OWNER: another node owns the key: refresh, route again
  kStaleEpoch,    // STALE_EPOCH: the range has a newer epoch: refresh, route again
  kWrongHistory,  // WRONG_HISTORY: the epoch is of another history: refresh, route again
  kOwnerBehind,   // OWNER_BEHIND: the owner has not seen that epoch yet: wait
  kFencing,       // FENCING: the range is changing hands: wait
  kNoLease,       // NO_LEASE: the owner holds no lease now: wait
};

struct RefusalInfo {
  RefusalReason reason = RefusalReason::kNotOwner;
  std::string epoch_word;     // of the range in the owner's map; empty when it has no map
  Version version;            // of the owner's map; 0 when it has none
  std::string owner_address;  // of the owner by that map; empty when unknown
  friend bool operator==(const RefusalInfo&, const RefusalInfo&) = default;
};

// What a status says of a refusal, if it does. It survives gRPC by proto/wire/status.h. Any thread.
std::optional<RefusalInfo> RefusalOf(const absl::Status& status);

// A status that carries `info`: FailedPrecondition where a refresh cures it, Unavailable where
// waiting does. For services that refuse on their own.
absl::Status RefusalStatus(const RefusalInfo& info, std::string message);

}  // namespace warmring
