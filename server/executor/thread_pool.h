#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/instant.h"
#include "server/executor/clock.h"
#include "server/executor/executor.h"

namespace warmring {

// A few threads, and any number of strands that share them. Any thread.
class ThreadPool {
 public:
  // `clock` must outlive the pool. REQUIRES: threads >= 1.
  ThreadPool(int threads, const Clock* clock);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // A new strand. It may outlive the pool; what is posted after Stop is dropped.
  std::unique_ptr<Executor> MakeStrand();

  // Waits for the pieces of work that run now, drops what has not begun, ends the threads. Call it
  // before the objects die that work refers to. Not from a thread of the pool.
  void Stop();

 private:
  class Strand;
  struct State;

  void Work();
  void Keep();  // the timer thread

  std::shared_ptr<State> state_;
  std::vector<std::thread> threads_;
};

}  // namespace warmring
