// What a person or a script at the command line meets: the exit codes of the table, errors that
// name field, value and way out, JSON for programs, and nothing changed after a refusal.

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/cli.h"
#include "tests/support/free_port.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/warmringd_server.h"

namespace warmring {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class CliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = support::WarmringdServer::Start();
    ASSERT_THAT(server.status(), IsOk());
    server_ = *std::move(server);
    auto dir = support::TempDir::Create("cli");
    ASSERT_THAT(dir.status(), IsOk());
    dir_ = *std::move(dir);
  }

  support::CliResult Run(const std::vector<std::string>& args) {
    support::CliOptions options;
    options.server = server_->Address();
    const auto result = support::RunCli(args, options);
    EXPECT_THAT(result.status(), IsOk());
    return result.ok() ? *result : support::CliResult();
  }

  void Create() {
    const auto created = Run({"keyspace", "create", "sessions", "--add", "cache-01=127.0.0.1:7001",
                              "--add", "cache-02=127.0.0.1:7002,weight=2,zone=eu-1a"});
    ASSERT_EQ(created.exit_code, 0) << created.err;
  }

  std::string PlanFile(const std::string& text) {
    const std::string path = dir_->File("plan.yaml");
    std::ofstream(path) << text;
    return path;
  }

  std::unique_ptr<support::WarmringdServer> server_;
  std::unique_ptr<support::TempDir> dir_;
};

TEST_F(CliTest, ShowsWhatThereIs) {
  EXPECT_THAT(Run({"status"}).out, HasSubstr("no keyspace yet"));
  Create();
  EXPECT_THAT(Run({"status"}).out, HasSubstr("sessions"));
  const auto list = Run({"keyspace", "list", "-o", "json"});
  EXPECT_EQ(list.exit_code, 0);
  const auto json = nlohmann::json::parse(list.out);
  EXPECT_EQ(json["keyspaces"][0]["spec"]["id"], "sessions");
  EXPECT_EQ(json["keyspaces"][0]["node_count"], 2);
  const auto located = nlohmann::json::parse(Run({"ks", "locate", "user:1", "-o", "json"}).out);
  EXPECT_EQ(located["version"], "1");
  EXPECT_THAT(located["locations"][0]["owner"].get<std::string>(), StartsWith("cache-0"));
  EXPECT_THAT(Run({"keyspace", "history"}).out, HasSubstr("created with 2 nodes"));
  EXPECT_THAT(Run({"node", "list"}).out, HasSubstr("DN  cache-01"));
}

TEST_F(CliTest, ExitCodesAreThoseOfTheTable) {
  Create();
  EXPECT_EQ(Run({"keyspace", "locate", "-k", "nothere", "a"}).exit_code, 7);
  EXPECT_EQ(Run({"migration", "get", "mig-none"}).exit_code, 7);
  EXPECT_EQ(Run({"frobnicate"}).exit_code, 2);
  EXPECT_EQ(Run({"node", "add", "cache-03", "--address", "127.0.0.1:7003", "--weight", "heavy"})
                .exit_code,
            2);

  support::CliOptions nobody;
  const auto port = support::FreePort::Reserve();
  ASSERT_THAT(port.status(), IsOk());
  nobody.server = port->Address();
  const auto unreachable = support::RunCli({"status"}, nobody);
  ASSERT_THAT(unreachable.status(), IsOk());
  EXPECT_EQ(unreachable->exit_code, 9);
  EXPECT_THAT(unreachable->err, HasSubstr(port->Address()));

  const auto unanswered = Run({"node", "add", "cache-03", "--address", "127.0.0.1:7003"});
  EXPECT_EQ(unanswered.exit_code, 2);
  EXPECT_THAT(unanswered.err, HasSubstr("--yes"));

  const auto stale = Run(
      {"node", "add", "cache-03", "--address", "127.0.0.1:7003", "--base-version", "9", "--yes"});
  EXPECT_EQ(stale.exit_code, 6);
  EXPECT_THAT(stale.err, HasSubstr("version 9"));
  EXPECT_THAT(Run({"migration", "list", "-o", "json"}).out, HasSubstr("\"migrations\": []"));
}

