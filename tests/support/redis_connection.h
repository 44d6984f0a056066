#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

struct redisContext;

namespace warmring::support {

// One answer of a Redis server.
struct RedisReply {
  enum class Type { kNil, kString, kStatus, kInteger, kError, kArray };

  Type type = Type::kNil;
  std::string text;                  // of a string, a status ("OK") or an error
  int64_t integer = 0;               // of an integer
  std::vector<RedisReply> elements;  // of an array

  static RedisReply Nil() { return {}; }
  static RedisReply String(std::string text);
  static RedisReply Status(std::string text);
  static RedisReply Integer(int64_t value);

  bool IsNil() const { return type == Type::kNil; }
  bool IsError() const { return type == Type::kError; }
  // As redis-cli shows it, on one line: `"value"`, `OK`, `(integer) 1`, `(nil)`, `(error) ERR …`,
  // `["a", "b"]`.
  std::string Describe() const;

  friend bool operator==(const RedisReply&, const RedisReply&) = default;
  friend std::ostream& operator<<(std::ostream& out, const RedisReply& reply) {
    return out << reply.Describe();
  }
};

// A plain connection to a Redis server on the loopback interface, independent of the product's own.
//
// Thread rule: one thread at a time; connections are cheap, make one for each thread.
class RedisConnection {
 public:
  // `timeout` bounds the connect and every command.
  //
  // Errors: Unavailable with the reason.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<RedisConnection>> Connect(
      uint16_t port, absl::Duration timeout = absl::Seconds(10));

  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  // Sends one command (its words may hold any bytes) and waits for the answer. What the server
  // refuses is a reply of type kError, not an error.
  //
  // REQUIRES: `words` is not empty.
  // Errors: Unavailable if the connection broke or timed out: the command may have run. The
  // connection is then unusable.
  [[nodiscard]] absl::StatusOr<RedisReply> Command(const std::vector<std::string>& words);

  // The two halves of Command, for what happens in between. Send returns when the system has taken
  // the bytes; the answers come in order.
  //
  // REQUIRES: `words` is not empty; as many calls of Receive as of Send.
  // Errors: as Command.
  [[nodiscard]] absl::Status Send(const std::vector<std::string>& words);
  [[nodiscard]] absl::StatusOr<RedisReply> Receive();

 private:
  explicit RedisConnection(redisContext* context) : context_(context) {}

  redisContext* const context_;
};

}  // namespace warmring::support
