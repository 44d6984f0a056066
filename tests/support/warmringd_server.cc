#include "tests/support/warmringd_server.h"

#include <utility>

#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "tests/support/binary.h"

namespace warmring::support {

absl::StatusOr<std::unique_ptr<WarmringdServer>> WarmringdServer::Start(
    const WarmringdOptions& options) {
  ASSIGN_OR_RETURN(std::string binary, BinaryPath("warmringd"));
  ASSIGN_OR_RETURN(FreePort port, FreePort::Reserve());
  ASSIGN_OR_RETURN(std::unique_ptr<TempDir> dir, TempDir::Create("warmringd"));

  ServerProcessOptions server;
  server.process.argv = {std::move(binary), fmt::format("--listen={}", port.Address()),
                         fmt::format("--data-dir={}", dir->File("data")), "--dev",
                         fmt::format("--lease={}", options.lease)};
  server.process.argv.insert(server.process.argv.end(), options.extra_args.begin(),
                             options.extra_args.end());
  server.process.env = options.env;
  server.process.log_path = dir->File("warmringd.log");
  server.ready = [number = port.Port()] { return ProbeTcp(number); };
  std::unique_ptr<WarmringdServer> warmringd(
      new WarmringdServer(std::move(port), std::move(dir), std::move(server)));
  RETURN_IF_ERROR(warmringd->server_.Start(options.first_env));
  return warmringd;
}

absl::Status WarmringdServer::Restart(const Environment& extra_env) {
  RETURN_IF_ERROR(Stop());
  return server_.Start(extra_env);
}

}  // namespace warmring::support
