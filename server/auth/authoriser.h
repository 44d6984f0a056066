#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace warmring {

// Who makes a request. `identity` is proved by the connection; `author` is only what the caller
// says about itself (metadata x-warmring-author), for people.
struct Caller {
  std::string identity;
  std::string author;
  std::string peer;

  // For histories: "alice (dev)", or the identity alone.
  std::string Name() const;
};

// What a caller may be.
//   kOperator        everything but what breaks safety.
//   kSafetyOverride  what breaks safety: "MigrationService/ForceFence".
enum class Role : uint8_t { kOperator = 1, kSafetyOverride = 2 };
// Error: InvalidArgument for another word than "operator" or "safety-override".
absl::StatusOr<Role> ParseRole(std::string_view word);
std::string_view RoleName(Role role);
// The role that a method needs.
Role RoleFor(std::string_view method);

// Decides what a caller may do. Every RPC passes here, and nowhere else is it decided: the gates of
// server/service ask before anything is read or changed, for each keyspace that a stream names.
// Any thread.
class Authoriser {
 public:
  virtual ~Authoriser() = default;
  // `method` is "KeyspaceService/CreateKeyspace", `keyspace` may be empty when the method names
  // none. Error: PermissionDenied saying who may not do what.
  virtual absl::Status Check(const Caller& caller, std::string_view method,
                             std::string_view keyspace) const = 0;
};

// The policy for these flags. With `dev` everybody has all of `dev_roles`, on the loopback
// interface only. Errors, both InvalidArgument: not `dev`, since identities from certificates are
// not there yet; `dev` on another interface than loopback.
absl::StatusOr<std::unique_ptr<Authoriser>> MakeAuthoriser(bool dev, std::string_view listen,
                                                           std::set<Role> dev_roles = {
                                                               Role::kOperator,
                                                               Role::kSafetyOverride});

// Whether "host:port" can be reached from this machine only.
bool IsLoopback(std::string_view address);

}  // namespace warmring
