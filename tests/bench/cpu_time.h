#pragma once

#include <ctime>

namespace warmring::bench {

// Processor time of this thread, which another process on this machine does not stretch.
inline double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace warmring::bench
