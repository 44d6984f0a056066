#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/mutant.h"

namespace warmring::sim {

inline const std::vector<std::pair<std::string_view, Mutant>>& Mutants() {
  static const std::vector<std::pair<std::string_view, Mutant>> kMutants = {
      {"A", Mutant::kA}, {"B1", Mutant::kB1}, {"B2", Mutant::kB2}, {"C", Mutant::kC},
      {"D", Mutant::kD}, {"E", Mutant::kE},   {"F", Mutant::kF},   {"G", Mutant::kG},
      {"H", Mutant::kH}, {"I", Mutant::kI},   {"J", Mutant::kJ},   {"K", Mutant::kK},
      {"L", Mutant::kL}, {"N", Mutant::kN},   {"O", Mutant::kO},   {"P", Mutant::kP},
      {"Q", Mutant::kQ}};
  return kMutants;
}

inline std::string MutantNames() {
  std::string names;
  for (const auto& [name, mutant] : Mutants())
    names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

// False for a name that is unknown, or that this build does not have. Empty: none.
inline bool ActivateMutant([[maybe_unused]] std::string_view name) {
#ifdef WARMRING_MUTANTS
  active_mutant = Mutant::kNone;
  for (const auto& [known, mutant] : Mutants()) {
    if (known == name) active_mutant = mutant;
  }
  return name.empty() || active_mutant != Mutant::kNone;
#else
  return name.empty();
#endif
}

}  // namespace warmring::sim
