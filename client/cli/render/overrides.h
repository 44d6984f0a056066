#pragma once

#include <string>

#include "warmring/v1/membership.pb.h"
#include "warmring/v1/migration_service.pb.h"

namespace warmring::cli {

// "prefix 'tenant-7:'", with what cannot be printed escaped.
std::string FormatRule(const v1::OverrideRule& rule);

// What a plan does to overrides, a line for each, and what moves for it.
std::string RenderOverrideChanges(const v1::Preview& preview);

// The overrides of a membership, a row for each.
std::string RenderOverrides(const v1::Membership& membership);

}  // namespace warmring::cli
