#pragma once

#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/base/boot_clock.h"
#include "client/redis/redis_connection.h"

namespace warmring {

struct RedisPoolOptions {
  size_t max_connections = 32;  // per address
  absl::Duration connect_timeout = absl::Milliseconds(500);
  // Bounds each wait of a command, unless the caller's deadline is nearer.
  absl::Duration command_timeout = absl::Seconds(1);
  // After a failed connect the address is refused at once for so long: a server
  // that swallows packets must not cost every caller the connect timeout.
  absl::Duration down_time = absl::Milliseconds(50);
  InstantClock clock = BootNow;
};

// Connections to any number of Redis servers, kept open between uses. At most
// `max_connections` to one address are out at once; more callers wait.
// Thread-safe.
class RedisPool {
 public:
  explicit RedisPool(RedisPoolOptions options);
  ~RedisPool();  // REQUIRES: no lease is out
  RedisPool(const RedisPool&) = delete;
  RedisPool& operator=(const RedisPool&) = delete;

  // A connection of the holder's own. Going out of scope returns it; a broken
  // one is closed.
  class Lease {
   public:
    Lease(Lease&& other) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease();
    RedisConnection* operator->() const { return connection_.get(); }
    // It was used before: the server may have closed it since, and a first
    // failure says nothing about the server.
    bool reused() const { return reused_; }

   private:
    friend class RedisPool;
    Lease(RedisPool* pool, std::unique_ptr<RedisConnection> connection, bool reused)
        : pool_(pool), connection_(std::move(connection)), reused_(reused) {}
    RedisPool* pool_;
    std::unique_ptr<RedisConnection> connection_;
    bool reused_;
  };

  // An idle connection, or a new one, with its timeout set for a command that
  // ends by `deadline`. Nothing was sent when this fails. Errors: Unavailable
  // (no connection, or the address failed just now); DeadlineExceeded: all
  // connections to the address were out until `deadline`; InvalidArgument: not
  // host:port.
  absl::StatusOr<Lease> Acquire(std::string_view address, Instant deadline);

  // Closes the idle connections to an address, after one of them turned out
  // dead.
  void DropIdle(std::string_view address);

  size_t IdleCount(std::string_view address) const;

 private:
  struct Address {
    std::vector<std::unique_ptr<RedisConnection>> idle;
    size_t out = 0;  // leases, and connects under way
    Instant down_until;
    absl::Status down_reason;
  };

  void Return(std::unique_ptr<RedisConnection> connection);
  void GiveUpSlot(const std::string& address, const absl::Status& failure);
  absl::Duration TimeoutFor(Instant deadline) const;

  const RedisPoolOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable returned_;
  std::map<std::string, Address, std::less<>> addresses_;  // guarded by mutex_
};

}  // namespace warmring
