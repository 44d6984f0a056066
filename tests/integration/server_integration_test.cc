// The running server as its users meet it: a real warmringd, a real store, real streams.

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/reason.h"
#include "core/membership/membership.h"
#include "core/membership/update.h"
#include "gtest/gtest.h"
#include "proto/wire/membership.h"
#include "tests/integration/server_parts_testing.h"
#include "tests/support/binary.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"
#include "tests/support/warmringd_server.h"

namespace warmring {
namespace {

using support::kDefaultWait;
using support::WarmringdOptions;
using support::WarmringdServer;
using Keyspaces = v1::KeyspaceService::Stub;
using Migrations = v1::MigrationService::Stub;

MATCHER_P3(Refuses, code, reason, text, "") {
  const absl::Status& status = support::AsStatus(arg);
  *result_listener << status.ToString() << " reason " << ReasonNameOf(status);
  return status.code() == code && ReasonNameOf(status) == reason &&
         std::string(status.message()).find(text) != std::string::npos;
}

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr auto kAborted = absl::StatusCode::kAborted;

// A watcher that keeps the newest membership the way a client does: exact base, digest checked.
class Watcher {
 public:
  Watcher(ServerApi& api, const std::string& history, Version version) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    stream_ = api.watch().WatchMembership(&context_);
    v1::WatchMembershipRequest request;
    request.mutable_subscribe()->set_keyspace("sessions");
    request.mutable_subscribe()->set_history(history);
    request.mutable_subscribe()->set_version(version.value);
    stream_->Write(request);
  }
  ~Watcher() {
    context_.TryCancel();
    Finish().IgnoreError();
  }

  // The next message that is not progress.
  absl::StatusOr<v1::WatchMembershipResponse> Next() {
    v1::WatchMembershipResponse response;
    while (stream_->Read(&response)) {
      if (response.has_progress()) continue;
      return response;
    }
    return Finish();
  }
  // Reads until `version` is there.
  absl::Status Follow(Version version) {
    while (membership_ == nullptr || membership_->version() < version) {
      auto next = Next();
      if (!next.ok()) return next.status();
      if (next->has_snapshot()) {
        v1::Membership proto;
        if (!proto.ParseFromString(next->snapshot().data())) return absl::DataLossError("snapshot");
        auto membership = wire::MembershipFromProto(proto);
        if (!membership.ok()) return membership.status();
        membership_ = *membership;
      } else {
        auto delta = wire::DeltaFromProto(next->delta());
        if (!delta.ok()) return delta.status();
        auto applied = ApplyDelta(*membership_, *delta);
        if (!applied.ok()) return applied.status();
        membership_ = *applied;
      }
    }
    return absl::OkStatus();
  }
  void Seed(Membership::Ptr membership) { membership_ = std::move(membership); }
  const Membership::Ptr& membership() const { return membership_; }

 private:
  // Reads what is left and how the stream ended; once, which is all that gRPC allows.
  absl::Status Finish() {
    if (!finished_) {
      v1::WatchMembershipResponse rest;
      while (stream_->Read(&rest)) {
      }
      finished_ = wire::FromGrpcStatus(stream_->Finish());
    }
    return *finished_;
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WatchMembershipRequest, v1::WatchMembershipResponse>>
      stream_;
  std::optional<absl::Status> finished_;
  Membership::Ptr membership_;
};

class ServerIntegrationTest : public ::testing::Test {
 protected:
  void StartServer(const WarmringdOptions& options = {}) {
    ASSERT_OK_AND_ASSIGN(server_, WarmringdServer::Start(options));
    api_ = std::make_unique<ServerApi>(server_->Address());
  }
  void CreateKeyspace(int nodes, v1::PlacementKind kind = v1::PLACEMENT_KIND_DIRECTORY) {
    ASSERT_OK(api_->Create(CreateRequest(nodes, kind)));
  }
  std::unique_ptr<ScriptedOwner> Own(const std::string& node, uint64_t incarnation = 0,
                                     std::function<bool(const v1::Task&)> answers = nullptr) {
    ScriptedOwner::Options options;
    options.address = server_->Address();
    options.node = node;
    options.incarnation = incarnation;
    options.answers = std::move(answers);
    return std::make_unique<ScriptedOwner>(options);
  }
  void OwnAll(int nodes, std::function<bool(const v1::Task&)> answers = nullptr) {
    for (int i = 1; i <= nodes; ++i)
      owners_.push_back(Own("cache-" + std::to_string(i), 0, answers));
  }
  absl::StatusOr<v1::Migration> WaitForState(const std::string& id,
                                             const std::set<v1::MigrationState>& states) {
    absl::StatusOr<v1::Migration> last = absl::UnknownError("never asked");
    const absl::Status waited =
        support::WaitUntilOk("a state of " + id, kDefaultWait, [&]() -> absl::Status {
          last = api_->Migration("sessions", id);
          if (!last.ok()) return last.status();
          if (states.contains(last->state())) return absl::OkStatus();
          return absl::UnavailableError(v1::MigrationState_Name(last->state()) +
                                        " held: " + last->held() + " failure: " + last->failure());
        });
    if (!waited.ok()) return waited;
    return last;
  }
  absl::StatusOr<v1::Migration> WaitForEnd(const std::string& id) {
    return WaitForState(id, {v1::MIGRATION_STATE_SUCCEEDED, v1::MIGRATION_STATE_ABORTED,
                             v1::MIGRATION_STATE_ROLLED_BACK, v1::MIGRATION_STATE_FAILED});
  }

