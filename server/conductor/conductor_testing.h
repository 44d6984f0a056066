#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/reason.h"
#include "gtest/gtest.h"
#include "server/conductor/conductor.h"
#include "server/executor/manual_executor_testing.h"
#include "server/store/memory/memory_store.h"
#include "server/store/schema/key.h"
#include "tests/support/status_matchers.h"

// A conductor on a store in memory, with owners that answer when the test says so.

namespace warmring {

inline Node MakeNode(const NodeId& id) {
  Node node;
  node.id = id;
  node.address = id + ".example:6379";
  return node;
}

inline MigrationPlan AddNodePlan(const NodeId& id) {
  MigrationPlan plan;
  plan.keyspace = "sessions";
  plan.changes = {AddNode{MakeNode(id)}};
  plan.strategy.commit_steps_ppm = {300'000, 1'000'000};
  plan.strategy.hold = absl::ZeroDuration();
  plan.strategy.soak = absl::Seconds(60);
  return plan;
}

inline Incarnation IncarnationOf(const NodeId& node) {
  Incarnation incarnation;
  incarnation.low = std::hash<std::string>()(node) | 1;
  return incarnation;
}

class ConductorTest : public ::testing::Test, public OwnerDirectory, public Publisher {
 protected:
  void SetUp() override { UseKeyspace(10); }

  void UseKeyspace(uint32_t bits) {
    ASSERT_OK_AND_ASSIGN(identity_, BeginTerm(store_, HistoryId()));
    KeyspaceSpec spec;
    spec.id = "sessions";
    spec.directory_bits = bits;
    const std::vector<Node> nodes = {MakeNode("a"), MakeNode("b"), MakeNode("c")};
    ASSERT_OK_AND_ASSIGN(const HeadChange change,
                         Keyspace::Create(HistoryId(), spec, nodes, {}, clock_.Wall()));
    for (const Batch& batch : change.before) ASSERT_OK(store_.Commit(batch));
    ASSERT_OK(store_.Commit(change.batch));
    StartConductor();
  }

  // A (re)start: only the store is left.
  void StartConductor() {
    strand_ = std::make_unique<ManualExecutor>(&clock_);
    committer_ = std::make_unique<Committer>(&store_, strand_.get(),
                                             [this](const absl::Status& s) { failure_ = s; });
    ASSERT_OK_AND_ASSIGN(keyspace_, Keyspace::Load(store_, HistoryId(), "sessions"));
    tasks_.clear();
    Conductor::Context context;
    context.keyspace = keyspace_.get();
    context.identity = identity_;
    context.committer = committer_.get();
    context.strand = strand_.get();
    context.clock = &clock_;
    context.owners = this;
    context.publisher = this;
    context.lease = absl::Seconds(1);
    context.random = [this] { return Id128{1, ++random_}; };
    conductor_ = std::make_unique<Conductor>(context);
    ASSERT_OK_AND_ASSIGN(auto entries, migration_book::Load(store_, "sessions"));
    conductor_->Recover(std::move(entries));
  }

  std::map<NodeId, SessionFact> Facts() const override {
    std::map<NodeId, SessionFact> facts;
    for (const char* node : {"a", "b", "c", "d"}) {
      SessionFact& fact = facts[node];
      fact.connected = true;
      fact.incarnation = IncarnationOf(node);
      fact.transfer_address = "127.0.0.1:9";
      fact.applied_version = keyspace_->head()->membership->version();
      fact.belief_until = clock_.Boot() + absl::Seconds(1);
    }
    return facts;
  }
  std::map<NodeId, NodeFact> NodeFacts() const override { return {}; }
  std::map<NodeId, OwnerStatus> Describe() const override {
    OwnerStatus status;
    status.data_address = "elsewhere.example:6379";
    return {{"d", status}};
  }
  void SetTasks(std::map<NodeId, std::vector<Task>> tasks) override {
    if (tasks != tasks_) log_.push_back("send");
    tasks_ = std::move(tasks);
  }
  void Publish(const Membership::Ptr& membership, const std::optional<Delta>&) override {
    // Whoever hears of a version may rely on it: it is in the store.
    const auto stored = store_.Get(schema::DeltaKey("sessions", membership->version()));
    EXPECT_TRUE(stored.ok() && stored->has_value()) << membership->version().value;
    log_.push_back("publish " + std::to_string(membership->version().value));
  }

  Conductor::Submission Submission(const NodeId& node, const MigrationId& id) {
    Conductor::Submission submission;
    submission.plan = AddNodePlan(node);
    submission.id = id;
    submission.author = "dev";
    submission.extra = [](const MigrationId&) { return Batch(); };
    return submission;
  }
  absl::StatusOr<Conductor::Submitted> Submit(Conductor::Submission submission) {
    absl::StatusOr<Conductor::Submitted> result = absl::UnknownError("not answered");
    conductor_->Submit(std::move(submission), [&](auto submitted) { result = submitted; });
    strand_->RunUntilIdle();
    return result;
  }
  absl::StatusOr<MigrationSnapshotPtr> Command(OperatorCommand command, Batch extra = {},
                                               const MigrationId& id = "mig-1") {
    absl::StatusOr<MigrationSnapshotPtr> result = absl::UnknownError("not answered");
    conductor_->Command(id, command, std::move(extra), [&](auto done) { result = done; });
    strand_->RunUntilIdle();
    return result;
  }
  MigrationRecord Record(const MigrationId& id = "mig-1") {
    return (*conductor_->Find(id))->record;
  }
  std::string Held(const MigrationId& id) { return (*conductor_->Find(id))->progress.held; }

  // Every owner but `silent` does at once what it is asked for, until there is nothing new.
  void AnswerAll(const NodeId& silent = "") {
    std::map<NodeId, std::vector<Task>> answered;
    while (tasks_ != answered) {
      answered = tasks_;
      for (const auto& [node, list] : answered) {
        if (node == silent) continue;
        for (const Task& task : list) Answer(node, task);
      }
    }
  }
  void Answer(const NodeId& node, const Task& task) {
    TaskReport report{task.migration, task.wave, task.nonce, node, IncarnationOf(node), {}};
    if (std::holds_alternative<WarmTask>(task.body)) {
      report.body = WarmReport{true, true, 1, 1, 1};
    } else if (const auto* verify = std::get_if<VerifyTask>(&task.body)) {
      report.body = VerifyReport{verify->sample, 0, true};
    } else if (const auto* fence = std::get_if<FenceTask>(&task.body)) {
      report.body = FenceAck{fence->floor, "log", 5, true};
    } else {
      const auto& prepare = std::get<PrepareTask>(task.body);
      PreparedReport prepared{prepare.epoch, prepare.mode, {}, {}, {}};
      for (const PrepareTask::Donor& donor : prepare.donors) {
        prepared.donors.push_back(donor.source.donor);
        prepared.log_ids.push_back(donor.log_id);
        prepared.applied.push_back(donor.watermark);
      }
      report.body = prepared;
    }
    conductor_->OnReport(report);
    strand_->RunUntilIdle();
  }

  ManualClock clock_;
  MemoryStore store_;
  StoreIdentity identity_;
  std::unique_ptr<Keyspace> keyspace_;
  std::unique_ptr<ManualExecutor> strand_;
  std::unique_ptr<Committer> committer_;
  std::unique_ptr<Conductor> conductor_;
  std::map<NodeId, std::vector<Task>> tasks_;
  std::vector<std::string> log_;
  std::optional<absl::Status> failure_;
  uint64_t random_ = 0;
};

}  // namespace warmring
