#include "server/store/store.h"

#include <iterator>
#include <utility>

#include "core/base/status_macros.h"
#include "fmt/format.h"

namespace warmring {

Batch& Batch::RequireAbsent(std::string key) {
  bytes_ += key.size();
  guards_.push_back({std::move(key), std::nullopt});
  return *this;
}

Batch& Batch::RequireValue(std::string key, std::string value) {
  bytes_ += key.size() + value.size();
  guards_.push_back({std::move(key), std::move(value)});
  return *this;
}

Batch& Batch::Put(std::string key, std::string value) {
  bytes_ += key.size() + value.size();
  changes_.push_back({std::move(key), std::move(value)});
  return *this;
}

Batch& Batch::Delete(std::string key) {
  bytes_ += key.size();
  changes_.push_back({std::move(key), std::nullopt});
  return *this;
}

Batch& Batch::Append(Batch other) {
  std::move(other.guards_.begin(), other.guards_.end(), std::back_inserter(guards_));
  std::move(other.changes_.begin(), other.changes_.end(), std::back_inserter(changes_));
  bytes_ += other.bytes_;
  return *this;
}

absl::Status Batch::Check() const {
  const size_t operations = guards_.size() + changes_.size();
  if (operations > kMaxOperations) {
    return absl::InvalidArgumentError(
        fmt::format("batch: {} operations are over the limit of {}", operations, kMaxOperations));
  }
  if (bytes_ > kMaxBytes) {
    return absl::InvalidArgumentError(
        fmt::format("batch: {} bytes are over the limit of {}", bytes_, kMaxBytes));
  }
  for (const Guard& guard : guards_) {
    if (guard.key.empty()) return absl::InvalidArgumentError("batch: a guard has no key");
  }
  for (const Change& change : changes_) {
    if (change.key.empty()) return absl::InvalidArgumentError("batch: a change has no key");
  }
  return absl::OkStatus();
}

std::string PrefixEnd(std::string_view prefix) {
  std::string end(prefix);
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

absl::StatusOr<std::vector<KeyValue>> ScanPrefix(Store& store, std::string_view prefix) {
  constexpr size_t kPage = 256;
  std::vector<KeyValue> all;
  std::string begin(prefix);
  const std::string end = PrefixEnd(prefix);
  while (true) {
    ASSIGN_OR_RETURN(std::vector<KeyValue> page, store.Scan(begin, end, kPage));
    const bool last = page.size() < kPage;
    if (!last) begin = page.back().key + '\0';
    std::move(page.begin(), page.end(), std::back_inserter(all));
    if (last) return all;
  }
}

}  // namespace warmring
