#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "tests/crash/ledger.h"
#include "tests/crash/traffic.h"

namespace warmring::crash {

// The client library as the traffic's cache, with the ledger as its origin: one client reads and
// another one writes, as two processes of an application would. Waits until both know where keys
// go.
//
// Errors: those of the client library.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Cache>> StartSdkCache(const std::string& server,
                                                                   const KeyspaceId& keyspace,
                                                                   const Ledger* origin);

}  // namespace warmring::crash
