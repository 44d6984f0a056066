#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "client/redis/redis_pool.h"
#include "core/membership/membership.h"
#include "tests/e2e/demo/cache_client.h"
#include "tests/e2e/demo/origin.h"

namespace warmring::demo {

// What most fleets run: route by the present ring, GET, on a miss ask the origin and SET. No
// single-flight, no budget, no warming. Thread-safe.
class NaiveClient : public CacheClient {
 public:
  NaiveClient(Membership::Ptr membership, Origin* origin, int ttl_ms, RedisPool* pool)
      : membership_(std::move(membership)), origin_(origin), ttl_ms_(ttl_ms), pool_(pool) {}

  absl::StatusOr<std::string> Read(const std::string& key) override;
  absl::Status Write(const std::string& key, const std::string& value, bool keep) override;

  // Puts a value with this life into the cache, for prefilling.
  absl::Status Put(const std::string& key, const std::string& value, int ttl_ms);
  // From now on every key is routed by this membership: the cold node is in.
  void Switch(Membership::Ptr membership);

 private:
  std::string AddressOf(const std::string& key) const;
  absl::StatusOr<RedisReply> Run(const std::string& key,
                                 const std::vector<std::string_view>& command);

  mutable std::mutex mutex_;
  Membership::Ptr membership_;
  Origin* origin_;
  const int ttl_ms_;
  RedisPool* pool_;
};

}  // namespace warmring::demo
