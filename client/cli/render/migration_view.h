#pragma once

#include <string>

#include "warmring/v1/migration_service.pb.h"

namespace warmring::cli {

// "Warming", "Committing 2/3", "Soaking" ... with its flags: "Committing 1/3 (paused)".
std::string MigrationStateText(const v1::Migration& migration);

// One line per state for logs: RFC 3339 time, state, figures.
std::string MigrationLine(const v1::Migration& migration);

// The full view for a terminal, several lines.
std::string MigrationView(const v1::Migration& migration);

}  // namespace warmring::cli
