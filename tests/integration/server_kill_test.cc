// kill -9 at each edge of each persist: before it is written, when it is durable and nobody knows,
// when it is published, when the tasks are sent. After a restart the migration goes on or rolls
// back by itself, and the membership is whole.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/wire/membership.h"
#include "tests/integration/server_parts_testing.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"
#include "tests/support/warmringd_server.h"

namespace warmring {
namespace {

using support::kDefaultWait;
using support::WarmringdOptions;
using support::WarmringdServer;

enum class Story { kAdd, kAbort, kUndo };

struct Edge {
  std::string point;
  Story story = Story::kAdd;
};

std::vector<Edge> AllEdges() {
  std::vector<Edge> edges;
  for (const char* when : {"before", "after", "published", "sent"}) {
    for (const char* name : {"p0", "p1", "p2", "p3", "p5", "p6", "p7", "p8"}) {
      edges.push_back({std::string(name) + "." + when, Story::kAdd});
    }
    edges.push_back({std::string("pa.") + when, Story::kAbort});
    for (const char* name : {"pu5", "pu6"}) {
      edges.push_back({std::string(name) + "." + when, Story::kUndo});
    }
  }
  return edges;
}

class ServerKillTest : public ::testing::TestWithParam<Edge> {
 protected:
  // Restarts the server when it has died of its failpoint, and then says so once.
  bool RestartIfDead() {
    if (server_->Server().Running()) return false;
    EXPECT_OK(server_->Restart());
    return true;
  }

  // The newest state, whatever the server went through meanwhile.
  absl::StatusOr<v1::Migration> Look() {
    kills_ += RestartIfDead() ? 1 : 0;
    return api_->Migration("sessions", "mig-1");
  }

  void DriveToTheEnd(const Story story, v1::Migration* ended) {
    bool asked = false;
    ASSERT_OK(support::WaitUntilOk("the end", kDefaultWait, [&]() -> absl::Status {
      const absl::StatusOr<v1::Migration> migration = Look();
      if (absl::IsNotFound(migration.status())) {
        // The submission was lost with the server: its client asks again.
        const absl::Status submitted = api_->Submit(request_).status();
        return submitted.ok() ? absl::UnavailableError("submitted") : submitted;
      }
      if (!migration.ok()) return migration.status();
      *ended = *migration;
      if (migration->ended()) return absl::OkStatus();
      if (story == Story::kAbort && !asked && migration->state() == v1::MIGRATION_STATE_FENCING) {
        asked = api_->Abort("sessions", "mig-1").ok();
      }
      if (story == Story::kUndo && migration->state() == v1::MIGRATION_STATE_SOAKING) {
        api_->Undo("sessions", "mig-1").IgnoreError();
      }
      return absl::UnavailableError(v1::MigrationState_Name(migration->state()) + ": " +
                                    migration->held());
    }));
  }

