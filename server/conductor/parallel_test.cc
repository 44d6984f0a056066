// Several migrations of one keyspace: what goes together runs together, what does not is refused or
// waits, and what is down goes first.

#include <map>
#include <string>
#include <vector>

#include "server/conductor/conductor_testing.h"

namespace warmring {
namespace {

class ParallelTest : public ConductorTest {
 protected:
  const Membership& Head() { return *keyspace_->head()->membership; }

  // `count` buckets of `from`, the first from `begin` on, to `to`.
  Conductor::Submission Moving(const MigrationId& id, const NodeId& from, const NodeId& to,
                               uint32_t begin, size_t count = 10) {
    MoveBuckets move{{}, to, false};
    for (uint32_t bucket = begin; move.buckets.size() < count; ++bucket) {
      if (Head().nodes()[Head().ranges()[bucket].owner].id == from) move.buckets.push_back(bucket);
    }
    Conductor::Submission submission = Submission("d", id);
    submission.plan.changes = {move};
    return submission;
  }
  Conductor::Submission FailOver(const MigrationId& id, const NodeId& node) {
    Conductor::Submission submission = Submission("d", id);
    submission.plan.changes = {RemoveNode{node, true}};
    return submission;
  }
  bool HasMoves(const MigrationId& id) {
    return std::any_of(Head().moves().begin(), Head().moves().end(),
                       [&](const Move& move) { return move.migration == id; });
  }
  void ExpectOwned(const MigrationId& id, bool moved) {
    for (const PlannedMove& move : previews_.at(id).moves) {
      EXPECT_TRUE(Head().OwnedBy(moved ? move.to : move.from).Includes(move.ranges)) << id;
    }
  }
  // As Submit, and keeps the preview.
  absl::Status Begin(Conductor::Submission submission) {
    const MigrationId id = submission.id;
    absl::StatusOr<Conductor::Submitted> submitted = Submit(std::move(submission));
    if (submitted.ok()) previews_[id] = submitted->preview;
    return submitted.status();
  }

  std::map<MigrationId, Preview> previews_;
};

TEST_F(ParallelTest, WhatIsDisjointRunsAtOnce) {
  ASSERT_OK(Begin(Moving("mig-1", "a", "b", 0)));
  ASSERT_OK(Begin(Moving("mig-2", "a", "c", 400)));
  ASSERT_OK(Begin(Moving("mig-3", "b", "c", 700)));
  EXPECT_EQ(conductor_->ActiveIds(), (std::vector<MigrationId>{"mig-1", "mig-2", "mig-3"}));
  for (const MigrationId& id : conductor_->ActiveIds()) EXPECT_TRUE(HasMoves(id)) << id;
  // Node c is asked by two of them.
  EXPECT_EQ(tasks_.at("c").size(), 2u);
  AnswerAll();
  for (const MigrationId& id : conductor_->ActiveIds()) {
    EXPECT_EQ(Record(id).stage, Stage::kSoaking) << id;
  }
  strand_->Advance(absl::Seconds(61));
  EXPECT_TRUE(conductor_->ActiveIds().empty());
  for (const char* id : {"mig-1", "mig-2", "mig-3"}) {
    EXPECT_EQ(Record(id).stage, Stage::kSucceeded) << id;
    ExpectOwned(id, true);
  }
  EXPECT_TRUE(Head().moves().empty());
  // Prepare, two waves each of one or two, release: each version is one migration's.
  ASSERT_OK_AND_ASSIGN(const auto versions, keyspace_->Versions(store_, Head().version(), 100));
  EXPECT_EQ(versions.size(), Head().version().value);
}

// Each takes an epoch of its own, and none is used twice.
TEST_F(ParallelTest, EpochsAreTheirOwn) {
  ASSERT_OK(Begin(Moving("mig-1", "a", "b", 0)));
  ASSERT_OK(Begin(Moving("mig-2", "a", "c", 400)));
  AnswerAll();
  std::map<Epoch, NodeId> owners;
  for (const OwnedRange& range : Head().ranges()) {
    if (range.epoch == Epoch(1)) continue;
    const NodeId& owner = Head().nodes()[range.owner].id;
    const auto [known, fresh] = owners.emplace(range.epoch, owner);
    EXPECT_EQ(known->second, owner) << range.epoch.value;
  }
  EXPECT_GE(owners.size(), 2u);
}

TEST_F(ParallelTest, GoesOnAfterARestartInEveryStage) {
  ASSERT_OK(Begin(Moving("mig-1", "a", "b", 0)));
  ASSERT_OK(Begin(Moving("mig-2", "a", "c", 400)));
  for (int restarts = 0; restarts < 60; ++restarts) {
    StartConductor();
    strand_->RunUntilIdle();
    // One answer of each node, then the server is lost again.
    for (const auto& [node, list] : std::map<NodeId, std::vector<Task>>(tasks_)) {
      for (const Task& task : list) Answer(node, task);
    }
  }
  AnswerAll();
  EXPECT_EQ(Record("mig-1").stage, Stage::kSoaking);
  EXPECT_EQ(Record("mig-2").stage, Stage::kSoaking);
  ExpectOwned("mig-1", true);
  ExpectOwned("mig-2", true);
}

TEST_F(ParallelTest, OneIsAbortedAndTheOtherGoesOn) {
  ASSERT_OK(Begin(Moving("mig-1", "a", "b", 0)));
  ASSERT_OK(Begin(Moving("mig-2", "a", "c", 400)));
  ASSERT_OK(Command(OperatorCommand::kAbort));
  EXPECT_EQ(Record().stage, Stage::kAborted);
  EXPECT_FALSE(HasMoves("mig-1"));
  AnswerAll();
  EXPECT_EQ(Record("mig-2").stage, Stage::kSoaking);
  ASSERT_OK(Command(OperatorCommand::kUndo, {}, "mig-2"));
  AnswerAll();
  EXPECT_EQ(Record("mig-2").stage, Stage::kRolledBack);
  ExpectOwned("mig-1", false);
  ExpectOwned("mig-2", false);
}

TEST_F(ParallelTest, WhatOverlapsIsRefusedOrWaits) {
  ASSERT_OK(Begin(Moving("mig-1", "a", "b", 0)));
  Conductor::Submission second = Moving("mig-2", "a", "c", 0);
  const absl::Status refused = Begin(second);
  EXPECT_EQ(ReasonNameOf(refused), "MIGRATION_IN_PROGRESS");
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kAborted,
                                "migration 'mig-1' has not ended, and 0.977% of hash space would "
                                "move in both"));
  second.plan.strategy.on_conflict = OnConflict::kQueue;
  ASSERT_OK(Begin(second));
  EXPECT_TRUE(Record("mig-2").queued);
  EXPECT_NE(Held("mig-2").find("would move in both"), std::string::npos) << Held("mig-2");
  EXPECT_FALSE(HasMoves("mig-2"));

