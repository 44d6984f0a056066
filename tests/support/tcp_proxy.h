#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/support/free_port.h"

namespace warmring::support {

// A bad network between the clients and the server of one loopback port: what goes through it can
// be held up, slowed down and cut, in each direction by itself.
//
// What is held is not lost: as on a network that comes back, it arrives late.
//
// Thread rule: all methods from any thread. A change holds for all bytes that have not been passed
// on yet.
class TcpProxy {
 public:
  enum class Direction : uint8_t { kToServer = 0, kToClient = 1 };

  // `target`: the port of the server; 0: set later.
  //
  // Errors: ResourceExhausted if there is no free port; Internal with the system's reason.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TcpProxy>> Start(uint16_t target = 0);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  uint16_t Port() const { return port_.Port(); }
  std::string Address() const { return port_.Address(); }
  void SetTarget(uint16_t port) { target_ = port; }

  // Each byte waits so long.
  void Delay(Direction direction, absl::Duration delay);
  // At most so many bytes a second, of each connection. 0: unlimited.
  void LimitRate(Direction direction, uint64_t bytes_per_second);
  // Nothing passes until it is let go. New connections are taken, and say nothing.
  void Hold(Direction direction, bool held);
  void HoldBoth(bool held);
  // Each connection is reset once so many bytes more have passed on it. 0: never.
  void CutAfter(Direction direction, uint64_t bytes);
  // New connections are reset at once, until they are allowed again.
  void Refuse(bool refused);
  // All present connections end by a reset.
  void ResetAll();
  // The receiver sees the end of the stream; the other direction goes on.
  void HalfCloseAll(Direction direction);
  // No delay, no limit, nothing held or refused.
  void Heal();

  uint64_t Passed(Direction direction) const { return passed_[static_cast<size_t>(direction)]; }
  size_t Connections() const { return connections_now_; }

 private:
  struct Rules {
    int64_t delay_ns = 0;
    uint64_t rate = 0;
    bool held = false;
    uint64_t cut_after = 0;
    uint64_t half_closes = 0;  // ordered so far
  };
  struct Chunk {
    int64_t due = 0;
    std::string bytes;
  };
  // One direction of one connection.
  struct Pipe {
    std::deque<Chunk> chunks;
    size_t queued = 0;
    bool source_ended = false;
    bool closed = false;  // the receiver was told
    int64_t next_at = 0;  // by the limit of the rate
    uint64_t passed = 0;
    uint64_t half_closes = 0;  // that were carried out
  };
  struct Connection {
    int client = -1;
    int server = -1;
    bool connecting = true;
    Pipe pipes[2];
  };

  TcpProxy(FreePort port, int listener, int wake, uint16_t target);

  void Run();
  void Accept();
  // False: it is over.
  bool Serve(Connection& connection, short client_events, short server_events,
             const Rules (&rules)[2]);
  bool Read(int from, Pipe& pipe, int64_t delay_ns);
  bool Write(int to, Pipe& pipe, const Rules& rules, size_t direction);
  void Change(Direction direction, const std::function<void(Rules&)>& change);
  void Wake();

  const FreePort port_;
  const int listener_;
  const int wake_;
  std::atomic<uint16_t> target_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> refused_{false};
  std::atomic<uint64_t> resets_{0};
  std::atomic<uint64_t> passed_[2] = {0, 0};
  std::atomic<size_t> connections_now_{0};
  std::mutex mutex_;
  Rules rules_[2];                                        // guarded by mutex_
  std::vector<std::unique_ptr<Connection>> connections_;  // of the thread
  std::thread thread_;
};

}  // namespace warmring::support
