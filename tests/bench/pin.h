#pragma once

#include <sched.h>

#include <cstddef>
#include <vector>

namespace warmring::bench {

// The calling thread runs on the allowed processor `index` modulo their number from now on.
inline void Pin(int index) {
  static const cpu_set_t allowed = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    return set;
  }();
  std::vector<size_t> cpus;
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  }
  if (cpus.empty()) return;
  cpu_set_t mine;
  CPU_ZERO(&mine);
  CPU_SET(cpus[static_cast<size_t>(index) % cpus.size()], &mine);
  sched_setaffinity(0, sizeof mine, &mine);
}

}  // namespace warmring::bench
