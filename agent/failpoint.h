#pragma once

// Named points where a test stops, kills or slows this process. Compiled in only with
// WARMRING_FAILPOINTS; which of them act is said by the environment variable of the same name:
//
//   WARMRING_FAILPOINTS="fence.after=exit;apply.batch=3*exit;purge.batch=sleep(200)"
//
// Actions: off, exit (as by kill -9: code 137, nothing is flushed), abort, sleep(milliseconds);
// `n*` in front acts on the n-th hit only.

#ifdef WARMRING_FAILPOINTS
#include "agent/failpoint_table.h"
#define WARMRING_FP(name) ::warmring::HitFailpoint(name)
#else
#define WARMRING_FP(name) static_cast<void>(0)
#endif
