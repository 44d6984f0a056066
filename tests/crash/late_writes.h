#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/membership/membership.h"
#include "tests/crash/cluster.h"
#include "tests/support/redis_connection.h"

namespace warmring::crash {

// Writes that clients with an older membership send to a node which is no longer the owner of their
// keys: whether it knows or not, it must accept none.
//
// Thread rule: one thread at a time.
class LateWrites {
 public:
  // Sends some by the epochs of `before`, of keys that `donor` owns in `before` and not in `after`.
  // They are in its Redis' sockets on return; it may be asleep.
  //
  // Errors: Internal if no key has left the donor; those of a connection.
  [[nodiscard]] absl::Status Send(const Membership& before, const Membership& after,
                                  CacheNode& donor, const std::string& value);

  // Waits for all answers and returns those writes that were not refused, each with its answer.
  //
  // Errors: those of a connection.
  [[nodiscard]] absl::StatusOr<std::vector<std::string>> ReceiveAccepted();

  size_t Size() const { return writes_.size(); }

 private:
  struct Write {
    std::unique_ptr<support::RedisConnection> connection;
    std::vector<std::string> words;
  };
  std::vector<Write> writes_;
};

}  // namespace warmring::crash