TEST_F(CliTest, RefusalsNameFieldValueAndWayOut) {
  Create();
  const auto unknown = Run({"node", "remove", "cache-09", "--yes"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("changes[0].remove.node: 'cache-09'"));
  const auto twice = Run({"node", "add", "cache-01", "--address", "127.0.0.1:7009", "--yes"});
  EXPECT_EQ(twice.exit_code, 1);
  EXPECT_THAT(twice.err, HasSubstr("changes[0].add.node.id: 'cache-01'"));
  const auto weight = Run({"node", "add", "cache-03", "--address", "127.0.0.1:7003", "--weight",
                           "-1", "--yes", "-o", "json"});
  EXPECT_EQ(weight.exit_code, 1);
  const auto error = nlohmann::json::parse(weight.err);
  EXPECT_EQ(error["error"]["code"], "BAD_FIELD");
  EXPECT_THAT(error["error"]["message"].get<std::string>(),
              HasSubstr("changes[0].add.node.weight"));
  const auto replicated =
      Run({"keyspace", "create", "r3", "--replication", "3", "--add", "cache-01=127.0.0.1:7001",
           "--add", "cache-02=127.0.0.1:7002", "--add", "cache-03=127.0.0.1:7003"});
  EXPECT_EQ(replicated.exit_code, 0) << replicated.err;
  const auto migration = Run({"node", "remove", "cache-01", "-k", "r3", "--yes"});
  EXPECT_EQ(migration.exit_code, 1);
  EXPECT_THAT(migration.err, HasSubstr("3 copies need as many nodes"));
}

TEST_F(CliTest, CopiesStandInDifferentFailureDomains) {
  const std::vector<std::string> create = {"keyspace",
                                           "create",
                                           "r2",
                                           "--replication",
                                           "2",
                                           "--failure-domain",
                                           "zone",
                                           "--add",
                                           "a=127.0.0.1:7001,zone=eu-1,rack=1",
                                           "--add",
                                           "b=127.0.0.1:7002,zone=eu-1,rack=2"};
  const auto refused = Run(create);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("2 copies need as many zones, and the 2 nodes stand in 1"));
  EXPECT_EQ(Run({"keyspace", "get", "-k", "r2"}).exit_code, 7) << "it was made all the same";

  std::vector<std::string> best_effort = create;
  best_effort.push_back("--best-effort");
  ASSERT_EQ(Run(best_effort).exit_code, 0);
  EXPECT_THAT(Run({"keyspace", "get", "-k", "r2"}).out,
              HasSubstr("2 in different zones, but 16384 are not"));

  std::vector<std::string> strict = create;
  strict[2] = "strict";
  strict.insert(strict.end(), {"--add", "c=127.0.0.1:7003,zone=eu-2"});
  ASSERT_EQ(Run(strict).exit_code, 0);
  EXPECT_THAT(Run({"keyspace", "get", "-k", "strict"}).out, HasSubstr("2 in different zones\n"));
  const auto located =
      nlohmann::json::parse(Run({"ks", "locate", "-k", "strict", "k", "-o", "json"}).out);
  const auto& location = located["locations"][0];
  ASSERT_EQ(location["followers"].size(), 1u);
  EXPECT_NE(location["owner"] == "c", location["followers"][0] == "c");
  EXPECT_THAT(Run({"ks", "locate", "-k", "strict", "k"}).out, HasSubstr("FOLLOWERS"));
}

