#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "server/store/store.h"

namespace warmring {

// A store that forgets: for tests, and the reference that the others are compared with. Any thread.
class MemoryStore final : public Store {
 public:
  absl::StatusOr<CommitResult> Commit(const Batch& batch) override;
  absl::StatusOr<std::optional<std::string>> Get(std::string_view key) override;
  absl::StatusOr<std::vector<KeyValue>> Scan(std::string_view begin, std::string_view end,
                                             size_t limit) override;

 private:
  std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> values_;  // guarded by mutex_
};

}  // namespace warmring
