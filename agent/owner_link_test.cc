#include "agent/owner_link.h"

#include <atomic>

#include "agent/transfer/pair_testing.h"

// The engine gets the newest membership whenever it can take one, and no lease before it holds what
// an earlier life left.

namespace warmring {
namespace {

using support::kDefaultWait;
using support::WaitFor;

class OwnerLinkTest : public testing::Test {
 protected:
  OwnerLinkTest() {
    OwnerLinkOptions options;
    options.keyspace = "cache";
    options.node = "a";
    options.data_address = "engine a";
    options.purge_span = absl::ZeroDuration();
    link_ = std::make_unique<OwnerLink>(options, &node_.engine(),
                                        [this](const Membership::Ptr&) { ++installs_; });
    link_->SetRunner(&runner_);
    link_->SetTransferAddress("here:1");
  }
  ~OwnerLinkTest() override { link_->Stop(); }

  void AwaitVersion(uint64_t version) {
    ASSERT_OK(WaitFor("installed", kDefaultWait, [&] {
      const auto stat = node_.engine().ReadStat();
      return stat.ok() && stat->version == Version(version) && link_->Installed() != nullptr &&
             link_->Installed()->version() == Version(version);
    }));
  }

  support::FakeClock clock_;
  TestNode node_{"a", &clock_};
  std::atomic<int> installs_ = 0;
  TaskRunner runner_{node_.Context(), [] {}, [] {}};
  std::unique_ptr<OwnerLink> link_;
};

TEST_F(OwnerLinkTest, SaysWhoTheOwnerIs) {
  ASSERT_OK_AND_ASSIGN(const auto identity, link_->Attach(kQuarterHistory, OnRestart::kPurge));
  EXPECT_EQ(identity.transfer_address, "here:1");
  EXPECT_EQ(identity.data_address, "engine a");
  EXPECT_EQ(identity.rdb_version, 10u);
  EXPECT_FALSE(identity.incarnation.IsZero());
}

TEST_F(OwnerLinkTest, InstallsTheNewestMembershipAndReportsItsVersion) {
  link_->OnMembership(MovingMap(1, 0, 0));
  ASSERT_OK(link_->Attach(kQuarterHistory, OnRestart::kPurge));
  AwaitVersion(1);
  link_->OnMembership(MovingMap(2, 1, 0));
  link_->OnMembership(MovingMap(3, 1, 1));
  AwaitVersion(3);
  ASSERT_OK_AND_ASSIGN(const auto renewal, link_->Renew());
  EXPECT_EQ(renewal.applied_version, Version(3));
  EXPECT_GE(installs_, 2);
}

TEST_F(OwnerLinkTest, AnEngineThatWasRestartedGetsTheMembershipAgain) {
  link_->OnMembership(MovingMap(1, 0, 0));
  ASSERT_OK(link_->Attach(kQuarterHistory, OnRestart::kPurge));
  AwaitVersion(1);
  node_.engine().Restart();
  EXPECT_THAT(link_->Renew(), StatusIs(absl::StatusCode::kAborted));
  ASSERT_OK(link_->Attach(kQuarterHistory, OnRestart::kPurge));
  AwaitVersion(1);
}

TEST_F(OwnerLinkTest, KeysOfAnEarlierLifeArePurgedBeforeTheFirstLease) {
  for (int i = 0; i < 3500; ++i) node_.engine().Plant(TestKey(i), "revived");
  int attempts = 1;
  while (!link_->Attach(kQuarterHistory, OnRestart::kPurge).ok()) ++attempts;
  EXPECT_EQ(attempts, 4) << "a thousand keys a turn, when a turn may not take long";
  EXPECT_EQ(node_.engine().KeyCount(), 0u);
}

TEST_F(OwnerLinkTest, TrustKeepsThem) {
  node_.engine().Plant(TestKey(1), "kept");
  ASSERT_OK(link_->Attach(kQuarterHistory, OnRestart::kTrust));
  EXPECT_EQ(node_.engine().Get(TestKey(1)), "kept");
}

TEST_F(OwnerLinkTest, AnEngineThatIsGoneIsUnavailable) {
  node_.engine().SetDown(true);
  EXPECT_THAT(link_->Attach(kQuarterHistory, OnRestart::kPurge),
              StatusIs(absl::StatusCode::kUnavailable));
  node_.engine().SetDown(false);
  ASSERT_OK(link_->Attach(kQuarterHistory, OnRestart::kPurge));
  node_.engine().SetDown(true);
  EXPECT_THAT(link_->Renew(), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace warmring
