// The conductor carries out what the machine decides in one order only: persist, publish, send.
// What the store does not hold nobody hears of, and a restart goes on from what it holds.

#include "server/conductor/conductor.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "server/conductor/conductor_testing.h"

namespace warmring {
namespace {

TEST_F(ConductorTest, PublishesBeforeItSends) {
  ASSERT_OK(Submit(Submission("d", "mig-1")));
  EXPECT_EQ(log_, (std::vector<std::string>{"publish 2", "send"}));
  EXPECT_EQ(Record().stage, Stage::kWarming);
  ASSERT_EQ(tasks_.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<WarmTask>(tasks_.at("d")[0].body));
}

TEST_F(ConductorTest, RunsToTheEnd) {
  ASSERT_OK(Submit(Submission("d", "mig-1")));
  AnswerAll();
  EXPECT_EQ(Record().stage, Stage::kSoaking);
  EXPECT_EQ(conductor_->ActiveIds(), std::vector<MigrationId>{"mig-1"});
  strand_->Advance(absl::Seconds(61));
  EXPECT_EQ(Record().stage, Stage::kSucceeded);
  EXPECT_TRUE(conductor_->ActiveIds().empty());
  EXPECT_TRUE(tasks_.empty());
  EXPECT_EQ(keyspace_->head()->membership->version(), Version(5));
  ASSERT_OK(Submit(Submission("e", "mig-2")));
  ASSERT_EQ(conductor_->List().size(), 2u);
}

TEST_F(ConductorTest, OneAtATimeAlsoWhileItIsBeingSubmitted) {
  absl::StatusOr<Conductor::Submitted> first = absl::UnknownError("");
  conductor_->Submit(Submission("d", "mig-1"), [&](auto submitted) { first = submitted; });
  const auto second = Submit(Submission("e", "mig-2"));
  EXPECT_OK(first);
  EXPECT_EQ(ReasonNameOf(second.status()), "MIGRATION_IN_PROGRESS");
  const auto third = Submit(Submission("e", "mig-2"));
  EXPECT_THAT(third, StatusIs(absl::StatusCode::kAborted, "mig-1"));
}

TEST_F(ConductorTest, GoesOnAfterARestartInEveryStage) {
  ASSERT_OK(Submit(Submission("d", "mig-1")));
  for (int restarts = 0; restarts < 50 && Record().stage != Stage::kSoaking; ++restarts) {
    const Stage before = Record().stage;
    const std::map<NodeId, std::vector<Task>> sent = tasks_;
    StartConductor();
    strand_->RunUntilIdle();
    EXPECT_EQ(Record().stage, before);
    EXPECT_EQ(tasks_.size(), sent.size());
    AnswerAll();
  }
  EXPECT_EQ(Record().stage, Stage::kSoaking);
  StartConductor();
  strand_->Advance(absl::Seconds(61));
  EXPECT_EQ(Record().stage, Stage::kSucceeded);
}

TEST_F(ConductorTest, AnAnswerMeansThatTheCommandIsDurable) {
  ASSERT_OK(Submit(Submission("d", "mig-1")));
  ASSERT_OK_AND_ASSIGN(const MigrationSnapshotPtr paused,
                       Command(OperatorCommand::kPause, Batch().Put("audit/1", "x")));
  EXPECT_TRUE(paused->record.paused);
  StartConductor();
  strand_->RunUntilIdle();
  EXPECT_TRUE(Record().paused);
  ASSERT_OK_AND_ASSIGN(const auto row, store_.Get("audit/1"));
  EXPECT_EQ(row, "x");
}

TEST_F(ConductorTest, ACommandThatChangesNothingLeavesItsRowAllTheSame) {
  ASSERT_OK(Submit(Submission("d", "mig-1")));
  ASSERT_OK(Command(OperatorCommand::kPause));
  const uint64_t revision = Record().revision;
  ASSERT_OK(Command(OperatorCommand::kPause, Batch().Put("audit/2", "x")));
  EXPECT_EQ(Record().revision, revision);
  ASSERT_OK_AND_ASSIGN(const auto row, store_.Get("audit/2"));
  EXPECT_EQ(row, "x");
}

TEST_F(ConductorTest, ARepeatedRequestDoesNotStandInTheWay) {
  ASSERT_OK(Submit(Submission("d", "mig-1")));
  ASSERT_OK(store_.Commit(Batch().Put("req/dev/1", "earlier")));
  const auto repeated = Command(OperatorCommand::kPause,
                                Batch().RequireAbsent("req/dev/1").Put("req/dev/1", "again"));
  EXPECT_THAT(repeated, StatusIs(absl::StatusCode::kAborted, "req/dev/1"));
  // The machine persists what it was asked for without that row.
  strand_->Advance(absl::Seconds(1));
  EXPECT_TRUE(Record().paused);
  ASSERT_OK_AND_ASSIGN(const auto row, store_.Get("req/dev/1"));
  EXPECT_EQ(row, "earlier");
  EXPECT_FALSE(failure_.has_value());
}

TEST_F(ConductorTest, ManyCommandsAtOnceFitTheStore) {
  ASSERT_OK(Submit(Submission("d", "mig-1")));
  int answers = 0;
  for (int i = 0; i < 200; ++i) {
    conductor_->Command("mig-1", OperatorCommand::kPause,
                        Batch().Put("audit/" + std::to_string(i), "x"), [&](auto done) {
                          EXPECT_OK(done);
                          ++answers;
                        });
  }
  strand_->RunUntilIdle();
  EXPECT_EQ(answers, 200);
  EXPECT_FALSE(failure_.has_value());
  ASSERT_OK_AND_ASSIGN(const auto rows, ScanPrefix(store_, "audit/"));
  EXPECT_EQ(rows.size(), 200u);
}

TEST_F(ConductorTest, ADirectoryGrowsWithoutAMove) {
  const Membership::Ptr before = keyspace_->head()->membership;
  Conductor::Growth growth;
  growth.directory_bits = 13;
  growth.base_version = Version(1);
  growth.author = "dev";
  growth.validate_only = true;
  absl::StatusOr<Membership::Ptr> grown = absl::UnknownError("not answered");
  const auto done = [&](const absl::StatusOr<Membership::Ptr>& result) { grown = result; };
  conductor_->Grow(growth, done);
  ASSERT_OK(grown);
  EXPECT_EQ((*grown)->ranges().size(), 8192u);
  EXPECT_EQ(keyspace_->head()->membership, before) << "validated only";

  growth.validate_only = false;
  growth.extra.RequireAbsent("req/dev/r1").Put("req/dev/r1", "{}");
  conductor_->Grow(growth, done);
  absl::StatusOr<Membership::Ptr> second;
  conductor_->Grow(growth, [&](const auto& result) { second = result; });
  EXPECT_THAT(second, StatusIs(absl::StatusCode::kAborted, "being submitted"));
  EXPECT_THAT(Submit(Submission("d", "mig-1")), StatusIs(absl::StatusCode::kAborted));
  ASSERT_OK(grown);
  EXPECT_EQ(keyspace_->head()->membership, *grown);
  EXPECT_EQ((*grown)->version(), Version(2));
  EXPECT_TRUE(Diff(*before, **grown).empty());
  EXPECT_EQ((*grown)->HighestEpoch(), before->HighestEpoch());
  EXPECT_EQ(log_, std::vector<std::string>{"publish 2"});

  conductor_->Grow(growth, done);
  EXPECT_THAT(grown, StatusIs(absl::StatusCode::kAborted,
                              "base_version: the request is for "
                              "version 1 and the membership is at 2"));
  growth.base_version = Version();
  conductor_->Grow(growth, done);
  EXPECT_THAT(grown, StatusIs(absl::StatusCode::kInvalidArgument,
                              "directory_bits: 13: use a number above 13"));
  growth.directory_bits = 14;
  conductor_->Grow(growth, done);
  strand_->RunUntilIdle();
  EXPECT_THAT(grown, StatusIs(absl::StatusCode::kAborted, "req/dev/r1")) << "used before";
  StartConductor();
  EXPECT_EQ(keyspace_->head()->membership->spec().directory_bits, 13u);
  EXPECT_OK(Submit(Submission("d", "mig-1"))) << "and migrations go on as before";
  growth.extra = Batch();
  conductor_->Grow(growth, done);
  EXPECT_THAT(grown, StatusIs(absl::StatusCode::kAborted, "migration 'mig-1' has not ended"));
}

TEST_F(ConductorTest, APlanThatMovesNothingIsOneVersion) {
  Conductor::Submission submission = Submission("d", "mig-1");
  submission.plan.changes = {MoveBuckets{
      {0},
      keyspace_->head()->membership->nodes()[keyspace_->head()->membership->ranges()[0].owner].id,
      true}};
  ASSERT_OK(Submit(submission));
  EXPECT_EQ(Record().stage, Stage::kSucceeded);
  EXPECT_EQ(log_, std::vector<std::string>{"publish 2"});
  EXPECT_EQ(keyspace_->head()->membership->pins().size(), 1u);
  ASSERT_OK_AND_ASSIGN(const auto versions, keyspace_->Versions(store_, Version(2), 1));
  EXPECT_EQ(versions[0].record.change, "pin 1 (done at once)");
  StartConductor();
  EXPECT_EQ(Record().stage, Stage::kSucceeded);
  submission.id = "mig-2";
  submission.plan.changes = {Unpin{{0}}, SetWeight{"b", 2000}};
  ASSERT_OK(Submit(submission));
  ASSERT_OK_AND_ASSIGN(const auto next, keyspace_->Versions(store_, Version(3), 1));
  EXPECT_EQ(next[0].record.change.find("b weight 1 -> 2 unpin 1 move 16."), 0u)
      << next[0].record.change;
}

TEST_F(ConductorTest, AnotherServerOnTheStoreEndsThisOne) {
  ASSERT_OK(Submit(Submission("d", "mig-1")));
  ASSERT_OK(BeginTerm(store_, HistoryId()));
  const std::vector<std::string> before = log_;
  AnswerAll();
  ASSERT_TRUE(failure_.has_value());
  EXPECT_THAT(*failure_, StatusIs(absl::StatusCode::kAborted, "another warmringd"));
  EXPECT_EQ(Record().stage, Stage::kWarming);
  EXPECT_EQ(log_, before);
}

TEST_F(ConductorTest, APreviewWarnsOfAnotherAddressAndChangesNothing) {
  Conductor::Submission submission = Submission("d", "");
  submission.validate_only = true;
  ASSERT_OK_AND_ASSIGN(const Conductor::Submitted preview, Submit(submission));
  EXPECT_EQ(preview.migration, nullptr);
  const std::vector<std::string>& warnings = preview.preview.warnings;
  EXPECT_TRUE(std::any_of(warnings.begin(), warnings.end(), [](const std::string& warning) {
    return warning.find("elsewhere.example:6379") != std::string::npos;
  }));
  EXPECT_TRUE(conductor_->List().empty());
  EXPECT_TRUE(log_.empty());
}

TEST_F(ConductorTest, APlanThatMovesTooMuchAtOnceIsRefusedWithTheWayOut) {
  ASSERT_OK(store_.Commit(Batch().Delete(schema::HeadKey("sessions"))));
  UseKeyspace(20);
  const auto refused = Submit(Submission("d", "mig-1"));
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument, "submit fewer changes"));
  EXPECT_TRUE(conductor_->List().empty());
}

}  // namespace
}  // namespace warmring
