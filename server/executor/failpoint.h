#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

// Named points at which a test can kill, stop or fail the process:
//
//   WARMRING_FAILPOINTS="p5.after=exit;p6.before=stop;store.write=error@3;p2.after=sleep(200)"
//
// Actions: exit ends the process at once with code 137, as kill -9 would; stop suspends it
// (SIGSTOP); error makes WARMRING_FP_STATUS return an error; sleep(milliseconds) holds up the
// thread.
// @n: only at the nth time the point is
// reached (default: the first time; the action then is over). The first time that each point is
// reached is written to the log, so that a test can tell that it was. Without the build option
// WARMRING_FAILPOINTS the macros are nothing. Any thread.

#ifdef WARMRING_FAILPOINTS
#define WARMRING_FP(name) static_cast<void>(::warmring::failpoint::Hit(name))
#define WARMRING_FP_STATUS(name) ::warmring::failpoint::Hit(name)
#define WARMRING_FP_SCOPE(name) const ::warmring::failpoint::Scope failpoint_scope(name)
#define WARMRING_FP_IN_SCOPE(point) ::warmring::failpoint::HitInScope(point)
#else
#define WARMRING_FP(name) static_cast<void>(0)
#define WARMRING_FP_SCOPE(name) static_cast<void>(0)
#define WARMRING_FP_IN_SCOPE(point) static_cast<void>(0)
#define WARMRING_FP_STATUS(name) ::absl::OkStatus()
#endif

namespace warmring::failpoint {

// Replaces what is configured. Error: InvalidArgument naming the part that is malformed, or saying
// that this build has no failpoints.
absl::Status Configure(std::string_view text);

// From the environment variable WARMRING_FAILPOINTS; unset or empty is none. Errors as above.
absl::Status ConfigureFromEnvironment();

// The point `name` is reached. Unknown for the action error, else ok.
absl::Status Hit(std::string_view name);

// Names what this thread is doing, for points in code that does it for many: within the scope
// HitInScope("partial") is Hit("<scope>.partial"), outside of any it is nothing.
class Scope {
 public:
  explicit Scope(std::string_view name);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};
void HitInScope(std::string_view point);

}  // namespace warmring::failpoint
