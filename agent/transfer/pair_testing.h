#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "agent/engine/memory_engine.h"
#include "agent/transfer/pull_dialer.h"
#include "agent/transfer/transfer_client.h"
#include "agent/transfer/transfer_server.h"
#include "core/hashing/key_hash.h"
#include "core/membership/membership.h"
#include "core/ownership/quarter_ring_testing.h"
#include "gtest/gtest.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

namespace warmring {

inline constexpr const char* kTestMigration = "add-b";

// Quarters of the space that go from a to b, one wave each; the first `committed` are b's already.
inline Membership::Ptr MovingMap(uint64_t version, uint64_t waves, uint64_t committed) {
  std::array<QuarterOwner, 4> owners = {{{0, 1}, {0, 1}, {0, 1}, {0, 1}}};
  std::vector<Move> moves;
  for (uint64_t wave = 0; wave < waves; ++wave) {
    const bool done = wave < committed;
    if (done) owners[wave] = {1, 10 + wave};
    moves.push_back({kTestMigration, static_cast<uint32_t>(wave), "a", "b",
                     done ? MovePhase::kGrace : MovePhase::kWarming,
                     HashRangeSet({Quarter(wave)})});
  }
  return QuarterMap(version, owners, std::move(moves));
}

inline HashRangeSet Quarters(uint64_t first, uint64_t end) {
  std::vector<HashRange> ranges;
  for (uint64_t i = first; i < end; ++i) ranges.push_back(Quarter(i));
  return HashRangeSet(ranges);
}

inline bool InQuarters(const std::string& key, uint64_t first, uint64_t end) {
  return Quarters(first, end).Contains(HashKey(HashSpec(), key));
}

inline std::string TestKey(int i) { return "key:" + std::to_string(i); }

// One node: an engine in memory, attached, with the newest map and a long lease, and a server for
// its keys.
class TestNode {
 public:
  TestNode(const NodeId& id, support::FakeClock* clock, MemoryEngineOptions options = {})
      : id_(id), engine_([&] {
          options.clock = [clock] { return clock->Boot(); };
          options.incarnation = Incarnation{{std::hash<std::string>()(id), 1}};
          return options;
        }()) {}

  void Attach() { ASSERT_OK(engine_.Attach(kQuarterHistory, "cache", id_, OnRestart::kTrust)); }

  void Install(const Membership::Ptr& map) {
    ASSERT_OK(engine_.InstallMap(*map));
    {
      std::lock_guard<std::mutex> lock(mutex_);
      map_ = map;
    }
    ASSERT_OK_AND_ASSIGN(const uint64_t seq, engine_.Renew());
    LeaseGrant grant;
    grant.seq = seq;
    grant.term = Term(1);
    grant.ttl = absl::Hours(1);
    grant.version = map->version();
    ASSERT_OK(engine_.Grant(grant));
  }

  Membership::Ptr Map() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return map_;
  }

  void Serve(const std::string& listen = "127.0.0.1:0", DonorStreamOptions stream = {}) {
    TransferServerOptions options;
    options.listen = listen;
    options.keyspace = "cache";
    options.node = id_;
    options.membership = [this] { return Map(); };
    options.fenced = [this](const MigrationId&, const HashRangeSet&) { return fence; };
    options.stream = stream;
    ASSERT_OK_AND_ASSIGN(server_, TransferServer::Start(std::move(options), &engine_));
  }
  void StopServing() { server_.reset(); }
  std::string Address() const { return "127.0.0.1:" + std::to_string(server_->port()); }

  TransferContext Context() {
    TransferContext context;
    context.keyspace = "cache";
    context.node = id_;
    context.engine = &engine_;
    context.dial = GrpcPullDialer();
    context.membership = [this] { return Map(); };
    context.retry_min = absl::Milliseconds(10);
    context.retry_max = absl::Milliseconds(50);
    return context;
  }

  MemoryEngine& engine() { return engine_; }
  TransferServer& server() { return *server_; }

  std::optional<LogPosition> fence;

 private:
  const NodeId id_;
  MemoryEngine engine_;
  mutable std::mutex mutex_;
  Membership::Ptr map_;  // guarded by mutex_
  std::unique_ptr<TransferServer> server_;
};

}  // namespace warmring