  // A third one that is in nobody's way but of the second waits behind it, too.
  Conductor::Submission third = Moving("mig-3", "b", "c", 700);
  ASSERT_OK(Begin(third));
  EXPECT_FALSE(Record("mig-3").queued);

  AnswerAll();
  EXPECT_TRUE(Record("mig-2").queued) << "the first still soaks";
  strand_->Advance(absl::Seconds(61));
  EXPECT_FALSE(Record("mig-2").queued);
  // What were a's are b's now: the plan, made again, takes them from there.
  EXPECT_EQ(Record("mig-2").preview.moves[0].from, "b");
  EXPECT_GT(Record("mig-2").preview.base_version, previews_.at("mig-2").base_version);
  AnswerAll();
  strand_->Advance(absl::Seconds(61));
  EXPECT_EQ(Record("mig-2").stage, Stage::kSucceeded);
  ExpectOwned("mig-2", true);
  EXPECT_TRUE(Head().moves().empty());
}

TEST_F(ParallelTest, WhatWaitsSurvivesARestartAndMayBeAborted) {
  ASSERT_OK(Begin(Moving("mig-1", "a", "b", 0)));
  for (const char* id : {"mig-2", "mig-3"}) {
    Conductor::Submission waiting = Moving(id, "a", "c", 0);
    waiting.plan.strategy.on_conflict = OnConflict::kQueue;
    ASSERT_OK(Begin(waiting));
    clock_.Advance(absl::Seconds(1));
  }
  StartConductor();
  strand_->RunUntilIdle();
  EXPECT_TRUE(Record("mig-2").queued);
  ASSERT_OK(Command(OperatorCommand::kAbort, {}, "mig-2"));
  EXPECT_EQ(Record("mig-2").stage, Stage::kAborted);
  EXPECT_EQ(Record("mig-2").failure, "aborted by an operator");
  ASSERT_OK(Command(OperatorCommand::kAbort));
  EXPECT_EQ(Record().stage, Stage::kAborted);
  EXPECT_FALSE(Record("mig-3").queued) << "its turn has come";
  EXPECT_TRUE(HasMoves("mig-3"));
  StartConductor();
  strand_->RunUntilIdle();
  EXPECT_EQ(Record("mig-3").stage, Stage::kWarming);
  AnswerAll();
  strand_->Advance(absl::Seconds(61));
  EXPECT_EQ(Record("mig-3").stage, Stage::kSucceeded);
}

