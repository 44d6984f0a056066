#include "client/redis/redis_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace warmring {

RedisPool::RedisPool(RedisPoolOptions options) : options_(std::move(options)) {}

RedisPool::~RedisPool() = default;

RedisPool::Lease::~Lease() {
  if (connection_ != nullptr) pool_->Return(std::move(connection_));
}

absl::Duration RedisPool::TimeoutFor(Instant deadline) const {
  const absl::Duration left = deadline - options_.clock();
  // Whole steps, so that the timeout of a busy connection seldom has to be set
  // anew.
  const absl::Duration step = absl::Milliseconds(20);
  return std::clamp(absl::Ceil(left, step), step, std::max(options_.command_timeout, step));
}

absl::StatusOr<RedisPool::Lease> RedisPool::Acquire(std::string_view address, Instant deadline) {
  std::unique_ptr<RedisConnection> connection;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    auto found = addresses_.find(address);
    if (found == addresses_.end()) found = addresses_.emplace(address, Address{}).first;
    Address& entry = found->second;
    while (entry.out >= options_.max_connections) {
      const absl::Duration left = deadline - options_.clock();
      if (left <= absl::ZeroDuration()) {
        return absl::DeadlineExceededError(
            fmt::format("redis {}: all {} connections are in use; raise max_connections", address,
                        options_.max_connections));
      }
      returned_.wait_for(lock, absl::ToChronoNanoseconds(left));
    }
    if (entry.idle.empty() && options_.clock() < entry.down_until) return entry.down_reason;
    ++entry.out;
    while (connection == nullptr && !entry.idle.empty()) {
      connection = std::move(entry.idle.back());
      entry.idle.pop_back();
      if (!connection->IsQuiet()) connection.reset();
    }
  }
  const bool reused = connection != nullptr;
  if (!reused) {
    auto fresh =
        RedisConnection::Connect(address, std::min(options_.connect_timeout, TimeoutFor(deadline)));
    if (!fresh.ok()) {
      GiveUpSlot(std::string(address), fresh.status());
      return fresh.status();
    }
    connection = *std::move(fresh);
  }
  Lease lease(this, std::move(connection), reused);
  const absl::Status timeout_set = lease->SetTimeout(TimeoutFor(deadline));
  if (!timeout_set.ok()) return timeout_set;
  return lease;
}

void RedisPool::GiveUpSlot(const std::string& address, const absl::Status& failure) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Address& entry = addresses_.find(address)->second;
  --entry.out;
  entry.down_until = options_.clock() + options_.down_time;
  entry.down_reason = failure;
  returned_.notify_all();
}

void RedisPool::Return(std::unique_ptr<RedisConnection> connection) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Address& entry = addresses_.find(connection->address())->second;
  --entry.out;
  if (!connection->broken()) entry.idle.push_back(std::move(connection));
  returned_.notify_all();
}

void RedisPool::DropIdle(std::string_view address) {
  std::vector<std::unique_ptr<RedisConnection>> dead;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = addresses_.find(address);
  if (found != addresses_.end()) dead.swap(found->second.idle);
}

size_t RedisPool::IdleCount(std::string_view address) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = addresses_.find(address);
  return found == addresses_.end() ? 0 : found->second.idle.size();
}

}  // namespace warmring
