#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace warmring::cli {

// Reads a YAML text into a protobuf message through the message's descriptor: the proto is the one
// schema. Keys are the fields' JSON or proto names. Beyond plain scalars, Duration fields take
// "45m", fields that end in _per_second take "80MiB/s" or "5000/s", floating-point fields take
// "10%". A top-level `apiVersion: warmring.io/v1` and `kind: <message name>` are allowed.
// Error: InvalidArgument "FILE:LINE:COLUMN: path: what, the value, a way out" for an unknown key
// (with the nearest known one), a wrong type, a duplicate key, or a text that is not YAML or larger
// than 1 MiB.
absl::Status ParseYaml(std::string_view file_name, const std::string& text,
                       google::protobuf::Message* message);

}  // namespace warmring::cli
