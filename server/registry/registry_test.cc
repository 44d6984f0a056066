// Keyspaces live through a restart at exactly the version that was committed, any older version can
// be read again, and damage is refused.

#include "server/registry/registry.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/store/memory/memory_store.h"
#include "server/store/schema/key.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

std::vector<Node> Nodes(int count) {
  std::vector<Node> nodes;
  for (int i = count; i >= 1; --i) {
    Node node;
    node.id = "cache-" + std::to_string(i);
    node.address = "10.0.0." + std::to_string(i) + ":6379";
    nodes.push_back(node);
  }
  return nodes;
}

Node ExtraNode(uint64_t number) {
  Node node;
  node.id = "extra-" + std::to_string(number);
  node.address = "10.0.1.1:6379";
  return node;
}

class RegistryTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }

  // A (re)start of the server on the same store.
  void Start() {
    HistoryId fresh;
    fresh.low = ++starts_;
    ASSERT_OK_AND_ASSIGN(StoreIdentity identity, BeginTerm(store_, fresh));
    registry_ = std::make_unique<Registry>(identity);
    ASSERT_OK(registry_->Load(store_));
  }

  void Commit(const HeadChange& change) {
    for (const Batch& batch : change.before) ASSERT_OK(store_.Commit(batch));
    Batch batch = registry_->identity().Guard();
    ASSERT_OK_AND_ASSIGN(const CommitResult result, store_.Commit(batch.Append(change.batch)));
    ASSERT_TRUE(result.committed) << result.conflict_key;
  }

  Keyspace* Create(const std::string& id, PlacementKind kind) {
    KeyspaceSpec spec;
    spec.id = id;
    spec.placement = kind;
    spec.directory_bits = 14;
    auto change = Keyspace::Create(registry_->identity().history, spec, Nodes(4),
                                   {"dev", "created with 4 nodes", "why", ""}, kNow);
    EXPECT_OK(change);
    Commit(*change);
    return registry_->Add(std::make_unique<Keyspace>(change->next));
  }

  void AddNode(Keyspace* keyspace, const Node& node) {
    Update update;
    update.put_nodes = {node};
    ASSERT_OK_AND_ASSIGN(const HeadChange change,
                         keyspace->Prepare(update, true, {"dev", "+ " + node.id, "", "mig"}, kNow));
    Commit(change);
    keyspace->Install(change);
  }

  MemoryStore store_;
  uint64_t starts_ = 0;
  std::unique_ptr<Registry> registry_;
};

TEST_F(RegistryTest, AnAdoptedRingKeepsItsOwnersThroughSortingAndRestart) {
  KeyspaceSpec spec;
  spec.id = "adopted";
  spec.placement = PlacementKind::kRing;
  // Nodes(3) stand in falling order: 0 is cache-3.
  const std::vector<OwnedRange> ranges = {
      {10, 0, Epoch(1)}, {20, 2, Epoch(1)}, {30, 1, Epoch(1)}, {UINT64_MAX, 0, Epoch(1)}};
  ASSERT_OK_AND_ASSIGN(const HeadChange change, Keyspace::Create(registry_->identity().history,
                                                                 spec, Nodes(3), {}, kNow, ranges));
  Commit(change);
  Start();
  ASSERT_OK_AND_ASSIGN(const Keyspace* keyspace, registry_->Find("adopted"));
  const Membership::Ptr membership = keyspace->head()->membership;
  ASSERT_EQ(membership->nodes()[2].id, "cache-3");
  EXPECT_EQ(membership->nodes()[membership->RangeOf(5).owner].id, "cache-3");
  EXPECT_EQ(membership->nodes()[membership->RangeOf(11).owner].id, "cache-1");
  EXPECT_EQ(membership->nodes()[membership->RangeOf(30).owner].id, "cache-2");
  EXPECT_EQ(membership->nodes()[membership->RangeOf(31).owner].id, "cache-3");
  EXPECT_EQ(membership->ranges().size(), 4u);
}

