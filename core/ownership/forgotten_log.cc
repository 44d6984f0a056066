#include "core/ownership/forgotten_log.h"

#include <algorithm>
#include <utility>

namespace warmring {

void ForgottenLog::MakeRoom(size_t bytes) {
  while (bytes_ + bytes > max_bytes_ && !(keys_.empty() && waiting_.empty())) {
    ++dropped_;
    if (!keys_.empty()) {
      bytes_ -= keys_.front().size() + kEntryBytes;
      keys_.pop_front();
      ++first_;
    } else {
      bytes_ -= waiting_.front().key.size() + kEntryBytes;
      waiting_.pop_front();
    }
  }
}

void ForgottenLog::Forward(std::string key) { keys_.push_back(std::move(key)); }

void ForgottenLog::Add(const OwnerView& view, std::string_view key, KeyPoint point) {
  const Move* move = view.MoveOf(point);
  const bool left =
      move != nullptr && move->phase == MovePhase::kGrace && move->from == view.node();
  const bool held = view.Owns(point);
  if (!left && !held) return;
  const size_t bytes = key.size() + kEntryBytes;
  MakeRoom(bytes);
  bytes_ += bytes;
  if (left) {
    Forward(std::string(key));
  } else {
    waiting_.push_back({std::string(key), point.hash, view.membership()->RangeOf(point).epoch});
  }
}

void ForgottenLog::Settle(const OwnerView& view) {
  std::deque<Waiting> waiting;
  for (Waiting& entry : waiting_) {
    // By the rules of today: an override may have come or gone since.
    const KeyPoint point(entry.hash, view.membership()->PointOf(entry.key).plane);
    const Epoch epoch = view.membership()->RangeOf(point).epoch;
    if (epoch != entry.epoch) {
      // Another tenure, of another node or of this one again: the key may have come back with it.
      Forward(std::move(entry.key));
    } else if (epoch <= view.FloorOf(point)) {
      waiting.push_back(std::move(entry));
    } else {
      bytes_ -= entry.key.size() + kEntryBytes;
    }
  }
  waiting_ = std::move(waiting);
}

ForgottenLog::Page ForgottenLog::Read(uint64_t cursor, size_t count) {
  const uint64_t end = first_ + keys_.size() - 1;
  if (cursor > end) cursor = 0;
  while (first_ <= cursor) {
    bytes_ -= keys_.front().size() + kEntryBytes;
    keys_.pop_front();
    ++first_;
  }
  Page page;
  const size_t size = std::min(count, keys_.size());
  page.next = first_ - 1 + size;
  page.keys.assign(keys_.begin(), keys_.begin() + static_cast<std::ptrdiff_t>(size));
  return page;
}

}  // namespace warmring