TEST_F(CliTest, WhatAChangeWouldDoIsWorkedOutWithoutAServer) {
  ASSERT_EQ(
      Run({"keyspace", "create", "sim", "--add", "a=127.0.0.1:7001", "--add", "b=127.0.0.1:7002"})
          .exit_code,
      0);
  const std::string file = dir_->File("membership");
  ASSERT_EQ(Run({"keyspace", "export", file, "-k", "sim"}).exit_code, 0);
  const auto balance =
      nlohmann::json::parse(Run({"keyspace", "balance", "-k", "sim", "-o", "json"}).out);
  EXPECT_EQ(balance["nodes"].size(), 2u);
  EXPECT_DOUBLE_EQ(balance["max_over_mean"].get<double>(), 1);
  EXPECT_THAT(Run({"keyspace", "draw", "-k", "sim"}).out, HasSubstr("16384 ranges"));

  ASSERT_THAT(server_->Stop(), IsOk());
  const auto outcome = nlohmann::json::parse(
      Run({"keyspace", "sim", "weight", "a=3", "--from", file, "-o", "json"}).out);
  EXPECT_DOUBLE_EQ(outcome["moved_share"].get<double>(), 0.25);
  EXPECT_DOUBLE_EQ(outcome["ideal_share"].get<double>(), 0.25);
  EXPECT_THAT(Run({"keyspace", "sim", "remove", "c", "--from", file}).err,
              HasSubstr("remove: 'c' is not a node"));
  EXPECT_THAT(Run({"keyspace", "sim", "add", "--from", dir_->File("nothing")}).err,
              HasSubstr("cannot be read"));
  EXPECT_THAT(Run({"keyspace", "sim", "add", "--nodes", "0"}).err, HasSubstr("--nodes: 0"));
  EXPECT_THAT(Run({"keyspace", "sim", "add", "--nodes", "10001"}).err, HasSubstr("1 to 10000"));
  EXPECT_THAT(Run({"keyspace", "sim", "add", "--weight", "nan"}).err, HasSubstr("weight"));
  EXPECT_THAT(Run({"keyspace", "sim", "add", "--buckets-log2", "60"}).err,
              HasSubstr("spec.directory_bits: 60"));
}

TEST_F(CliTest, PlanFilesAreCheckedBeforeAnythingHappens) {
  Create();
  const auto typo = Run({"plan", "-f", PlanFile("keyspace: sessions\nchangs: []\n")});
  EXPECT_EQ(typo.exit_code, 2);
  EXPECT_THAT(typo.err, HasSubstr("plan.yaml:2:1: changs is not a known key; did you mean "
                                  "'changes'?"));
  EXPECT_EQ(Run({"apply", "-f", dir_->File("nothere.yaml")}).exit_code, 2);
  const std::string good = PlanFile(
      "kind: MigrationPlan\nkeyspace: sessions\nchanges:\n"
      "  - add: {node: {id: cache-03, address: '127.0.0.1:7003'}}\n");
  const auto plan = Run({"plan", "-f", good});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("+  cache-03"));
  EXPECT_THAT(plan.out, HasSubstr("cache-03 has no session yet"));
  EXPECT_EQ(Run({"plan", "-f", good, "--exit-code"}).exit_code, 3);
  const auto preview = nlohmann::json::parse(Run({"plan", "-f", good, "-o", "json"}).out);
  EXPECT_EQ(preview["base_version"], "1");
  EXPECT_NEAR(preview["moved_share"].get<double>(), 0.25, 0.001);
  EXPECT_THAT(Run({"keyspace", "history"}).out, ::testing::Not(HasSubstr("v2")));
}

