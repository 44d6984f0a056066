// A strand keeps order and runs one piece at a time, on however many threads; timers fire in turn.

#include "server/executor/thread_pool.h"

#include <atomic>
#include <future>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace warmring {
namespace {

TEST(ThreadPoolTest, AStrandKeepsOrderAndRunsOneAtATime) {
  SystemClock clock;
  ThreadPool pool(3, &clock);
  const std::unique_ptr<Executor> strand = pool.MakeStrand();
  std::vector<int> seen;  // no lock: the strand is what protects it
  std::atomic<int> inside = 0;
  std::promise<void> done;
  for (int i = 0; i < 1000; ++i) {
    strand->Post([&, i] {
      EXPECT_EQ(inside.fetch_add(1), 0);
      seen.push_back(i);
      inside.fetch_sub(1);
      if (i == 999) done.set_value();
    });
  }
  done.get_future().wait();
  ASSERT_EQ(seen.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], i);
}

TEST(ThreadPoolTest, StrandsRunBesideEachOther) {
  SystemClock clock;
  ThreadPool pool(2, &clock);
  const std::unique_ptr<Executor> a = pool.MakeStrand();
  const std::unique_ptr<Executor> b = pool.MakeStrand();
  std::promise<void> go;
  std::promise<void> done;
  a->Post([&] {
    go.get_future().wait();
    done.set_value();
  });
  b->Post([&] { go.set_value(); });
  done.get_future().wait();
}

TEST(ThreadPoolTest, TimersFireInOrderOfTheirTime) {
  SystemClock clock;
  ThreadPool pool(2, &clock);
  const std::unique_ptr<Executor> strand = pool.MakeStrand();
  std::vector<int> seen;
  std::promise<void> done;
  const Instant now = clock.Boot();
  strand->RunAt(now + absl::Milliseconds(20), [&] {
    seen.push_back(2);
    EXPECT_GE(clock.Boot() - now, absl::Milliseconds(20));
    done.set_value();
  });
  strand->RunAt(now + absl::Milliseconds(5), [&] { seen.push_back(1); });
  strand->RunAt(Instant::Never(), [&] { ADD_FAILURE(); });
  done.get_future().wait();
  EXPECT_EQ(seen, (std::vector<int>{1, 2}));
}

TEST(ThreadPoolTest, WorkAfterStopIsDropped) {
  SystemClock clock;
  auto pool = std::make_unique<ThreadPool>(1, &clock);
  const std::unique_ptr<Executor> strand = pool->MakeStrand();
  pool->Stop();
  strand->Post([] { ADD_FAILURE(); });
  pool.reset();
  strand->Post([] { ADD_FAILURE(); });
  strand->RunAt(Instant{0}, [] { ADD_FAILURE(); });
}

}  // namespace
}  // namespace warmring
