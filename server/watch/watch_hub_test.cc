// Every watcher sees each version once and in order, or a snapshot; a reader that does not
// acknowledge is waited for; idle ones learn that they are up to date and how many they are.

#include "server/watch/watch_hub.h"

#include <memory>
#include <string>
#include <vector>

#include "core/membership/update.h"
#include "gtest/gtest.h"
#include "proto/wire/membership.h"
#include "server/executor/manual_executor_testing.h"
#include "tests/support/status_matchers.h"
#include "warmring/v1/watch_service.pb.h"

namespace warmring {
namespace {

Membership::Ptr First(const std::string& id, uint32_t bits = 10) {
  MembershipData data;
  data.history.high = 0xabc;
  data.version = Version(1);
  data.spec.id = id;
  data.spec.directory_bits = bits;
  data.nodes.resize(1);
  data.nodes[0].id = "a";
  data.nodes[0].address = "10.0.0.1:6379";
  for (uint64_t i = 0; i < (uint64_t{1} << bits); ++i) {
    data.ranges.push_back({((i + 1) << (64 - bits)) - 1, 0, Epoch(1)});
  }
  return Membership::Create(data).value();
}

class WatchHubTest : public ::testing::Test {
 protected:
  WatchHubTest() { UseLimits({}); }

  void UseLimits(const WatchLimits& limits) {
    hub_ = std::make_unique<WatchHub>(&clock_, &executor_, limits);
    head_ = First("sessions");
    hub_->Open(head_, {});
  }

  Delta Grow() {
    Update update;
    Node node;
    node.id = "n" + std::to_string(head_->version().value);
    node.address = "10.0.0.1:6379";
    update.put_nodes = {node};
    Membership::Ptr next = Apply(*head_, update).value();
    Delta delta{head_->history(), head_->version(), next->version(), update, next->digest()};
    head_ = next;
    hub_->Publish(head_, delta);
    executor_.RunUntilIdle();
    return delta;
  }

  struct Stream {
    std::shared_ptr<WatchSubscriber> subscriber;
    std::shared_ptr<int> wakes = std::make_shared<int>(0);

    // Everything that there is to send now.
    std::vector<v1::WatchMembershipResponse> Drain() {
      std::vector<v1::WatchMembershipResponse> all;
      while (WatchMessage message = subscriber->Next()) {
        EXPECT_TRUE(all.emplace_back().ParseFromString(*message));
      }
      return all;
    }
  };
  Stream Attach() {
    Stream stream;
    stream.subscriber = hub_->Attach([wakes = stream.wakes] { ++*wakes; }).value();
    return stream;
  }

  ManualClock clock_;
  ManualExecutor executor_{&clock_};
  std::unique_ptr<WatchHub> hub_;
  Membership::Ptr head_;
};

std::string History() { return First("sessions")->history().ToString(); }

TEST_F(WatchHubTest, ANewWatcherGetsASnapshotThenDeltas) {
  Stream stream = Attach();
  stream.subscriber->Subscribe("sessions", "", Version(0), false);
  auto sent = stream.Drain();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].keyspace(), "sessions");
  ASSERT_TRUE(sent[0].has_snapshot());
  EXPECT_EQ(sent[0].snapshot().count(), 1u);
  v1::Membership membership;
  ASSERT_TRUE(membership.ParseFromString(sent[0].snapshot().data()));
  ASSERT_OK_AND_ASSIGN(const Membership::Ptr received, wire::MembershipFromProto(membership));
  EXPECT_EQ(received->data(), head_->data());
  EXPECT_EQ(sent[1].progress().version(), 1u);
  EXPECT_EQ(sent[1].progress().watchers(), 1u);

  const Delta delta = Grow();
  EXPECT_EQ(*stream.wakes, 1);
  sent = stream.Drain();
  ASSERT_EQ(sent.size(), 1u);
  ASSERT_OK_AND_ASSIGN(const Delta got, wire::DeltaFromProto(sent[0].delta()));
  EXPECT_EQ(got, delta);
}

TEST_F(WatchHubTest, AWatcherResumesFromItsVersion) {
  for (int i = 0; i < 5; ++i) Grow();
  Stream stream = Attach();
  stream.subscriber->Subscribe("sessions", History(), Version(4), false);
  auto sent = stream.Drain();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].delta().from_version(), 4u);
  EXPECT_EQ(sent[1].delta().to_version(), 6u);
  EXPECT_EQ(sent[2].progress().version(), 6u);
  stream.subscriber->Subscribe("sessions", History(), Version(6), false);
  sent = stream.Drain();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(sent[0].has_progress());
}

TEST_F(WatchHubTest, WhatCannotBeResumedGetsASnapshot) {
  WatchLimits limits;
  limits.deltas = 3;
  UseLimits(limits);
  for (int i = 0; i < 6; ++i) Grow();
  Stream stream = Attach();
  const struct {
    std::string history;
    Version version;
    bool snapshot;
  } cases[] = {{History(), Version(3), true},  // its delta is not kept any more
               {History(), Version(4), false},
               {History(), Version(99), true},  // from nowhere
               {std::string(32, 'f'), Version(6), true},
               {"", Version(6), true},
               {"nonsense", Version(6), true}};
  for (const auto& one : cases) {
    stream.subscriber->Subscribe("sessions", one.history, one.version, false);
    EXPECT_EQ(stream.Drain()[0].has_snapshot(), one.snapshot) << one.version.value;
  }
}

