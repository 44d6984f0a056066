// What every request does: it takes no lock, and no memory.

#include <atomic>
#include <cstdlib>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "client/base/membership_testing.h"
#include "client/owner/guard_core.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace {
thread_local size_t allocations = 0;
}  // namespace

[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  std::abort();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace warmring {
namespace {

using client_testing::History;

class GuardFastPathTest : public testing::Test {
 protected:
  GuardFastPathTest()
      : membership_(client_testing::MakeMembership(client_testing::TwoNodes())),
        key_(client_testing::KeyOwnedBy(*membership_, "a")),
        word_(History().Tag() + ":1") {
    OwnerOptions options;
    options.keyspace = client_testing::kKeyspace;
    options.node = "a";
    options.clock = [this] { return Clock(); };
    core_ = std::make_unique<GuardCore>(std::move(options));
    core_->OnMembership(membership_);
    EXPECT_OK(core_->Attach(History(), OnRestart::kPurge));
    const auto renewal = core_->Renew();
    EXPECT_OK(renewal);
    LeaseGrant grant;
    grant.seq = renewal->seq;
    grant.term = Term(1);
    grant.ttl = absl::Seconds(10);
    grant.version = membership_->version();
    EXPECT_OK(core_->Grant(grant));
  }

  Instant Clock() {
    if (std::this_thread::get_id() == stuck_thread_) {
      stuck_.set_value();
      go_on_.get_future().wait();
    }
    return Instant{1};
  }

  Membership::Ptr membership_;
  const std::string key_;
  const std::string word_;
  std::atomic<std::thread::id> stuck_thread_;
  std::promise<void> stuck_;
  std::promise<void> go_on_;
  std::unique_ptr<GuardCore> core_;
};

TEST_F(GuardFastPathTest, TakesNoMemory) {
  core_->Begin(key_, word_).IgnoreError();  // this thread's first
  const std::string longest(WriteSlot::kInlineKeyBytes, 'x');
  const size_t before = allocations;
  for (int i = 0; i < 100; ++i) {
    absl::StatusOr<WriteGuard> first = core_->Begin(key_, word_);
    absl::StatusOr<WriteGuard> second = core_->Begin(key_, word_);
    const bool held = first.ok() && first->StillHeld().ok() && second->StillHeld().ok();
    const bool read = core_->BeginRead(key_, word_).ok();
    const bool lease = core_->HasLease();
    if (!held || !read || !lease || core_->version() != Version(1)) std::abort();
  }
  const size_t after = allocations;
  EXPECT_EQ(after, before);
}

// Whoever holds the guard's lock stops in the middle, for as long as it likes.
TEST_F(GuardFastPathTest, TakesNoLock) {
  std::thread holder([this] {
    stuck_thread_ = std::this_thread::get_id();
    EXPECT_OK(core_->Renew());
  });
  stuck_.get_future().wait();
  {
    absl::StatusOr<WriteGuard> write = core_->Begin(key_, word_);
    ASSERT_OK(write);
    EXPECT_OK(write->StillHeld());
    EXPECT_OK(core_->BeginRead(key_, word_));
    EXPECT_TRUE(core_->HasLease());
    EXPECT_EQ(core_->PointOf(key_).plane, kCommonPlane);
    EXPECT_FALSE(core_->Begin(key_, History().Tag() + ":2").ok());
  }
  stuck_thread_ = std::thread::id();
  go_on_.set_value();
  holder.join();
}

}  // namespace
}  // namespace warmring
