#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "warmring/v1/membership.pb.h"

namespace warmring::cli {

// "cache-01=127.0.0.1:7001" or "cache-01=127.0.0.1:7001,weight=2,zone=eu-1a" as a node.
// Error: InvalidArgument naming the flag, the value and the form.
absl::StatusOr<v1::Node> ParseNodeFlag(const std::string& flag, const std::string& text);

}  // namespace warmring::cli
