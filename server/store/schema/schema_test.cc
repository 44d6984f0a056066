// What the store holds comes back as it was, keys sort as their numbers do, and damage is an error
// and never a wrong value.

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/store/schema/json.h"
#include "server/store/schema/key.h"
#include "server/store/schema/migration_codec.h"
#include "server/store/schema/record.h"
#include "tests/support/status_matchers.h"

namespace warmring::schema {
namespace {

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

TEST(SchemaKeyTest, NumbersSortAsNumbers) {
  EXPECT_LT(DeltaKey("a", Version(9)), DeltaKey("a", Version(10)));
  EXPECT_LT(DeltaKey("a", Version(10)), DeltaKey("a", Version(UINT64_MAX)));
  EXPECT_EQ(PageKey("a", Version(1), 2), "ks/a/page/00000000000000000001/00000000000000000002");
}

TEST(SchemaRecordTest, RoundTrips) {
  const absl::Time time = absl::FromUnixNanos(1'800'000'000'123'456'789);
  const HeadRecord head{Version(UINT64_MAX), Epoch(7), UINT64_MAX};
  ASSERT_OK_AND_ASSIGN(const HeadRecord head_back, DecodeHead(Encode(head)));
  EXPECT_EQ(head_back, head);
  const KeyspaceRecord keyspace{"sessions", "dev", time};
  ASSERT_OK_AND_ASSIGN(const KeyspaceRecord keyspace_back, DecodeKeyspace(Encode(keyspace)));
  EXPECT_EQ(keyspace_back, keyspace);
  const VersionRecord version{time, "dev", "line\nbreak", "mig-1", "\"why\"", 0.118, 3};
  const std::string delta("\0\n\xff", 3);
  ASSERT_OK_AND_ASSIGN(const VersionEntry entry, DecodeVersion(Encode(version, delta)));
  EXPECT_EQ(entry.record, version);
  EXPECT_EQ(entry.delta, delta);
  SessionRecord session;
  session.incarnation.high = 5;
  session.term = Term(3);
  session.waiting = true;
  ASSERT_OK_AND_ASSIGN(const SessionRecord session_back, DecodeSession(Encode(session)));
  EXPECT_EQ(session_back, session);
  const RequestRecord request{"SubmitMigration", UINT64_MAX, "sessions", "mig-1", time};
  ASSERT_OK_AND_ASSIGN(const RequestRecord request_back, DecodeRequest(Encode(request)));
  EXPECT_EQ(request_back, request);
  const AuditRecord audit{time, Term(2), "dev", "alice", "ipv4:127.0.0.1:1", "M", "r", "p", "why"};
  ASSERT_OK_AND_ASSIGN(const AuditRecord audit_back, DecodeAudit(Encode(audit)));
  EXPECT_EQ(audit_back, audit);
}

TEST(SchemaRecordTest, DamageIsAnError) {
  EXPECT_THAT(DecodeHead("{"), StatusIs(kDataLoss, "head of a keyspace is damaged"));
  EXPECT_THAT(DecodeHead("{}"), StatusIs(kDataLoss));
  EXPECT_THAT(DecodeHead(R"({"version":"1","next_epoch":1,"digest":1})"), StatusIs(kDataLoss));
  EXPECT_THAT(DecodeHead(R"({"version":0,"next_epoch":1,"digest":1})"), StatusIs(kDataLoss));
  EXPECT_THAT(DecodeVersion("{}"), StatusIs(kDataLoss));
  EXPECT_THAT(DecodeSession(R"({"incarnation":"zz","term":1,"waiting":false})"),
              StatusIs(kDataLoss));
}

TEST(SchemaRecordTest, BytesThatAreNoTextDoNotBreakARow) {
  AuditRecord audit;
  audit.author = "\xff\xfe";
  EXPECT_OK(DecodeAudit(Encode(audit)));
}

TEST(SchemaJsonTest, RangesOfPlanesRoundTrip) {
  HashRangeSet back;
  for (const HashRangeSet& ranges :
       {HashRangeSet::Whole(7), HashRangeSet::Whole().Union(HashRangeSet::Whole(UINT32_MAX)),
        HashRangeSet(std::vector<HashRange>{{1, 5, 0}, {9, 2, 3}, {1, 5, 3}, {1, 5, 4}})}) {
    ASSERT_TRUE(DecodeRanges(EncodeRanges(ranges), back));
    EXPECT_EQ(back, ranges);
  }
  const std::string range(32, '1');
  for (const std::string& damaged :
       {std::string("@"), std::string("@0000000"), "@0000000g" + range, std::string("@00000001"),
        "@00000001" + range + "1", "@@0000001" + range}) {
    EXPECT_FALSE(DecodeRanges(damaged, back)) << damaged;
  }
}

TEST(SchemaJsonTest, RangesRoundTrip) {
  const HashRangeSet ranges({HashRange{1, 5}, HashRange{UINT64_MAX - 3, 0}});
  HashRangeSet back;
  ASSERT_TRUE(DecodeRanges(EncodeRanges(ranges), back));
  EXPECT_EQ(back, ranges);
  EXPECT_FALSE(DecodeRanges("123", back));
  EXPECT_FALSE(DecodeRanges(std::string(32, 'z'), back));
}

MigrationRecord FullRecord() {
  MigrationRecord record;
  record.id = "mig-1";
  record.author = "dev";
  record.created = absl::FromUnixNanos(1'800'000'000'000'000'001);
  Node node;
  node.id = "cache-5";
  node.hash_name = std::string("\0\xffx", 3);
  node.address = "10.0.0.5:6379";
  node.weight_milli = 1250;
  node.zone = "z1";
  node.labels = {{"rack", "r7"}};
  record.plan.name = "add";
  record.plan.reason = "room";
  record.plan.keyspace = "sessions";
  record.plan.base_version = Version(4);
  record.plan.changes = {AddNode{node},
                         RemoveNode{"cache-1"},
                         SetWeight{"cache-2", 2500},
                         MoveBuckets{{0, 1023}, "cache-5", true},
                         Unpin{{7}},
                         Rebalance{Rebalance::By::kLoad, {1, uint64_t{1} << 40}, 0}};
  record.plan.strategy.fence_timeout = absl::Milliseconds(1500);
  record.plan.strategy.fence_policy = FencePolicy::kAckOrLease;
  record.plan.limits = {5, 6};
  record.preview.keyspace = "sessions";
  record.preview.base_version = Version(4);
  record.preview.waves = 2;
  record.preview.moves = {{1, "cache-1", "cache-5", HashRangeSet({HashRange{1, 5}})}};
  record.preview.nodes_added = {node};
  record.preview.nodes_removed = {"cache-1"};
  record.preview.splits = {1, UINT64_MAX};
  record.preview.moved_share = 1.0 / 3;
  record.preview.max_over_mean_after = 1.0001;
  record.preview.shares = {{"cache-1", 0.5, 0.25, 0.26, 10, 20, 0.75, 1.0 / 7}};
  record.preview.reweights = {{"cache-2", 1000, 2500}};
  record.preview.pins_put = {{0, "cache-5"}, {1023, "cache-5"}};
  record.preview.pins_removed = {7};
  record.preview.load = {0.1, 0.2, 3, 1.0 / 3};
  record.preview.keys_moved = UINT64_MAX;
  record.preview.warnings = {"careful"};
  record.revision = 8;
  record.stage = Stage::kUndoFencing;
  record.wave = 1;
  record.waves_committed = 2;
  record.wave_epoch = Epoch(12);
  record.nonce = {3, 4};
  record.attempt = 2;
  record.paused = true;
  record.awaiting_promotion = true;
  record.promoted = true;
  record.abort_requested = true;
  record.undo_requested = true;
  record.prepared_version = Version(5);
  record.final_version = Version(7);
  record.unclean = true;
  FenceEvidence evidence;
  evidence.donor = "cache-1";
  evidence.kind = EvidenceKind::kLease;
  evidence.incarnation.low = 9;
  evidence.log_id = "log";
  evidence.watermark = 77;
  evidence.dirty_complete = true;
  record.evidence = {evidence};
  record.verify_compared = 100;
  record.verify_mismatched = 1;
  record.failure = "why";
  record.forced = {{"cache-1", "alice", "on fire", record.created, 1, true, absl::Seconds(3)}};
  record.wave_attempt = 2;
  record.queued = true;
  record.preempted_by = "mig-2";
  record.preview.nodes_dead = {"cache-1"};
  record.history = {{Stage::kWarming, 0, record.created, "note"}};
  record.stage_since = record.created;
  return record;
}

TEST(MigrationCodecTest, RoundTrip) {
  const MigrationRecord record = FullRecord();
  const std::string changing = EncodeMigration(record, {2, 3});
  ASSERT_OK_AND_ASSIGN(const MigrationRecord back, DecodeMigration(changing, EncodePlan(record)));
  EXPECT_EQ(back, record);
  ASSERT_OK_AND_ASSIGN(const PlanPages pages, PlanPagesOf(changing));
  EXPECT_EQ(pages, (PlanPages{2, 3}));
  for (const Stage stage : kAllStages) {
    MigrationRecord in_stage = record;
    in_stage.stage = stage;
    EXPECT_EQ(DecodeMigration(EncodeMigration(in_stage, {0, 1}), EncodePlan(record)).value().stage,
              stage);
  }
}

TEST(MigrationCodecTest, ReadsWhatWasWrittenBeforeWeightsAndPins) {
  MigrationRecord record = FullRecord();
  record.plan.changes.resize(2);
  record.preview.shares[0].load_before = record.preview.shares[0].load_after = 0;
  record.preview.reweights.clear();
  record.preview.pins_put.clear();
  record.preview.pins_removed.clear();
  record.preview.load.reset();
  Json plan = Json::parse(EncodePlan(record));
  for (const char* field : {"reweights", "pins_put", "pins_removed"}) {
    ASSERT_EQ(plan.at("preview").erase(field), 1u);
  }
  plan.at("preview").at("shares")[0].erase("load_before");
  plan.at("preview").at("shares")[0].erase("load_after");
  ASSERT_OK_AND_ASSIGN(const MigrationRecord back,
                       DecodeMigration(EncodeMigration(record, {0, 1}), plan.dump()));
  EXPECT_EQ(back, record);
}

TEST(MigrationCodecTest, FollowersRoundTrip) {
  MigrationRecord record = FullRecord();
  record.preview.follower_changes = {{0, HashRangeSet({HashRange{1, 5}}), {"a", ""}, {"b", "a"}},
                                     {2, HashRangeSet::Whole(), {"b", "c"}, {"", ""}}};
  const std::string changing = EncodeMigration(record, {0, 1});
  ASSERT_OK_AND_ASSIGN(const MigrationRecord back, DecodeMigration(changing, EncodePlan(record)));
  EXPECT_EQ(back, record);
  Json plan = Json::parse(EncodePlan(record));
  plan.at("preview").at("follower_changes")[0].at("after")[0] = 9;
  EXPECT_THAT(DecodeMigration(changing, plan.dump()), StatusIs(kDataLoss));
}

TEST(MigrationCodecTest, OverridesRoundTrip) {
  MigrationRecord record = FullRecord();
  const OverrideRule tenant = {OverrideRule::Match::kPrefix, std::string("t\0\xff", 3)};
  const OverrideRule key = {OverrideRule::Match::kKey, "k"};
  record.plan.changes = {SetOverride{tenant, {"a", "b"}}, RemoveOverride{key}};
  record.preview.overrides = {
      {3, tenant, true, false, {}, {{(uint64_t{1} << 63) - 1, "a"}, {UINT64_MAX, "b"}}},
      {2, key, false, true, {{UINT64_MAX, "a"}}, {}}};
  record.preview.moves = {{0, "c", "a", HashRangeSet::Whole(3)}};
  ASSERT_OK_AND_ASSIGN(const MigrationRecord back,
                       DecodeMigration(EncodeMigration(record, {0, 1}), EncodePlan(record)));
  EXPECT_EQ(back, record);
}

TEST(MigrationCodecTest, DamagedChangesAreErrors) {
  const MigrationRecord record = FullRecord();
  const std::string changing = EncodeMigration(record, {0, 1});
  const std::pair<const char*, const char*> kDamage[] = {
      {"/plan/changes/2/set_weight/weight_milli", R"("heavy")"},
      {"/plan/changes/3/move_buckets/buckets", "5"},
      {"/plan/changes/3/move_buckets/pin", "3"},
      {"/plan/changes/4/unpin", "{}"},
      {"/plan/changes/5/rebalance/by", "3"},
      {"/plan/changes/5/rebalance/bucket_load", "[\"x\"]"},
      {"/plan/changes/0", R"({"unheard-of": 1})"},
      {"/preview/reweights/0", "{}"},
      {"/preview/pins_put/0", "[1]"},
      {"/preview/load", "7"}};
  for (const auto& [where, what] : kDamage) {
    Json plan = Json::parse(EncodePlan(record));
    plan[Json::json_pointer(where)] = Json::parse(what);
    EXPECT_THAT(DecodeMigration(changing, plan.dump()), StatusIs(kDataLoss)) << where;
  }
}

TEST(MigrationCodecTest, DamageAndNewerFormatsAreErrors) {
  const MigrationRecord record = FullRecord();
  const std::string plan = EncodePlan(record);
  std::string changing = EncodeMigration(record, {0, 1});
  EXPECT_THAT(DecodeMigration(changing.substr(1), plan), StatusIs(kDataLoss));
  EXPECT_THAT(DecodeMigration(changing, plan.substr(0, plan.size() / 2)), StatusIs(kDataLoss));
  const size_t stage = changing.find("undo-fencing");
  ASSERT_NE(stage, std::string::npos) << changing;
  changing.replace(stage, 4, "redo");
  EXPECT_THAT(DecodeMigration(changing, plan), StatusIs(kDataLoss));
  EXPECT_THAT(DecodeMigration(R"({"format":2})", plan),
              StatusIs(absl::StatusCode::kUnimplemented, "newer warmringd"));
}

}  // namespace
}  // namespace warmring::schema
