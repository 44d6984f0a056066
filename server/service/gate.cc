#include "server/service/gate.h"

#include "core/base/ids.h"
#include "core/base/reason.h"

namespace warmring {
namespace {

constexpr char kAuthorKey[] = "x-warmring-author";

// Without TLS there is one identity, which only the open policy lets in.
constexpr char kPlaintextIdentity[] = "dev";

}  // namespace

absl::StatusOr<Caller> Gate::Enter(const grpc::ServerContextBase& context, std::string_view method,
                                   std::string_view keyspace) const {
  Caller caller;
  caller.identity = kPlaintextIdentity;
  caller.peer = context.peer();
  const auto& metadata = context.client_metadata();
  if (const auto it = metadata.find(kAuthorKey); it != metadata.end()) {
    caller.author = Printable(std::string_view(it->second.data(), it->second.size()), 64);
  }
  const absl::Status allowed = authoriser_->Check(caller, method, keyspace);
  if (!allowed.ok()) return WithReason(allowed, "NOT_ALLOWED");
  return caller;
}

}  // namespace warmring
