#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "migrations/migration_record.h"
#include "server/store/schema/migration_codec.h"
#include "server/store/store.h"

// How migrations stand in the store: batches that write them, and reading them all back.

namespace warmring::migration_book {

// A new migration, ready to be written: its plan in pages first, then the record.
struct NewEntry {
  std::vector<Batch> before;
  Batch batch;  // requires that the id is new
  schema::PlanPages pages;
  std::string stored;  // the record's text: guards the next persist
};
NewEntry Create(const KeyspaceId& keyspace, const MigrationRecord& record);

// A migration whose plan was made anew: likewise, but that it replaces what is stored. The pages
// before go with the batch, as far as they fit in; what is left of them is never read.
NewEntry Replace(const KeyspaceId& keyspace, const MigrationRecord& record,
                 const schema::PlanPages& pages, const std::string& stored);

struct Entry {
  MigrationRecord record;
  schema::PlanPages pages;
  std::string stored;
};
// Every migration of a keyspace, by id. Blocks. Errors: those of the store; DataLoss, Unimplemented
// as schema::DecodeMigration, naming the migration.
absl::StatusOr<std::vector<Entry>> Load(Store& store, const KeyspaceId& keyspace);

}  // namespace warmring::migration_book
