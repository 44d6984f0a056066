#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/agent_parts_testing.h"

// Two real Redis servers and the agents' parts between them: a range that changes hands has exactly
// the donor's values, whatever is written meanwhile; nothing older ever lands; an undo loses
// nothing.

namespace warmring {
namespace {

using support::kDefaultWait;
using support::WaitFor;

constexpr const char* kMigration = "add-b";
const Id128 kNonce{7, 7};

HashRangeSet Quarters(uint64_t first, uint64_t end) {
  std::vector<HashRange> ranges;
  for (uint64_t i = first; i < end; ++i) ranges.push_back(Quarter(i));
  return HashRangeSet(ranges);
}

bool InQuarters(const std::string& key, uint64_t first, uint64_t end) {
  return Quarters(first, end).Contains(HashKey(HashSpec(), key));
}

std::string KeyOf(int i) { return "key:" + std::to_string(i); }

class AgentTransferTest : public testing::Test {
 protected:
  void Start(std::vector<std::string> donor_args = {}) {
    a_ = std::make_unique<AgentParts>("a", std::move(donor_args));
    b_ = std::make_unique<AgentParts>("b");
    a_->Attach();
    b_->Attach();
    Install(Map(1, 0, 0));
  }

  // Quarters that go from a to b, one wave each; the first `committed` are b's already. The nodes
  // have the addresses of the real servers.
  Membership::Ptr Map(uint64_t version, uint64_t waves, uint64_t committed) {
    std::array<QuarterOwner, 4> owners = {{{0, 1}, {0, 1}, {0, 1}, {0, 1}}};
    std::vector<Move> moves;
    for (uint64_t wave = 0; wave < waves; ++wave) {
      const bool done = wave < committed;
      if (done) owners[wave] = {1, 10 + wave};
      moves.push_back({kMigration, static_cast<uint32_t>(wave), "a", "b",
                       done ? MovePhase::kGrace : MovePhase::kWarming,
                       HashRangeSet({Quarter(wave)})});
    }
    MembershipData data = QuarterData(version, owners);
    data.moves = std::move(moves);
    return WithAddresses(std::move(data));
  }

  Membership::Ptr WithAddresses(MembershipData data) {
    data.nodes[0].address = a_->redis().Address();
    data.nodes[1].address = b_->redis().Address();
    return MustCreate(std::move(data));
  }

  void Install(const Membership::Ptr& map) {
    a_->Install(map);
    b_->Install(map);
  }

  Task Warm(uint64_t first, uint64_t end, TransferLimits limits = {}) {
    return {kMigration, 0, kNonce,
            WarmTask{{{"a", a_->TransferAddress(), Quarters(first, end)}}, limits}};
  }
  Task Verify() { return {kMigration, 0, kNonce, VerifyTask{2000}}; }

  void AwaitCaughtUp() {
    b_->Await<WarmReport>(
        "caught up", [](const WarmReport& report) { return report.purged && report.caught_up; });
  }

  // Fences [first, end) at a and waits until b is prepared to own it.
  void HandOver(uint32_t wave, uint64_t first, uint64_t end, uint64_t epoch) {
    a_->link().SetTasks(
        {{kMigration, wave, kNonce, FenceTask{Quarters(first, end), Epoch(epoch - 1)}}});
    const FenceAck ack = a_->Await<FenceAck>("fenced", [](const FenceAck&) { return true; });
    EXPECT_EQ(ack.floor, Epoch(epoch - 1));
    PrepareTask prepare;
    prepare.epoch = Epoch(epoch);
    prepare.donors = {
        {{"a", a_->TransferAddress(), Quarters(first, end)}, ack.log_id, ack.watermark}};
    b_->link().SetTasks({Warm(first, end), {kMigration, wave, kNonce, prepare}});
    const auto prepared =
        b_->Await<PreparedReport>("prepared", [](const PreparedReport&) { return true; });
    EXPECT_EQ(prepared.epoch, Epoch(epoch));
    EXPECT_EQ(prepared.log_ids, std::vector<std::string>{ack.log_id});
    EXPECT_GE(prepared.applied.at(0), ack.watermark);
  }

