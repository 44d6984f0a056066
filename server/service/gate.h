#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"
#include "server/auth/authoriser.h"

namespace warmring {

// Who makes a call, as far as the server knows.
struct Caller {
  Identity identity;
  std::string author;  // what the caller says about itself, escaped; for people, never to decide
  std::string peer;    // its network address
};

// Every RPC of every service enters here, before anything else is done for it. Any thread.
class Gate {
 public:
  // `authoriser` must outlive the gate.
  explicit Gate(const Authoriser* authoriser) : authoriser_(authoriser) {}

  // Error: PermissionDenied.
  absl::StatusOr<Caller> Enter(const grpc::ServerContextBase& context, std::string_view method,
                               std::string_view resource) const;

 private:
  const Authoriser* const authoriser_;
};

}  // namespace warmring
