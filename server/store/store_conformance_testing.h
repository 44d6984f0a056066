#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/store/store.h"
#include "tests/support/status_matchers.h"

// What every store does. A test file of an implementation instantiates it:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, StoreConformanceTest,
//                            testing::Values([] { return std::make_unique<MemoryStore>(); }));

namespace warmring {

using StoreFactory = std::function<std::unique_ptr<Store>()>;

class StoreConformanceTest : public ::testing::TestWithParam<StoreFactory> {
 protected:
  void SetUp() override {
    store_ = GetParam()();
    ASSERT_NE(store_, nullptr);
  }
  void Put(const std::string& key, const std::string& value) {
    ASSERT_OK_AND_ASSIGN(const CommitResult result, store_->Commit(Batch().Put(key, value)));
    ASSERT_TRUE(result.committed);
  }
  std::optional<std::string> Get(const std::string& key) {
    const absl::StatusOr<std::optional<std::string>> value = store_->Get(key);
    EXPECT_OK(value);
    return value.ok() ? *value : std::nullopt;
  }

  std::unique_ptr<Store> store_;
};

TEST_P(StoreConformanceTest, PutGetDelete) {
  EXPECT_EQ(Get("a"), std::nullopt);
  Put("a", "1");
  EXPECT_EQ(Get("a"), "1");
  Put("a", "");
  EXPECT_EQ(Get("a"), "");
  const std::string binary("\0\xff\n", 3);
  Put("a", binary);
  EXPECT_EQ(Get("a"), binary);
  ASSERT_OK(store_->Commit(Batch().Delete("a").Delete("never-there")));
  EXPECT_EQ(Get("a"), std::nullopt);
}

TEST_P(StoreConformanceTest, GuardsDecideTheWholeBatch) {
  Put("head", "1");
  ASSERT_OK_AND_ASSIGN(
      CommitResult result,
      store_->Commit(
          Batch().RequireValue("head", "1").RequireAbsent("new").Put("head", "2").Put("new", "x")));
  EXPECT_TRUE(result.committed);
  EXPECT_EQ(Get("head"), "2");

  ASSERT_OK_AND_ASSIGN(
      result, store_->Commit(Batch().Put("other", "x").RequireValue("head", "1").Delete("new")));
  EXPECT_FALSE(result.committed);
  EXPECT_EQ(result.conflict_key, "head");
  EXPECT_EQ(result.actual, "2");
  EXPECT_EQ(Get("other"), std::nullopt);
  EXPECT_EQ(Get("new"), "x");

  ASSERT_OK_AND_ASSIGN(result, store_->Commit(Batch().RequireAbsent("new").Put("other", "x")));
  EXPECT_FALSE(result.committed);
  EXPECT_EQ(result.actual, "x");
  ASSERT_OK_AND_ASSIGN(result, store_->Commit(Batch().RequireValue("gone", "x").Put("o", "x")));
  EXPECT_FALSE(result.committed);
  EXPECT_EQ(result.conflict_key, "gone");
  EXPECT_EQ(result.actual, std::nullopt);
}

TEST_P(StoreConformanceTest, LaterChangesOfAKeyWin) {
  ASSERT_OK(store_->Commit(Batch().Put("a", "1").Put("a", "2").Put("b", "1").Delete("b")));
  EXPECT_EQ(Get("a"), "2");
  EXPECT_EQ(Get("b"), std::nullopt);
}

TEST_P(StoreConformanceTest, BoundsAreThoseOfEtcd) {
  Batch many;
  for (size_t i = 0; i < Batch::kMaxOperations; ++i) many.Put("k" + std::to_string(i), "v");
  EXPECT_OK(store_->Commit(many));
  many.RequireAbsent("x");
  EXPECT_THAT(store_->Commit(many), StatusIs(absl::StatusCode::kInvalidArgument, "129 operations"));
  EXPECT_THAT(store_->Commit(Batch().Put("big", std::string(Batch::kMaxBytes, 'x'))),
              StatusIs(absl::StatusCode::kInvalidArgument, "1048579 bytes"));
  EXPECT_EQ(Get("big"), std::nullopt);
  EXPECT_OK(store_->Commit(Batch().Put("big", std::string(Batch::kMaxBytes - 3, 'x'))));
  EXPECT_THAT(store_->Commit(Batch().Put("", "x")),
              StatusIs(absl::StatusCode::kInvalidArgument, "no key"));
}

TEST_P(StoreConformanceTest, ScanIsOrderedByBytesAndBounded) {
  for (const char* key : {"b/2", "b/10", "a", "b/1", "c", "b-", "b0"}) Put(key, key);
  ASSERT_OK_AND_ASSIGN(std::vector<KeyValue> found, store_->Scan("b/", PrefixEnd("b/"), 10));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0], (KeyValue{"b/1", "b/1"}));
  EXPECT_EQ(found[1].key, "b/10");
  EXPECT_EQ(found[2].key, "b/2");
  ASSERT_OK_AND_ASSIGN(found, store_->Scan("b/10", "c", 2));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].key, "b/10");
  EXPECT_EQ(found[1].key, "b/2");
  ASSERT_OK_AND_ASSIGN(found, store_->Scan("x", "y", 10));
  EXPECT_TRUE(found.empty());
}

TEST_P(StoreConformanceTest, ScanPrefixReadsEveryPage) {
  for (int i = 0; i < 600; ++i) Put("p/" + std::to_string(1000 + i), "v");
  ASSERT_OK_AND_ASSIGN(const std::vector<KeyValue> found, ScanPrefix(*store_, "p/"));
  ASSERT_EQ(found.size(), 600u);
  EXPECT_EQ(found.front().key, "p/1000");
  EXPECT_EQ(found.back().key, "p/1599");
}

// Of writers that race for one counter under a guard, each success is one step.
TEST_P(StoreConformanceTest, GuardsAreAtomicAgainstOtherThreads) {
  Put("n", "0");
  constexpr int kThreads = 4;
  constexpr int kSteps = 25;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this] {
      for (int done = 0; done < kSteps;) {
        const std::string seen = *Get("n");
        const auto result = store_->Commit(
            Batch().RequireValue("n", seen).Put("n", std::to_string(std::stoi(seen) + 1)));
        ASSERT_OK(result);
        if (result->committed) ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Get("n"), std::to_string(kThreads * kSteps));
}

}  // namespace warmring
