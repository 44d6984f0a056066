#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "core/membership/membership.h"
#include "core/membership/update.h"

namespace warmring {

// A serialised WatchMembershipResponse, shared by all streams that send it.
using WatchMessage = std::shared_ptr<const std::string>;

// The membership in chunks of at most 1 MiB each.
std::vector<WatchMessage> MakeSnapshot(const Membership& membership);
WatchMessage MakeDelta(std::string_view keyspace, const Delta& delta);
WatchMessage MakeProgress(std::string_view keyspace, Version version, absl::Time server_time,
                          uint32_t watchers);
WatchMessage MakeWatchError(std::string_view keyspace, std::string_view reason,
                            std::string_view message);

}  // namespace warmring