TEST_F(ParallelTest, APlanThatDoesNotFitAnyMoreIsAbortedWhenItsTurnComes) {
  ASSERT_OK(Begin(Moving("mig-1", "a", "b", 0)));
  Conductor::Submission waiting = Moving("mig-2", "a", "c", 0);
  waiting.plan.strategy.on_conflict = OnConflict::kQueue;
  ASSERT_OK(Begin(waiting));
  ASSERT_OK(Begin(FailOver("mig-3", "c")));
  strand_->Advance(absl::Seconds(2));
  AnswerAll("c");
  EXPECT_EQ(Record("mig-3").stage, Stage::kSucceeded);
  strand_->Advance(absl::Seconds(61));
  EXPECT_EQ(Record("mig-1").stage, Stage::kSucceeded);
  EXPECT_EQ(Record("mig-2").stage, Stage::kAborted);
  EXPECT_NE(Record("mig-2").failure.find("'c' is not a node of keyspace"), std::string::npos)
      << Record("mig-2").failure;
}

TEST_F(ParallelTest, AFailoverGoesFirst) {
  ASSERT_OK(Begin(Submission("d", "mig-1")));
  ASSERT_OK(Begin(FailOver("mig-2", "b")));
  EXPECT_EQ(Record("mig-1").stage, Stage::kAborted);
  EXPECT_EQ(Record("mig-1").failure, "it makes way for the failover 'mig-2'");
  EXPECT_EQ(Record("mig-1").preempted_by, "mig-2");
  AnswerAll("b");
  EXPECT_EQ(Record("mig-2").stage, Stage::kFencing);
  strand_->Advance(absl::Seconds(2));
  AnswerAll("b");
  strand_->RunUntilIdle();
  EXPECT_EQ(Record("mig-2").stage, Stage::kSucceeded) << Held("mig-2");
  EXPECT_FALSE(Head().FindNode("b").has_value());
  EXPECT_TRUE(Head().moves().empty());
}

// A node dies while it joins, partly: what it has is taken over all the same.
TEST_F(ParallelTest, AFailoverOfANodeThatJoins) {
  Conductor::Submission add = Submission("d", "mig-1");
  add.plan.strategy.hold = absl::Hours(1);
  ASSERT_OK(Begin(add));
  AnswerAll();
  EXPECT_EQ(Record("mig-1").waves_committed, 1u);
  ASSERT_OK(Begin(FailOver("mig-2", "d")));
  EXPECT_EQ(Record("mig-1").stage, Stage::kFailed);
  EXPECT_NE(Record("mig-1").failure.find("1 of 2 waves are committed and stay"), std::string::npos);
  AnswerAll("d");
  strand_->Advance(absl::Seconds(2));
  AnswerAll("d");
  strand_->RunUntilIdle();
  EXPECT_EQ(Record("mig-2").stage, Stage::kSucceeded) << Held("mig-2");
  EXPECT_FALSE(Head().FindNode("d").has_value());
}

// The answer to a command comes with its effect, also when other things happen first.
TEST_F(ParallelTest, ACommandIsAnsweredWhenItHasItsEffect) {
  ASSERT_OK(Begin(Moving("mig-1", "a", "b", 0)));
  ASSERT_OK(Begin(Moving("mig-2", "a", "c", 400)));
  // A persist of the first is under way, and something happens to the second before the command.
  conductor_->Command("mig-1", OperatorCommand::kPause, {}, [](auto) {});
  conductor_->OnSessionsChanged();
  absl::StatusOr<MigrationSnapshotPtr> aborted = absl::UnknownError("not answered");
  conductor_->Command("mig-2", OperatorCommand::kAbort, Batch().Put("audit/9", "x"),
                      [&](auto result) { aborted = result; });
  strand_->RunUntilIdle();
  ASSERT_OK(aborted);
  EXPECT_EQ((*aborted)->record.stage, Stage::kAborted);
  // What is not allowed any more when its turn comes is refused, and leaves no row.
  conductor_->Command("mig-1", OperatorCommand::kResume, {}, [](auto) {});
  absl::StatusOr<MigrationSnapshotPtr> resumed = absl::UnknownError("not answered");
  conductor_->Command("mig-1", OperatorCommand::kResume, Batch().Put("audit/10", "x"),
                      [&](auto result) { resumed = result; });
  strand_->RunUntilIdle();
  EXPECT_THAT(resumed, StatusIs(absl::StatusCode::kFailedPrecondition, "it is not paused"));
  ASSERT_OK_AND_ASSIGN(const auto row, store_.Get("audit/10"));
  EXPECT_FALSE(row.has_value());
}

