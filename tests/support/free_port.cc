#include "tests/support/free_port.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <random>
#include <utility>

#include "fmt/format.h"

namespace warmring::support {
namespace {

constexpr int kLowestPort = 10000;
constexpr int kAttempts = 2000;

int FirstEphemeralPort() {
  int first = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first;
  return std::clamp(first, kLowestPort + 1000, 65535);
}

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool CanBeBound(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  // Servers set it too; without it, connections of an earlier server in TIME_WAIT would count.
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const sockaddr_in address = Loopback(port);
  const bool bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return bound;
}

// The file descriptor that holds the name of this port, or -1 if another process holds it.
int HoldName(uint16_t port) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = fmt::format("warmring-test-port-{}", port);
  // A leading zero byte makes the name abstract: no file, gone with its holder.
  std::memcpy(name.sun_path + 1, text.data(), text.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  if (bind(fd, reinterpret_cast<const sockaddr*>(&name), length) == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

absl::StatusOr<FreePort> FreePort::Reserve() {
  const int end = FirstEphemeralPort();
  std::random_device seed;
  std::uniform_int_distribution<int> any_port(kLowestPort, end - 1);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto port = static_cast<uint16_t>(any_port(seed));
    const int reservation = HoldName(port);
    if (reservation < 0) continue;
    if (CanBeBound(port)) return FreePort(port, reservation);
    close(reservation);
  }
  return absl::ResourceExhaustedError(
      fmt::format("no free TCP port on 127.0.0.1 between {} and {}; stop other servers, or raise "
                  "net.ipv4.ip_local_port_range",
                  kLowestPort, end - 1));
}

FreePort::FreePort(FreePort&& other) noexcept
    : port_(other.port_), reservation_(std::exchange(other.reservation_, -1)) {}

FreePort& FreePort::operator=(FreePort&& other) noexcept {
  std::swap(port_, other.port_);
  std::swap(reservation_, other.reservation_);
  return *this;
}

FreePort::~FreePort() {
  if (reservation_ >= 0) close(reservation_);
}

std::string FreePort::Address() const { return fmt::format("127.0.0.1:{}", port_); }

absl::Status ProbeTcp(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return absl::UnavailableError(fmt::format("no socket: {}", std::strerror(errno)));
  }
  const sockaddr_in address = Loopback(port);
  const int result = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int reason = errno;
  close(fd);
  if (result == 0) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("connect to 127.0.0.1:{}: {}", port, std::strerror(reason)));
}

}  // namespace warmring::support
