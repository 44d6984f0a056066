// No two holders get the same port, a holder does not bar its own server, and a port that somebody
// listens on is not handed out.

#include "tests/support/free_port.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace warmring::support {
namespace {

int ListenOn(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 || listen(fd, 1) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

TEST(FreePortTest, NeverGivesOnePortTwice) {
  int first_ephemeral = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first_ephemeral;
  std::vector<FreePort> held;
  std::set<uint16_t> ports;
  for (int i = 0; i < 100; ++i) {
    ASSERT_OK_AND_ASSIGN(FreePort port, FreePort::Reserve());
    EXPECT_LT(port.Port(), first_ephemeral);
    EXPECT_TRUE(ports.insert(port.Port()).second) << port.Port();
    held.push_back(std::move(port));
  }
}

TEST(FreePortTest, ServesTheHoldersServer) {
  ASSERT_OK_AND_ASSIGN(const FreePort port, FreePort::Reserve());
  EXPECT_THAT(ProbeTcp(port.Port()), StatusIs(absl::StatusCode::kUnavailable, "refused"));
  const int fd = ListenOn(port.Port());
  ASSERT_GE(fd, 0);
  EXPECT_OK(ProbeTcp(port.Port()));
  close(fd);
}

}  // namespace
}  // namespace warmring::support