  void ExpectSame(const std::string& key) {
    EXPECT_EQ(b_->Digest(key), a_->Digest(key)) << key;
    const EngineEntry theirs = a_->Dump(key);
    const EngineEntry ours = b_->Dump(key);
    EXPECT_EQ(ours.absent, theirs.absent) << key;
    if (theirs.absent) return;
    EXPECT_EQ(ours.ttl_ms < 0, theirs.ttl_ms < 0) << key;
    EXPECT_NEAR(static_cast<double>(ours.ttl_ms), static_cast<double>(theirs.ttl_ms), 2000) << key;
  }

  std::unique_ptr<AgentParts> a_;
  std::unique_ptr<AgentParts> b_;
};

std::vector<std::vector<std::string>> OneOfEachType(const std::string& prefix) {
  std::vector<std::vector<std::string>> commands = {
      {"SET", prefix + "string", "a value"},
      {"SET", prefix + "int", "12345"},
      {"SET", prefix + "large", std::string(300'000, 'x')},
      {"SET", prefix + "bytes", std::string("\0\r\n\xff", 4)},
      {"SET", prefix + "expiring", "later", "PX", "600000"},
      {"RPUSH", prefix + "list", "a", "b", "c"},
      {"SADD", prefix + "set", "x", "y", "z"},
      {"SADD", prefix + "intset", "1", "2", "3"},
      {"ZADD", prefix + "zset", "1", "one", "2.5", "two"},
      {"HSET", prefix + "hash", "f", "v", "g", "w"},
      {"XADD", prefix + "stream", "*", "field", "value"},
      {"PFADD", prefix + "hll", "a", "b", "c"},
      {"SETBIT", prefix + "bits", "1000", "1"}};
  return commands;
}

TEST_F(AgentTransferTest, CopiesEveryTypeWhileAllIsBeingWritten) {
  Start();
  std::vector<std::string> keys;
  for (int i = 0; i < 40; ++i) {
    for (const auto& command : OneOfEachType("t" + std::to_string(i) + ":")) {
      ASSERT_FALSE(a_->Do(command).IsError()) << command[1];
      keys.push_back(command[1]);
    }
  }
  for (int i = 0; i < 3000; ++i) {
    ASSERT_FALSE(a_->Do({"SET", KeyOf(i), "value"}).IsError());
    keys.push_back(KeyOf(i));
  }
  Install(Map(2, 2, 0));
  b_->link().SetTasks({Warm(0, 2)});

  std::atomic<bool> stop = false;
  std::thread writer([&] {
    auto connection = a_->redis().Connect();
    ASSERT_OK(connection);
    for (int round = 0; !stop; ++round) {
      const std::string i = std::to_string(round % 40);
      const std::string key = KeyOf((round * 7919) % 3000);
      const std::array<std::vector<std::string>, 9> commands = {{
          {"SET", key, "round " + std::to_string(round)},
          {"DEL", key},
          {"INCR", "t" + i + ":int"},
          {"RPUSH", "t" + i + ":list", std::to_string(round)},
          {"HSET", "t" + i + ":hash", std::to_string(round % 7), std::to_string(round)},
          {"ZADD", "t" + i + ":zset", std::to_string(round), "three"},
          {"SET", key, "brief", "PX", "5"},
          {"PEXPIRE", "t" + i + ":string", "500000"},
          {"UNLINK", "t" + i + ":set"},
      }};
      for (const auto& command : commands) {
        const auto reply = (*connection)->Command(command);
        ASSERT_OK(reply);
        ASSERT_FALSE(reply->IsError()) << reply->Describe();
      }
    }
  });
  AwaitCaughtUp();
  b_->link().SetTasks({Warm(0, 2), Verify()});
  const auto verified =
      b_->Await<VerifyReport>("verified", [](const VerifyReport& report) { return report.done; });
  stop = true;
  writer.join();
  EXPECT_GT(verified.compared, 500u);
  EXPECT_EQ(verified.mismatched, 0u);
  HandOver(0, 0, 2, 10);
  // The fence is real: an unmodified client cannot write there any more.
  const std::string fenced_key = [] {
    for (int i = 0;; ++i) {
      if (InQuarters(KeyOf(i), 0, 2)) return KeyOf(i);
    }
  }();
  EXPECT_THAT(a_->Do({"SET", fenced_key, "too late"}).text, testing::HasSubstr("WRFENCING"));

  int compared = 0;
  for (const std::string& key : keys) {
    if (InQuarters(key, 0, 2)) {
      ExpectSame(key);
      ++compared;
    } else {
      EXPECT_EQ(b_->Digest(key), std::nullopt) << key;
    }
  }
  EXPECT_GT(compared, 1000);

  Install(Map(3, 2, 2));
  EXPECT_THAT(a_->Do({"SET", fenced_key, "too late"}).text, testing::HasSubstr("WRMOVED"));
  EXPECT_EQ(b_->Do({"SET", fenced_key, "the new owner's"}).text, "OK");
}

TEST_F(AgentTransferTest, OldCopiesArePurgedBeforeTheTransfer) {
  Start();
  for (int i = 0; i < 500; ++i) ASSERT_EQ(a_->Do({"SET", KeyOf(i), "present"}).text, "OK");
  Install(Map(2, 2, 0));
  // What an earlier transfer left: values of keys that have been deleted since, and older values.
  const Id128 earlier{1, 1};
  ASSERT_OK(b_->engine().OpenTransfer(earlier, kMigration, Quarters(0, 2)));
  std::vector<EngineEntry> stale;
  ASSERT_EQ(a_->Do({"SET", "ghost:1", "x"}).text, "OK");
  for (int i = 0; i < 300; ++i) {
    EngineEntry entry = a_->Dump("ghost:1");
    entry.key = i < 100 ? KeyOf(i) : "ghost:" + std::to_string(i);
    if (InQuarters(entry.key, 0, 2)) stale.push_back(entry);
  }
  ASSERT_EQ(a_->Do({"DEL", "ghost:1"}).integer, 1);
  ASSERT_OK(b_->engine().Apply(earlier, stale));
  ASSERT_OK(b_->engine().CloseTransfer(earlier));
  ASSERT_EQ(b_->DbSize(), static_cast<int64_t>(stale.size()));

  b_->link().SetTasks({Warm(0, 2)});
  AwaitCaughtUp();
  int64_t expected = 0;
  for (int i = 0; i < 500; ++i) {
    if (InQuarters(KeyOf(i), 0, 2)) {
      ++expected;
      ExpectSame(KeyOf(i));
    }
  }
  EXPECT_EQ(b_->DbSize(), expected);
}

TEST_F(AgentTransferTest, NothingLandsAfterTheTransferWasClosedOrItsRangesActivated) {
  Start();
  const auto key_in = [](uint64_t quarter) {
    for (int i = 0;; ++i) {
      if (InQuarters(KeyOf(i), quarter, quarter + 1)) return KeyOf(i);
    }
  };
  ASSERT_EQ(a_->Do({"SET", key_in(0), "old"}).text, "OK");
  ASSERT_EQ(a_->Do({"SET", key_in(1), "old"}).text, "OK");
  const EngineEntry first = a_->Dump(key_in(0));
  const EngineEntry second = a_->Dump(key_in(1));
  Install(Map(2, 2, 0));
  const Id128 nonce{2, 2};
  ASSERT_OK(b_->engine().OpenTransfer(nonce, kMigration, Quarters(0, 2)));
  Install(Map(3, 2, 1));
  ASSERT_EQ(b_->Do({"SET", key_in(0), "new"}).text, "OK");
  ASSERT_OK(b_->engine().Apply(nonce, {first, second}));  // late: the first range is b's own now
  EXPECT_EQ(b_->Do({"GET", key_in(0)}).text, "new");
  EXPECT_FALSE(b_->Dump(key_in(1)).absent);
  ASSERT_OK(b_->engine().CloseTransfer(nonce));
  EXPECT_THAT(b_->engine().Apply(nonce, {second}), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(AgentTransferTest, ADonorThatRestartsFailsTheTransferWithAWayOut) {
  Start();
  for (int i = 0; i < 200; ++i) ASSERT_EQ(a_->Do({"SET", KeyOf(i), "value"}).text, "OK");
  Install(Map(2, 2, 0));
  b_->link().SetTasks({Warm(0, 2)});
  AwaitCaughtUp();
  a_->redis().Kill9();
  ASSERT_OK(a_->redis().Restart());
  // The session learns it from one of the next renewals.
  ASSERT_OK(WaitFor("another incarnation", kDefaultWait,
                    [this] { return absl::IsAborted(a_->link().Renew().status()); }));
  const Incarnation before = a_->identity().incarnation;
  a_->Attach();
  EXPECT_NE(a_->identity().incarnation, before);
  a_->Install(Map(2, 2, 0));
  const auto failure = b_->Await<TaskFailure>("failure", [](const TaskFailure&) { return true; });
  EXPECT_TRUE(failure.restart);
  EXPECT_THAT(failure.reason, testing::HasSubstr("transfer from a"));
}

TEST_F(AgentTransferTest, AChangeLogThatOverflowsIsSuspect) {
  Start({"changes-max-bytes", "4000"});
  for (int i = 0; i < 200; ++i) ASSERT_EQ(a_->Do({"SET", KeyOf(i), "value"}).text, "OK");
  Install(Map(2, 4, 0));
  b_->link().SetTasks({Warm(0, 4)});
  AwaitCaughtUp();
  // One command, so that nobody can read the log in between.
  std::vector<std::string> many = {"MSET"};
  for (int i = 0; i < 1000; ++i) {
    many.push_back(KeyOf(i));
    many.push_back("again");
  }
  ASSERT_FALSE(a_->Do(many).IsError());
  const auto failure = b_->Await<TaskFailure>("failure", [](const TaskFailure&) { return true; });
  EXPECT_TRUE(failure.restart);
  // A new attempt under a new nonce goes through.
  Task again = Warm(0, 4);
  again.nonce = Id128{8, 8};
  b_->link().SetTasks({again});
  AwaitCaughtUp();
  for (int i = 0; i < 1000; i += 13) ExpectSame(KeyOf(i));
}

TEST_F(AgentTransferTest, AnUndoSendsBackExactlyWhatTheNewOwnerChanged) {
  Start();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(a_->Do({"SET", KeyOf(i), "before"}).text, "OK");
  Install(Map(2, 2, 0));
  b_->link().SetTasks({Warm(0, 2)});
  AwaitCaughtUp();
  HandOver(0, 0, 2, 10);
  Install(Map(3, 2, 2));
  a_->link().SetTasks({});
  b_->link().SetTasks({});
  std::vector<std::string> moved;
  for (int i = 0; i < 1000; ++i) {
    if (InQuarters(KeyOf(i), 0, 2)) moved.push_back(KeyOf(i));
  }
  ASSERT_EQ(b_->Do({"SET", moved[0], "during the soak"}).text, "OK");
  ASSERT_EQ(b_->Do({"DEL", moved[1]}).integer, 1);
  ASSERT_EQ(b_->Do({"PEXPIRE", moved[2], "900000"}).integer, 1);
  ASSERT_EQ(b_->Do({"APPEND", moved[3], " and after"}).integer, 16);

  b_->link().SetTasks({{kMigration, 0, kNonce, FenceTask{Quarters(0, 2), Epoch(19)}}});
  const FenceAck ack = b_->Await<FenceAck>("fenced", [](const FenceAck&) { return true; });
  EXPECT_TRUE(ack.dirty_complete);
  PrepareTask prepare;
  prepare.mode = PrepareTask::Mode::kDirty;
  prepare.epoch = Epoch(20);
  prepare.donors = {{{"b", b_->TransferAddress(), Quarters(0, 2)}, ack.log_id, ack.watermark}};
  a_->link().SetTasks({{kMigration, 0, kNonce, prepare}});
  const auto prepared =
      a_->Await<PreparedReport>("prepared", [](const PreparedReport&) { return true; });
  EXPECT_EQ(prepared.mode, PrepareTask::Mode::kDirty);
  EXPECT_EQ(prepared.log_ids, std::vector<std::string>{ack.log_id});
  ASSERT_OK_AND_ASSIGN(const auto dirty, b_->engine().ReadDirty(kMigration, 0, 1000));
  EXPECT_THAT(dirty.page.keys,
              testing::UnorderedElementsAre(moved[0], moved[1], moved[2], moved[3]));

  std::array<QuarterOwner, 4> owners = {{{0, 20}, {0, 20}, {0, 1}, {0, 1}}};
  Install(WithAddresses(QuarterData(4, owners)));
  EXPECT_EQ(a_->Do({"GET", moved[0]}).text, "during the soak");
  EXPECT_TRUE(a_->Do({"GET", moved[1]}).IsNil());
  EXPECT_GT(a_->Do({"PTTL", moved[2]}).integer, 800'000);
  EXPECT_EQ(a_->Do({"GET", moved[3]}).text, "before and after");
  EXPECT_EQ(a_->Do({"GET", moved[4]}).text, "before");
  // The node that is nobody's any more lets go of everything.
  EXPECT_OK(WaitFor("released", kDefaultWait, [this] { return b_->DbSize() == 0; }));
}

TEST_F(AgentTransferTest, AReleaseDropsWhatLeftAndNothingElse) {
  Start();
  int64_t stays = 0;
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(a_->Do({"SET", KeyOf(i), "value"}).text, "OK");
    stays += InQuarters(KeyOf(i), 2, 4) ? 1 : 0;
  }
  Install(Map(2, 2, 0));
  b_->link().SetTasks({Warm(0, 2)});
  AwaitCaughtUp();
  HandOver(0, 0, 2, 10);
  Install(Map(3, 2, 2));
  EXPECT_EQ(a_->DbSize(), 2000) << "the donor keeps its copy during grace";
  std::array<QuarterOwner, 4> owners = {{{1, 10}, {1, 11}, {0, 1}, {0, 1}}};
  Install(WithAddresses(QuarterData(4, owners)));
  EXPECT_OK(WaitFor("released", kDefaultWait, [&] { return a_->DbSize() == stays; }));
  EXPECT_EQ(b_->DbSize(), 2000 - stays);
}

TEST_F(AgentTransferTest, AnAbortReleasesWhatWasWarmed) {
  Start();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(a_->Do({"SET", KeyOf(i), "value"}).text, "OK");
  Install(Map(2, 4, 0));
  b_->link().SetTasks({Warm(0, 4)});
  AwaitCaughtUp();
  EXPECT_EQ(b_->DbSize(), 1000);
  b_->link().SetTasks({});
  Install(Map(3, 0, 0));
  EXPECT_OK(WaitFor("released", kDefaultWait, [this] { return b_->DbSize() == 0; }));
  EXPECT_EQ(a_->DbSize(), 1000);
}

TEST_F(AgentTransferTest, ADeleteAtTheFormerOwnerReachesThePresentOne) {
  Start();
  for (int i = 0; i < 200; ++i) ASSERT_EQ(a_->Do({"SET", KeyOf(i), "value"}).text, "OK");
  std::vector<std::string> moved;
  for (int i = 0; i < 200; ++i) {
    if (InQuarters(KeyOf(i), 0, 2)) moved.push_back(KeyOf(i));
  }
  Install(Map(2, 2, 0));
  b_->link().SetTasks({Warm(0, 2)});
  AwaitCaughtUp();
  HandOver(0, 0, 2, 10);
  // Between fence and commit, and after the commit: applied here, refused, and its client dies.
  EXPECT_THAT(a_->Do({"DEL", moved[0]}).text, testing::HasSubstr("WRFENCING"));
  Install(Map(3, 2, 2));
  EXPECT_THAT(a_->Do({"DEL", moved[1]}).text, testing::HasSubstr("WRMOVED"));
  EXPECT_OK(WaitFor("forwarded", kDefaultWait,
                    [&] { return b_->Dump(moved[0]).absent && b_->Dump(moved[1]).absent; }));
  EXPECT_EQ(b_->Do({"GET", moved[2]}).text, "value");
}

TEST_F(AgentTransferTest, ChangesOvertakeALimitedScan) {
  Start();
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(a_->Do({"SET", KeyOf(i), "value"}).text, "OK");
  Install(Map(2, 4, 0));
  b_->link().SetTasks({Warm(0, 4, {.keys_per_second = 50, .bytes_per_second = 0})});
  b_->Await<WarmReport>("first keys", [](const WarmReport& report) { return report.keys > 0; });
  ASSERT_EQ(a_->Do({"SET", "fresh", "news"}).text, "OK");
  EXPECT_OK(WaitFor("the change", kDefaultWait, [this] { return !b_->Dump("fresh").absent; }));
  EXPECT_LT(b_->DbSize(), 1500);
}

TEST_F(AgentTransferTest, ARestartWithKeysPurgesBeforeItsFirstLease) {
  a_ = std::make_unique<AgentParts>("a");
  b_ = std::make_unique<AgentParts>("b");
  a_->Attach();
  a_->Install(Map(1, 0, 0));
  for (int i = 0; i < 100; ++i) ASSERT_EQ(a_->Do({"SET", KeyOf(i), "value"}).text, "OK");
  ASSERT_EQ(a_->Do({"SAVE"}).text, "OK");
  a_->redis().Kill9();
  ASSERT_OK(a_->redis().Restart());
  ASSERT_EQ(a_->DbSize(), 100) << "the dump was not loaded, so there is nothing to prove";
  a_->Attach();
  EXPECT_EQ(a_->DbSize(), 0);
  a_->Install(Map(1, 0, 0));
  EXPECT_EQ(a_->Do({"SET", KeyOf(1), "again"}).text, "OK");
}

TEST_F(AgentTransferTest, ARedisWithoutTheModuleIsSaidToBeOne) {
  ASSERT_OK_AND_ASSIGN(const auto plain, support::RedisServer::Start());
  RedisEngine engine(RedisEngineOptions{.address = plain->Address()});
  EXPECT_THAT(engine.Attach(kQuarterHistory, "cache", "a", OnRestart::kPurge),
              StatusIs(absl::StatusCode::kFailedPrecondition, "--loadmodule"));
}

TEST_F(AgentTransferTest, TheIdentityTellsTheDumpFormat) {
  a_ = std::make_unique<AgentParts>("a");
  a_->Attach();
  const EngineEntry entry = [this] {
    a_->Install(QuarterMap(1, {{{0, 1}, {0, 1}, {0, 1}, {0, 1}}}));
    EXPECT_EQ(a_->Do({"SET", "k", "v"}).text, "OK");
    return a_->Dump("k");
  }();
  EXPECT_EQ(a_->identity().rdb_version, PayloadRdbVersion(entry.payload));
  EXPECT_GE(a_->identity().rdb_version, 10u);
}

}  // namespace
}  // namespace warmring
