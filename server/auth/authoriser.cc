#include "server/auth/authoriser.h"

#include <arpa/inet.h>

#include <utility>

#include "core/base/ids.h"
#include "fmt/format.h"

namespace warmring {
namespace {

// Everybody has the same roles.
class OpenAuthoriser final : public Authoriser {
 public:
  explicit OpenAuthoriser(std::set<Role> roles) : roles_(std::move(roles)) {}

  absl::Status Check(const Caller& caller, std::string_view method,
                     std::string_view) const override {
    const Role role = RoleFor(method);
    if (roles_.contains(role)) return absl::OkStatus();
    return absl::PermissionDeniedError(
        fmt::format("{} needs the role {}, which '{}' does not have: ask somebody who has it",
                    method, RoleName(role), Printable(caller.Name())));
  }

 private:
  const std::set<Role> roles_;
};

}  // namespace

std::string Caller::Name() const {
  return author.empty() ? identity : fmt::format("{} ({})", author, identity);
}

std::string_view RoleName(Role role) {
  return role == Role::kOperator ? "operator" : "safety-override";
}

absl::StatusOr<Role> ParseRole(std::string_view word) {
  for (const Role role : {Role::kOperator, Role::kSafetyOverride}) {
    if (word == RoleName(role)) return role;
  }
  return absl::InvalidArgumentError(
      fmt::format("role: '{}' is unknown: use operator or safety-override", Printable(word)));
}

Role RoleFor(std::string_view method) {
  return method == "MigrationService/ForceFence" ? Role::kSafetyOverride : Role::kOperator;
}

bool IsLoopback(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return false;
  const std::string host(address.substr(0, colon));
  if (host == "localhost" || host == "[::1]") return true;
  in_addr v4{};
  return inet_pton(AF_INET, host.c_str(), &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
}

absl::StatusOr<std::unique_ptr<Authoriser>> MakeAuthoriser(bool dev, std::string_view listen,
                                                           std::set<Role> dev_roles) {
  if (!dev) {
    return absl::InvalidArgumentError(
        "without --dev every caller needs an identity from its TLS certificate, which this version "
        "cannot check yet: start with --dev on a loopback address, for development only");
  }
  if (!IsLoopback(listen)) {
    return absl::InvalidArgumentError(
        fmt::format("--listen: {} can be reached from other machines, and --dev lets everybody do "
                    "everything: use 127.0.0.1 with --dev",
                    Printable(listen)));
  }
  return std::make_unique<OpenAuthoriser>(std::move(dev_roles));
}

}  // namespace warmring
