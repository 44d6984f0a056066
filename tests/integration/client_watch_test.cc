#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/base/channel.h"
#include "gtest/gtest.h"
#include "proto/wire/status.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait.h"
#include "tests/support/warmringd_server.h"
#include "warmring/client.h"
#include "warmring/owner.h"
#include "warmring/v1/keyspace_service.grpc.pb.h"
#include "warmring/v1/migration_service.grpc.pb.h"

// Clients and owners against a real warmringd: memberships arrive, survive restarts and dead
// servers, and a range changes hands between two services without two of them ever holding a key at
// once.

namespace warmring {
namespace {

using support::kDefaultWait;
using support::WaitFor;
using support::WaitUntilOk;

constexpr char kKeyspace[] = "sessions";

void SetNode(const std::string& id, const std::string& address, v1::Node* node) {
  node->set_id(id);
  node->set_address(address);
}

class ClientWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(server_, support::WarmringdServer::Start());
    ASSERT_OK_AND_ASSIGN(dir_, support::TempDir::Create("client"));
    options_.endpoints = {server_->Address()};
    options_.keyspace = kKeyspace;
    options_.client_name = "client-watch-test";
    options_.connect_timeout = kDefaultWait;
  }

  std::unique_ptr<v1::KeyspaceService::Stub> Keyspaces() {
    return v1::KeyspaceService::NewStub(MakeChannel(server_->Address()));
  }
  std::unique_ptr<v1::MigrationService::Stub> Migrations() {
    return v1::MigrationService::NewStub(MakeChannel(server_->Address()));
  }
  void CreateKeyspace() {
    v1::CreateKeyspaceRequest request;
    request.mutable_spec()->set_id(kKeyspace);
    request.mutable_spec()->set_directory_bits(10);
    SetNode("a", "127.0.0.1:7001", request.add_nodes());
    grpc::ClientContext context;
    v1::CreateKeyspaceResponse response;
    ASSERT_OK(wire::FromGrpcStatus(Keyspaces()->CreateKeyspace(&context, request, &response)));
  }
  uint32_t Watchers() {
    v1::GetKeyspaceRequest request;
    request.set_keyspace(kKeyspace);
    grpc::ClientContext context;
    v1::GetKeyspaceResponse response;
    EXPECT_OK(wire::FromGrpcStatus(Keyspaces()->GetKeyspace(&context, request, &response)));
    return response.keyspace().watchers();
  }
  // Adds node b; gives the migration's id.
  std::string AddNodeB() {
    v1::SubmitMigrationRequest request;
    v1::MigrationPlan* plan = request.mutable_plan();
    plan->set_keyspace(kKeyspace);
    SetNode("b", "127.0.0.1:7002", plan->add_changes()->mutable_add()->mutable_node());
    v1::Strategy* strategy = plan->mutable_strategy();
    strategy->add_commit_steps(0.5);
    strategy->add_commit_steps(1);
    strategy->mutable_hold()->set_nanos(1'000'000);
    strategy->mutable_soak()->set_nanos(50'000'000);
    grpc::ClientContext context;
    v1::SubmitMigrationResponse response;
    EXPECT_OK(wire::FromGrpcStatus(Migrations()->SubmitMigration(&context, request, &response)));
    return response.migration().id();
  }
  v1::Migration GetMigration(const std::string& id) {
    v1::GetMigrationRequest request;
    request.set_keyspace(kKeyspace);
    request.set_migration(id);
    grpc::ClientContext context;
    v1::GetMigrationResponse response;
    EXPECT_OK(wire::FromGrpcStatus(Migrations()->GetMigration(&context, request, &response)));
    return response.migration();
  }
  absl::StatusOr<std::unique_ptr<OwnerGuard>> StartOwner(const std::string& node) {
    OwnerOptions options;
    options.endpoints = {server_->Address()};
    options.keyspace = kKeyspace;
    options.node = node;
    options.data_address = node == "a" ? "127.0.0.1:7001" : "127.0.0.1:7002";
    return OwnerGuard::Start(options);
  }

  std::unique_ptr<support::WarmringdServer> server_;
  std::unique_ptr<support::TempDir> dir_;
  ClientOptions options_;
};

TEST_F(ClientWatchTest, AKeyspaceThatIsNotThereIsNotFoundAndFollowedOnceItIs) {
  ClientOptions impatient = options_;
  impatient.connect_timeout = absl::Seconds(2);
  EXPECT_THAT(Client::Connect(impatient), StatusIs(absl::StatusCode::kNotFound, kKeyspace));
  CreateKeyspace();
  ASSERT_OK_AND_ASSIGN(const auto client, Client::Connect(options_));
  EXPECT_EQ(client->router().version(), Version(1));
  EXPECT_EQ(client->router().Locate("k")->address, "127.0.0.1:7001");
  EXPECT_OK(client->ConnectionStatus());
  EXPECT_LT(client->Staleness(), absl::Minutes(1));
}

TEST_F(ClientWatchTest, RoutesFromTheFileWhileTheServerIsDownAndResumes) {
  CreateKeyspace();
  options_.cache_file = dir_->File("membership");
  {
    ASSERT_OK_AND_ASSIGN(const auto client, Client::Connect(options_));
    server_->Kill9();
    EXPECT_TRUE(client->router().Locate("k").has_value());
    ASSERT_OK(
        WaitFor("the trouble", kDefaultWait, [&] { return !client->ConnectionStatus().ok(); }));
    EXPECT_TRUE(client->router().Locate("k").has_value());
    ASSERT_OK(server_->Restart());
    ASSERT_OK(
        WaitUntilOk("a connection", kDefaultWait, [&] { return client->ConnectionStatus(); }));
    ASSERT_OK(server_->Stop());
  }
  ASSERT_OK_AND_ASSIGN(const auto client, Client::Connect(options_));
  EXPECT_EQ(client->router().Locate("k")->node, "a");
  ClientOptions without = options_;
  without.cache_file.clear();
  without.connect_timeout = absl::Milliseconds(100);
  EXPECT_THAT(Client::Connect(without), StatusIs(absl::StatusCode::kUnavailable, "no membership"));
}

