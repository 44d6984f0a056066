#include "server/store/schema/key.h"

#include <algorithm>

#include "fmt/format.h"

namespace warmring::schema {

std::string FormatKey() { return "meta/format"; }
std::string HistoryKey() { return "history"; }
std::string TermKey() { return "term"; }
std::string KeyspacesPrefix() { return "ks/"; }

std::string SpecKey(std::string_view keyspace) { return fmt::format("ks/{}/spec", keyspace); }
std::string HeadKey(std::string_view keyspace) { return fmt::format("ks/{}/head", keyspace); }

std::string DeltaKey(std::string_view keyspace, Version version) {
  return fmt::format("ks/{}/delta/{:020}", keyspace, version.value);
}

std::string PageKey(std::string_view keyspace, Version version, uint64_t page) {
  return fmt::format("ks/{}/page/{:020}/{:020}", keyspace, version.value, page);
}

std::string MigrationsPrefix(std::string_view keyspace) { return fmt::format("mig/{}/", keyspace); }

std::string MigrationKey(std::string_view keyspace, std::string_view migration) {
  return fmt::format("mig/{}/{}", keyspace, migration);
}

std::string PlanPageKey(std::string_view keyspace, std::string_view migration, uint64_t page) {
  return fmt::format("plan/{}/{}/{:020}", keyspace, migration, page);
}

std::string SessionsPrefix(std::string_view keyspace) { return fmt::format("sess/{}/", keyspace); }

std::string SessionKey(std::string_view keyspace, std::string_view node) {
  return fmt::format("sess/{}/{}", keyspace, node);
}

std::string RequestsPrefix() { return "req/"; }

std::string RequestKey(std::string_view principal, std::string_view id) {
  return fmt::format("req/{}/{}", principal, id);
}

std::string AuditKey(absl::Time time, uint64_t number) {
  const int64_t nanos = std::max<int64_t>(0, absl::ToUnixNanos(time));
  return fmt::format("audit/{:020}/{:020}", nanos, number);
}

}  // namespace warmring::schema
