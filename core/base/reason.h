#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace warmring {

// What a program needs to act on an error: the name of an ErrorReason without its prefix
// ("VERSION_MISMATCH") and the values that belong to it. It travels inside the absl::Status as a
// payload, and on the wire as ErrorInfo (proto/wire/status.h).
struct Reason {
  std::string name;
  std::map<std::string, std::string> metadata;
  friend bool operator==(const Reason&, const Reason&) = default;
};

// `status` with this reason in place of any earlier one. An ok status stays as it is. Pure, any
// thread, like the functions below.
[[nodiscard]] absl::Status WithReason(absl::Status status, std::string_view name,
                                      std::map<std::string, std::string> metadata = {});

// The reason, if the status carries one that is whole.
std::optional<Reason> ReasonOf(const absl::Status& status);

// Its name, or "".
std::string ReasonNameOf(const absl::Status& status);

}  // namespace warmring
