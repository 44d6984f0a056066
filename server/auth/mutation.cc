#include "server/auth/mutation.h"

#include <algorithm>

#include "core/base/ids.h"
#include "fmt/format.h"
#include "server/store/schema/key.h"
#include "server/store/schema/record.h"

namespace warmring {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;
constexpr size_t kMaxTextBytes = 1024;

}  // namespace

std::string RequestKeyOf(const Mutation& mutation) {
  if (mutation.request_id.empty()) return "";
  return schema::RequestKey(mutation.caller.identity, mutation.request_id);
}

absl::Status ValidateRequestId(const std::string& request_id) {
  const bool ok = request_id.size() <= kMaxRequestIdBytes &&
                  std::all_of(request_id.begin(), request_id.end(),
                              [](char c) { return c > 0x20 && c < 0x7f && c != '/'; });
  if (ok) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("request_id: '{}' is no request id: use up to {} printable ASCII characters "
                  "without spaces and '/'",
                  Printable(request_id), kMaxRequestIdBytes));
}

Batch AuditLog::Rows(const Mutation& mutation, const KeyspaceId& keyspace,
                     const MigrationId& migration, absl::Time now) {
  schema::AuditRecord audit;
  audit.time = now;
  audit.term = term_;
  audit.identity = mutation.caller.identity;
  audit.author = mutation.caller.author;
  audit.peer = mutation.caller.peer;
  audit.method = mutation.method;
  audit.resource = migration.empty()
                       ? fmt::format("keyspaces/{}", keyspace)
                       : fmt::format("keyspaces/{}/migrations/{}", keyspace, migration);
  audit.parameters = Printable(mutation.parameters, kMaxTextBytes);
  audit.reason = Printable(mutation.reason, kMaxTextBytes);
  Batch batch;
  batch.Put(schema::AuditKey(now, next_.fetch_add(1)), schema::Encode(audit));
  if (const std::string key = RequestKeyOf(mutation); !key.empty()) {
    batch.RequireAbsent(key).Put(
        key, schema::Encode(
                 schema::RequestRecord{mutation.method, mutation.body, keyspace, migration, now}));
  }
  return batch;
}

}  // namespace warmring
