#pragma once

// Named points where a test stops, kills or slows an agent or a process that uses the client
// library. Compiled in only with WARMRING_FAILPOINTS; which of them act is said by the environment
// variable of the same name, in the words of the server's:
//
//   WARMRING_FAILPOINTS="fence.after=exit;apply.batch=stop@3;purge.batch=sleep(200)"
//
// Actions: exit ends the process at once with code 137, as kill -9 would; stop suspends it
// (SIGSTOP); sleep(milliseconds) holds up the thread. @n: only at the nth time that the point is
// reached (default: the first time). The first time that each point is reached, its name is
// appended to the file that WARMRING_FAILPOINT_LOG names, if it names one.

#ifdef WARMRING_FAILPOINTS
#include "client/base/failpoint_table.h"
#define WARMRING_FP(name) ::warmring::HitFailpoint(name)
#else
#define WARMRING_FP(name) static_cast<void>(0)
#endif
