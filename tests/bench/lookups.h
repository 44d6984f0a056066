#pragma once

#include <vector>

#include "tests/bench/stopwatch.h"

// The rows of the speed table: our lookups and those of others, of the same keys.

namespace warmring::bench {

std::vector<Timing> TimeLookups(const Stopwatch::Options& options);

// What it takes to have a table: from node names to sorted ranges to the compiled table.
struct TableCost {
  uint32_t nodes = 0;
  uint32_t tokens_per_node = 0;
  double place_s = 0;    // tokens derived, sorted and owned
  double compile_s = 0;  // and compiled
  double bytes_per_token = 0;
};
TableCost MeasureTable(uint32_t nodes, uint32_t tokens_per_node);

}  // namespace warmring::bench
