#include "agent/releaser.h"

#include <map>
#include <mutex>
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
      if (refuse_) return absl::UnavailableError("nobody there");
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
  void Refuse(bool refuse) {
    std::lock_guard<std::mutex> lock(mutex_);
    refuse_ = refuse;
  }

  support::FakeClock clock_;
  std::mutex mutex_;
  bool refuse_ = false;                                        // guarded by mutex_
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
  EXPECT_OK(WaitFor("released", kDefaultWait, [&] {
    return node_->engine().KeyCount() == Expected(2, 4, 3000);
  }));
}

// Whatever an agent left undone when it died, the next one finds.
TEST_F(ReleaserTest, AnAgentThatStartsLooksOnce) {
  for (int i = 0; i < 1000; ++i) node_->engine().Plant(TestKey(i), "value");
  Install(QuarterMap(4, {{{1, 10}, {1, 11}, {0, 1}, {0, 1}}}));
  EXPECT_OK(WaitFor("released", kDefaultWait, [&] {
    return node_->engine().KeyCount() == Expected(2, 4, 1000);
  }));
}

TEST_F(ReleaserTest, ANodeThatIsNoMemberAnyMoreKeepsNothing) {
  Install(MovingMap(1, 0, 0));
  for (int i = 0; i < 1000; ++i) ASSERT_OK(node_->engine().Set(TestKey(i), "value"));
  MembershipData data = QuarterData(2, {{{1, 10}, {1, 11}, {2, 1}, {2, 1}}});
  data.nodes.erase(data.nodes.begin());
  for (OwnedRange& range : data.ranges) --range.owner;
  Install(MustCreate(std::move(data)));
  EXPECT_OK(WaitFor("released", kDefaultWait,
                    [&] { return node_->engine().KeyCount() == 0; }));
}

TEST_F(ReleaserTest, ADeleteThatCameTooLateIsForwardedUntilItArrives) {
  Install(MovingMap(1, 0, 0));
  ASSERT_OK(node_->engine().Set(TestKey(1), "value"));
  std::string key;
  for (int i = 0; key.empty(); ++i) {
    if (InQuarters(TestKey(i), 0, 1)) key = TestKey(i);
  }
  Refuse(true);
  Install(MovingMap(2, 1, 1));
  EXPECT_FALSE(node_->engine().Delete(key).ok());
  EXPECT_TRUE(Forgotten().empty());
  Refuse(false);
  EXPECT_OK(WaitFor("forwarded", kDefaultWait, [&] { return !Forgotten().empty(); }));
  const std::map<std::string, std::vector<std::string>> expected = {{"host-b:6379", {key}}};
  EXPECT_EQ(Forgotten(), expected);
}

}  // namespace
}  // namespace warmring
