#pragma once

#include <string_view>

// Named points where a test ends the Redis that has loaded this module:
//
//   WARMRING_FAILPOINTS="module.write.done=exit@3;module.fence.raised=exit"
//
// exit ends the process at once with code 137, as kill -9 would; @n: only at the nth time that the
// point is reached (default: the first time). What the module does is one thing to everybody else,
// so there is nothing to stop or to slow down. The first time that each point is reached, its name
// is appended to the file that WARMRING_FAILPOINT_LOG names, if it names one. Without the build
// option WARMRING_FAILPOINTS the macro is nothing.

#ifdef WARMRING_FAILPOINTS
#define WARMRING_FP(name) ::warmring::HitModuleFailpoint(name)
#else
#define WARMRING_FP(name) static_cast<void>(0)
#endif

namespace warmring {

// The point `name` is reached. On the thread of Redis.
void HitModuleFailpoint(std::string_view name);

}  // namespace warmring
