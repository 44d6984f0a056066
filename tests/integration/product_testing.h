#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/membership/membership.h"
#include "gtest/gtest.h"
#include "tests/crash/cluster.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

// The whole product, as processes, and an application that knows what it has written: each value is
// where the membership says, once, and is the last one written.

namespace warmring {

using crash::Cluster;
using crash::MigrationTerms;
using support::kDefaultWait;
using support::RedisReply;
using support::WaitFor;
using support::WaitUntilOk;

inline std::string KeyOf(int i) { return "key:" + std::to_string(i); }

// An application without the SDK: it routes plain commands by the newest membership that it knows,
// and asks again when it is refused.
class Application {
 public:
  explicit Application(Cluster* cluster) : cluster_(cluster) {}

  absl::StatusOr<RedisReply> Do(const std::vector<std::string>& command) {
    RedisReply reply;
    refusals_ = 0;
    const absl::Status done = WaitUntilOk(command[0] + " " + command[1], kDefaultWait, [&] {
      if (map_ == nullptr || !Try(command, &reply).ok()) {
        const auto newest = cluster_->MembershipAt();
        if (newest.ok()) map_ = *newest;
        return absl::UnavailableError("no answer yet");
      }
      if (!reply.IsError() || !reply.text.starts_with("WR")) return absl::OkStatus();
      map_ = nullptr;
      ++refusals_;
      return absl::UnavailableError(reply.text);
    });
    if (!done.ok()) return done;
    return reply;
  }

  // A plain read at a former owner is not refused: whoever needs the truth knows where it is.
  void ForgetRoutes() { map_ = nullptr; }
  // Of the last command, before it was answered.
  int refusals() const { return refusals_; }

 private:
  absl::Status Try(const std::vector<std::string>& command, RedisReply* reply) {
    const Node& owner = map_->nodes()[RouteKey(*map_, command[1]).owner];
    auto& connection = connections_[owner.id];
    if (connection == nullptr) {
      auto opened = cluster_->Find(owner.id).redis->Connect();
      if (!opened.ok()) return opened.status();
      connection = *std::move(opened);
    }
    auto answer = connection->Command(command);
    if (!answer.ok()) {
      connection.reset();
      return answer.status();
    }
    *reply = *std::move(answer);
    return absl::OkStatus();
  }

  Cluster* const cluster_;
  Membership::Ptr map_;
  int refusals_ = 0;
  std::map<NodeId, std::unique_ptr<support::RedisConnection>> connections_;
};

class MigrationTest : public testing::Test {
 protected:
  void SetUp() override { Start(1); }
  void Start(uint32_t replication) {
    auto cluster =
        Cluster::Start({.keyspace = "shop", .nodes = 3, .members = 2, .replication = replication});
    ASSERT_OK(cluster);
    cluster_ = *std::move(cluster);
    application_ = std::make_unique<Application>(cluster_.get());
  }

  void Fill(int keys) {
    for (int i = 0; i < keys; ++i) Write(KeyOf(i), "value " + std::to_string(i));
  }
  void Write(const std::string& key, const std::string& value) {
    ASSERT_OK_AND_ASSIGN(const RedisReply reply, application_->Do({"SET", key, value}));
    ASSERT_EQ(reply.text, "OK") << key;
    expected_[key] = value;
  }
  void Delete(const std::string& key) {
    ASSERT_OK(application_->Do({"DEL", key}));
    expected_[key] = std::nullopt;
    // The owner that refused it has applied it all the same, and its agent forwards it, once, as
    // the client might have died: it may come after a later write, which is then a miss.
    if (application_->refusals() > 0) forwarded_.insert(key);
  }

  v1::Migration AwaitEnd(const MigrationId& id) {
    auto migration = cluster_->WaitForMigration(id, "ended", absl::Seconds(90),
                                                [](const v1::Migration& m) { return m.ended(); });
    EXPECT_OK(migration);
    if (!migration.ok()) {
      ShowLogs();
      return {};
    }
    return *migration;
  }
  v1::Migration AwaitState(const MigrationId& id, v1::MigrationState state) {
    auto migration = cluster_->WaitForMigration(
        id, v1::MigrationState_Name(state), absl::Seconds(90),
        [state](const v1::Migration& m) { return m.state() == state || m.ended(); });
    EXPECT_OK(migration);
    if (!migration.ok()) {
      ShowLogs();
      return {};
    }
    EXPECT_EQ(migration->state(), state) << crash::Describe(*migration);
    return *migration;
  }
  void ShowLogs() {
    for (crash::CacheNode& node : cluster_->Nodes()) {
      ADD_FAILURE() << node.id << "'s agent:\n" << node.agent->LogText();
    }
    ADD_FAILURE() << "warmringd:\n" << cluster_->Server().LogText();
  }

  int64_t DbSize(const NodeId& node) {
    const auto reply = cluster_->Find(node).redis->Command({"DBSIZE"});
    EXPECT_OK(reply);
    return reply.ok() ? reply->integer : -1;
  }
  int64_t ExpectedAt(const Membership& map, const NodeId& node) {
    int64_t keys = 0;
    for (const auto& [key, value] : expected_) {
      if (value.has_value() && map.nodes()[RouteKey(map, key).owner].id == node) ++keys;
    }
    return keys;
  }

  // The nodes whose Redis holds the key, whoever owns it.
  std::string Holders(const std::string& key) {
    std::string holders;
    for (crash::CacheNode& node : cluster_->Nodes()) {
      std::string cursor = "0";
      do {
        const auto page = node.redis->Command({"SCAN", cursor, "MATCH", key, "COUNT", "1000"});
        if (!page.ok() || page->elements.size() != 2) break;
        cursor = page->elements[0].text;
        if (!page->elements[1].elements.empty()) holders += node.id + " ";
      } while (cursor != "0");
    }
    return holders.empty() ? "no node" : holders;
  }

  // Each key has its last value at its owner, and each node holds exactly its keys.
  void ExpectEverythingInItsPlace() {
    application_->ForgetRoutes();
    for (auto& [key, value] : expected_) {
      ASSERT_OK_AND_ASSIGN(const RedisReply reply, application_->Do({"GET", key}));
      if (reply.IsNil() && forwarded_.contains(key)) {
        value = std::nullopt;
        continue;
      }
      ASSERT_EQ(value.has_value(), !reply.IsNil())
          << key << ", expected " << value.value_or("nothing") << ", found " << reply.Describe()
          << "; it is at " << Holders(key);
      ASSERT_EQ(reply.text, value.value_or("")) << key;
    }
    ASSERT_OK_AND_ASSIGN(const Membership::Ptr map, cluster_->MembershipAt());
    EXPECT_TRUE(map->moves().empty());
    for (crash::CacheNode& node : cluster_->Nodes()) {
      const int64_t keys = ExpectedAt(*map, node.id);
      EXPECT_OK(WaitFor(node.id + " has released what left", kDefaultWait,
                        [&] { return DbSize(node.id) == keys; }))
          << DbSize(node.id) << " keys, " << keys << " are its own";
    }
  }

  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<Application> application_;
  std::map<std::string, std::optional<std::string>> expected_;
  std::set<std::string> forwarded_;
};

}  // namespace warmring
