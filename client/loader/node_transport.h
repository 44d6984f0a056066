#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/base/boot_clock.h"
#include "client/redis/redis_connection.h"

namespace warmring {

class RedisPool;

// Sends commands to cache nodes: the seam between the rules of the loader and Redis. Thread-safe.
class NodeTransport {
 public:
  virtual ~NodeTransport() = default;
  // One command and its reply, by `deadline`.
  // Errors: Unavailable: it was not sent; Unknown: it was, and the connection broke before the
  // reply: it may have run, or may run yet.
  virtual absl::StatusOr<RedisReply> Command(std::string_view address,
                                             const std::vector<std::string_view>& argv,
                                             Instant deadline) = 0;
};

// Over a pool of connections, which must outlive it.
class PooledNodes final : public NodeTransport {
 public:
  explicit PooledNodes(RedisPool* pool) : pool_(pool) {}
  absl::StatusOr<RedisReply> Command(std::string_view address,
                                     const std::vector<std::string_view>& argv,
                                     Instant deadline) override;

 private:
  RedisPool* const pool_;
};

}  // namespace warmring
