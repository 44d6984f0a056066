#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "client/base/boot_clock.h"
#include "core/base/ids.h"

namespace warmring {

// What a reader knew when it missed a key.
struct Miss {
  std::string history_tag;
  Version version;    // of the membership that routed the read
  std::string token;  // for the fill; empty when the owner could not be asked
};

// One look at the sources for one key, on behalf of all callers that may share the answer.
// Thread-safe. A caller may join a look that has not begun, or one that began after a miss with the
// same fill token: equal tokens mean that nobody has written, deleted or forgotten the key between
// the two misses, so the earlier look cannot have read what the later caller must not see. Nobody
// joins across versions, nor after a write or delete by this process (Detach).
class FlightTable {
 public:
  using Result = absl::StatusOr<std::optional<std::string>>;

  class Flight {
   public:
    // The leader's result; nothing at `deadline`.
    std::optional<Result> Wait(Instant deadline);

   private:
    friend class FlightTable;
    Miss miss_;
    bool begun_ = false;  // guarded by the shard's mutex
    std::mutex mutex_;
    std::condition_variable landed_;
    std::optional<Result> result_;  // guarded by mutex_
  };

  struct Ticket {
    std::shared_ptr<Flight> flight;
    bool leader = false;  // this caller does the look, and must Land it
  };

  Ticket Join(std::string_view key, const Miss& miss);
  // The leader is about to look at the first source.
  void Begin(std::string_view key, const std::shared_ptr<Flight>& flight);
  // Gives the result to all who joined.
  void Land(std::string_view key, const std::shared_ptr<Flight>& flight, Result result);
  // Later callers do not join what is under way for `key`.
  void Detach(std::string_view key);

 private:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<std::string, std::shared_ptr<Flight>> flights;  // guarded by mutex
  };
  Shard& ShardOf(std::string_view key);

  std::array<Shard, 16> shards_;
};

}  // namespace warmring
