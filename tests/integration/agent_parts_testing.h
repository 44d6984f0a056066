#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "agent/engine/redis_engine.h"
#include "agent/owner_link.h"
#include "agent/releaser.h"
#include "agent/task_runner.h"
#include "agent/transfer/pull_dialer.h"
#include "agent/transfer/transfer_server.h"
#include "core/hashing/key_hash.h"
#include "core/membership/membership.h"
#include "core/ownership/quarter_ring_testing.h"
#include "gtest/gtest.h"
#include "tests/support/binary.h"
#include "tests/support/redis_server.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

namespace warmring {

// A real redis-server with the module, and all parts of its agent but the session and the watch,
// whose place the test takes: it installs memberships, grants leases, sets tasks, takes reports.
class AgentParts {
 public:
  explicit AgentParts(NodeId id, std::vector<std::string> module_args = {}) : id_(std::move(id)) {
    support::RedisServerOptions options;
    const auto module = support::BinaryPath("warmring-redis.so");
    EXPECT_OK(module);
    if (!module.ok()) return;
    options.modules = {{*module, std::move(module_args)}};
    options.enable_debug_command = true;
    auto redis = support::RedisServer::Start(options);
    EXPECT_OK(redis);
    if (!redis.ok()) return;
    redis_ = *std::move(redis);
    engine_ = std::make_unique<RedisEngine>(RedisEngineOptions{.address = redis_->Address()});

    ReleaserOptions releaser;
    releaser.node = id_;
    releaser_ = std::make_unique<Releaser>(std::move(releaser), engine_.get());
    OwnerLinkOptions link;
    link.keyspace = "cache";
    link.node = id_;
    link.data_address = redis_->Address();
    link_ = std::make_unique<OwnerLink>(std::move(link), engine_.get(),
                                        [this](const Membership::Ptr& membership) {
                                          releaser_->OnInstalled(membership);
                                          runner_->MembershipChanged();
                                        });
    TransferContext context;
    context.keyspace = "cache";
    context.node = id_;
    context.engine = engine_.get();
    context.dial = GrpcPullDialer();
    context.membership = [this] { return link_->Installed(); };
    runner_ = std::make_unique<TaskRunner>(
        std::move(context), [] {}, [this] { server_->Nudge(); });
    link_->SetRunner(runner_.get());
    Serve();
  }

  ~AgentParts() {
    if (link_) link_->Stop();
    if (runner_) runner_->Stop();
    server_.reset();
  }

  void Serve() {
    TransferServerOptions server;
    server.listen = "127.0.0.1:0";
    server.keyspace = "cache";
    server.node = id_;
    server.membership = [this] { return link_->Installed(); };
    server.fenced = [this](const MigrationId& migration, const HashRangeSet& ranges) {
      return runner_->Fenced(migration, ranges);
    };
    auto started = TransferServer::Start(std::move(server), engine_.get());
    EXPECT_OK(started);
    if (started.ok()) server_ = *std::move(started);
  }

  // As the session does before its Hello.
  void Attach(OnRestart on_restart = OnRestart::kPurge) {
    identity_ = {};
    ASSERT_OK(support::WaitUntilOk("attach", support::kDefaultWait, [&] {
      auto identity = link_->Attach(kQuarterHistory, on_restart);
      if (identity.ok()) identity_ = *identity;
      return identity.status();
    }));
  }

  // Waits until the engine has it, then takes a lease of an hour.
  void Install(const Membership::Ptr& map) {
    link_->OnMembership(map);
    ASSERT_OK(support::WaitFor("membership installed", support::kDefaultWait, [&] {
      const Membership::Ptr installed = link_->Installed();
      return installed != nullptr && installed->version() >= map->version();
    }));
    ASSERT_OK_AND_ASSIGN(const OwnerPort::Renewal renewal, link_->Renew());
    EXPECT_EQ(renewal.applied_version, map->version());
    LeaseGrant grant;
    grant.seq = renewal.seq;
    grant.term = Term(1);
    grant.ttl = absl::Hours(1);
    grant.version = map->version();
    ASSERT_OK(link_->Grant(grant));
  }

  // The newest report of that kind for this nonce, once `wanted` holds for it.
  template <typename Report, typename Wanted>
  Report Await(const std::string& what, Wanted wanted) {
    Report found;
    EXPECT_OK(support::WaitFor(id_ + ": " + what, support::kDefaultWait, [&] {
      for (const TaskReport& report : link_->TakeReports()) {
        EXPECT_EQ(report.node, id_);
        EXPECT_EQ(report.incarnation, identity_.incarnation);
        if (const auto* failure = std::get_if<TaskFailure>(&report.body);
            failure != nullptr && !std::is_same_v<Report, TaskFailure>) {
          ADD_FAILURE() << id_ << ": " << failure->reason;
        }
        const auto* body = std::get_if<Report>(&report.body);
        if (body == nullptr || !wanted(*body)) continue;
        found = *body;
        return true;
      }
      return false;
    }));
    return found;
  }

  support::RedisReply Do(const std::vector<std::string>& command) {
    auto reply = redis_->Command(command);
    EXPECT_OK(reply);
    return reply.ok() ? *reply : support::RedisReply();
  }
  int64_t DbSize() { return Do({"DBSIZE"}).integer; }
  // Of a key, whoever may serve it.
  std::optional<uint64_t> Digest(const std::string& key) {
    const auto digests = engine_->DigestKeys({key});
    EXPECT_OK(digests);
    return digests.ok() ? digests->digests[0] : std::nullopt;
  }
  EngineEntry Dump(const std::string& key) {
    const auto dump = engine_->DumpKeys({key});
    EXPECT_OK(dump);
    return dump.ok() ? dump->entries[0] : EngineEntry();
  }

  std::string TransferAddress() const { return "127.0.0.1:" + std::to_string(server_->port()); }
  support::RedisServer& redis() { return *redis_; }
  RedisEngine& engine() { return *engine_; }
  OwnerLink& link() { return *link_; }
  const OwnerPort::Identity& identity() const { return identity_; }

 private:
  const NodeId id_;
  OwnerPort::Identity identity_;
  std::unique_ptr<support::RedisServer> redis_;
  std::unique_ptr<RedisEngine> engine_;
  std::unique_ptr<Releaser> releaser_;
  std::unique_ptr<OwnerLink> link_;
  std::unique_ptr<TaskRunner> runner_;
  std::unique_ptr<TransferServer> server_;
};

}  // namespace warmring
