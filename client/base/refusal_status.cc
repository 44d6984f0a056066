#include <array>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

#include "core/base/reason.h"
#include "warmring/status.h"

namespace warmring {
namespace {

constexpr std::array<std::pair<std::string_view, RefusalReason>, 6> kNames = {{
    {"NOT_OWNER", RefusalReason::kNotOwner},
    {"STALE_EPOCH", RefusalReason::kStaleEpoch},
    {"WRONG_HISTORY", RefusalReason::kWrongHistory},
    {"OWNER_BEHIND", RefusalReason::kOwnerBehind},
    {"FENCING", RefusalReason::kFencing},
    {"NO_LEASE", RefusalReason::kNoLease},
}};

bool IsCuredByRefresh(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kNotOwner:
    case RefusalReason::kStaleEpoch:
    case RefusalReason::kWrongHistory:
      return true;
    case RefusalReason::kOwnerBehind:
    case RefusalReason::kFencing:
    case RefusalReason::kNoLease:
      return false;
  }
  return false;
}

std::string Value(const std::map<std::string, std::string>& metadata, const std::string& name) {
  const auto found = metadata.find(name);
  return found == metadata.end() ? "" : found->second;
}

}  // namespace

std::optional<RefusalInfo> RefusalOf(const absl::Status& status) {
  const std::optional<Reason> reason = ReasonOf(status);
  if (!reason) return std::nullopt;
  for (const auto& [name, value] : kNames) {
    if (name != reason->name) continue;
    RefusalInfo info;
    info.reason = value;
    info.epoch_word = Value(reason->metadata, "epoch");
    info.owner_address = Value(reason->metadata, "owner");
    const std::string version = Value(reason->metadata, "version");
    std::from_chars(version.data(), version.data() + version.size(), info.version.value);
    return info;
  }
  return std::nullopt;
}

absl::Status RefusalStatus(const RefusalInfo& info, std::string message) {
  std::map<std::string, std::string> metadata;
  if (!info.epoch_word.empty()) metadata["epoch"] = info.epoch_word;
  if (!info.owner_address.empty()) metadata["owner"] = info.owner_address;
  metadata["version"] = std::to_string(info.version.value);
  for (const auto& [name, value] : kNames) {
    if (value != info.reason) continue;
    return WithReason(IsCuredByRefresh(value) ? absl::FailedPreconditionError(message)
                                              : absl::UnavailableError(message),
                      name, std::move(metadata));
  }
  return absl::InternalError(message);
}

}  // namespace warmring
