#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/instant.h"
#include "core/membership/membership.h"
#include "core/membership/update.h"
#include "server/executor/clock.h"
#include "server/executor/executor.h"
#include "server/watch/watch_message.h"

namespace warmring {

struct WatchLimits {
  // Sent and not acknowledged, a stream; a version is begun below this bound and then finished.
  size_t unacknowledged_bytes = size_t{8} << 20;
  // Deltas that are kept for subscribers that lag or come back, a keyspace.
  size_t deltas = 256;
  size_t delta_bytes = size_t{8} << 20;
  size_t streams = 50'000;
  size_t subscriptions = 1024;                              // a stream
  absl::Duration progress_every = absl::Seconds(2);         // while there is nothing else to say
  absl::Duration watchers_every = absl::Milliseconds(500);  // at most, when their number changes
};

class WatchHub;
class WatchTopic;

// What one stream still has to be sent: a cursor a keyspace, not a queue. Any thread.
class WatchSubscriber : public std::enable_shared_from_this<WatchSubscriber> {
 public:
  WatchSubscriber(WatchHub* hub, std::function<void()> wake);
  ~WatchSubscriber();
  WatchSubscriber(const WatchSubscriber&) = delete;
  WatchSubscriber& operator=(const WatchSubscriber&) = delete;

  // Begins, or begins again. `history` is empty when the client has nothing. An observer does not
  // count as a watcher. An unknown keyspace is answered by a message.
  void Subscribe(const std::string& keyspace, const std::string& history, Version version,
                 bool observer);
  // Ends a subscription with a message that says why.
  void Refuse(const std::string& keyspace, const absl::Status& why);
  void Acknowledge(const std::string& keyspace, Version version);

  // The next message, or null when there is none now: `wake` is called when there may be one again.
  // The caller sends what it is given before it asks again.
  WatchMessage Next();

  // Something new may be there: calls `wake`. By the hub only.
  void Wake() { wake_(); }
  // By the hub's timer only: whether a progress message is due now.
  bool MarkIfProgressDue(Instant now);

  // Before the stream goes away: it counts as a watcher no more.
  void End();

 private:
  struct Unacknowledged {
    Version version;
    size_t bytes = 0;
  };
  struct Subscription {
    std::shared_ptr<WatchTopic> topic;
    bool snapshot_due = false;
    Version cursor;                   // what has been sent
    std::deque<WatchMessage> chunks;  // of a snapshot that is under way
    std::deque<Unacknowledged> unacknowledged;
    bool progress_due = true;
    Instant last_sent;
    uint32_t told_watchers = 0;
  };

  void Drop(const std::string& keyspace);
  WatchMessage NextOf(Subscription& subscription);
  WatchMessage NextSnapshotChunk(Subscription& subscription);
  void Count(Subscription& subscription, Version version, const WatchMessage& message);

  WatchHub* const hub_;
  const std::function<void()> wake_;
  std::mutex mutex_;
  std::map<std::string, Subscription> subscriptions_;  // guarded by mutex_
  std::string last_served_;                            // guarded by mutex_; whose turn is over
  std::deque<WatchMessage> errors_;                    // guarded by mutex_
  size_t unacknowledged_bytes_ = 0;                    // guarded by mutex_
};

// Brings memberships to any number of streams: each delta is serialised once, a slow reader costs a
// cursor, one that lags too far gets a snapshot. Any thread.
class WatchHub {
 public:
  // `clock` and `executor` must outlive the hub; streams are woken on the executor.
  WatchHub(const Clock* clock, Executor* executor, WatchLimits limits = {});
  ~WatchHub();

  // A keyspace exists, at this head; `recent` are the deltas that lead to it.
  void Open(const Membership::Ptr& head, const std::vector<Delta>& recent);
  // A version is durable. REQUIRES: `delta` leads from the head before to `head`.
  void Publish(const Membership::Ptr& head, const Delta& delta);

  // A stream begins; WatchSubscriber::End ends it. `wake` may be called from any thread, also a
  // little after the end.
  // Error: ResourceExhausted: too many streams.
  absl::StatusOr<std::shared_ptr<WatchSubscriber>> Attach(std::function<void()> wake);

  uint32_t Watchers(const std::string& keyspace) const;

  // Begins the timer that keeps idle streams informed.
  void Start();

 private:
  friend class WatchSubscriber;
  std::shared_ptr<WatchTopic> Find(const std::string& keyspace) const;
  void Tick();

  const Clock* const clock_;
  Executor* const executor_;
  const WatchLimits limits_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<WatchTopic>> topics_;           // guarded by mutex_
  std::map<WatchSubscriber*, std::weak_ptr<WatchSubscriber>> streams_;  // guarded by mutex_
};

}  // namespace warmring
