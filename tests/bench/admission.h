#pragma once

#include <string>
#include <vector>

#include "tests/bench/ownership_part.h"

// What it costs a service that holds keys to ask whether it may: OwnerGuard's check, its steps, and
// beside it the same rule under one lock and a plain map under a reader's lock.

namespace warmring::bench {

struct AdmissionFigure {
  std::string step;
  int threads = 1;
  double ns = 0;  // for one thread to do it once; the median over many short runs
};
std::vector<AdmissionFigure> MeasureAdmission(const PartOptions& options);

// headline: admit_ns (two threads, with the reading of the clock), clock_ns, write_ns,
// admit_mutex_ns; admission: every figure.
void AddAdmission(const PartOptions& options, OwnershipReport& report);

}  // namespace warmring::bench
