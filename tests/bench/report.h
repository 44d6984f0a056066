#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/balance.h"
#include "tests/bench/deltas.h"
#include "tests/bench/lookups.h"

namespace warmring::bench {

struct Results {
  std::vector<Timing> timings;
  std::vector<BalanceRow> balance;
  TableCost table;
  std::vector<DeltaCost> deltas;
};

// For programs: `headline` (a number for each key, or null and why in <key>_reason), `bars`,
// `timings`, `balance`, `table` and `deltas`.
nlohmann::ordered_json ToJson(const Results& results);

// For people: the same as tables.
std::string ToText(const nlohmann::ordered_json& json);

}  // namespace warmring::bench
