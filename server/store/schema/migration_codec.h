#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "migrations/migration_record.h"

// A migration in the store, in two parts: what was submitted and previewed is written once, in
// pages, because its ranges may take megabytes; what changes is small and is rewritten at each
// persist. JSON, with a format number. Pure, any thread.

namespace warmring::schema {

inline constexpr uint32_t kMigrationFormat = 1;

// The plan and the preview.
std::string EncodePlan(const MigrationRecord& record);

// Everything else, the number of pages of the plan included. Equal records have equal text.
std::string EncodeMigration(const MigrationRecord& record, uint64_t plan_pages);

// How many pages the plan has. Errors as DecodeMigration.
absl::StatusOr<uint64_t> PlanPagesOf(std::string_view migration);

// Errors: DataLoss: damaged. Unimplemented: written in a newer format.
absl::StatusOr<MigrationRecord> DecodeMigration(std::string_view migration, std::string_view plan);

}  // namespace warmring::schema
