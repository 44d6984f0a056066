#include "server/watch/watch_hub.h"

#include <algorithm>
#include <utility>

#include "core/base/reason.h"
#include "fmt/format.h"
#include "server/watch/watch_topic.h"

namespace warmring {

WatchSubscriber::WatchSubscriber(WatchHub* hub, std::function<void()> wake)
    : hub_(hub), wake_(std::move(wake)) {}

WatchSubscriber::~WatchSubscriber() { End(); }

void WatchSubscriber::End() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    while (!subscriptions_.empty()) Drop(std::string(subscriptions_.begin()->first));
    errors_.clear();
  }
  const std::lock_guard<std::mutex> lock(hub_->mutex_);
  hub_->streams_.erase(this);
}

void WatchSubscriber::Subscribe(const std::string& keyspace, const std::string& history,
                                Version version, bool observer) {
  const std::shared_ptr<WatchTopic> topic = hub_->Find(keyspace);
  if (topic == nullptr) {
    Refuse(keyspace,
           WithReason(absl::NotFoundError(fmt::format(
                          "keyspace: '{}' does not exist: create it, or subscribe to another one",
                          Printable(keyspace))),
                      "NOT_FOUND"));
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  Drop(keyspace);
  if (subscriptions_.size() >= hub_->limits_.subscriptions) {
    errors_.push_back(MakeWatchError(
        keyspace, "LIMIT_EXCEEDED",
        fmt::format("{} subscriptions are the limit of a stream: open another stream",
                    hub_->limits_.subscriptions)));
    return;
  }
  Subscription& subscription = subscriptions_[keyspace];
  subscription.topic = topic;
  subscription.cursor = version;
  subscription.snapshot_due = version.value == 0 || history != topic->History();
  topic->Add(shared_from_this(), observer);
}

void WatchSubscriber::Refuse(const std::string& keyspace, const absl::Status& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Drop(keyspace);
  errors_.push_back(MakeWatchError(keyspace, ReasonNameOf(why), std::string(why.message())));
}

void WatchSubscriber::Acknowledge(const std::string& keyspace, Version version) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = subscriptions_.find(keyspace);
  if (found == subscriptions_.end()) return;
  std::deque<Unacknowledged>& waiting = found->second.unacknowledged;
  while (!waiting.empty() && waiting.front().version <= version) {
    unacknowledged_bytes_ -= waiting.front().bytes;
    waiting.pop_front();
  }
}

WatchMessage WatchSubscriber::Next() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!errors_.empty()) {
    WatchMessage message = std::move(errors_.front());
    errors_.pop_front();
    return message;
  }
  // Each keyspace in turn, beginning behind the one that was served last.
  auto at = subscriptions_.upper_bound(last_served_);
  for (size_t i = 0; i < subscriptions_.size(); ++i, ++at) {
    if (at == subscriptions_.end()) at = subscriptions_.begin();
    if (WatchMessage message = NextOf(at->second)) {
      last_served_ = at->first;
      return message;
    }
  }
  return nullptr;
}

WatchMessage WatchSubscriber::NextOf(Subscription& subscription) {
  if (!subscription.chunks.empty()) return NextSnapshotChunk(subscription);
  if (unacknowledged_bytes_ >= hub_->limits_.unacknowledged_bytes) return nullptr;
  WatchTopic& topic = *subscription.topic;
  if (!subscription.snapshot_due) {
    if (const auto step = topic.After(subscription.cursor)) {
      subscription.cursor = step->to;
      Count(subscription, step->to, step->message);
      return step->message;
    }
    // Equal: up to date. Anything else: its next delta is not kept any more, or it claims a version
    // that does not exist.
    subscription.snapshot_due = subscription.cursor != topic.HeadVersion();
  }
  if (subscription.snapshot_due) {
    WatchTopic::Snapshot snapshot = topic.TakeSnapshot();
    subscription.snapshot_due = false;
    subscription.cursor = snapshot.version;
    subscription.chunks.assign(snapshot.chunks.begin(), snapshot.chunks.end());
    return NextSnapshotChunk(subscription);
  }
  if (!subscription.progress_due) return nullptr;
  subscription.progress_due = false;
  subscription.last_sent = hub_->clock_->Boot();
  subscription.told_watchers = topic.Watchers();
  return MakeProgress(topic.keyspace(), subscription.cursor, hub_->clock_->Wall(),
                      subscription.told_watchers);
}

