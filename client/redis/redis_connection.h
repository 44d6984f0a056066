#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

struct redisContext;

namespace warmring {

// One reply of a Redis server, as a value.
struct RedisReply {
  enum class Type : uint8_t { kNil, kString, kStatus, kInteger, kError, kArray };
  Type type = Type::kNil;
  std::string text;  // kString, kStatus, kError
  int64_t integer = 0;
  std::vector<RedisReply> elements;

  bool IsNil() const { return type == Type::kNil; }
  bool IsError() const { return type == Type::kError; }
};

// A blocking connection to one Redis server (RESP2, hiredis). Not thread-safe:
// one user at a time. An error reply of the server is a RedisReply, not a
// Status; a Status means that the connection failed (Unavailable: refused,
// closed, timed out) and must be thrown away: a command may or may not have
// been executed.
class RedisConnection {
 public:
  // `timeout` bounds the connect and, until SetTimeout, each wait for the
  // server. Errors: Unavailable naming the address and the system's reason;
  // InvalidArgument for an address that is not host:port.
  static absl::StatusOr<std::unique_ptr<RedisConnection>> Connect(std::string_view address,
                                                                  absl::Duration timeout);
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  // Sends one command and waits for its reply. Arguments are binary-safe.
  absl::StatusOr<RedisReply> Command(const std::vector<std::string_view>& argv);
  // Sends all, then waits for all replies, in order.
  absl::StatusOr<std::vector<RedisReply>> Pipeline(
      const std::vector<std::vector<std::string_view>>& commands);

  // Bounds each later wait for the server: a write that does not get out, a
  // reply that does not come. REQUIRES: timeout > 0. Errors: Unavailable with
  // the system's reason.
  absl::Status SetTimeout(absl::Duration timeout);

  // False when the server has closed the connection, or says something unasked for: one that lay
  // idle is then better replaced before a command is sent on it, since after that nobody knows
  // whether it ran.
  bool IsQuiet() const;

  const std::string& address() const { return address_; }
  // A Status was returned: the connection is good for nothing any more.
  bool broken() const { return broken_; }

 private:
  RedisConnection(std::string address, redisContext* context, absl::Duration timeout);
  absl::Status Send(std::string_view bytes);
  absl::StatusOr<RedisReply> Receive();
  absl::Status Broken(std::string_view what, std::string_view reason);

  std::string address_;
  redisContext* context_;
  absl::Duration timeout_;
  bool broken_ = false;
};

}  // namespace warmring
