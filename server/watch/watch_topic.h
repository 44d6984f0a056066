#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/membership/membership.h"
#include "core/membership/update.h"
#include "server/watch/watch_message.h"

namespace warmring {

class WatchSubscriber;

// One keyspace as the watch sees it: the newest membership, and the last deltas as bytes. Any
// thread.
class WatchTopic {
 public:
  WatchTopic(Membership::Ptr head, size_t max_deltas, size_t max_bytes);

  const std::string& keyspace() const { return keyspace_; }
  std::string History() const;
  Version HeadVersion() const;

  void Append(const Delta& delta);
  void SetHead(Membership::Ptr head);

  // The delta that leads on from `from`, or nothing when it is not kept (any more).
  struct Step {
    Version to;
    WatchMessage message;
  };
  std::optional<Step> After(Version from) const;

  // The newest membership in chunks; made once a version.
  struct Snapshot {
    Version version;
    std::vector<WatchMessage> chunks;
  };
  Snapshot TakeSnapshot();

  // A stream counts once, however often it subscribes, and an observer's not at all.
  void Add(const std::shared_ptr<WatchSubscriber>& subscriber, bool observer);
  void Remove(WatchSubscriber* subscriber);
  uint32_t Watchers() const;
  // Those that have not ended, observers included.
  std::vector<std::shared_ptr<WatchSubscriber>> Subscribers() const;

 private:
  struct Kept {
    Version from;
    Version to;
    WatchMessage message;
  };

  struct Listener {
    std::weak_ptr<WatchSubscriber> subscriber;
    bool observer = false;
  };

  const std::string keyspace_;
  const size_t max_deltas_;
  const size_t max_bytes_;
  mutable std::mutex mutex_;
  Membership::Ptr head_;              // guarded by mutex_, like the rest
  std::deque<Kept> deltas_;           // consecutive, ascending
  size_t bytes_ = 0;                  // of deltas_
  std::optional<Snapshot> snapshot_;  // of head_
  std::map<WatchSubscriber*, Listener> listeners_;
};

}  // namespace warmring
