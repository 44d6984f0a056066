#include "server/store/memory/memory_store.h"

#include "core/base/status_macros.h"

namespace warmring {

absl::StatusOr<CommitResult> MemoryStore::Commit(const Batch& batch) {
  RETURN_IF_ERROR(batch.Check());
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Batch::Guard& guard : batch.guards()) {
    const auto found = values_.find(guard.key);
    std::optional<std::string> actual;
    if (found != values_.end()) actual = found->second;
    if (actual != guard.value) return CommitResult{false, guard.key, std::move(actual)};
  }
  for (const Batch::Change& change : batch.changes()) {
    if (change.value) {
      values_[change.key] = *change.value;
    } else {
      values_.erase(change.key);
    }
  }
  return CommitResult{};
}

absl::StatusOr<std::optional<std::string>> MemoryStore::Get(std::string_view key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = values_.find(key);
  if (found == values_.end()) return std::optional<std::string>();
  return std::optional<std::string>(found->second);
}

absl::StatusOr<std::vector<KeyValue>> MemoryStore::Scan(std::string_view begin,
                                                        std::string_view end, size_t limit) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<KeyValue> result;
  for (auto at = values_.lower_bound(begin);
       at != values_.end() && at->first < end && result.size() < limit; ++at) {
    result.push_back({at->first, at->second});
  }
  return result;
}

}  // namespace warmring