TEST_F(ClientWatchTest, AnOwnerHoldsItsLeaseAcrossARestartOfTheServer) {
  CreateKeyspace();
  ASSERT_OK_AND_ASSIGN(const auto owner, StartOwner("a"));
  ASSERT_OK(WaitFor("a lease", kDefaultWait, [&] { return owner->HasLease(); }));
  ASSERT_OK_AND_ASSIGN(const auto client, Client::Connect(options_));
  // The owner follows the membership as well, and reads nothing from the origin.
  EXPECT_EQ(Watchers(), 1u);
  const std::string word = client->router().Locate("k")->EpochWord();
  {
    ASSERT_OK_AND_ASSIGN(WriteGuard guard, owner->Begin("k", word));
    EXPECT_OK(guard.StillHeld());
  }
  server_->Kill9();
  ASSERT_OK(WaitFor("the end of the lease", kDefaultWait, [&] { return !owner->HasLease(); }));
  EXPECT_EQ(RefusalOf(owner->Begin("k", word).status())->reason, RefusalReason::kNoLease);
  EXPECT_OK(owner->BeginRead("k", word));
  ASSERT_OK(server_->Restart());
  ASSERT_OK(WaitFor("a lease", kDefaultWait, [&] { return owner->HasLease(); }));
  EXPECT_OK(owner->Begin("k", word));
}

TEST_F(ClientWatchTest, ARangeChangesHandsAndNoTwoServicesEverHoldAKeyAtOnce) {
  CreateKeyspace();
  std::array<std::unique_ptr<OwnerGuard>, 2> owners;
  ASSERT_OK_AND_ASSIGN(owners[0], StartOwner("a"));
  ASSERT_OK_AND_ASSIGN(owners[1], StartOwner("b"));
  ASSERT_OK(WaitFor("a lease", kDefaultWait, [&] { return owners[0]->HasLease(); }));
  ASSERT_OK_AND_ASSIGN(const auto client, Client::Connect(options_));

  constexpr size_t kKeys = 16;
  std::array<std::array<std::atomic<int>, 2>, kKeys> holders{};  // writes in flight per owner
  std::array<std::atomic<uint64_t>, kKeys> newest{};             // epoch of an acknowledged write
  std::atomic<int> both = 0;
  std::atomic<int> backwards = 0;
  std::atomic<int> written = 0;
  std::atomic<bool> stop = false;
  const auto write = [&](size_t seed) {
    for (size_t i = seed; !stop; ++i) {
      const size_t k = i % kKeys;
      const std::string key = "key-" + std::to_string(k);
      const Location at = *client->router().Locate(key);
      // A client that is not up to date asks the wrong one now and then.
      const size_t target = i % 7 == 0 ? i / 7 % 2 : (at.node == "a" ? 0 : 1);
      absl::StatusOr<WriteGuard> guard = owners[target]->Begin(key, at.EpochWord());
      if (!guard.ok()) {
        ASSERT_TRUE(RefusalOf(guard.status()).has_value()) << guard.status();
        continue;
      }
      ++holders[k][target];
      if (holders[k][1 - target] != 0) ++both;
      if (guard->StillHeld().ok()) {
        if (newest[k] > at.epoch.value) ++backwards;
        uint64_t seen = newest[k];
        while (seen < at.epoch.value && !newest[k].compare_exchange_weak(seen, at.epoch.value)) {
        }
        ++written;
      }
      --holders[k][target];
    }
  };
  std::vector<std::thread> writers;
  for (size_t i = 0; i < 3; ++i) writers.emplace_back(write, i * 5);

  const std::string id = AddNodeB();
  v1::Migration migration;
  EXPECT_OK(WaitFor("the end of the migration", 2 * kDefaultWait, [&] {
    migration = GetMigration(id);
    return migration.ended();
  }));
  EXPECT_EQ(migration.state(), v1::MIGRATION_STATE_SUCCEEDED) << migration.DebugString();
  const Version version(migration.final_version());
  EXPECT_OK(client->WaitForVersion(version, kDefaultWait));
  EXPECT_OK(WaitFor("the owners", kDefaultWait, [&] {
    return owners[0]->version() == version && owners[1]->version() == version;
  }));
  const int before = written;
  EXPECT_OK(WaitFor("writes after it", kDefaultWait, [&] { return written > before + 100; }));
  stop = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(both, 0);
  EXPECT_EQ(backwards, 0);

  // About half of the keys are b's now, and each of the two says so.
  int at_b = 0;
  for (size_t k = 0; k < kKeys; ++k) {
    const std::string key = "key-" + std::to_string(k);
    const Location at = *client->router().Locate(key);
    const size_t owner = at.node == "a" ? 0 : 1;
    at_b += static_cast<int>(owner);
    EXPECT_OK(owners[owner]->Begin(key, at.EpochWord()));
    const auto refusal = RefusalOf(owners[1 - owner]->Begin(key, at.EpochWord()).status());
    ASSERT_TRUE(refusal.has_value());
    EXPECT_EQ(refusal->reason, RefusalReason::kNotOwner);
    EXPECT_EQ(refusal->owner_address, at.address);
  }
  EXPECT_GT(at_b, 0);
  EXPECT_LT(at_b, static_cast<int>(kKeys));
}

}  // namespace
}  // namespace warmring
