// Stands in for warmringd and warmring-agent in the tests of their wrappers: prints its arguments
// and $COLOUR, and accepts TCP connections on the address of --listen. With WARMRING_FAILPOINTS set
// it ends before that, as at a failpoint.

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

int main(int argc, char** argv) {
  constexpr std::string_view kListen = "--listen=127.0.0.1:";
  int port = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg(argv[i]);
    std::printf("%s ", argv[i]);
    if (arg.substr(0, kListen.size()) == kListen) port = std::atoi(argv[i] + kListen.size());
  }
  const char* const colour = std::getenv("COLOUR");
  std::printf("%s\n", colour == nullptr ? "-" : colour);
  std::fflush(stdout);
  if (std::getenv("WARMRING_FAILPOINTS") != nullptr) _exit(137);

  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(fd, 16) != 0) {
    std::perror("listen");
    return 1;
  }
  for (;;) close(accept(fd, nullptr, nullptr));
}