WatchMessage WatchSubscriber::NextSnapshotChunk(Subscription& subscription) {
  WatchMessage message = std::move(subscription.chunks.front());
  subscription.chunks.pop_front();
  Count(subscription, subscription.cursor, message);
  return message;
}

void WatchSubscriber::Count(Subscription& subscription, Version version,
                            const WatchMessage& message) {
  subscription.unacknowledged.push_back({version, message->size()});
  unacknowledged_bytes_ += message->size();
  subscription.last_sent = hub_->clock_->Boot();
}

bool WatchSubscriber::MarkIfProgressDue(Instant now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  bool due = false;
  for (auto& [keyspace, subscription] : subscriptions_) {
    const absl::Duration silent = now - subscription.last_sent;
    const bool news = subscription.told_watchers != subscription.topic->Watchers() &&
                      silent >= hub_->limits_.watchers_every;
    if (silent < hub_->limits_.progress_every && !news) continue;
    subscription.progress_due = true;
    due = true;
  }
  return due;
}

void WatchSubscriber::Drop(const std::string& keyspace) {
  const auto found = subscriptions_.find(keyspace);
  if (found == subscriptions_.end()) return;
  for (const Unacknowledged& waiting : found->second.unacknowledged) {
    unacknowledged_bytes_ -= waiting.bytes;
  }
  found->second.topic->Remove(this);
  subscriptions_.erase(found);
}

WatchHub::WatchHub(const Clock* clock, Executor* executor, WatchLimits limits)
    : clock_(clock), executor_(executor), limits_(limits) {}

WatchHub::~WatchHub() = default;

void WatchHub::Open(const Membership::Ptr& head, const std::vector<Delta>& recent) {
  auto topic = std::make_shared<WatchTopic>(head, limits_.deltas, limits_.delta_bytes);
  for (const Delta& delta : recent) topic->Append(delta);
  const std::lock_guard<std::mutex> lock(mutex_);
  topics_[topic->keyspace()] = std::move(topic);
}

void WatchHub::Publish(const Membership::Ptr& head, const Delta& delta) {
  const std::shared_ptr<WatchTopic> topic = Find(head->spec().id);
  if (topic == nullptr) return;
  topic->Append(delta);
  topic->SetHead(head);
  // Writing to thousands of streams takes tens of milliseconds: not on the caller's strand.
  executor_->Post([topic] {
    for (const std::shared_ptr<WatchSubscriber>& subscriber : topic->Subscribers()) {
      subscriber->Wake();
    }
  });
}

absl::StatusOr<std::shared_ptr<WatchSubscriber>> WatchHub::Attach(std::function<void()> wake) {
  auto subscriber = std::make_shared<WatchSubscriber>(this, std::move(wake));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (streams_.size() < limits_.streams) {
      streams_[subscriber.get()] = subscriber;
      return subscriber;
    }
  }
  return absl::ResourceExhaustedError(
      fmt::format("{} watch streams are the limit of this server: use one stream for all keyspaces "
                  "of a process, or another server",
                  limits_.streams));
}

uint32_t WatchHub::Watchers(const std::string& keyspace) const {
  const std::shared_ptr<WatchTopic> topic = Find(keyspace);
  return topic == nullptr ? 0 : topic->Watchers();
}

std::shared_ptr<WatchTopic> WatchHub::Find(const std::string& keyspace) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = topics_.find(keyspace);
  return found == topics_.end() ? nullptr : found->second;
}

void WatchHub::Start() {
  const absl::Duration period = std::min(limits_.watchers_every, limits_.progress_every) / 2;
  executor_->RunAt(clock_->Boot() + period, [this] {
    Tick();
    Start();
  });
}

void WatchHub::Tick() {
  std::vector<std::shared_ptr<WatchSubscriber>> streams;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [key, weak] : streams_) {
      if (std::shared_ptr<WatchSubscriber> stream = weak.lock()) {
        streams.push_back(std::move(stream));
      }
    }
  }
  const Instant now = clock_->Boot();
  for (const std::shared_ptr<WatchSubscriber>& stream : streams) {
    if (stream->MarkIfProgressDue(now)) stream->Wake();
  }
}

}  // namespace warmring