TEST_F(ParallelTest, AFailoverLetsGoOnWhatIsElsewhere) {
  ASSERT_OK(Begin(Moving("mig-1", "a", "c", 0)));
  ASSERT_OK(Begin(FailOver("mig-2", "b")));
  EXPECT_EQ(Record("mig-1").stage, Stage::kWarming);
  EXPECT_EQ(Record("mig-2").stage, Stage::kFencing) << "there is nothing to warm";
  AnswerAll("b");
  strand_->Advance(absl::Seconds(2));
  AnswerAll("b");
  strand_->Advance(absl::Seconds(61));
  EXPECT_EQ(Record("mig-1").stage, Stage::kSucceeded);
  EXPECT_EQ(Record("mig-2").stage, Stage::kSucceeded);
}

// Lost between what makes way and what it makes way for.
TEST_F(ParallelTest, AFailoverThatWaitsAsksAgainAfterARestart) {
  ASSERT_OK(Begin(Submission("d", "mig-1")));
  AnswerAll("b");  // fenced but for b
  EXPECT_EQ(Record("mig-1").stage, Stage::kFencing);
  absl::StatusOr<Conductor::Submitted> submitted;
  conductor_->Submit(FailOver("mig-2", "b"), [&](auto result) { submitted = result; });
  StartConductor();  // before anything of it is committed, or after
  strand_->RunUntilIdle();
  if (!conductor_->Find("mig-2").ok()) {
    ASSERT_OK(Begin(FailOver("mig-2", "b")));
  }
  strand_->RunUntilIdle();
  EXPECT_EQ(Record("mig-1").stage, Stage::kAborted);
  AnswerAll("b");
  strand_->Advance(absl::Seconds(2));
  AnswerAll("b");
  strand_->RunUntilIdle();
  EXPECT_EQ(Record("mig-2").stage, Stage::kSucceeded);
}

TEST_F(ParallelTest, AnOperatorTakesADonorForDead) {
  ASSERT_OK(Begin(Submission("d", "mig-1")));
  AnswerAll("b");
  EXPECT_EQ(Record().stage, Stage::kFencing);
  const auto force = [&](bool accept) {
    absl::StatusOr<MigrationSnapshotPtr> result = absl::UnknownError("not answered");
    conductor_->Force("mig-1", ForceFence{"b", "alice", "it burnt", accept},
                      Batch().Put("audit/1", "forced"), [&](auto done) { result = done; });
    strand_->RunUntilIdle();
    return result;
  };
  EXPECT_EQ(ReasonNameOf(force(false).status()), "LEASE_MAY_HOLD");
  ASSERT_OK_AND_ASSIGN(const MigrationSnapshotPtr forced, force(true));
  EXPECT_EQ(forced->record.forced.size(), 1u) << "an answer means that it is durable";
  ASSERT_OK_AND_ASSIGN(const auto row, store_.Get("audit/1"));
  EXPECT_EQ(row, "forced");
  StartConductor();
  strand_->RunUntilIdle();
  EXPECT_EQ(Record().forced.size(), 1u);
  AnswerAll("b");
  EXPECT_EQ(Record().waves_committed, 1u);
  ASSERT_OK_AND_ASSIGN(const auto versions, keyspace_->Versions(store_, Version(3), 1));
  EXPECT_EQ(versions[0].record.change, "+ d (wave 1/2) FORCED without b");
  conductor_->Force("mig-9", ForceFence{"b", "alice", "it burnt", true}, {}, [](auto result) {
    EXPECT_THAT(result, StatusIs(absl::StatusCode::kNotFound, "mig-9"));
  });
}

TEST_F(ParallelTest, ThereAreOnlySoMany) {
  ASSERT_OK(Begin(Submission("d", "mig-0")));
  for (size_t i = 1; i < Conductor::kMaxActive; ++i) {
    Conductor::Submission waiting = Submission("e" + std::to_string(i), "mig-" + std::to_string(i));
    waiting.plan.strategy.on_conflict = OnConflict::kQueue;
    ASSERT_OK(Begin(waiting)) << i;
  }
  const absl::Status over = Begin(Submission("f", "over"));
  EXPECT_EQ(ReasonNameOf(over), "LIMIT_EXCEEDED");
  EXPECT_EQ(over.code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace warmring
