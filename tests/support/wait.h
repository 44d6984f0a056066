#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace warmring::support {

// How long a test waits for a real process before it gives up. It is an upper bound for a loaded
// machine under sanitizers, not an expected time.
inline constexpr absl::Duration kDefaultWait = absl::Seconds(30);

// Waits until `predicate` is true and looks again every few milliseconds. This is the one place in
// the tests that sleeps: every other wait is a condition passed to this function.
//
// Thread rule: any thread; the predicate runs on the caller's thread.
// REQUIRES: `within` >= 0. The predicate is asked at least once.
// Errors: DeadlineExceeded naming `what` if the predicate stayed false for `within`, measured on
// the monotonic clock.
[[nodiscard]] absl::Status WaitFor(const std::string& what, absl::Duration within,
                                   const std::function<bool()>& predicate);

// The same for a condition that can say why it does not hold yet: waits until `attempt` answers OK.
//
// Errors: DeadlineExceeded naming `what` and the last answer of `attempt`.
[[nodiscard]] absl::Status WaitUntilOk(const std::string& what, absl::Duration within,
                                       const std::function<absl::Status()>& attempt);

}  // namespace warmring::support
