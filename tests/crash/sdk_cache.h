#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "tests/crash/ledger.h"
#include "tests/crash/traffic.h"

namespace warmring::crash {

// The client library as the traffic's cache: one client for all threads, with the ledger as its
// origin. Waits until it knows where keys go.
//
// Errors: those of the client library.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Cache>> StartSdkCache(const std::string& server,
                                                                   const KeyspaceId& keyspace,
                                                                   const Ledger* origin);

}  // namespace warmring::crash
