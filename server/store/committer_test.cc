#include "server/store/committer.h"

#include <string>

#include "gtest/gtest.h"
#include "server/executor/manual_executor_testing.h"
#include "server/store/memory/memory_store.h"
#include "server/store/schema/key.h"
#include "tests/support/status_matchers.h"

// What goes ahead of a batch is written only while the batch itself could be.

namespace warmring {
namespace {

class CommitterTest : public testing::Test {
 protected:
  Committer::Request Pages(const std::string& term) {
    Committer::Request request;
    request.before.push_back(Batch().Put("page", "of term " + term));
    request.batch.RequireValue(schema::TermKey(), term).Put("head", "of term " + term);
    return request;
  }
  std::string Value(const std::string& key) {
    const auto value = store_.Get(key);
    return value.ok() && value->has_value() ? **value : "";
  }

  ManualClock clock_;
  ManualExecutor strand_{&clock_};
  MemoryStore store_;
  absl::Status failure_;
  Committer committer_{&store_, &strand_, [this](const absl::Status& why) { failure_ = why; }};
};

// A server that was deposed and does not know it yet prepares the same version as its successor
// did.
TEST_F(CommitterTest, ADeposedServerWritesOverNoPages) {
  ASSERT_OK(store_.Commit(Batch().Put(schema::TermKey(), "2")));
  bool committed = false;
  committer_.Commit(Pages("2"), &strand_,
                    [&](const CommitResult& result) { committed = result.committed; });
  strand_.RunUntilIdle();
  EXPECT_TRUE(committed);
  EXPECT_EQ(Value("page"), "of term 2");
  committer_.Commit(Pages("1"), &strand_, [](const CommitResult&) { ADD_FAILURE(); });
  strand_.RunUntilIdle();
  EXPECT_EQ(failure_.code(), absl::StatusCode::kAborted) << failure_;
  EXPECT_EQ(Value("page"), "of term 2");
  EXPECT_EQ(Value("head"), "of term 2");
}

}  // namespace
}  // namespace warmring
