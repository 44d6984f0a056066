#include "client/loader/node_transport.h"

#include <string>

#include "client/redis/redis_pool.h"

namespace warmring {

absl::StatusOr<RedisReply> PooledNodes::Command(std::string_view address,
                                                const std::vector<std::string_view>& argv,
                                                Instant deadline) {
  absl::StatusOr<RedisPool::Lease> lease = pool_->Acquire(address, deadline);
  if (!lease.ok()) return absl::UnavailableError(std::string(lease.status().message()));
  absl::StatusOr<RedisReply> reply = (*lease)->Command(argv);
  if (reply.ok()) return reply;
  // The others that are idle broke with this one, most likely.
  pool_->DropIdle(address);
  return absl::UnknownError(std::string(reply.status().message()));
}

}  // namespace warmring