TEST_F(CliTest, BucketsPinsWeightsAndGrowth) {
  Create();
  EXPECT_THAT(Run({"keyspace", "pins"}).out, HasSubstr("no bucket of sessions is pinned at v1"));
  const auto grown = Run({"keyspace", "grow", "--bits", "15", "--reason", "finer"});
  EXPECT_EQ(grown.exit_code, 0) << grown.err;
  EXPECT_THAT(grown.out, HasSubstr("keyspace sessions has 2^15 buckets at v2"));
  EXPECT_EQ(Run({"keyspace", "grow", "--bits", "15"}).exit_code, 1);
  EXPECT_EQ(Run({"keyspace", "grow"}).exit_code, 2);
  EXPECT_THAT(Run({"keyspace", "history"}).out, HasSubstr("grown from 2^14 to 2^15 buckets"));

  const auto weight = Run({"node", "weight", "cache-01", "2", "--dry-run"});
  EXPECT_EQ(weight.exit_code, 0) << weight.err;
  EXPECT_THAT(weight.out, HasSubstr("Weight    cache-01 1 → 2"));
  EXPECT_THAT(weight.out, HasSubstr("50.00%"));
  const auto moved = Run({"keyspace", "move-buckets", "--buckets", "1,2,5-9", "--to", "cache-02",
                          "--pin", "--dry-run", "-o", "json"});
  EXPECT_EQ(moved.exit_code, 0) << moved.err;
  EXPECT_EQ(nlohmann::json::parse(moved.out)["pins_put"].size(), 7u);
  const auto bad = Run({"keyspace", "move-buckets", "--buckets", "9-5", "--to", "cache-02"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, HasSubstr("--buckets: '9-5' is neither a bucket (7) nor a span"));
  const auto unpinned = Run({"keyspace", "unpin", "--buckets", "7", "--yes"});
  EXPECT_EQ(unpinned.exit_code, 1);
  EXPECT_THAT(unpinned.err, HasSubstr("changes[0].unpin.buckets[0]: bucket 7 is not pinned"));

  // What moves nothing ends at once, without any agent.
  const auto owner = nlohmann::json::parse(Run({"keyspace", "move-buckets", "--buckets", "0-63",
                                                "--to", "cache-02", "--dry-run", "-o", "json"})
                                               .out);
  ASSERT_TRUE(owner.contains("moves")) << owner;
  const auto pinned = Run({"keyspace", "pins", "-o", "json"});
  EXPECT_EQ(nlohmann::json::parse(pinned.out)["pins"].size(), 0u);
}

TEST_F(CliTest, ALoadIsReadFromAFile) {
  Create();
  const std::string path = dir_->File("load");
  const auto write = [&](size_t buckets, const std::string& last) {
    std::ofstream file(path);
    for (size_t i = 0; i + 1 < buckets; ++i) file << (i < 800 ? 50 : 1) << "\n";
    file << last << "\n";
  };
  write(16384, "1");
  const auto rebalance = Run({"keyspace", "rebalance", "--load", path, "--dry-run"});
  EXPECT_EQ(rebalance.exit_code, 0) << rebalance.err;
  EXPECT_THAT(rebalance.out, HasSubstr("LOAD AFTER"));
  EXPECT_THAT(rebalance.out, HasSubstr("  Load      "));
  const std::string plan =
      PlanFile("keyspace: sessions\nchanges:\n  - rebalance: {by: load, tolerancePpm: 2000}\n");
  EXPECT_EQ(Run({"plan", "-f", plan, "--load", path}).exit_code, 0);
  const auto without = Run({"plan", "-f", plan});
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_THAT(without.err, HasSubstr("changes[0].rebalance.bucket_load: it is empty"));
  write(16383, "1");
  const auto small = Run({"keyspace", "rebalance", "--load", path, "--dry-run"});
  EXPECT_EQ(small.exit_code, 1);
  EXPECT_THAT(small.err, HasSubstr("it has 16383 numbers: give one for each of the 16384 buckets"));
  write(16384, "many");
  const auto word = Run({"keyspace", "rebalance", "--load", path, "--dry-run"});
  EXPECT_EQ(word.exit_code, 2);
  EXPECT_THAT(word.err, HasSubstr(":16384: 'many' is not a whole number"));
  const auto even = Run({"keyspace", "rebalance", "--dry-run"});
  EXPECT_EQ(even.exit_code, 1);
  EXPECT_THAT(even.err, HasSubstr("nothing would move"));
  EXPECT_EQ(Run({"keyspace", "rebalance", "--tolerance-ppm", "5", "--dry-run"}).exit_code, 2);
}

TEST_F(CliTest, APlannedMigrationIsFollowedAndAborted) {
  Create();
  const auto started = Run({"node", "add", "cache-03", "--address", "127.0.0.1:7003", "--yes",
                            "--detach", "-o", "json", "--reason", "INC-4211"});
  ASSERT_EQ(started.exit_code, 0) << started.err;
  const std::string id = nlohmann::json::parse(started.out)["id"];
  EXPECT_EQ(Run({"watch", id, "--timeout", "0.3"}).exit_code, 5);
  const auto second = Run({"node", "remove", "cache-02", "--yes"});
  EXPECT_EQ(second.exit_code, 6);
  EXPECT_THAT(second.err, HasSubstr(id));
  EXPECT_EQ(Run({"migration", "promote", id}).exit_code, 1);
  EXPECT_EQ(Run({"migration", "abort", id}).exit_code, 0);
  const auto ended = Run({"watch", id});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.out, HasSubstr("Aborted"));
  EXPECT_THAT(Run({"node", "list"}).out, ::testing::Not(HasSubstr("cache-03")));
}

