#include "server/auth/authoriser.h"

#include <arpa/inet.h>

#include "core/base/ids.h"
#include "fmt/format.h"

namespace warmring {
namespace {

class OpenAuthoriser final : public Authoriser {
 public:
  absl::Status Check(const Caller&, std::string_view, std::string_view) const override {
    return absl::OkStatus();
  }
};

}  // namespace

std::string Caller::Name() const {
  return author.empty() ? identity : fmt::format("{} ({})", author, identity);
}

bool IsLoopback(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return false;
  const std::string host(address.substr(0, colon));
  if (host == "localhost" || host == "[::1]") return true;
  in_addr v4{};
  return inet_pton(AF_INET, host.c_str(), &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
}

absl::StatusOr<std::unique_ptr<Authoriser>> MakeAuthoriser(bool dev, std::string_view listen) {
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
  return std::make_unique<OpenAuthoriser>();
}

}  // namespace warmring
