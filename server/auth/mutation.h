#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "core/base/ids.h"
#include "server/auth/authoriser.h"
#include "server/store/store.h"

namespace warmring {

// A request that changes something: who, what, and how a repeat of it is known. Plain value.
struct Mutation {
  Caller caller;
  std::string method;      // "KeyspaceService/CreateKeyspace"
  std::string request_id;  // empty: none
  uint64_t body = 0;       // XXH3_64 of the request
  std::string parameters;  // what was asked for, in a few words
  std::string reason;
};

// The store key that remembers the mutation's request id, or "" without one.
std::string RequestKeyOf(const Mutation& mutation);

// Ok, or InvalidArgument: a request id is 1 to 128 printable ASCII characters without '/'.
absl::Status ValidateRequestId(const std::string& request_id);

// Turns mutations into the rows that go into the transaction of their effect. Any thread.
class AuditLog {
 public:
  explicit AuditLog(Term term) : term_(term) {}

  // The audit row and, when there is a request id, what it stands for (guarded to be new).
  Batch Rows(const Mutation& mutation, const KeyspaceId& keyspace, const MigrationId& migration,
             absl::Time now);

 private:
  const Term term_;
  std::atomic<uint64_t> next_{0};
};

}  // namespace warmring
