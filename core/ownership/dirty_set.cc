#include "core/ownership/dirty_set.h"

#include <algorithm>

namespace warmring {

void DirtySet::Add(std::string_view key) {
  if (!complete_ || keys_.find(key) != keys_.end()) return;
  if (keys_.size() >= max_keys_) {
    MarkIncomplete();
    return;
  }
  order_.push_back(&*keys_.emplace(key).first);
}

void DirtySet::MarkIncomplete() {
  complete_ = false;
  order_.clear();
  keys_.clear();
}

bool DirtySet::MayContain(std::string_view key) const {
  return !complete_ || keys_.find(key) != keys_.end();
}

DirtySet::Page DirtySet::Read(uint64_t cursor, size_t count) const {
  Page page;
  const uint64_t begin = std::min<uint64_t>(cursor, order_.size());
  const uint64_t end = begin + std::min<uint64_t>(count, order_.size() - begin);
  for (uint64_t i = begin; i < end; ++i) page.keys.push_back(*order_[static_cast<size_t>(i)]);
  page.next = end == order_.size() ? 0 : end;
  return page;
}

}  // namespace warmring
