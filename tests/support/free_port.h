#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace warmring::support {

// A loopback TCP port that nobody else gets while this object lives, so that a server can be
// killed and restarted on the same port.
//
// The port lies below the kernel's ephemeral range: a port inside it could be taken as the source
// port of any outgoing connection while the server is down, and a client that keeps dialling a dead
// ephemeral port can even connect to itself. The reservation is the name of an abstract unix
// socket, which is shared by all processes of the machine, bars no server from the port, and is
// dropped by the kernel when the holder dies.
//
// Thread rule: const after creation; move from one thread only.
class FreePort {
 public:
  // Errors: ResourceExhausted if no free port was found below the ephemeral range.
  [[nodiscard]] static absl::StatusOr<FreePort> Reserve();

  FreePort(FreePort&& other) noexcept;
  FreePort& operator=(FreePort&& other) noexcept;
  ~FreePort();

  uint16_t Port() const { return port_; }
  // "127.0.0.1:<port>"
  std::string Address() const;

 private:
  FreePort(uint16_t port, int reservation) : port_(port), reservation_(reservation) {}

  uint16_t port_;
  int reservation_;  // the file descriptor of the abstract socket, -1 after a move
};

// OK if somebody accepts a TCP connection on 127.0.0.1:`port` now; the connection is closed at
// once.
//
// Errors: Unavailable with the system's reason.
[[nodiscard]] absl::Status ProbeTcp(uint16_t port);

}  // namespace warmring::support
