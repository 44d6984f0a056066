#include "agent/releaser.h"

#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "agent/transfer/pair_testing.h"

// A node keeps exactly what the membership entitles it to, and a delete that reached the wrong node
// finds its way.

namespace warmring {
namespace {

using support::kDefaultWait;
using support::WaitFor;

class ReleaserTest : public testing::Test {
 protected:
  ReleaserTest() {
    MemoryEngineOptions options;
    options.forget = [this](const std::string& address, const std::string& key) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (refused_.contains(address)) return absl::UnavailableError("nobody there");
      forgotten_[address].push_back(key);
      return absl::OkStatus();
    };
    node_ = std::make_unique<TestNode>("a", &clock_, std::move(options));
    node_->Attach();
    ReleaserOptions releaser;
    releaser.node = "a";
    releaser.forward_period = absl::Milliseconds(5);
    releaser_ = std::make_unique<Releaser>(releaser, &node_->engine());
  }

  void Install(const Membership::Ptr& map) {
    node_->Install(map);
    releaser_->OnInstalled(map);
  }
  size_t Expected(uint64_t first, uint64_t end, int keys) {
    size_t count = 0;
    for (int i = 0; i < keys; ++i) count += InQuarters(TestKey(i), first, end) ? 1u : 0u;
    return count;
  }
  std::map<std::string, std::vector<std::string>> Forgotten() {
    std::lock_guard<std::mutex> lock(mutex_);
    return forgotten_;
  }
  void Refuse(std::set<std::string> addresses) {
    std::lock_guard<std::mutex> lock(mutex_);
    refused_ = std::move(addresses);
  }

  support::FakeClock clock_;
  std::mutex mutex_;
  std::set<std::string> refused_;                              // guarded by mutex_
  std::map<std::string, std::vector<std::string>> forgotten_;  // guarded by mutex_
  std::unique_ptr<TestNode> node_;
  std::unique_ptr<Releaser> releaser_;
};

TEST_F(ReleaserTest, DropsWhatLeftAndKeepsWhatIsInGrace) {
  Install(MovingMap(1, 0, 0));
  for (int i = 0; i < 3000; ++i) ASSERT_OK(node_->engine().Set(TestKey(i), "value"));
  Install(MovingMap(2, 2, 0));
  Install(MovingMap(3, 2, 2));
  EXPECT_EQ(node_->engine().KeyCount(), 3000u);
  Install(QuarterMap(4, {{{1, 10}, {1, 11}, {0, 1}, {0, 1}}}));
  EXPECT_OK(WaitFor("released", kDefaultWait,
                    [&] { return node_->engine().KeyCount() == Expected(2, 4, 3000); }));
}

// Whatever an agent left undone when it died, the next one finds.
TEST_F(ReleaserTest, AnAgentThatStartsLooksOnce) {
  for (int i = 0; i < 1000; ++i) node_->engine().Plant(TestKey(i), "value");
  Install(QuarterMap(4, {{{1, 10}, {1, 11}, {0, 1}, {0, 1}}}));
  EXPECT_OK(WaitFor("released", kDefaultWait,
                    [&] { return node_->engine().KeyCount() == Expected(2, 4, 1000); }));
}

TEST_F(ReleaserTest, ANodeThatIsNoMemberAnyMoreKeepsNothing) {
  Install(MovingMap(1, 0, 0));
  for (int i = 0; i < 1000; ++i) ASSERT_OK(node_->engine().Set(TestKey(i), "value"));
  MembershipData data = QuarterData(2, {{{1, 10}, {1, 11}, {2, 1}, {2, 1}}});
  data.nodes.erase(data.nodes.begin());
  for (OwnedRange& range : data.ranges) --range.owner;
  Install(MustCreate(std::move(data)));
  EXPECT_OK(WaitFor("released", kDefaultWait, [&] { return node_->engine().KeyCount() == 0; }));
}

TEST_F(ReleaserTest, ADeleteThatCameTooLateIsForwardedUntilItArrives) {
  Install(MovingMap(1, 0, 0));
  ASSERT_OK(node_->engine().Set(TestKey(1), "value"));
  std::string key;
  for (int i = 0; key.empty(); ++i) {
    if (InQuarters(TestKey(i), 0, 1)) key = TestKey(i);
  }
  Refuse({"host-b:6379"});
  Install(MovingMap(2, 1, 1));
  EXPECT_FALSE(node_->engine().Delete(key).ok());
  EXPECT_TRUE(Forgotten().empty());
  Refuse({});
  EXPECT_OK(WaitFor("forwarded", kDefaultWait, [&] { return !Forgotten().empty(); }));
  const std::map<std::string, std::vector<std::string>> expected = {{"host-b:6379", {key}}};
  EXPECT_EQ(Forgotten(), expected);
}

// The engine has taken the new membership, and the releaser has not heard of it yet.
TEST_F(ReleaserTest, ADeleteIsNotDroppedByAnOldMembership) {
  std::string key;
  for (int i = 0; key.empty(); ++i) {
    if (InQuarters(TestKey(i), 0, 1)) key = TestKey(i);
  }
  Install(MovingMap(2, 1, 0));
  node_->Install(MovingMap(3, 1, 1));
  EXPECT_FALSE(node_->engine().Delete(key).ok());
  EXPECT_OK(WaitFor("it has read the delete", kDefaultWait,
                    [this] { return node_->engine().ForgottenRead() > 0; }));
  EXPECT_TRUE(Forgotten().empty());
  releaser_->OnInstalled(MovingMap(3, 1, 1));
  EXPECT_OK(WaitFor("forwarded", kDefaultWait, [&] { return !Forgotten().empty(); }));
  const std::map<std::string, std::vector<std::string>> expected = {{"host-b:6379", {key}}};
  EXPECT_EQ(Forgotten(), expected);
}

TEST_F(ReleaserTest, AnOwnerThatIsDownHoldsUpOnlyItsOwnDeletes) {
  Install(MovingMap(1, 0, 0));
  std::string to_b;
  std::string to_c;
  for (int i = 0; to_b.empty() || to_c.empty(); ++i) {
    if (InQuarters(TestKey(i), 0, 1)) to_b = TestKey(i);
    if (InQuarters(TestKey(i), 1, 2)) to_c = TestKey(i);
  }
  Refuse({"host-b:6379"});
  std::vector<Move> moves = {
      {kTestMigration, 0, "a", "b", MovePhase::kGrace, HashRangeSet({Quarter(0)})},
      {kTestMigration, 0, "a", "c", MovePhase::kGrace, HashRangeSet({Quarter(1)})}};
  Install(QuarterMap(2, {{{1, 10}, {2, 10}, {0, 1}, {0, 1}}}, moves));
  EXPECT_FALSE(node_->engine().Delete(to_b).ok());
  EXPECT_FALSE(node_->engine().Delete(to_c).ok());
  EXPECT_OK(WaitFor("c's", kDefaultWait, [&] { return Forgotten().contains("host-c:6379"); }));
  Refuse({});
  EXPECT_OK(WaitFor("b's", kDefaultWait, [&] { return Forgotten().contains("host-b:6379"); }));
  const std::map<std::string, std::vector<std::string>> expected = {{"host-b:6379", {to_b}},
                                                                    {"host-c:6379", {to_c}}};
  EXPECT_EQ(Forgotten(), expected) << "each once";
}

}  // namespace
}  // namespace warmring
