#pragma once

#include <memory>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/auth/authoriser.h"

namespace warmring {

struct ServerOptions {
  std::string listen = "127.0.0.1:7420";  // host:port; port 0 takes a free one
  std::string data_dir;
  bool dev = false;  // everybody has all of dev_roles; loopback only
  std::set<Role> dev_roles = {Role::kOperator, Role::kSafetyOverride};
  absl::Duration lease = absl::Seconds(10);
};

// warmringd without its command line: store, strands, services. Thread-safe.
class Server {
 public:
  // Opens the store, begins a term, takes over what is stored, serves.
  // Errors, each saying what to do: FailedPrecondition: the data directory is locked by another
  // process; DataLoss: it is damaged; Unimplemented: its format is newer; InvalidArgument: an
  // option; Unavailable: the address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  virtual ~Server() = default;

  // host:port with the port that was taken.
  virtual std::string address() const = 0;
  // Ends streams so that clients come back, finishes calls within `grace`, closes the store.
  virtual void Shutdown(absl::Duration grace) = 0;
};

}  // namespace warmring
