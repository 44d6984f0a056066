#include "server/service/request_log.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "server/store/schema/key.h"

namespace warmring {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;
constexpr size_t kMaxParameterBytes = 4096;
const absl::Duration kKept = absl::Hours(24);

bool IsRequestId(std::string_view id) {
  if (id.size() > kMaxRequestIdBytes) return false;
  for (char c : id) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    if (!plain) return false;
  }
  return true;
}

absl::Status CheckRequestId(std::string_view id) {
  if (IsRequestId(id)) return absl::OkStatus();
  return WithReason(absl::InvalidArgumentError(fmt::format(
                        "request_id: '{}' is not one: use at most {} letters, digits, '-', '_', '.'",
                        Printable(id), kMaxRequestIdBytes)),
                    "BAD_FIELD");
}

}  // namespace

absl::Status RequestLog::Sweep(Store& store, absl::Time now) {
  ASSIGN_OR_RETURN(const std::vector<KeyValue> rows, ScanPrefix(store, schema::RequestsPrefix()));
  for (const KeyValue& row : rows) {
    ASSIGN_OR_RETURN(const schema::RequestRecord record, schema::DecodeRequest(row.value));
    if (now - record.time < kKept) continue;
    Batch batch;
    batch.Delete(row.key);
    RETURN_IF_ERROR(store.Commit(batch).status());
  }
  return absl::OkStatus();
}

RequestLog::Request RequestLog::Describe(const Caller& caller, std::string_view method,
                                         const KeyspaceId& keyspace, std::string_view request_id,
                                         const google::protobuf::Message& message) {
  Request request;
  request.caller = caller;
  request.method = std::string(method);
  request.keyspace = keyspace;
  request.request_id = std::string(request_id);
  request.parameters = message.ShortDebugString();
  request.body = XXH3_64bits(request.parameters.data(), request.parameters.size());
  if (request.parameters.size() > kMaxParameterBytes) {
    request.parameters.resize(kMaxParameterBytes);
    request.parameters += "...";
  }
  return request;
}

void RequestLog::LookUp(const Request& request, Executor* reply,
                        std::function<void(absl::StatusOr<Earlier>)> done) {
  if (request.request_id.empty()) return reply->Post([done] { done(Earlier()); });
  if (absl::Status bad = CheckRequestId(request.request_id); !bad.ok()) {
    return reply->Post([done, bad] { done(bad); });
  }
  committer_->Read([request, reply, done](Store& store) {
    const auto answer = [&]() -> absl::StatusOr<Earlier> {
      ASSIGN_OR_RETURN(
          const std::optional<std::string> row,
          store.Get(schema::RequestKey(request.caller.identity.name, request.request_id)));
      if (!row) return Earlier();
      ASSIGN_OR_RETURN(schema::RequestRecord earlier, schema::DecodeRequest(*row));
      if (earlier.method == request.method && earlier.body == request.body) return Earlier(earlier);
      return WithReason(absl::InvalidArgumentError(fmt::format(
                            "request_id: '{}' was used for another request ({}): give each request "
                            "an id of its own",
                            request.request_id, earlier.method)),
                        "REQUEST_ID_REUSED");
    };
    absl::StatusOr<Earlier> earlier = answer();
    if (absl::IsUnavailable(earlier.status())) {
      earlier = WithReason(earlier.status(), "STORE_UNAVAILABLE");
    }
    reply->Post([done, earlier] { done(earlier); });
  });
}

Batch RequestLog::Rows(const Request& request, const MigrationId& migration) {
  const absl::Time now = clock_->Wall();
  Batch batch;
  if (!request.request_id.empty()) {
    const std::string key =
        schema::RequestKey(request.caller.identity.name, request.request_id);
    batch.RequireAbsent(key);
    batch.Put(key, schema::Encode(schema::RequestRecord{request.method, request.body,
                                                        request.keyspace, migration, now}));
  }
  schema::AuditRecord audit;
  audit.time = now;
  audit.term = term_;
  audit.identity = request.caller.identity.name;
  audit.author = request.caller.author;
  audit.peer = request.caller.peer;
  audit.method = request.method;
  audit.resource = migration.empty() ? request.keyspace : request.keyspace + "/" + migration;
  audit.parameters = request.parameters;
  audit.reason = request.reason;
  batch.Put(schema::AuditKey(now, audit_number_.fetch_add(1)), schema::Encode(audit));
  return batch;
}

}  // namespace warmring