TEST_F(WatchHubTest, DeltasOfBeforeTheRestartAreKept) {
  const Membership::Ptr old = head_;
  const Delta delta = Grow();
  hub_->Open(head_, {delta});
  Stream stream = Attach();
  stream.subscriber->Subscribe("sessions", History(), old->version(), false);
  EXPECT_EQ(stream.Drain()[0].delta().to_version(), 2u);
}

TEST_F(WatchHubTest, AReaderThatDoesNotAcknowledgeIsWaitedFor) {
  WatchLimits limits;
  limits.unacknowledged_bytes = 1;
  UseLimits(limits);
  Stream stream = Attach();
  stream.subscriber->Subscribe("sessions", "", Version(0), false);
  ASSERT_EQ(stream.Drain().size(), 1u);
  Grow();
  Grow();
  EXPECT_TRUE(stream.Drain().empty());
  stream.subscriber->Acknowledge("sessions", Version(1));
  auto sent = stream.Drain();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].delta().to_version(), 2u);
  stream.subscriber->Acknowledge("sessions", Version(2));
  EXPECT_EQ(stream.Drain()[0].delta().to_version(), 3u);
}

TEST_F(WatchHubTest, ALargeSnapshotComesInChunksAndIsFinished) {
  WatchLimits limits;
  limits.unacknowledged_bytes = 1;
  UseLimits(limits);
  hub_->Open(First("large", 20), {});
  Stream stream = Attach();
  stream.subscriber->Subscribe("large", "", Version(0), false);
  std::string bytes;
  const auto sent = stream.Drain();
  ASSERT_GT(sent.size(), 1u);
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i].snapshot().index(), i);
    EXPECT_EQ(sent[i].snapshot().count(), sent.size());
    EXPECT_LE(sent[i].snapshot().data().size(), size_t{1} << 20);
    bytes += sent[i].snapshot().data();
  }
  v1::Membership membership;
  ASSERT_TRUE(membership.ParseFromString(bytes));
  EXPECT_EQ(membership.range_owners_size(), 1 << 20);
}

TEST_F(WatchHubTest, IdleWatchersHearProgressAndTheirNumber) {
  hub_->Start();
  Stream stream = Attach();
  stream.subscriber->Subscribe("sessions", "", Version(0), false);
  stream.Drain();
  executor_.Advance(absl::Milliseconds(1500));
  EXPECT_TRUE(stream.Drain().empty());
  executor_.Advance(absl::Milliseconds(600));
  auto sent = stream.Drain();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].progress().version(), 1u);
  EXPECT_EQ(sent[0].progress().server_time().seconds(), absl::ToUnixSeconds(clock_.Wall()));

  {
    Stream second = Attach();
    second.subscriber->Subscribe("sessions", "", Version(0), false);
    second.subscriber->Subscribe("sessions", "", Version(0), false);
    EXPECT_EQ(hub_->Watchers("sessions"), 2u);
    Stream owner = Attach();
    owner.subscriber->Subscribe("sessions", "", Version(0), true);
    EXPECT_EQ(hub_->Watchers("sessions"), 2u);
    *stream.wakes = 0;
    executor_.Advance(absl::Milliseconds(750));
    EXPECT_GE(*stream.wakes, 1);
    sent = stream.Drain();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].progress().watchers(), 2u);
  }
  EXPECT_EQ(hub_->Watchers("sessions"), 1u);
}

TEST_F(WatchHubTest, AnUnknownKeyspaceEndsOneSubscriptionAndNotTheStream) {
  Stream stream = Attach();
  stream.subscriber->Subscribe("nope", "", Version(0), false);
  stream.subscriber->Subscribe("sessions", "", Version(0), false);
  auto sent = stream.Drain();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].keyspace(), "nope");
  EXPECT_EQ(sent[0].error().reason(), "NOT_FOUND");
  EXPECT_TRUE(sent[1].has_snapshot());
  stream.subscriber->Refuse("sessions", absl::PermissionDeniedError("no"));
  sent = stream.Drain();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].error().message(), "no");
  Grow();
  EXPECT_TRUE(stream.Drain().empty());
}

TEST_F(WatchHubTest, KeyspacesOfAStreamTakeTurns) {
  hub_->Open(First("b"), {});
  Stream stream = Attach();
  stream.subscriber->Subscribe("sessions", "", Version(0), false);
  stream.subscriber->Subscribe("b", "", Version(0), false);
  const auto sent = stream.Drain();
  ASSERT_EQ(sent.size(), 4u);
  EXPECT_NE(sent[0].keyspace(), sent[1].keyspace());
}

TEST_F(WatchHubTest, StreamsAreLimited) {
  WatchLimits limits;
  limits.streams = 1;
  limits.subscriptions = 1;
  UseLimits(limits);
  hub_->Open(First("b"), {});
  Stream stream = Attach();
  EXPECT_THAT(hub_->Attach([] {}), StatusIs(absl::StatusCode::kResourceExhausted, "1 watch"));
  stream.subscriber->Subscribe("sessions", "", Version(0), false);
  stream.Drain();
  stream.subscriber->Subscribe("b", "", Version(0), false);
  EXPECT_EQ(stream.Drain()[0].error().reason(), "LIMIT_EXCEEDED");
  stream.subscriber->End();
  EXPECT_OK(hub_->Attach([] {}));
}

}  // namespace
}  // namespace warmring
