#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "google/protobuf/message.h"
#include "server/auth/mutation.h"
#include "server/executor/clock.h"
#include "server/service/gate.h"
#include "server/store/committer.h"
#include "server/store/schema/record.h"
#include "server/store/store.h"

namespace warmring {

// What is written beside the effect of every mutation: the audit row, and the row that makes a
// repeat of the same request harmless. Any thread.
class RequestLog {
 public:
  // All must outlive the log.
  RequestLog(Committer* committer, const Clock* clock, Term term)
      : committer_(committer), clock_(clock), audit_(term) {}

  // Drops request rows that are older than a day. Blocks; once, at the start.
  static absl::Status Sweep(Store& store, absl::Time now);

  struct Request {
    Mutation mutation;
    KeyspaceId keyspace;
  };
  // Describes `message` without its request id.
  static Request Describe(const Caller& caller, std::string_view method, const KeyspaceId& keyspace,
                          std::string_view request_id, const google::protobuf::Message& message);

  // Looks the request id up and answers on `reply`: what an earlier request with the same id and
  // body did; or nothing, and it is new. Errors: InvalidArgument for a malformed id, or
  // REQUEST_ID_REUSED; Unavailable STORE_UNAVAILABLE.
  using Earlier = std::optional<schema::RequestRecord>;
  void LookUp(const Request& request, Executor* reply,
              std::function<void(absl::StatusOr<Earlier>)> done);

  // The rows of a new request, to be committed with its effect.
  Batch Rows(const Request& request, const MigrationId& migration);

 private:
  Committer* const committer_;
  const Clock* const clock_;
  AuditLog audit_;
};

}  // namespace warmring