TEST_F(RegistryTest, RangesThatAreNoMembershipAreRefused) {
  KeyspaceSpec spec;
  spec.id = "adopted";
  spec.placement = PlacementKind::kRing;
  for (const std::vector<OwnedRange>& ranges :
       {std::vector<OwnedRange>{{10, 3, Epoch(1)}}, {{10, 0, Epoch(1)}, {10, 1, Epoch(1)}}}) {
    EXPECT_THAT(Keyspace::Create(registry_->identity().history, spec, Nodes(3), {}, kNow, ranges),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST_F(RegistryTest, TheTermGrowsAndTheHistoryStays) {
  const HistoryId history = registry_->identity().history;
  EXPECT_EQ(registry_->identity().term, Term(1));
  Start();
  EXPECT_EQ(registry_->identity().term, Term(2));
  EXPECT_EQ(registry_->identity().history, history);
}

TEST_F(RegistryTest, KeyspacesLiveThroughARestart) {
  for (const PlacementKind kind : {PlacementKind::kDirectory, PlacementKind::kRing}) {
    const std::string id = kind == PlacementKind::kRing ? "ring" : "ring-b";
    Keyspace* keyspace = Create(id, kind);
    AddNode(keyspace, ExtraNode(1));
    const std::shared_ptr<const Head> before = keyspace->head();
    EXPECT_EQ(before->membership->version(), Version(2));
    EXPECT_EQ(before->next_epoch, Epoch(3));
    Start();
    ASSERT_OK_AND_ASSIGN(keyspace, registry_->Find(id));
    EXPECT_EQ(keyspace->head()->membership->data(), before->membership->data());
    EXPECT_EQ(keyspace->head()->next_epoch, Epoch(3));
    EXPECT_EQ(keyspace->head()->stored, before->stored);
  }
  EXPECT_EQ(registry_->All().size(), 2u);
  EXPECT_THAT(registry_->Find("nope"), StatusIs(absl::StatusCode::kNotFound, "'nope'"));
  EXPECT_THAT(registry_->Find("nope"), StatusIs(absl::StatusCode::kNotFound, "ring, ring-b"));
}

TEST_F(RegistryTest, EveryVersionCanBeReadAgain) {
  Keyspace* keyspace = Create("sessions", PlacementKind::kDirectory);
  std::vector<Membership::Ptr> all = {nullptr, keyspace->head()->membership};
  for (uint64_t i = 2; i <= 130; ++i) {
    AddNode(keyspace, ExtraNode(i));
    all.push_back(keyspace->head()->membership);
  }
  Start();
  ASSERT_OK_AND_ASSIGN(keyspace, registry_->Find("sessions"));
  for (uint64_t version : {1u, 2u, 63u, 64u, 65u, 127u, 128u, 130u}) {
    ASSERT_OK_AND_ASSIGN(const Membership::Ptr membership,
                         keyspace->MembershipAt(store_, Version(version)));
    EXPECT_EQ(membership->data(), all[version]->data()) << version;
  }
  EXPECT_THAT(keyspace->MembershipAt(store_, Version(131)),
              StatusIs(absl::StatusCode::kNotFound, "131"));

  ASSERT_OK_AND_ASSIGN(const auto versions, keyspace->Versions(store_, Version(130), 2));
  ASSERT_EQ(versions.size(), 2u);
  EXPECT_EQ(versions[0].version, Version(130));
  EXPECT_EQ(versions[0].record.change, "+ extra-130");
  EXPECT_EQ(versions[0].record.migration, "mig");
  EXPECT_EQ(versions[0].record.time, kNow);
  ASSERT_OK_AND_ASSIGN(const auto oldest, keyspace->Versions(store_, Version(2), 10));
  ASSERT_EQ(oldest.size(), 2u);
  EXPECT_EQ(oldest[1].record.reason, "why");

  ASSERT_OK_AND_ASSIGN(const std::vector<Delta> deltas, keyspace->LatestDeltas(store_, 3));
  ASSERT_EQ(deltas.size(), 3u);
  EXPECT_EQ(deltas[0].from, Version(127));
  EXPECT_EQ(deltas[2].to, Version(130));
}

TEST_F(RegistryTest, AnEpochCanBeReservedWithoutAVersion) {
  Keyspace* keyspace = Create("sessions", PlacementKind::kRing);
  ASSERT_OK_AND_ASSIGN(const HeadChange change, keyspace->Prepare(std::nullopt, true, {}, kNow));
  EXPECT_FALSE(change.delta.has_value());
  Commit(change);
  keyspace->Install(change);
  EXPECT_EQ(keyspace->head()->membership->version(), Version(1));
  EXPECT_EQ(keyspace->head()->next_epoch, Epoch(3));
  Start();
  EXPECT_EQ((*registry_->Find("sessions"))->head()->next_epoch, Epoch(3));
}

TEST_F(RegistryTest, AStaleHeadIsAConflictAndChangesNothing) {
  Keyspace* keyspace = Create("sessions", PlacementKind::kRing);
  Update update;
  update.put_nodes = {ExtraNode(1)};
  ASSERT_OK_AND_ASSIGN(const HeadChange stale, keyspace->Prepare(update, false, {}, kNow));
  AddNode(keyspace, ExtraNode(2));
  ASSERT_OK_AND_ASSIGN(const CommitResult result, store_.Commit(stale.batch));
  EXPECT_FALSE(result.committed);
  EXPECT_EQ(result.conflict_key, schema::HeadKey("sessions"));
}

TEST_F(RegistryTest, AnOlderServerCannotCommit) {
  Keyspace* keyspace = Create("sessions", PlacementKind::kRing);
  const Batch guard = registry_->identity().Guard();
  Update update;
  update.put_nodes = {ExtraNode(1)};
  ASSERT_OK_AND_ASSIGN(const HeadChange change, keyspace->Prepare(update, false, {}, kNow));
  Start();
  Batch batch = guard;
  ASSERT_OK_AND_ASSIGN(const CommitResult result, store_.Commit(batch.Append(change.batch)));
  EXPECT_FALSE(result.committed);
  EXPECT_EQ(result.conflict_key, "term");
}

TEST_F(RegistryTest, ACreationThatWasCutShortLeavesNoKeyspace) {
  KeyspaceSpec spec;
  spec.id = "half";
  ASSERT_OK_AND_ASSIGN(const HeadChange change,
                       Keyspace::Create(registry_->identity().history, spec, Nodes(4), {}, kNow));
  for (const Batch& batch : change.before) ASSERT_OK(store_.Commit(batch));
  Start();
  EXPECT_TRUE(registry_->All().empty());
  Create("half", PlacementKind::kDirectory);
  Start();
  EXPECT_EQ(registry_->All().size(), 1u);
}

TEST_F(RegistryTest, DamageIsRefused) {
  Create("sessions", PlacementKind::kDirectory);
  const std::string key = schema::PageKey("sessions", Version(1), 0);
  ASSERT_OK_AND_ASSIGN(auto page, store_.Get(key));
  std::string damaged = *page;
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 1);
  ASSERT_OK(store_.Commit(Batch().Put(key, damaged)));
  Registry registry(registry_->identity());
  EXPECT_THAT(registry.Load(store_), StatusIs(absl::StatusCode::kDataLoss, "keyspace sessions"));
  ASSERT_OK(store_.Commit(Batch().Delete(key)));
  EXPECT_THAT(registry.Load(store_), StatusIs(absl::StatusCode::kDataLoss, "restore"));
}

TEST_F(RegistryTest, AnUpdateThatDoesNotFitIsRefused) {
  Keyspace* keyspace = Create("sessions", PlacementKind::kRing);
  Update update;
  update.remove_nodes = {"cache-1"};
  EXPECT_THAT(keyspace->Prepare(update, false, {}, kNow),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace warmring