  std::unique_ptr<WarmringdServer> server_;
  std::unique_ptr<ServerApi> api_;
  std::vector<std::unique_ptr<ScriptedOwner>> owners_;
  v1::SubmitMigrationRequest request_;
  int kills_ = 0;
};

TEST_P(ServerKillTest, TheMigrationEndsByItself) {
  const Edge& edge = GetParam();
  ASSERT_OK_AND_ASSIGN(server_, WarmringdServer::Start());
  api_ = std::make_unique<ServerApi>(server_->Address());
  ASSERT_OK(api_->Create(CreateRequest(4, v1::PLACEMENT_KIND_DIRECTORY)));
  server_->Kill9();
  ASSERT_OK(server_->Restart({{"WARMRING_FAILPOINTS", edge.point + "=exit"}}));

  for (int i = 1; i <= 5; ++i) {
    ScriptedOwner::Options options;
    options.address = server_->Address();
    options.node = "cache-" + std::to_string(i);
    // While it is to be aborted in Fencing, it must stay there.
    if (edge.story == Story::kAbort) {
      options.answers = [](const v1::Task& task) { return !task.has_fence(); };
    }
    owners_.push_back(std::make_unique<ScriptedOwner>(options));
  }
  request_ = AddNodeRequest(
      "cache-5", edge.story == Story::kUndo ? absl::Minutes(10) : absl::Milliseconds(50));
  request_.set_migration_id("mig-1");
  request_.set_request_id("submit-1");
  v1::Migration ended;
  DriveToTheEnd(edge.story, &ended);
  EXPECT_EQ(kills_, 1) << edge.point << " was never reached\n" << server_->LogText();

  const std::set<v1::MigrationState> accepted =
      edge.story == Story::kAdd     ? std::set{v1::MIGRATION_STATE_SUCCEEDED}
      : edge.story == Story::kAbort ? std::set{v1::MIGRATION_STATE_ABORTED}
                                    : std::set{v1::MIGRATION_STATE_ROLLED_BACK};
  EXPECT_TRUE(accepted.contains(ended.state()))
      << v1::MigrationState_Name(ended.state()) << ": " << ended.failure();

  // The server says so for ever, and what clients get is whole and has no trace of the migration.
  server_->Kill9();
  ASSERT_OK(server_->Restart());
  ASSERT_OK_AND_ASSIGN(const v1::Migration again, api_->Migration("sessions", "mig-1"));
  EXPECT_EQ(again.state(), ended.state());
  v1::GetMembershipRequest head;
  head.set_keyspace("sessions");
  ASSERT_OK_AND_ASSIGN(const auto response, api_->Call(&v1::KeyspaceService::Stub::GetMembership,
                                                       head, api_->keyspaces()));
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr membership,
                       wire::MembershipFromProto(response.membership()));
  EXPECT_TRUE(membership->moves().empty());
  EXPECT_EQ(membership->nodes().size(), edge.story == Story::kAdd ? 5u : 4u);
}

INSTANTIATE_TEST_SUITE_P(Edges, ServerKillTest, ::testing::ValuesIn(AllEdges()),
                         [](const ::testing::TestParamInfo<Edge>& edge) {
                           std::string name = edge.param.point;
                           name[name.find('.')] = '_';
                           return name;
                         });

// A growth is one version or none, and whoever asks again with the same request id gets the same
// one.
TEST(GrowthKillTest, AGrowthHappensOnce) {
  for (const char* point : {"g1.before", "g1.after", "g1.published"}) {
    SCOPED_TRACE(point);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WarmringdServer> server, WarmringdServer::Start());
    ServerApi api(server->Address());
    ASSERT_OK(api.Create(CreateRequest(4, v1::PLACEMENT_KIND_DIRECTORY)));
    v1::GetMembershipRequest head;
    head.set_keyspace("sessions");
    // The connection may still be that to the server before.
    const auto membership = [&]() -> Membership::Ptr {
      v1::GetMembershipResponse response;
      EXPECT_OK(support::WaitUntilOk("the membership", kDefaultWait, [&] {
        const auto read =
            api.Call(&v1::KeyspaceService::Stub::GetMembership, head, api.keyspaces());
        if (read.ok()) response = *read;
        return read.status();
      }));
      return wire::MembershipFromProto(response.membership()).value();
    };
    const Membership::Ptr before = membership();
    server->Kill9();
    ASSERT_OK(server->Restart({{"WARMRING_FAILPOINTS", std::string(point) + "=exit"}}));
    v1::GrowDirectoryRequest request;
    request.set_keyspace("sessions");
    request.set_request_id("grow-1");
    request.set_directory_bits(before->spec().directory_bits + 1);
    int deaths = 0;
    ASSERT_OK(support::WaitUntilOk("the growth", kDefaultWait, [&] {
      const absl::Status grown =
          api.Call(&v1::KeyspaceService::Stub::GrowDirectory, request, api.keyspaces()).status();
      if (!server->Server().Running()) {
        ++deaths;
        EXPECT_OK(server->Restart());
      }
      return grown;
    }));
    EXPECT_EQ(deaths, 1) << "never reached\n" << server->LogText();
    server->Kill9();
    ASSERT_OK(server->Restart());
    const Membership::Ptr after = membership();
    EXPECT_EQ(after->version(), before->version().Next()) << "once";
    EXPECT_EQ(after->spec().directory_bits, request.directory_bits());
    for (size_t bucket = 0; bucket < after->ranges().size(); ++bucket) {
      ASSERT_EQ(after->ranges()[bucket].owner, before->ranges()[bucket / 2].owner);
      ASSERT_EQ(after->ranges()[bucket].epoch, before->ranges()[bucket / 2].epoch);
    }
  }
}

}  // namespace
}  // namespace warmring
