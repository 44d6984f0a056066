#include "server/conductor/migration_book.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/status_macros.h"
#include "server/store/schema/key.h"
#include "server/store/schema/migration_codec.h"

namespace warmring::migration_book {
namespace {

// Pages of 64 KiB: well inside a batch's 1 MiB together with their keys.
constexpr size_t kPagesPerBatch = 12;
// Leaves room in the batch for what else is in it.
constexpr uint64_t kDeletedPages = 64;

absl::StatusOr<std::string> ReadPlan(Store& store, const KeyspaceId& keyspace,
                                     const MigrationId& id, const schema::PlanPages& pages) {
  std::string plan;
  for (uint64_t page = pages.first; page < pages.first + pages.count; ++page) {
    ASSIGN_OR_RETURN(std::optional<std::string> text,
                     store.Get(schema::PlanPageKey(keyspace, id, page)));
    if (!text) {
      return absl::DataLossError(
          fmt::format("migration '{}': page {} of its plan is missing: "
                      "restore the store from a copy",
                      id, page));
    }
    plan += *text;
  }
  return plan;
}

// The plan in pages from `first` on, and the text of the record that names them.
NewEntry WithPlanFrom(const KeyspaceId& keyspace, const MigrationRecord& record, uint64_t first) {
  NewEntry entry;
  entry.pages.first = first;
  const std::string plan = schema::EncodePlan(record);
  for (size_t at = 0; at < plan.size(); at += schema::kPageBytes) {
    if (entry.pages.count % kPagesPerBatch == 0) entry.before.emplace_back();
    entry.before.back().Put(schema::PlanPageKey(keyspace, record.id, first + entry.pages.count),
                            plan.substr(at, schema::kPageBytes));
    ++entry.pages.count;
  }
  entry.stored = schema::EncodeMigration(record, entry.pages);
  return entry;
}

}  // namespace

NewEntry Create(const KeyspaceId& keyspace, const MigrationRecord& record) {
  NewEntry entry = WithPlanFrom(keyspace, record, 0);
  const std::string key = schema::MigrationKey(keyspace, record.id);
  entry.batch.RequireAbsent(key);
  entry.batch.Put(key, entry.stored);
  return entry;
}

NewEntry Replace(const KeyspaceId& keyspace, const MigrationRecord& record,
                 const schema::PlanPages& pages, const std::string& stored) {
  NewEntry entry = WithPlanFrom(keyspace, record, pages.first + pages.count);
  const std::string key = schema::MigrationKey(keyspace, record.id);
  entry.batch.RequireValue(key, stored);
  entry.batch.Put(key, entry.stored);
  for (uint64_t page = 0; page < std::min(pages.count, kDeletedPages); ++page) {
    entry.batch.Delete(schema::PlanPageKey(keyspace, record.id, pages.first + page));
  }
  return entry;
}

absl::StatusOr<std::vector<Entry>> Load(Store& store, const KeyspaceId& keyspace) {
  ASSIGN_OR_RETURN(const std::vector<KeyValue> rows,
                   ScanPrefix(store, schema::MigrationsPrefix(keyspace)));
  std::vector<Entry> entries;
  for (const KeyValue& row : rows) {
    Entry entry;
    entry.stored = row.value;
    ASSIGN_OR_RETURN(entry.pages, schema::PlanPagesOf(row.value));
    const MigrationId id = row.key.substr(schema::MigrationsPrefix(keyspace).size());
    ASSIGN_OR_RETURN(const std::string plan, ReadPlan(store, keyspace, id, entry.pages));
    ASSIGN_OR_RETURN(entry.record, schema::DecodeMigration(row.value, plan));
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace warmring::migration_book
