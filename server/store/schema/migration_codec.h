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

// Where the plan is: pages first, first + 1 and so on. One that is made anew gets pages after those
// of the one before, which hold until the record names the new ones.
struct PlanPages {
  uint64_t first = 0;
  uint64_t count = 0;
  friend bool operator==(const PlanPages&, const PlanPages&) = default;
};

// Everything else, the pages of the plan included. Equal records have equal text.
std::string EncodeMigration(const MigrationRecord& record, const PlanPages& pages);

// Errors as DecodeMigration.
absl::StatusOr<PlanPages> PlanPagesOf(std::string_view migration);

// Errors: DataLoss: damaged. Unimplemented: written in a newer format.
absl::StatusOr<MigrationRecord> DecodeMigration(std::string_view migration, std::string_view plan);

}  // namespace warmring::schema
