#pragma once

#include <string>

#include "core/membership/membership.h"
#include "core/placement/simulation.h"

namespace warmring::cli {

// Who owns how much, beside its share by weight, and how even that is.
std::string RenderBalance(const Membership& membership);

// The hash space as a strip of 72 columns: each shows the node that owns most of it, by a letter
// that the list below explains.
std::string RenderSpace(const Membership& membership);

// What a change would do: shares before and after, what moves, and what it would cost elsewhere.
std::string RenderOutcome(const Membership& before, const SimulatedOutcome& outcome);

}  // namespace warmring::cli
