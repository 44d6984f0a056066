#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/engine/cache_engine.h"
#include "client/redis/redis_pool.h"

namespace warmring {

struct RedisEngineOptions {
  std::string address;  // host:port
  // Bounds a command: a Redis that is saving or swapping answers late.
  absl::Duration timeout = absl::Seconds(5);
  absl::Duration connect_timeout = absl::Seconds(1);
};

// A Redis server with warmring-redis.so (docs/protocol.md section 2.3). Connections are kept in a
// pool, so that a fence never waits behind a bulk transfer. Thread-safe.
class RedisEngine : public CacheEngine {
 public:
  explicit RedisEngine(RedisEngineOptions options);

  absl::StatusOr<Attachment> Attach(const HistoryId& history, const KeyspaceId& keyspace,
                                    const NodeId& node, OnRestart on_restart) override;
  absl::Status InstallMap(const Membership& membership) override;
  absl::StatusOr<uint64_t> Renew() override;
  absl::Status Grant(const LeaseGrant& grant) override;
  absl::StatusOr<FenceResult> Fence(const MigrationId& migration, Epoch floor,
                                    const HashRangeSet& ranges) override;
  absl::StatusOr<LogPosition> Track(const Id128& nonce, const HashRangeSet& ranges) override;
  absl::Status Untrack(const Id128& nonce) override;
  absl::StatusOr<Changes> ReadChanges(const Id128& nonce, const LogPosition& cursor, uint64_t ack,
                                      uint32_t count) override;
  absl::StatusOr<KeyPage> Scan(const Id128& nonce, uint64_t cursor, uint32_t count) override;
  absl::StatusOr<Dump> DumpKeys(const std::vector<std::string>& keys) override;
  absl::StatusOr<Digests> DigestKeys(const std::vector<std::string>& keys) override;
  absl::StatusOr<DirtyPage> ReadDirty(const MigrationId& migration, uint64_t cursor,
                                      uint32_t count) override;
  absl::StatusOr<KeyPage> ReadForgotten(uint64_t cursor, uint32_t count) override;
  absl::Status ForgetAt(const std::string& address, const std::vector<std::string>& keys) override;
  absl::Status OpenTransfer(const Id128& nonce, const MigrationId& migration,
                            const HashRangeSet& ranges) override;
  absl::Status Apply(const Id128& nonce, const std::vector<EngineEntry>& entries) override;
  absl::Status CloseTransfer(const Id128& nonce) override;
  absl::StatusOr<Purged> PurgeTransfer(const Id128& nonce, uint64_t cursor,
                                       uint32_t count) override;
  absl::StatusOr<Purged> PurgeLeft(uint64_t cursor, uint32_t count) override;
  absl::StatusOr<Purged> PurgeAll(uint64_t cursor, uint32_t count) override;
  absl::StatusOr<Stat> ReadStat() override;

 private:
  using Arguments = std::vector<std::string>;

  // Sends `name <generation> arguments...`; an error reply becomes a Status. A generation that
  // another thread's Attach made old in the meantime is tried once more with the new one.
  absl::StatusOr<RedisReply> Call(std::string_view name, const Arguments& arguments);
  // Sends the commands as they are, over one connection; a connection that the server had closed
  // while it was idle is replaced once.
  absl::StatusOr<std::vector<RedisReply>> Send(
      const std::string& address, const std::vector<std::vector<std::string_view>>& commands);
  absl::StatusOr<std::string> Info(std::string_view section, std::string_view field);
  absl::StatusOr<Purged> Purge(const std::string& what, uint64_t cursor, uint32_t count);
  std::string Generation() const;
  absl::Status PayloadRefused(const std::vector<EngineEntry>& entries, size_t first,
                              const std::string& text) const;

  const RedisEngineOptions options_;
  RedisPool pool_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  uint64_t generation_ = 0;
  uint32_t rdb_version_ = 0;
};

// Version of the format that a Redis of this version dumps; 0 when unknown.
uint32_t RdbVersionOf(std::string_view redis_version);
// Version of the format of a payload that DUMP returned; 0 when it is too short to be one.
uint32_t PayloadRdbVersion(std::string_view payload);

}  // namespace warmring
