#include "tests/support/tcp_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/base/status_macros.h"
#include "fmt/format.h"

namespace warmring::support {
namespace {

constexpr size_t kReadSize = 16 * 1024;
// What one direction holds at most; then its sender has to wait, as a network makes it.
constexpr size_t kMaxQueued = 4 * 1024 * 1024;
// The rate is kept in steps of so many bytes.
constexpr size_t kRateStep = 1024;
constexpr int kIdleMs = 200;
constexpr int kBusyMs = 2;

int64_t NowNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

int NewSocket() { return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

void SetNoDelay(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// The other side sees a reset and not an end.
void Reset(int& socket) {
  if (socket < 0) return;
  const linger now = {1, 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  close(socket);
  socket = -1;
}

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

absl::Status SystemError(std::string_view what) {
  return absl::InternalError(fmt::format("{}: {}", what, std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpProxy>> TcpProxy::Start(uint16_t target) {
  ASSIGN_OR_RETURN(FreePort port, FreePort::Reserve());
  const int listener = NewSocket();
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const sockaddr_in address = Loopback(port.Port());
  if (listener < 0 ||
      bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener, 128) != 0) {
    const absl::Status error = SystemError(fmt::format("cannot listen on {}", port.Address()));
    if (listener >= 0) close(listener);
    return error;
  }
  const int wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake < 0) {
    close(listener);
    return SystemError("eventfd");
  }
  std::unique_ptr<TcpProxy> proxy(new TcpProxy(std::move(port), listener, wake, target));
  proxy->thread_ = std::thread([raw = proxy.get()] { raw->Run(); });
  return proxy;
}

TcpProxy::TcpProxy(FreePort port, int listener, int wake, uint16_t target)
    : port_(std::move(port)), listener_(listener), wake_(wake), target_(target) {}

TcpProxy::~TcpProxy() {
  stopping_ = true;
  Wake();
  if (thread_.joinable()) thread_.join();
  for (const auto& connection : connections_) {
    Reset(connection->client);
    Reset(connection->server);
  }
  close(listener_);
  close(wake_);
}

void TcpProxy::Wake() {
  const uint64_t one = 1;
  // A full counter has woken it already.
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
}

void TcpProxy::Change(Direction direction, const std::function<void(Rules&)>& change) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    change(rules_[static_cast<size_t>(direction)]);
  }
  Wake();
}

void TcpProxy::Delay(Direction direction, absl::Duration delay) {
  Change(direction, [delay](Rules& rules) { rules.delay_ns = absl::ToInt64Nanoseconds(delay); });
}
void TcpProxy::LimitRate(Direction direction, uint64_t bytes_per_second) {
  Change(direction, [bytes_per_second](Rules& rules) { rules.rate = bytes_per_second; });
}
void TcpProxy::Hold(Direction direction, bool held) {
  Change(direction, [held](Rules& rules) { rules.held = held; });
}
void TcpProxy::HoldBoth(bool held) {
  Hold(Direction::kToServer, held);
  Hold(Direction::kToClient, held);
}
void TcpProxy::CutAfter(Direction direction, uint64_t bytes) {
  Change(direction, [bytes](Rules& rules) { rules.cut_after = bytes; });
}
void TcpProxy::HalfCloseAll(Direction direction) {
  Change(direction, [](Rules& rules) { ++rules.half_closes; });
}
void TcpProxy::Refuse(bool refused) {
  refused_ = refused;
  Wake();
}
void TcpProxy::ResetAll() {
  ++resets_;
  Wake();
}
void TcpProxy::Heal() {
  for (const Direction direction : {Direction::kToServer, Direction::kToClient}) {
    Change(direction, [](Rules& rules) {
      const uint64_t half_closes = rules.half_closes;
      rules = Rules();
      rules.half_closes = half_closes;
    });
  }
  Refuse(false);
}

void TcpProxy::Run() {
  uint64_t resets = resets_;
  while (!stopping_) {
    Rules rules[2];
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      rules[0] = rules_[0];
      rules[1] = rules_[1];
    }
    if (const uint64_t ordered = resets_; ordered != resets) {
      resets = ordered;
      for (const auto& connection : connections_) {
        Reset(connection->client);
        Reset(connection->server);
      }
      connections_.clear();
      connections_now_ = 0;
    }
    std::vector<pollfd> polls = {{listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
    bool waiting = false;
    for (const auto& connection : connections_) {
      const auto events = [&](const Pipe& in, const Pipe& out, const Rules& out_rules) {
        short wanted = 0;
        if (!in.source_ended && in.queued < kMaxQueued) wanted |= POLLIN;
        if (!out.chunks.empty() && !out_rules.held) waiting = true;
        return wanted;
      };
      const short client = events(connection->pipes[0], connection->pipes[1], rules[1]);
      short server = events(connection->pipes[1], connection->pipes[0], rules[0]);
      if (connection->connecting) server = POLLOUT;
      // One that nothing is wanted of would report its reset for ever.
      polls.push_back({client == 0 ? -1 : connection->client, client, 0});
      polls.push_back({server == 0 ? -1 : connection->server, server, 0});
    }
    // What waits for its time is looked at every few milliseconds.
    poll(polls.data(), polls.size(), waiting ? kBusyMs : kIdleMs);
    if ((polls[1].revents & POLLIN) != 0) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t read_bytes = read(wake_, &count, sizeof(count));
      continue;  // with the new rules
    }
    size_t kept = 0;
    for (size_t i = 0; i < connections_.size(); ++i) {
      Connection& connection = *connections_[i];
      if (Serve(connection, polls[2 + 2 * i].revents, polls[3 + 2 * i].revents, rules)) {
        std::swap(connections_[kept], connections_[i]);
        ++kept;
        continue;
      }
      Reset(connection.client);
      Reset(connection.server);
    }
    connections_.resize(kept);
    if ((polls[0].revents & POLLIN) != 0) Accept();
    connections_now_ = connections_.size();
  }
}

void TcpProxy::Accept() {
  for (;;) {
    int client = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (client < 0) return;
    if (refused_) {
      Reset(client);
      continue;
    }
    SetNoDelay(client);
    auto connection = std::make_unique<Connection>();
    connection->client = client;
    connection->server = NewSocket();
    SetNoDelay(connection->server);
    const sockaddr_in address = Loopback(target_);
    if (connect(connection->server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
            0 &&
        errno != EINPROGRESS) {
      Reset(connection->client);
      Reset(connection->server);
      continue;
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (size_t i = 0; i < 2; ++i) connection->pipes[i].half_closes = rules_[i].half_closes;
    }
    connections_.push_back(std::move(connection));
  }
}

bool TcpProxy::Serve(Connection& connection, short client_events, short server_events,
                     const Rules (&rules)[2]) {
  if (connection.connecting) {
    if ((server_events & (POLLERR | POLLHUP)) != 0) return false;
    if ((server_events & POLLOUT) != 0) connection.connecting = false;
  }
  constexpr short kReadable = POLLIN | POLLHUP | POLLERR;
  if ((client_events & kReadable) != 0 && !connection.pipes[0].source_ended &&
      !Read(connection.client, connection.pipes[0], rules[0].delay_ns)) {
    return false;
  }
  if (connection.connecting) return true;
  if ((server_events & kReadable) != 0 && !connection.pipes[1].source_ended &&
      !Read(connection.server, connection.pipes[1], rules[1].delay_ns)) {
    return false;
  }
  if (!Write(connection.server, connection.pipes[0], rules[0], 0)) return false;
  if (!Write(connection.client, connection.pipes[1], rules[1], 1)) return false;
  return !(connection.pipes[0].closed && connection.pipes[1].closed);
}

bool TcpProxy::Read(int from, Pipe& pipe, int64_t delay_ns) {
  if (pipe.queued >= kMaxQueued) return true;
  char bytes[kReadSize];
  const ssize_t count = recv(from, bytes, sizeof(bytes), 0);
  if (count < 0) return WouldBlock();
  if (count == 0) {
    pipe.source_ended = true;
    return true;
  }
  pipe.chunks.push_back({NowNanos() + delay_ns, std::string(bytes, static_cast<size_t>(count))});
  pipe.queued += static_cast<size_t>(count);
  return true;
}

bool TcpProxy::Write(int to, Pipe& pipe, const Rules& rules, size_t direction) {
  if (pipe.closed || rules.held) return true;
  if (pipe.half_closes != rules.half_closes) {
    pipe.half_closes = rules.half_closes;
    pipe.closed = true;
    pipe.chunks.clear();
    pipe.queued = 0;
    shutdown(to, SHUT_WR);
    return true;
  }
  while (!pipe.chunks.empty()) {
    Chunk& chunk = pipe.chunks.front();
    const int64_t now = NowNanos();
    if (chunk.due > now || pipe.next_at > now) return true;
    size_t size = chunk.bytes.size();
    if (rules.rate != 0) size = std::min(size, kRateStep);
    if (rules.cut_after != 0) {
      if (pipe.passed >= rules.cut_after) return false;
      size = std::min<size_t>(size, rules.cut_after - pipe.passed);
    }
    const ssize_t count = send(to, chunk.bytes.data(), size, MSG_NOSIGNAL);
    if (count < 0) return WouldBlock();
    const auto sent = static_cast<size_t>(count);
    if (rules.rate != 0) {
      pipe.next_at = now + static_cast<int64_t>(sent * 1'000'000'000 / rules.rate);
    }
    pipe.passed += sent;
    passed_[direction] += sent;
    pipe.queued -= sent;
    chunk.bytes.erase(0, sent);
    if (chunk.bytes.empty()) pipe.chunks.pop_front();
  }
  if (pipe.source_ended) {
    pipe.closed = true;
    shutdown(to, SHUT_WR);
  }
  return true;
}

}  // namespace warmring::support
