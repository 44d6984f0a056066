#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"
#include "server/auth/authoriser.h"

namespace warmring {

// Every RPC of every service enters here, before anything else is done for it. Any thread.
class Gate {
 public:
  // `authoriser` must outlive the gate.
  explicit Gate(const Authoriser* authoriser) : authoriser_(authoriser) {}

  // `method` is "KeyspaceService/Locate", `keyspace` may be empty. Error: PermissionDenied.
  absl::StatusOr<Caller> Enter(const grpc::ServerContextBase& context, std::string_view method,
                               std::string_view keyspace) const;

 private:
  const Authoriser* const authoriser_;
};

}  // namespace warmring
