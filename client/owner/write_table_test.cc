#include "client/owner/write_table.h"

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

// Slots of writes in flight: each is seen with its key until it ends, whoever looks holds it, and
// there is no limit to their number.

namespace warmring {
namespace {

EpochWord Word(uint64_t epoch) { return {"a1b2c3d4", Epoch(epoch)}; }

WriteSlot& Admit(WriteTable& table, std::string_view key, uint64_t epoch = 1) {
  WriteSlot& slot = table.Claim();
  slot.Admit(key, Word(epoch), 7);
  return slot;
}

std::multiset<std::string> KeysOf(WriteTable& table) {
  std::multiset<std::string> keys;
  table.Visit([&](const WriteTable::Write& write) {
    keys.emplace(write.slot.key());
    return WriteTable::Marks{};
  });
  return keys;
}

TEST(WriteTableTest, AWriteIsSeenUntilItEnds) {
  WriteTable table;
  EXPECT_TRUE(KeysOf(table).empty());
  WriteSlot& slot = Admit(table, "k", 17);
  table.Visit([](const WriteTable::Write& write) {
    EXPECT_EQ(write.slot.key(), "k");
    EXPECT_EQ(write.slot.word().history_tag, "a1b2c3d4");
    EXPECT_EQ(write.slot.word().epoch, Epoch(17));
    EXPECT_EQ(write.slot.generation(), 7U);
    EXPECT_FALSE(write.passed);
    return WriteTable::Marks{};
  });
  EXPECT_TRUE(slot.TryEnd());
  EXPECT_TRUE(KeysOf(table).empty());
}

TEST(WriteTableTest, ARefusedWriteIsNotSeen) {
  WriteTable table;
  table.Claim().Abandon();
  EXPECT_TRUE(KeysOf(table).empty());
}

TEST(WriteTableTest, AThreadFindsItsSlotAgain) {
  WriteTable table;
  WriteSlot& first = Admit(table, "a");
  EXPECT_TRUE(first.TryEnd());
  WriteSlot& again = Admit(table, "b");
  EXPECT_EQ(&again, &first);
  WriteSlot& other = Admit(table, "c");
  EXPECT_NE(&other, &first);
  EXPECT_TRUE(again.TryEnd());
  EXPECT_TRUE(other.TryEnd());
}

TEST(WriteTableTest, PassedAndLost) {
  WriteTable table;
  WriteSlot& slot = Admit(table, "k");
  slot.BeginCheck();
  EXPECT_FALSE(slot.IsLost());
  slot.EndCheck(true);
  table.Visit([](const WriteTable::Write& write) {
    EXPECT_TRUE(write.passed);
    return WriteTable::Marks{.lose = true};
  });
  slot.BeginCheck();
  EXPECT_TRUE(slot.IsLost());
  slot.EndCheck(false);
  table.Visit([](const WriteTable::Write& write) {
    EXPECT_TRUE(write.passed) << "once is for ever";
    return WriteTable::Marks{};
  });
  EXPECT_TRUE(slot.TryEnd()) << "nobody holds it";
  WriteSlot& next = Admit(table, "n");
  next.BeginCheck();
  EXPECT_FALSE(next.IsLost()) << "that was the one before";
  next.EndCheck(false);
  EXPECT_TRUE(next.TryEnd());
}

TEST(WriteTableTest, AHeldWriteIsFreedUnderTheLock) {
  WriteTable table;
  for (const std::string& key : {std::string("k"), std::string(500, 'x')}) {
    WriteSlot& slot = Admit(table, key);
    table.Visit([&](const WriteTable::Write&) {
      EXPECT_FALSE(slot.TryEnd()) << "while somebody reads the key";
      return WriteTable::Marks{.hold = true};
    });
    EXPECT_FALSE(slot.TryEnd());
    EXPECT_EQ(KeysOf(table), std::multiset<std::string>{key}) << "looking again lets it stay held";
    EXPECT_FALSE(slot.TryEnd());
    slot.Free();
    EXPECT_TRUE(KeysOf(table).empty());
  }
}

TEST(WriteTableTest, KeysOfAnyLength) {
  WriteTable table;
  for (const size_t size :
       {size_t{0}, size_t{1}, WriteSlot::kInlineKeyBytes - 1, WriteSlot::kInlineKeyBytes,
        WriteSlot::kInlineKeyBytes + 1, size_t{1} << 20}) {
    const std::string key(size, 'x');
    WriteSlot& slot = Admit(table, key);
    EXPECT_EQ(slot.key(), key) << size;
    EXPECT_EQ(KeysOf(table), std::multiset<std::string>{key});
    EXPECT_TRUE(slot.TryEnd());
    WriteSlot& next = Admit(table, "short");
    EXPECT_EQ(next.key(), "short");
    EXPECT_TRUE(next.TryEnd());
  }
}

TEST(WriteTableTest, GrowsWithWhatIsInFlight) {
  WriteTable table;
  std::vector<WriteSlot*> slots;
  std::multiset<std::string> keys;
  for (int i = 0; i < 10'000; ++i) {
    const std::string key = "k" + std::to_string(i);
    slots.push_back(&Admit(table, key));
    keys.insert(key);
  }
  EXPECT_EQ(std::set<WriteSlot*>(slots.begin(), slots.end()).size(), slots.size());
  EXPECT_EQ(KeysOf(table), keys);
  for (WriteSlot* slot : slots) EXPECT_TRUE(slot->TryEnd());
  EXPECT_TRUE(KeysOf(table).empty());
}

// A change of the rules waits for who is deciding by the old ones.
TEST(WriteTableTest, SettleWaitsForABusySlot) {
  WriteTable table;
  WriteSlot& slot = table.Claim();
  std::atomic<bool> settled = false;
  std::thread changing([&] {
    table.Settle();
    settled = true;
  });
  for (int i = 0; i < 100; ++i) std::this_thread::yield();
  EXPECT_FALSE(settled);
  slot.Admit("k", Word(1), 7);
  changing.join();
  EXPECT_TRUE(settled);
  EXPECT_TRUE(slot.TryEnd());
}

}  // namespace
}  // namespace warmring