  std::unique_ptr<WarmringdServer> server_;
  std::unique_ptr<ServerApi> api_;
  std::vector<std::unique_ptr<ScriptedOwner>> owners_;
};

TEST_F(ServerIntegrationTest, KeyspacesAreThereAfterARestart) {
  StartServer();
  for (const auto kind : {v1::PLACEMENT_KIND_DIRECTORY, v1::PLACEMENT_KIND_RING}) {
    v1::CreateKeyspaceRequest request = CreateRequest(4, kind);
    if (kind == v1::PLACEMENT_KIND_RING) request.mutable_spec()->set_id("ring");
    ASSERT_OK_AND_ASSIGN(const auto created, api_->Create(request));
    EXPECT_EQ(created.keyspace().version(), 1u);
    EXPECT_EQ(created.keyspace().node_count(), 4u);
    EXPECT_EQ(created.keyspace().history().size(), 32u);
  }
  v1::LocateRequest locate;
  locate.set_keyspace("sessions");
  locate.add_keys("user:1");
  locate.add_keys(std::string("\0\xff", 2));
  ASSERT_OK_AND_ASSIGN(const auto before,
                       api_->Call(&Keyspaces::Locate, locate, api_->keyspaces()));
  EXPECT_EQ(before.locations_size(), 2);
  EXPECT_EQ(before.locations(0).address(), before.locations(0).owner() + ".example:6379");
  EXPECT_EQ(before.locations(0).epoch(), 1u);

  ASSERT_OK(server_->Restart());
  ASSERT_OK_AND_ASSIGN(const auto after, api_->Call(&Keyspaces::Locate, locate, api_->keyspaces()));
  EXPECT_EQ(after.SerializeAsString(), before.SerializeAsString());
  v1::ListKeyspacesRequest list;
  list.set_page_size(1);
  ASSERT_OK_AND_ASSIGN(auto page, api_->Call(&Keyspaces::ListKeyspaces, list, api_->keyspaces()));
  ASSERT_EQ(page.keyspaces_size(), 1);
  EXPECT_EQ(page.keyspaces(0).spec().id(), "ring");
  list.set_page_token(page.next_page_token());
  ASSERT_OK_AND_ASSIGN(page, api_->Call(&Keyspaces::ListKeyspaces, list, api_->keyspaces()));
  EXPECT_EQ(page.keyspaces(0).spec().id(), "sessions");
  EXPECT_EQ(page.next_page_token(), "");

  v1::ListVersionsRequest versions;
  versions.set_keyspace("sessions");
  ASSERT_OK_AND_ASSIGN(const auto history,
                       api_->Call(&Keyspaces::ListVersions, versions, api_->keyspaces()));
  ASSERT_EQ(history.versions_size(), 1);
  EXPECT_EQ(history.versions(0).author(), "tester (dev)");
  EXPECT_EQ(history.versions(0).reason(), "test");
  EXPECT_EQ(history.versions(0).change(), "created with 4 nodes");
}

TEST_F(ServerIntegrationTest, BadKeyspacesAreRefusedAndNothingChanges) {
  StartServer();
  const v1::CreateKeyspaceRequest good = CreateRequest(2, v1::PLACEMENT_KIND_DIRECTORY);
  v1::CreateKeyspaceRequest bad = good;
  bad.mutable_spec()->set_id("Sessions/..");
  EXPECT_THAT(api_->Create(bad), Refuses(kInvalid, "BAD_FIELD", "spec.id: 'Sessions/..'"));
  bad = good;
  bad.mutable_spec()->set_directory_bits(30);
  EXPECT_THAT(api_->Create(bad), Refuses(kInvalid, "BAD_FIELD", "spec.directory_bits: 30"));
  bad = good;
  bad.clear_nodes();
  EXPECT_THAT(api_->Create(bad), Refuses(kInvalid, "BAD_FIELD", "nodes"));
  bad = good;
  *bad.add_nodes() = MakeNode("cache-1");
  EXPECT_THAT(api_->Create(bad), Refuses(kInvalid, "BAD_FIELD", "'cache-1'"));
  for (const double weight : {0.0, -1.0, std::nan(""), 1e308}) {
    bad = good;
    bad.mutable_nodes(1)->set_weight(weight);
    EXPECT_THAT(api_->Create(bad), Refuses(kInvalid, "BAD_FIELD", "nodes[1].weight")) << weight;
  }
  bad = good;
  bad.mutable_nodes(0)->set_address("nowhere");
  EXPECT_THAT(api_->Create(bad), Refuses(kInvalid, "BAD_FIELD", "nodes[0].address: 'nowhere'"));
  bad = good;
  bad.set_request_id("a/b");
  EXPECT_THAT(api_->Create(bad), Refuses(kInvalid, "BAD_FIELD", "request_id: 'a/b'"));
  EXPECT_THAT(api_->Get("sessions"), Refuses(kNotFound, "NOT_FOUND", "'sessions'"));

  v1::CreateKeyspaceRequest check = good;
  check.set_validate_only(true);
  ASSERT_OK_AND_ASSIGN(const auto checked, api_->Create(check));
  EXPECT_EQ(checked.keyspace().node_count(), 2u);
  EXPECT_THAT(api_->Get("sessions"), Refuses(kNotFound, "NOT_FOUND", "'sessions'"));
  ASSERT_OK(api_->Create(good));
  EXPECT_THAT(api_->Create(good),
              Refuses(absl::StatusCode::kAlreadyExists, "ALREADY_EXISTS", "'sessions'"));
}

TEST_F(ServerIntegrationTest, AnExplicitPlacementIsTakenAsItIsGiven) {
  StartServer();
  v1::CreateKeyspaceRequest request = CreateRequest(3, v1::PLACEMENT_KIND_RING);
  request.mutable_spec()->set_hash_function(v1::HASH_FUNCTION_KETAMA);
  // cache-3 comes first here, and last in the membership.
  request.mutable_nodes()->SwapElements(0, 2);
  for (const uint64_t end : {uint64_t{7} << 32, uint64_t{9} << 60, UINT64_MAX}) {
    request.mutable_placement()->add_range_ends(end);
  }
  for (const uint32_t owner : {0u, 1u, 2u}) request.mutable_placement()->add_range_owners(owner);
  request.set_request_id("adopt-1");
  ASSERT_OK(api_->Create(request));
  ASSERT_OK(api_->Create(request));  // the same request again is harmless
  v1::CreateKeyspaceRequest other = request;
  other.mutable_placement()->set_range_owners(0, 1);
  EXPECT_THAT(api_->Create(other), Refuses(kInvalid, "REQUEST_ID_REUSED", "adopt-1"));
  ASSERT_OK(server_->Restart());
  v1::GetMembershipRequest get;
  get.set_keyspace("sessions");
  ASSERT_OK_AND_ASSIGN(const auto got,
                       api_->Call(&Keyspaces::GetMembership, get, api_->keyspaces()));
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr membership,
                       wire::MembershipFromProto(got.membership()));
  EXPECT_EQ(membership->spec().hash.function, HashSpec::Function::kKetama);
  EXPECT_EQ(membership->ranges().size(), 3u);
  EXPECT_EQ(membership->nodes()[membership->RangeOf(5).owner].id, "cache-3");
  EXPECT_EQ(membership->nodes()[membership->RangeOf(uint64_t{8} << 32).owner].id, "cache-2");
  EXPECT_EQ(membership->nodes()[membership->RangeOf(UINT64_MAX).owner].id, "cache-1");
}

TEST_F(ServerIntegrationTest, TheLargestDirectoryCanBeAdopted) {
  StartServer();
  v1::CreateKeyspaceRequest request = CreateRequest(200, v1::PLACEMENT_KIND_DIRECTORY);
  request.mutable_spec()->set_directory_bits(20);
  for (uint32_t bucket = 0; bucket < (1u << 20); ++bucket) {
    request.mutable_placement()->add_range_owners(bucket % 200);
  }
  ASSERT_OK(api_->Create(request));
  ASSERT_OK(server_->Restart());
  ASSERT_OK_AND_ASSIGN(const v1::Keyspace keyspace, api_->Get("sessions"));
  EXPECT_EQ(keyspace.node_count(), 200u);
  EXPECT_NEAR(keyspace.max_over_mean(), 1.0, 0.001);
}

TEST_F(ServerIntegrationTest, BadPlacementsAreRefusedAndNothingChanges) {
  StartServer();
  v1::CreateKeyspaceRequest bad = CreateRequest(2, v1::PLACEMENT_KIND_RING);
  bad.mutable_placement();
  EXPECT_THAT(api_->Create(bad), Refuses(kInvalid, "BAD_FIELD", "placement.range_ends: none"));
  bad.mutable_placement()->add_range_ends(5);
  bad.mutable_placement()->add_range_owners(2);
  EXPECT_THAT(api_->Create(bad),
              Refuses(kInvalid, "BAD_FIELD", "placement.range_owners[0]: 2 is no node"));
  bad.mutable_spec()->set_placement(v1::PLACEMENT_KIND_DIRECTORY);
  EXPECT_THAT(api_->Create(bad),
              Refuses(kInvalid, "BAD_FIELD", "placement.range_ends: 1 for a directory"));
  bad.mutable_spec()->set_hash_function(static_cast<v1::HashFunction>(77));
  EXPECT_THAT(api_->Create(bad), Refuses(kInvalid, "BAD_FIELD", "spec.hash_function: 77"));
  bad.mutable_spec()->set_hash_function(v1::HASH_FUNCTION_CRC16);
  bad.mutable_spec()->set_directory_bits(15);
  EXPECT_THAT(api_->Create(bad), Refuses(kInvalid, "BAD_FIELD", "spec.directory_bits: 15 with"));
  // Over what the server takes in one message.
  v1::CreateKeyspaceRequest huge = CreateRequest(2, v1::PLACEMENT_KIND_RING);
  huge.mutable_placement()->mutable_range_ends()->Resize(600'000, 1);
  EXPECT_EQ(api_->Create(huge).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(api_->Get("sessions"), Refuses(kNotFound, "NOT_FOUND", "'sessions'"));
}

TEST_F(ServerIntegrationTest, BadQuestionsAreRefused) {
  StartServer();
  CreateKeyspace(2);
  v1::LocateRequest locate;
  locate.set_keyspace("nope");
  locate.add_keys("a");
  EXPECT_THAT(api_->Call(&Keyspaces::Locate, locate, api_->keyspaces()),
              Refuses(kNotFound, "NOT_FOUND", "'nope'"));
  locate.set_keyspace("sessions");
  locate.clear_keys();
  EXPECT_THAT(api_->Call(&Keyspaces::Locate, locate, api_->keyspaces()),
              Refuses(kInvalid, "BAD_FIELD", "keys"));
  for (int i = 0; i < 1001; ++i) locate.add_keys("k");
  EXPECT_THAT(api_->Call(&Keyspaces::Locate, locate, api_->keyspaces()),
              Refuses(kInvalid, "BAD_FIELD", "1001"));
  v1::GetMembershipRequest membership;
  membership.set_keyspace("sessions");
  membership.set_version(99);
  EXPECT_THAT(api_->Call(&Keyspaces::GetMembership, membership, api_->keyspaces()),
              Refuses(kNotFound, "NOT_FOUND", "version: 99"));
  v1::ListNodesRequest nodes;
  nodes.set_keyspace("sessions");
  nodes.set_page_token("rubbish");
  EXPECT_THAT(api_->Call(&Keyspaces::ListNodes, nodes, api_->keyspaces()),
              Refuses(kInvalid, "BAD_FIELD", "page_token: 'rubbish'"));
  nodes.clear_page_token();
  nodes.set_page_size(5000);
  EXPECT_THAT(api_->Call(&Keyspaces::ListNodes, nodes, api_->keyspaces()),
              Refuses(kInvalid, "BAD_FIELD", "page_size: 5000"));
  EXPECT_THAT(api_->Migration("sessions", "mig-nope"), Refuses(kNotFound, "NOT_FOUND", "mig-nope"));
  EXPECT_THAT(api_->Abort("sessions", "mig-nope"), Refuses(kNotFound, "NOT_FOUND", "mig-nope"));
}

TEST_F(ServerIntegrationTest, BadPlansAreRefusedAndNothingChanges) {
  StartServer();
  CreateKeyspace(2);
  const v1::SubmitMigrationRequest good = AddNodeRequest("cache-3", absl::Seconds(1));
  v1::SubmitMigrationRequest bad = good;
  bad.mutable_plan()->set_keyspace("nope");
  EXPECT_THAT(api_->Submit(bad), Refuses(kNotFound, "NOT_FOUND", "'nope'"));
  bad = good;
  bad.mutable_plan()->set_base_version(7);
  const auto stale = api_->Submit(bad);
  EXPECT_THAT(stale, Refuses(kAborted, "VERSION_MISMATCH", "7"));
  EXPECT_EQ(ReasonOf(stale.status())->metadata.at("version"), "1");
  bad = good;
  bad.mutable_plan()->clear_changes();
  EXPECT_THAT(api_->Submit(bad), Refuses(kInvalid, "BAD_FIELD", "changes"));
  bad = good;
  *bad.mutable_plan()->mutable_changes(0)->mutable_add()->mutable_node() = MakeNode("cache-1");
  EXPECT_THAT(api_->Submit(bad), Refuses(kInvalid, "BAD_FIELD", "cache-1"));
  bad = good;
  *bad.mutable_plan()->add_changes() = good.plan().changes(0);
  EXPECT_THAT(api_->Submit(bad), Refuses(kInvalid, "BAD_FIELD", "changes[1]"));
  bad = good;
  bad.mutable_plan()->mutable_changes(0)->mutable_remove()->set_node("cache-9");
  EXPECT_THAT(api_->Submit(bad), Refuses(kInvalid, "BAD_FIELD", "cache-9"));
  bad.mutable_plan()->mutable_changes(0)->mutable_remove()->set_node("cache-1");
  bad.mutable_plan()->add_changes()->mutable_remove()->set_node("cache-2");
  EXPECT_THAT(api_->Submit(bad), Refuses(kInvalid, "BAD_FIELD", "last"));
  bad = good;
  bad.mutable_plan()->mutable_changes(0)->mutable_add()->mutable_node()->set_weight(std::nan(""));
  EXPECT_THAT(api_->Submit(bad), Refuses(kInvalid, "BAD_FIELD", "changes[0].add.node.weight"));
  bad = good;
  bad.mutable_plan()->mutable_strategy()->set_commit_steps(1, 0.1);
  EXPECT_THAT(api_->Submit(bad), Refuses(kInvalid, "BAD_FIELD", "strategy.commit_steps[1]"));
  bad = good;
  bad.set_migration_id("No!");
  EXPECT_THAT(api_->Submit(bad), Refuses(kInvalid, "BAD_FIELD", "migration_id: 'No!'"));
  ASSERT_OK_AND_ASSIGN(const v1::Keyspace keyspace, api_->Get("sessions"));
  EXPECT_EQ(keyspace.version(), 1u);
  EXPECT_EQ(keyspace.active_migration(), "");
  v1::ListMigrationsRequest list;
  list.set_keyspace("sessions");
  ASSERT_OK_AND_ASSIGN(const auto all,
                       api_->Call(&Migrations::ListMigrations, list, api_->migrations()));
  EXPECT_EQ(all.migrations_size(), 0);
}

TEST_F(ServerIntegrationTest, APreviewChangesNothingAndANodeThatIsNotThereIsNamed) {
  StartServer();
  CreateKeyspace(4);
  v1::SubmitMigrationRequest request = AddNodeRequest("cache-5", absl::Seconds(1));
  request.set_validate_only(true);
  ASSERT_OK_AND_ASSIGN(const auto preview, api_->Submit(request));
  EXPECT_FALSE(preview.has_migration());
  EXPECT_EQ(preview.preview().waves(), 2u);
  EXPECT_NEAR(preview.preview().moved_share(), 0.2, 0.001);
  EXPECT_GT(preview.preview().moves(0).ranges().ends_size(), 0);
  EXPECT_GE(preview.preview().warnings_size(), 1);

  request.set_validate_only(false);
  *request.mutable_plan()->mutable_strategy()->mutable_warm_timeout() = {};
  request.mutable_plan()->mutable_strategy()->mutable_warm_timeout()->set_seconds(1);
  ASSERT_OK_AND_ASSIGN(const auto submitted, api_->Submit(request));
  ASSERT_OK_AND_ASSIGN(const v1::Migration ended, WaitForEnd(submitted.migration().id()));
  EXPECT_EQ(ended.state(), v1::MIGRATION_STATE_ABORTED);
  EXPECT_NE(ended.failure().find("cache-5"), std::string::npos) << ended.failure();
  ASSERT_OK_AND_ASSIGN(const v1::Keyspace keyspace, api_->Get("sessions"));
  EXPECT_EQ(keyspace.node_count(), 4u);
}

TEST_F(ServerIntegrationTest, KeyspacesWithCopiesHaveNoOverrides) {
  StartServer();
  v1::CreateKeyspaceRequest create = CreateRequest(3, v1::PLACEMENT_KIND_DIRECTORY);
  create.mutable_spec()->set_replication(2);
  ASSERT_OK(api_->Create(create));
  v1::SubmitMigrationRequest request = AddNodeRequest("cache-4", absl::Seconds(1));
  request.set_validate_only(true);
  ASSERT_OK_AND_ASSIGN(const auto preview, api_->Submit(request));
  EXPECT_GE(preview.preview().warnings_size(), 2) << "one of them is about followers";
  v1::SetOverride* set = request.mutable_plan()->mutable_changes(0)->mutable_set_override();
  set->mutable_rule()->set_prefix("tenant-");
  set->add_nodes("cache-1");
  EXPECT_THAT(api_->Submit(request),
              Refuses(absl::StatusCode::kFailedPrecondition, "UNSUPPORTED", "replication"));
}

TEST_F(ServerIntegrationTest, ARepeatedRequestIsHarmless) {
  StartServer();
  v1::CreateKeyspaceRequest create = CreateRequest(4, v1::PLACEMENT_KIND_DIRECTORY);
  create.set_request_id("create-1");
  ASSERT_OK_AND_ASSIGN(const auto first, api_->Create(create));
  ASSERT_OK_AND_ASSIGN(const auto second, api_->Create(create));
  EXPECT_EQ(second.keyspace().history(), first.keyspace().history());
  create.set_reason("another one");
  EXPECT_THAT(api_->Create(create), Refuses(kInvalid, "REQUEST_ID_REUSED", "create-1"));

  v1::SubmitMigrationRequest submit = AddNodeRequest("cache-5", absl::Seconds(1));
  submit.set_request_id("submit-1");
  ASSERT_OK_AND_ASSIGN(const auto migration, api_->Submit(submit));
  ASSERT_OK(server_->Restart());
  ASSERT_OK_AND_ASSIGN(const auto again, api_->Submit(submit));
  EXPECT_EQ(again.migration().id(), migration.migration().id());
  submit.clear_request_id();
  const auto other = api_->Submit(submit);
  EXPECT_THAT(other, Refuses(kAborted, "MIGRATION_IN_PROGRESS", migration.migration().id()));
}

TEST_F(ServerIntegrationTest, AWatcherFollowsAndResumesOverARestart) {
  StartServer();
  CreateKeyspace(4);
  OwnAll(5);
  Membership::Ptr early;
  {
    Watcher watcher(*api_, "", Version(0));
    ASSERT_OK(watcher.Follow(Version(1)));
    early = watcher.membership();
    ASSERT_OK_AND_ASSIGN(const auto submitted,
                         api_->Submit(AddNodeRequest("cache-5", absl::Milliseconds(10))));
    // Prepare, two waves, release.
    ASSERT_OK(watcher.Follow(Version(5)));
    ASSERT_OK_AND_ASSIGN(const v1::Migration ended, WaitForEnd(submitted.migration().id()));
    EXPECT_EQ(ended.state(), v1::MIGRATION_STATE_SUCCEEDED) << ended.failure();
    EXPECT_EQ(ended.final_version(), 5u);
  }
  ASSERT_OK(server_->Restart());
  Watcher resumed(*api_, early->history().ToString(), early->version());
  resumed.Seed(early);
  ASSERT_OK_AND_ASSIGN(const auto first, resumed.Next());
  ASSERT_TRUE(first.has_delta()) << first.ShortDebugString();
  EXPECT_EQ(first.delta().from_version(), 1u);
  Watcher elsewhere(*api_, std::string(32, 'f'), Version(5));
  ASSERT_OK_AND_ASSIGN(const auto snapshot, elsewhere.Next());
  EXPECT_EQ(snapshot.snapshot().version(), 5u);
  v1::GetMembershipRequest old;
  old.set_keyspace("sessions");
  old.set_version(1);
  ASSERT_OK_AND_ASSIGN(const auto at_one,
                       api_->Call(&Keyspaces::GetMembership, old, api_->keyspaces()));
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr membership,
                       wire::MembershipFromProto(at_one.membership()));
  EXPECT_EQ(membership->data(), early->data());
}

TEST_F(ServerIntegrationTest, ADirectoryGrowsUnderItsWatchers) {
  StartServer();
  CreateKeyspace(3);
  OwnAll(3);
  Watcher watcher(*api_, "", Version(0));
  ASSERT_OK(watcher.Follow(Version(1)));
  const Membership::Ptr before = watcher.membership();
  const uint32_t bits = before->spec().directory_bits;
  v1::GrowDirectoryRequest request;
  request.set_keyspace("sessions");
  const auto grow = [&](uint32_t to) {
    request.set_directory_bits(to);
    return api_->Call(&Keyspaces::GrowDirectory, request, api_->keyspaces());
  };
  EXPECT_THAT(grow(0), Refuses(kInvalid, "BAD_FIELD", "directory_bits: 0"));
  EXPECT_THAT(grow(bits), Refuses(kInvalid, "BAD_FIELD", "use a number above"));
  EXPECT_THAT(grow(21), Refuses(kInvalid, "BAD_FIELD", "directory_bits: 21"));
  request.set_base_version(9);
  EXPECT_THAT(grow(bits + 2), Refuses(kAborted, "VERSION_MISMATCH", "base_version"));
  request.set_base_version(1);
  request.set_reason(std::string(1025, 'r'));
  EXPECT_THAT(grow(bits + 2), Refuses(kInvalid, "BAD_FIELD", "reason"));
  request.set_reason("finer moves");
  request.set_validate_only(true);
  ASSERT_OK_AND_ASSIGN(const auto preview, grow(bits + 2));
  EXPECT_EQ(preview.keyspace().version(), 2u);
  ASSERT_OK_AND_ASSIGN(const v1::Keyspace unchanged, api_->Get("sessions"));
  EXPECT_EQ(unchanged.version(), 1u);

  request.set_validate_only(false);
  request.set_request_id("grow-1");
  ASSERT_OK_AND_ASSIGN(const auto grown, grow(bits + 2));
  EXPECT_EQ(grown.keyspace().spec().directory_bits(), bits + 2);
  ASSERT_OK(watcher.Follow(Version(2)));
  const Membership::Ptr after = watcher.membership();
  EXPECT_EQ(after->ranges().size(), before->ranges().size() * 4);
  EXPECT_TRUE(Diff(*before, *after).empty());
  for (int i = 0; i < 1000; ++i) {
    const std::string key = "key:" + std::to_string(i);
    EXPECT_EQ(RouteKey(*after, key), RouteKey(*before, key));
  }
  // The same request again, also after a restart, changes nothing more.
  ASSERT_OK_AND_ASSIGN(const auto again, grow(bits + 2));
  EXPECT_EQ(again.keyspace().version(), 2u);
  ASSERT_OK(server_->Restart());
  ASSERT_OK_AND_ASSIGN(const auto restarted, grow(bits + 2));
  EXPECT_EQ(restarted.keyspace().version(), 2u);
  EXPECT_THAT(grow(bits + 3), Refuses(kInvalid, "REQUEST_ID_REUSED", "grow-1"));
  v1::ListVersionsRequest history;
  history.set_keyspace("sessions");
  ASSERT_OK_AND_ASSIGN(const auto versions,
                       api_->Call(&Keyspaces::ListVersions, history, api_->keyspaces()));
  EXPECT_EQ(versions.versions(0).change(), "grown from 2^10 to 2^12 buckets");
  EXPECT_EQ(versions.versions(0).author(), "tester (dev)");
  EXPECT_EQ(versions.versions(0).reason(), "finer moves");
  EXPECT_EQ(versions.versions(0).moved_share(), 0);

  // Migrations go on on the finer buckets; meanwhile it does not grow.
  ASSERT_OK_AND_ASSIGN(const auto submitted,
                       api_->Submit(AddNodeRequest("cache-4", absl::Minutes(10))));
  request.clear_request_id();
  request.clear_base_version();
  EXPECT_THAT(grow(bits + 3),
              Refuses(kAborted, "MIGRATION_IN_PROGRESS", submitted.migration().id()));
  request.set_keyspace("nothere");
  EXPECT_THAT(grow(bits + 3), Refuses(kNotFound, "NOT_FOUND", "nothere"));
}

TEST_F(ServerIntegrationTest, ARingDoesNotGrow) {
  StartServer();
  CreateKeyspace(2, v1::PLACEMENT_KIND_RING);
  v1::GrowDirectoryRequest request;
  request.set_keyspace("sessions");
  request.set_directory_bits(16);
  EXPECT_THAT(api_->Call(&Keyspaces::GrowDirectory, request, api_->keyspaces()),
              Refuses(kInvalid, "BAD_FIELD", "a ring has no buckets"));
}

TEST_F(ServerIntegrationTest, WeightsBucketsPinsAndLoadAreMigrated) {
  StartServer();
  CreateKeyspace(3);
  OwnAll(3);
  const auto request = [] {
    v1::SubmitMigrationRequest submit = AddNodeRequest("cache-9", absl::Milliseconds(10));
    submit.mutable_plan()->clear_changes();
    return submit;
  };
  const auto run = [&](const v1::SubmitMigrationRequest& submit) {
    const auto submitted = api_->Submit(submit);
    EXPECT_OK(submitted);
    if (!submitted.ok()) return v1::Migration();
    const absl::StatusOr<v1::Migration> ended = WaitForEnd(submitted->migration().id());
    EXPECT_OK(ended);
    if (!ended.ok()) return v1::Migration();
    EXPECT_EQ(ended->state(), v1::MIGRATION_STATE_SUCCEEDED) << ended->failure();
    return *ended;
  };
  const auto membership = [&]() -> Membership::Ptr {
    v1::GetMembershipRequest get;
    get.set_keyspace("sessions");
    const auto got = api_->Call(&Keyspaces::GetMembership, get, api_->keyspaces());
    EXPECT_OK(got);
    return *wire::MembershipFromProto(got->membership());
  };
  v1::SubmitMigrationRequest weight = request();
  v1::SetWeight* set = weight.mutable_plan()->add_changes()->mutable_set_weight();
  set->set_node("cache-1");
  set->set_weight(2);
  run(weight);
  EXPECT_NEAR(membership()->OwnedBy("cache-1").Share(), 0.5, 0.001);
  EXPECT_EQ(membership()->nodes()[0].weight_milli, 2000u);

  v1::SubmitMigrationRequest move = request();
  v1::MoveBuckets* buckets = move.mutable_plan()->add_changes()->mutable_move_buckets();
  for (uint32_t bucket = 0; bucket < 50; ++bucket) buckets->add_buckets(bucket);
  buckets->set_to("cache-3");
  buckets->set_pin(true);
  run(move);
  Membership::Ptr now = membership();
  ASSERT_EQ(now->pins().size(), 50u);
  for (uint32_t bucket = 0; bucket < 50; ++bucket) {
    EXPECT_EQ(now->nodes()[now->ranges()[bucket].owner].id, "cache-3");
  }

  v1::SubmitMigrationRequest load = request();
  v1::Rebalance* rebalance = load.mutable_plan()->add_changes()->mutable_rebalance();
  for (size_t bucket = 0; bucket < now->ranges().size(); ++bucket) {
    rebalance->add_bucket_load(bucket >= 50 && bucket < 500 ? 100 : 1);
  }
  const v1::Migration balanced = run(load);
  EXPECT_TRUE(balanced.preview().has_load());
  EXPECT_EQ(balanced.plan().changes(0).rebalance().by(), v1::REBALANCE_BY_LOAD);
  EXPECT_LT(balanced.preview().load().max_over_mean_after(), 1.02);
  now = membership();
  for (uint32_t bucket = 0; bucket < 50; ++bucket) {
    EXPECT_EQ(now->nodes()[now->ranges()[bucket].owner].id, "cache-3") << "pinned";
  }

  v1::SubmitMigrationRequest remove = request();
  remove.mutable_plan()->add_changes()->mutable_remove()->set_node("cache-3");
  EXPECT_THAT(api_->Submit(remove),
              Refuses(kInvalid, "BAD_FIELD", "buckets 0, 1, 2, 3, 4 and 45 more are pinned to it"));
  v1::SubmitMigrationRequest unpin = request();
  v1::Unpin* unpinned = unpin.mutable_plan()->add_changes()->mutable_unpin();
  for (uint32_t bucket = 0; bucket < 50; ++bucket) unpinned->add_buckets(bucket);
  const v1::Migration done = run(unpin);
  EXPECT_EQ(done.waves(), 0u);
  EXPECT_TRUE(membership()->pins().empty());
  EXPECT_EQ(membership()->version().value, done.final_version());
  run(remove);
  EXPECT_EQ(membership()->nodes().size(), 2u);
}

TEST_F(ServerIntegrationTest, SessionsAreLeasedOneIncarnationAtATime) {
  StartServer();
  CreateKeyspace(2);
  auto owner = Own("cache-1", 7);
  ASSERT_OK(support::WaitFor("a grant", kDefaultWait, [&] { return owner->grants() > 2; }));
  ASSERT_OK_AND_ASSIGN(auto nodes, api_->Nodes("sessions"));
  EXPECT_TRUE(nodes.nodes(0).connected());
  EXPECT_EQ(nodes.nodes(0).state(), "UN");
  EXPECT_GT(nodes.nodes(0).lease_remaining_ms(), 0);
  EXPECT_EQ(nodes.nodes(0).keys(), 1000u);
  EXPECT_EQ(nodes.nodes(1).state(), "DN");

  // The same incarnation goes on at once after a restart of the server.
  const int welcomes = owner->welcomes();
  ASSERT_OK(server_->Restart());
  ASSERT_OK(support::WaitFor("a session in the next term", kDefaultWait,
                             [&] { return owner->welcomes() > welcomes && owner->term() == 2; }));
  owner.reset();

  // Another one waits for the lease of a second that the first may still hold.
  const absl::Time replaced = absl::Now();
  const auto other = Own("cache-1", 8);
  ASSERT_OK(support::WaitFor("a welcome", kDefaultWait, [&] { return other->welcomes() > 0; }));
  EXPECT_EQ(other->grants(), 0);
  ASSERT_OK(support::WaitFor("a grant", kDefaultWait, [&] { return other->grants() > 0; }));
  EXPECT_GE(absl::Now() - replaced, absl::Milliseconds(900));
}

TEST_F(ServerIntegrationTest, MalformedSessionsAreRefused) {
  StartServer();
  CreateKeyspace(2);
  const auto first = [this](const v1::SessionRequest& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const auto stream = api_->owners().Session(&context);
    stream->Write(request);
    v1::SessionResponse response;
    while (stream->Read(&response)) {
    }
    return wire::FromGrpcStatus(stream->Finish());
  };
  v1::SessionRequest request;
  request.mutable_renew()->set_seq(1);
  EXPECT_THAT(first(request), Refuses(kInvalid, "BAD_FIELD", "hello"));
  v1::Hello* hello = request.mutable_hello();
  hello->set_keyspace("sessions");
  hello->set_node("cache 1");
  EXPECT_THAT(first(request), Refuses(kInvalid, "BAD_FIELD", "hello.node"));
  hello->set_node("cache-1");
  hello->set_incarnation("xyz");
  EXPECT_THAT(first(request), Refuses(kInvalid, "BAD_FIELD", "hello.incarnation"));
  hello->set_incarnation(std::string(32, '0'));
  EXPECT_THAT(first(request), Refuses(kInvalid, "BAD_FIELD", "hello.incarnation"));
  hello->set_incarnation(std::string(32, '1'));
  hello->set_transfer_address("nowhere");
  EXPECT_THAT(first(request), Refuses(kInvalid, "BAD_FIELD", "hello.transfer_address"));
  hello->clear_transfer_address();
  hello->set_keyspace("nope");
  EXPECT_THAT(first(request), Refuses(kNotFound, "NOT_FOUND", "'nope'"));
}

TEST_F(ServerIntegrationTest, AWatchedMigrationIsAborted) {
  StartServer();
  CreateKeyspace(4);
  // Nobody warms: it stays in Warming.
  OwnAll(5, [](const v1::Task& task) { return !task.has_warm(); });
  ASSERT_OK_AND_ASSIGN(const auto submitted,
                       api_->Submit(AddNodeRequest("cache-5", absl::Seconds(1))));
  const std::string id = submitted.migration().id();
  ASSERT_OK(WaitForState(id, {v1::MIGRATION_STATE_WARMING}));
  ASSERT_OK(api_->Abort("sessions", id));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  v1::WatchMigrationRequest watch;
  watch.set_keyspace("sessions");
  watch.set_migration(id);
  const auto stream = api_->migrations().WatchMigration(&context, watch);
  v1::WatchMigrationResponse last;
  int messages = 0;
  while (stream->Read(&last)) ++messages;
  EXPECT_OK(wire::FromGrpcStatus(stream->Finish()));
  EXPECT_GE(messages, 1);
  EXPECT_EQ(last.migration().state(), v1::MIGRATION_STATE_ABORTED);
  ASSERT_OK_AND_ASSIGN(const v1::Keyspace keyspace, api_->Get("sessions"));
  EXPECT_EQ(keyspace.node_count(), 4u);
  EXPECT_THAT(api_->Abort("sessions", id),
              Refuses(absl::StatusCode::kFailedPrecondition, "STAGE_NOT_ALLOWED", "Aborted"));
}

TEST_F(ServerIntegrationTest, AnAbortWhileFencingGivesTheDonorsAFreshEpoch) {
  StartServer();
  CreateKeyspace(4);
  OwnAll(5, [](const v1::Task& task) { return !task.has_fence(); });
  ASSERT_OK_AND_ASSIGN(const auto submitted,
                       api_->Submit(AddNodeRequest("cache-5", absl::Seconds(1))));
  const std::string id = submitted.migration().id();
  ASSERT_OK(WaitForState(id, {v1::MIGRATION_STATE_FENCING}));
  ASSERT_OK(api_->Abort("sessions", id));
  ASSERT_OK_AND_ASSIGN(const v1::Migration ended, WaitForEnd(id));
  EXPECT_EQ(ended.state(), v1::MIGRATION_STATE_ABORTED);
  v1::GetMembershipRequest head;
  head.set_keyspace("sessions");
  ASSERT_OK_AND_ASSIGN(const auto membership,
                       api_->Call(&Keyspaces::GetMembership, head, api_->keyspaces()));
  std::set<uint64_t> epochs(membership.membership().range_epochs().begin(),
                            membership.membership().range_epochs().end());
  // 1 from the beginning, 3 for what was fenced; 2 was reserved for the wave and is burned.
  EXPECT_EQ(epochs, (std::set<uint64_t>{1, 3}));
}

TEST_F(ServerIntegrationTest, AnUndoWhileSoakingGivesEverythingBack) {
  StartServer();
  CreateKeyspace(4, v1::PLACEMENT_KIND_RING);
  OwnAll(5);
  ASSERT_OK_AND_ASSIGN(const auto submitted,
                       api_->Submit(AddNodeRequest("cache-5", absl::Minutes(10))));
  const std::string id = submitted.migration().id();
  ASSERT_OK(WaitForState(id, {v1::MIGRATION_STATE_SOAKING}));
  EXPECT_THAT(api_->Abort("sessions", id),
              Refuses(absl::StatusCode::kFailedPrecondition, "STAGE_NOT_ALLOWED", "undo"));
  ASSERT_OK(api_->Undo("sessions", id));
  ASSERT_OK_AND_ASSIGN(const v1::Migration ended, WaitForEnd(id));
  EXPECT_EQ(ended.state(), v1::MIGRATION_STATE_ROLLED_BACK) << ended.failure();
  ASSERT_OK_AND_ASSIGN(const v1::Keyspace keyspace, api_->Get("sessions"));
  EXPECT_EQ(keyspace.node_count(), 4u);
}

TEST_F(ServerIntegrationTest, ASecondServerOnTheSameStoreNamesTheFirst) {
  StartServer();
  ASSERT_OK_AND_ASSIGN(const std::string binary, support::BinaryPath("warmringd"));
  support::ProcessOptions options;
  options.argv = {binary, "--dev", "--listen=127.0.0.1:0", "--data-dir=" + server_->DataDir()};
  ASSERT_OK_AND_ASSIGN(const auto dir, support::TempDir::Create("second"));
  options.log_path = dir->File("log");
  ASSERT_OK_AND_ASSIGN(const auto second, support::Process::Start(options));
  ASSERT_OK_AND_ASSIGN(const support::ExitStatus exit, second->Wait(kDefaultWait));
  EXPECT_EQ(exit.code, 1);
  EXPECT_NE(second->LogText().find("in use by another process (process " +
                                   std::to_string(server_->Server().Latest().Pid())),
            std::string::npos)
      << second->LogText();
}

TEST_F(ServerIntegrationTest, ADamagedStoreIsRefusedWithTheWayOut) {
  StartServer();
  CreateKeyspace(2);
  ASSERT_OK(server_->Stop());
  std::ofstream(server_->DataDir() + "/CURRENT", std::ios::trunc) << "MANIFEST-999999\n";
  EXPECT_FALSE(server_->Restart().ok());
  EXPECT_NE(server_->LogText().find("restore the directory from a copy"), std::string::npos);
}

#ifdef WARMRING_FAILPOINTS
TEST_F(ServerIntegrationTest, AFailedWriteStopsTheServerAndARestartReadsWhatWasWritten) {
  for (const bool written : {false, true}) {
    StartServer();
    ASSERT_OK(server_->Restart(
        {{"WARMRING_FAILPOINTS", written ? "store.written=error@2" : "store.write=error@2"}}));
    EXPECT_FALSE(api_->Create(CreateRequest(2, v1::PLACEMENT_KIND_RING)).ok());
    ASSERT_OK_AND_ASSIGN(const support::ExitStatus exit, server_->Server().WaitForExit());
    EXPECT_EQ(exit.code, 1) << exit.Describe();
    EXPECT_NE(server_->LogText().find("start warmringd again"), std::string::npos);
    ASSERT_OK(server_->Restart());
    // Whatever became of it, the name is free or the keyspace whole.
    const auto keyspace = api_->Get("sessions");
    if (keyspace.ok()) {
      EXPECT_EQ(keyspace->node_count(), 2u);
    } else {
      ASSERT_OK(api_->Create(CreateRequest(2, v1::PLACEMENT_KIND_RING)));
    }
  }
}
#endif

}  // namespace
}  // namespace warmring
