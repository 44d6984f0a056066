#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/support/free_port.h"
#include "tests/support/server_process.h"
#include "tests/support/temp_dir.h"

namespace warmring::support {

struct WarmringdOptions {
  std::string lease = "1s";
  // Appended to the flags.
  std::vector<std::string> extra_args;
  // For every incarnation. A failpoint (WARMRING_FAILPOINTS, as "commit.after=exit") belongs into
  // `extra_env` of Restart, or it fires again after each restart.
  Environment env;
  // For the first incarnation only.
  Environment first_env;
};

// The built warmringd on a free loopback port, with a data directory of its own that survives
// restarts.
//
// Thread rule: one thread at a time, except Address().
class WarmringdServer {
 public:
  // Starts `warmringd --listen=127.0.0.1:PORT --data-dir=DIR --dev --lease=…` and waits until its
  // port takes connections.
  //
  // Errors: NotFound if warmringd is not built; those of ServerProcess::Start.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<WarmringdServer>> Start(
      const WarmringdOptions& options = {});

  std::string Address() const { return port_.Address(); }
  uint16_t Port() const { return port_.Port(); }
  std::string DataDir() const { return dir_->File("data"); }

  // Ends it if it runs, and starts it again with the same port, data and flags.
  //
  // Errors: those of ServerProcess::Start and Stop.
  [[nodiscard]] absl::Status Restart(const Environment& extra_env = {});
  [[nodiscard]] absl::Status Stop() { return server_.Stop(); }
  void Kill9() { server_.Kill9(); }

  ServerProcess& Server() { return server_; }
  std::string LogText() const { return server_.LogText(); }

 private:
  WarmringdServer(FreePort port, std::unique_ptr<TempDir> dir, ServerProcessOptions options)
      : port_(std::move(port)), dir_(std::move(dir)), server_(std::move(options)) {}

  const FreePort port_;
  const std::unique_ptr<TempDir> dir_;
  ServerProcess server_;
};

}  // namespace warmring::support
