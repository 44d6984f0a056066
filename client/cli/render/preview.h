#pragma once

#include <string>

#include "warmring/v1/migration_service.pb.h"

namespace warmring::cli {

// A preview as a person reads it: who gives what, how much moves against the ideal, in which waves,
// and the warnings. `plan` is what was asked for.
std::string RenderPreview(const v1::MigrationPlan& plan, const v1::Preview& preview);

// "11.82%", "3.9 GiB", "34.2 M".
std::string FormatShare(double share);
std::string FormatBytes(uint64_t bytes);
std::string FormatCount(uint64_t count);

}  // namespace warmring::cli
