#include "server/executor/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace warmring {

struct ThreadPool::State {
  explicit State(const Clock* clock_in) : clock(clock_in) {}

  void Enqueue(std::function<void()> work) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (stopped) return;
      ready.push_back(std::move(work));
    }
    work_waits.notify_one();
  }

  void EnqueueAt(Instant when, std::function<void()> work) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (stopped || when == Instant::Never()) return;
      timers.emplace(when, std::move(work));
    }
    timer_changed.notify_one();
  }

  const Clock* const clock;
  std::mutex mutex;
  std::condition_variable work_waits;
  std::condition_variable timer_changed;
  bool stopped = false;  // guarded by mutex, like the rest
  std::deque<std::function<void()>> ready;
  std::multimap<Instant, std::function<void()>> timers;
};

// The queue is shared with the work that is under way, which may outlive the handle.
class ThreadPool::Strand final : public Executor {
 public:
  explicit Strand(std::shared_ptr<State> pool)
      : queue_(std::make_shared<Queue>()), pool_(std::move(pool)) {}

  void Post(std::function<void()> work) override { Add(pool_, queue_, std::move(work)); }

  void RunAt(Instant when, std::function<void()> work) override {
    pool_->EnqueueAt(when, [pool = std::weak_ptr<State>(pool_), queue = queue_,
                            work = std::move(work)]() mutable {
      if (const std::shared_ptr<State> state = pool.lock()) Add(state, queue, std::move(work));
    });
  }

 private:
  struct Queue {
    std::mutex mutex;
    std::deque<std::function<void()>> work;  // guarded by mutex
    bool scheduled = false;                  // guarded by mutex; a thread of the pool is on it
  };

  static void Add(const std::shared_ptr<State>& pool, const std::shared_ptr<Queue>& queue,
                  std::function<void()> work) {
    {
      const std::lock_guard<std::mutex> lock(queue->mutex);
      queue->work.push_back(std::move(work));
      if (queue->scheduled) return;
      queue->scheduled = true;
    }
    Schedule(pool, queue);
  }

  static void Schedule(const std::shared_ptr<State>& pool, const std::shared_ptr<Queue>& queue) {
    pool->Enqueue([pool = std::weak_ptr<State>(pool), queue] {
      if (RunSome(*queue)) {
        if (const std::shared_ptr<State> state = pool.lock()) Schedule(state, queue);
      }
    });
  }

  // A bounded number of pieces, so that one strand does not keep a thread from the others. Returns
  // whether there is more.
  static bool RunSome(Queue& queue) {
    constexpr int kAtOnce = 32;
    for (int i = 0; i < kAtOnce; ++i) {
      std::function<void()> work;
      {
        const std::lock_guard<std::mutex> lock(queue.mutex);
        if (queue.work.empty()) {
          queue.scheduled = false;
          return false;
        }
        work = std::move(queue.work.front());
        queue.work.pop_front();
      }
      work();
    }
    return true;
  }

  const std::shared_ptr<Queue> queue_;
  const std::shared_ptr<State> pool_;
};

ThreadPool::ThreadPool(int threads, const Clock* clock) : state_(std::make_shared<State>(clock)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  threads_.emplace_back([this] { Keep(); });
}

ThreadPool::~ThreadPool() { Stop(); }

std::unique_ptr<Executor> ThreadPool::MakeStrand() { return std::make_unique<Strand>(state_); }

void ThreadPool::Stop() {
  // Dropped work is destroyed outside the lock: its captures may post again.
  std::deque<std::function<void()>> ready;
  std::multimap<Instant, std::function<void()>> timers;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->stopped = true;
    ready.swap(state_->ready);
    timers.swap(state_->timers);
  }
  state_->work_waits.notify_all();
  state_->timer_changed.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ThreadPool::Work() {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock<std::mutex> lock(state_->mutex);
      state_->work_waits.wait(lock, [this] { return state_->stopped || !state_->ready.empty(); });
      if (state_->stopped) return;
      work = std::move(state_->ready.front());
      state_->ready.pop_front();
    }
    work();
  }
}

void ThreadPool::Keep() {
  std::unique_lock<std::mutex> lock(state_->mutex);
  while (!state_->stopped) {
    if (state_->timers.empty()) {
      state_->timer_changed.wait(lock);
      continue;
    }
    const Instant now = state_->clock->Boot();
    const auto first = state_->timers.begin();
    if (first->first <= now) {
      std::function<void()> work = std::move(first->second);
      state_->timers.erase(first);
      lock.unlock();
      work();
      lock.lock();
      continue;
    }
    // The condition variable's clock does not count suspend: look again at least every second.
    const absl::Duration rest = std::min(first->first - now, absl::Seconds(1));
    state_->timer_changed.wait_for(lock, absl::ToChronoNanoseconds(rest));
  }
}

}  // namespace warmring
