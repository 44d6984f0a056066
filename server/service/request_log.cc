#include "server/service/request_log.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "server/store/schema/key.h"

namespace warmring {
namespace {

constexpr size_t kMaxParameterBytes = 4096;
const absl::Duration kKept = absl::Hours(24);

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
  request.keyspace = keyspace;
  Mutation& mutation = request.mutation;
  mutation.caller = caller;
  mutation.method = std::string(method);
  mutation.request_id = std::string(request_id);
  mutation.parameters = message.ShortDebugString();
  mutation.body = XXH3_64bits(mutation.parameters.data(), mutation.parameters.size());
  if (mutation.parameters.size() > kMaxParameterBytes) {
    mutation.parameters.resize(kMaxParameterBytes);
    mutation.parameters += "...";
  }
  return request;
}

void RequestLog::LookUp(const Request& request, Executor* reply,
                        std::function<void(absl::StatusOr<Earlier>)> done) {
  const Mutation& mutation = request.mutation;
  if (mutation.request_id.empty()) return reply->Post([done] { done(Earlier()); });
  if (absl::Status bad = ValidateRequestId(mutation.request_id); !bad.ok()) {
    return reply->Post([done, bad = WithReason(bad, "BAD_FIELD")] { done(bad); });
  }
  committer_->Read([mutation, reply, done](Store& store) {
    const auto answer = [&]() -> absl::StatusOr<Earlier> {
      ASSIGN_OR_RETURN(const std::optional<std::string> row, store.Get(RequestKeyOf(mutation)));
      if (!row) return Earlier();
      ASSIGN_OR_RETURN(schema::RequestRecord earlier, schema::DecodeRequest(*row));
      if (earlier.method == mutation.method && earlier.body == mutation.body)
        return Earlier(earlier);
      return WithReason(absl::InvalidArgumentError(fmt::format(
                            "request_id: '{}' was used for another request ({}): give each request "
                            "an id of its own",
                            mutation.request_id, earlier.method)),
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
  return audit_.Rows(request.mutation, request.keyspace, migration, clock_->Wall());
}

}  // namespace warmring
