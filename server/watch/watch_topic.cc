#include "server/watch/watch_topic.h"

#include <algorithm>
#include <utility>

namespace warmring {

WatchTopic::WatchTopic(Membership::Ptr head, size_t max_deltas, size_t max_bytes)
    : keyspace_(head->spec().id),
      max_deltas_(max_deltas),
      max_bytes_(max_bytes),
      head_(std::move(head)) {}

std::string WatchTopic::History() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return head_->history().ToString();
}

Version WatchTopic::HeadVersion() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return head_->version();
}

void WatchTopic::Append(const Delta& delta) {
  WatchMessage message = MakeDelta(keyspace_, delta);
  const std::lock_guard<std::mutex> lock(mutex_);
  bytes_ += message->size();
  deltas_.push_back({delta.from, delta.to, std::move(message)});
  while (deltas_.size() > max_deltas_ || (bytes_ > max_bytes_ && deltas_.size() > 1)) {
    bytes_ -= deltas_.front().message->size();
    deltas_.pop_front();
  }
}

void WatchTopic::SetHead(Membership::Ptr head) {
  const std::lock_guard<std::mutex> lock(mutex_);
  head_ = std::move(head);
  snapshot_.reset();
}

std::optional<WatchTopic::Step> WatchTopic::After(Version from) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (deltas_.empty() || from < deltas_.front().from) return std::nullopt;
  const uint64_t index = from.value - deltas_.front().from.value;
  if (index >= deltas_.size()) return std::nullopt;
  const Kept& kept = deltas_[static_cast<size_t>(index)];
  return Step{kept.to, kept.message};
}

WatchTopic::Snapshot WatchTopic::TakeSnapshot() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!snapshot_) snapshot_ = Snapshot{head_->version(), MakeSnapshot(*head_)};
  return *snapshot_;
}

void WatchTopic::Add(const std::shared_ptr<WatchSubscriber>& subscriber, bool observer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  listeners_[subscriber.get()] = {subscriber, observer};
}

void WatchTopic::Remove(WatchSubscriber* subscriber) {
  const std::lock_guard<std::mutex> lock(mutex_);
  listeners_.erase(subscriber);
}

uint32_t WatchTopic::Watchers() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<uint32_t>(
      std::count_if(listeners_.begin(), listeners_.end(),
                    [](const auto& entry) { return !entry.second.observer; }));
}

std::vector<std::shared_ptr<WatchSubscriber>> WatchTopic::Subscribers() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<WatchSubscriber>> all;
  for (const auto& [key, listener] : listeners_) {
    if (std::shared_ptr<WatchSubscriber> subscriber = listener.subscriber.lock()) {
      all.push_back(std::move(subscriber));
    }
  }
  return all;
}

}  // namespace warmring