TEST_F(CliTest, OverridesArePreviewedSubmittedAndListed) {
  Create();
  EXPECT_THAT(Run({"override", "list"}).out, HasSubstr("has no overrides at v1"));
  const std::vector<std::string> set = {"override",  "set",  "--prefix",
                                        "tenant-7:", "--to", "cache-02"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> args = set;
    args.insert(args.end(), more.begin(), more.end());
    return Run(args);
  };
  const auto dry = with({"--dry-run"});
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr("Override  prefix 'tenant-7:': as hashed \xe2\x86\x92 cache-02"));
  EXPECT_THAT(dry.out, HasSubstr("cache-01"));
  EXPECT_EQ(Run({"override", "set", "--to", "cache-02"}).exit_code, 2) << "which keys?";
  EXPECT_EQ(Run({"override", "set", "--key", "a", "--prefix", "b", "--to", "cache-02"}).exit_code,
            2);
  const auto hex = Run({"override", "set", "--key-hex", "0g", "--to", "cache-02", "--dry-run"});
  EXPECT_EQ(hex.exit_code, 2);
  EXPECT_THAT(hex.err, HasSubstr("--key-hex: '0g'"));
  const auto unknown = Run({"override", "set", "--key", "a", "--to", "cache-09", "--yes"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("changes[0].set_override.nodes[0]: 'cache-09'"));
  const auto absent = Run({"override", "remove", "--key-hex", "00ff", "--yes"});
  EXPECT_EQ(absent.exit_code, 1);
  EXPECT_THAT(absent.err, HasSubstr("has no override for key '\\x00\\xff'"));
  EXPECT_THAT(Run({"migration", "list", "-o", "json"}).out, HasSubstr("\"migrations\": []"));

  // No agents run here: it waits for them, with its rule in the membership as hashed.
  const auto submitted = with({"--yes", "--detach", "-o", "json"});
  EXPECT_EQ(submitted.exit_code, 0) << submitted.err;
  const std::string id = nlohmann::json::parse(submitted.out)["id"];
  const auto listed = nlohmann::json::parse(Run({"migration", "list", "-o", "json"}).out);
  EXPECT_EQ(listed["migrations"][0]["plan"]["changes"][0]["set_override"]["nodes"][0], "cache-02");
  EXPECT_EQ(Run({"migration", "abort", id, "--yes"}).exit_code, 0);
  EXPECT_THAT(Run({"override", "list"}).out, HasSubstr("has no overrides"));
}

}  // namespace
}  // namespace warmring
