#include "core/ownership/change_log.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

namespace warmring {
namespace {

// Entries of other transfers that one Read may pass over for each key that it is asked for.
constexpr size_t kLookedAtPerKey = 64;

}  // namespace

ChangeLog::ChangeLog(const Incarnation& incarnation, size_t max_bytes)
    : incarnation_(incarnation), max_bytes_(max_bytes) {
  NewId();
}

void ChangeLog::NewId() { id_ = fmt::format("{}.{}", incarnation_.ToString(), losses_); }

absl::StatusOr<uint64_t> ChangeLog::Track(const Id128& nonce, const HashRangeSet& ranges) {
  const auto found = transfers_.find(nonce);
  if (found != transfers_.end()) {
    if (found->second.ranges == ranges) return found->second.acknowledged;
    return absl::FailedPreconditionError(
        fmt::format("nonce: {} is tracked with other ranges: use a new nonce", nonce.ToString()));
  }
  if (transfers_.size() >= kMaxTransfers) {
    return absl::ResourceExhaustedError(
        fmt::format("{} transfers are tracked, no more are possible: untrack one", kMaxTransfers));
  }
  transfers_[nonce] = {ranges, end()};
  return end();
}

bool ChangeLog::Untrack(const Id128& nonce) {
  if (transfers_.erase(nonce) == 0) return false;
  // What changes from here on is not noted for it. Whoever copies by it and does not know yet that
  // it is over has read up to here at most, and must not seem to have read everything: so the end
  // moves on, by an entry that is in nobody's ranges.
  AddEntry("", KeyPoint(0, kNoPlane));
  Trim();
  return true;
}

bool ChangeLog::Tracks(KeyPoint point) const {
  return std::any_of(transfers_.begin(), transfers_.end(),
                     [&](const auto& item) { return item.second.ranges.Contains(point); });
}

const HashRangeSet* ChangeLog::RangesOf(const Id128& nonce) const {
  const auto found = transfers_.find(nonce);
  return found == transfers_.end() ? nullptr : &found->second.ranges;
}

void ChangeLog::Append(std::string_view key, KeyPoint point) {
  if (Tracks(point)) AddEntry(key, point);
}

void ChangeLog::AddEntry(std::string_view key, KeyPoint point) {
  const size_t bytes = key.size() + kEntryBytes;
  if (bytes > max_bytes_ - bytes_) {
    Lose(fmt::format("the change log is over its {} bytes", max_bytes_));
    return;
  }
  entries_.push_back({std::string(key), point});
  bytes_ += bytes;
}

void ChangeLog::Lose(std::string_view reason) {
  // The entry that could not be kept has a position too: nobody may think to have read it.
  first_ = end() + 2;
  entries_.clear();
  bytes_ = 0;
  transfers_.clear();
  lost_why_ = reason;
  ++losses_;
  NewId();
}

void ChangeLog::Trim() {
  uint64_t acknowledged = end();
  for (const auto& [nonce, transfer] : transfers_) {
    acknowledged = std::min(acknowledged, transfer.acknowledged);
  }
  while (first_ <= acknowledged) {
    bytes_ -= entries_.front().key.size() + kEntryBytes;
    entries_.pop_front();
    ++first_;
  }
}

absl::StatusOr<ChangeLog::Page> ChangeLog::Read(const Id128& nonce, std::string_view id,
                                                uint64_t cursor, uint64_t ack, size_t count) {
  if (id != id_) {
    return absl::FailedPreconditionError(
        fmt::format("the log is {} now{}{}", id_, lost_why_.empty() ? "" : ": ", lost_why_));
  }
  const auto found = transfers_.find(nonce);
  if (found == transfers_.end()) {
    return absl::FailedPreconditionError(
        fmt::format("the transfer {} is not tracked", nonce.ToString()));
  }
  Transfer& transfer = found->second;
  if (cursor < transfer.acknowledged || cursor > end()) {
    return absl::FailedPreconditionError(fmt::format(
        "cursor {} is not in the log, which holds {} to {}", cursor, transfer.acknowledged, end()));
  }
  if (ack > cursor) {
    return absl::InvalidArgumentError(
        fmt::format("ack: {} is beyond the cursor {}: acknowledge what was applied", ack, cursor));
  }
  transfer.acknowledged = std::max(transfer.acknowledged, ack);
  Trim();

  Page page;
  page.next = cursor;
  std::unordered_set<std::string_view> seen;
  const uint64_t last =
      end() - cursor > count * kLookedAtPerKey ? cursor + count * kLookedAtPerKey : end();
  while (page.next < last && page.keys.size() < count) {
    ++page.next;
    const Entry& entry = entries_[static_cast<size_t>(page.next - first_)];
    if (!transfer.ranges.Contains(entry.point) || !seen.insert(entry.key).second) continue;
    page.keys.push_back(entry.key);
  }
  return page;
}

}  // namespace warmring
