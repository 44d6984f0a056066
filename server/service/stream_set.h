#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace warmring {

// The open streams of a service, so that a server that stops can end them. Any thread.
template <typename Stream>
class StreamSet {
 public:
  // Returns false, and keeps nothing, once TakeAll was called.
  bool Add(std::shared_ptr<Stream> stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return false;
    streams_.insert(std::move(stream));
    return true;
  }

  void Remove(const std::shared_ptr<Stream>& stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    streams_.erase(stream);
  }

  // All of them, and none from now on.
  std::vector<std::shared_ptr<Stream>> TakeAll() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    const std::set<std::shared_ptr<Stream>> taken = std::exchange(streams_, {});
    return {taken.begin(), taken.end()};
  }

 private:
  std::mutex mutex_;
  bool closed_ = false;                        // guarded by mutex_
  std::set<std::shared_ptr<Stream>> streams_;  // guarded by mutex_
};

}  // namespace warmring
