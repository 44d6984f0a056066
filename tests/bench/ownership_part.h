#pragma once

#include <nlohmann/json.hpp>

// What ownership_bench is made of: parts, each in files of its own, that add to one report.

namespace warmring::bench {

struct PartOptions {
  int cpu = 0;         // thread i of a tight loop runs on the allowed processor cpu + i
  bool quick = false;  // proves that it runs; the numbers mean nothing
};

// `headline`: a number for each key of the part, or null and why in <key>_reason. What else the
// part has to tell is under its own name.
using OwnershipReport = nlohmann::ordered_json;
using OwnershipPart = void (*)(const PartOptions& options, OwnershipReport& report);

}  // namespace warmring::bench
