#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace warmring {

// Who calls. Established by the transport, never by what a message says.
struct Identity {
  std::string name;
  friend bool operator==(const Identity&, const Identity&) = default;
};

// The one place that says who may do what. Every RPC passes it (service/gate.h). Any thread.
class Authoriser {
 public:
  virtual ~Authoriser() = default;
  // `method` is the full name ("warmring.v1.KeyspaceService/Locate"), `resource` the keyspace or
  // "" for a method without one.
  // Error: PermissionDenied, the same whether the resource is absent or not allowed.
  virtual absl::Status Check(const Identity& identity, std::string_view method,
                             std::string_view resource) const = 0;
};

// The policy of --dev: everybody may do everything. For loopback only.
class OpenPolicy final : public Authoriser {
 public:
  absl::Status Check(const Identity&, std::string_view, std::string_view) const override {
    return absl::OkStatus();
  }
};

}  // namespace warmring
