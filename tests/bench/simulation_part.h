#pragma once

#include "tests/bench/ownership_part.h"

// What the simulator (tests/sim) finds in so many seeds.

namespace warmring::bench {

// headline: sim_steps, sim_violations, sim_steps_per_minute.
void AddSimulation(const PartOptions& options, OwnershipReport& report);

}  // namespace warmring::bench
