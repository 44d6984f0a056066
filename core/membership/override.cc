#include "core/membership/override.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include "absl/strings/string_view.h"

namespace warmring {
std::string OverrideRule::ToString() const {
  return fmt::format("{} '{}'", match == Match::kKey ? "key" : "prefix", Printable(bytes));
}

absl::Status ValidateOverrideRule(std::string_view field, const OverrideRule& rule) {
  if (rule.match != OverrideRule::Match::kKey && rule.match != OverrideRule::Match::kPrefix) {
    return absl::InvalidArgumentError(
        fmt::format("{}.match: {} is unknown: use key (1) or prefix (2)", field,
                    static_cast<uint32_t>(rule.match)));
  }
  if (rule.bytes.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: it is empty, and would match {}: name at least one byte", field,
                    rule.match == OverrideRule::Match::kKey ? "no key" : "every key"));
  }
  if (rule.bytes.size() > OverrideRule::kMaxBytes) {
    return absl::InvalidArgumentError(fmt::format("{}: {} bytes are over the limit of {}", field,
                                                  rule.bytes.size(), OverrideRule::kMaxBytes));
  }
  return absl::OkStatus();
}

OverrideTable::OverrideTable(const std::vector<Override>& overrides) {
  for (size_t i = 0; i < overrides.size(); ++i) {
    const OverrideRule& rule = overrides[i].rule;
    const bool is_key = rule.match == OverrideRule::Match::kKey;
    (is_key ? keys_ : prefixes_).emplace(rule.bytes, i);
    if (!is_key) lengths_.push_back(rule.bytes.size());
  }
  std::sort(lengths_.begin(), lengths_.end(), std::greater<>());
  lengths_.erase(std::unique(lengths_.begin(), lengths_.end()), lengths_.end());
  for (const Override& item : overrides) {
    const bool is_key = item.rule.match == OverrideRule::Match::kKey;
    parents_.push_back(FindPrefix(item.rule.bytes, is_key ? SIZE_MAX : item.rule.bytes.size()));
  }
}

// The longest prefix that is shorter than `below`.
size_t OverrideTable::FindPrefix(std::string_view key, size_t below) const {
  for (const size_t length : lengths_) {
    if (length >= below || length > key.size()) continue;
    const auto found = prefixes_.find(absl::string_view(key.data(), length));
    if (found != prefixes_.end()) return found->second;
  }
  return kNone;
}

size_t OverrideTable::Find(std::string_view key) const {
  const auto found = keys_.find(absl::string_view(key.data(), key.size()));
  return found != keys_.end() ? found->second : FindPrefix(key, SIZE_MAX);
}

}  // namespace warmring
