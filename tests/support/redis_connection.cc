#include "tests/support/redis_connection.h"

#include <hiredis/hiredis.h>
#include <signal.h>

#include <utility>

#include "absl/time/time.h"
#include "core/base/status_macros.h"
#include "fmt/format.h"

namespace warmring::support {
namespace {

RedisReply Convert(const redisReply& reply) {
  RedisReply converted;
  switch (reply.type) {
    case REDIS_REPLY_STRING:
      converted.type = RedisReply::Type::kString;
      converted.text.assign(reply.str, reply.len);
      break;
    case REDIS_REPLY_STATUS:
      converted.type = RedisReply::Type::kStatus;
      converted.text.assign(reply.str, reply.len);
      break;
    case REDIS_REPLY_ERROR:
      converted.type = RedisReply::Type::kError;
      converted.text.assign(reply.str, reply.len);
      break;
    case REDIS_REPLY_INTEGER:
      converted.type = RedisReply::Type::kInteger;
      converted.integer = reply.integer;
      break;
    case REDIS_REPLY_ARRAY:
      converted.type = RedisReply::Type::kArray;
      for (size_t i = 0; i < reply.elements; ++i) {
        converted.elements.push_back(Convert(*reply.element[i]));
      }
      break;
    default:
      converted.type = RedisReply::Type::kNil;
      break;
  }
  return converted;
}

// hiredis writes with write(2): a server that was killed would take the whole test with it.
void IgnoreBrokenPipes() {
  static const bool done = signal(SIGPIPE, SIG_IGN) != SIG_ERR;
  static_cast<void>(done);
}

}  // namespace

RedisReply RedisReply::String(std::string text) {
  return {.type = Type::kString, .text = std::move(text), .integer = 0, .elements = {}};
}
RedisReply RedisReply::Status(std::string text) {
  return {.type = Type::kStatus, .text = std::move(text), .integer = 0, .elements = {}};
}
RedisReply RedisReply::Integer(int64_t value) {
  return {.type = Type::kInteger, .text = {}, .integer = value, .elements = {}};
}

std::string RedisReply::Describe() const {
  switch (type) {
    case Type::kNil:
      return "(nil)";
    case Type::kString:
      return fmt::format("\"{}\"", text);
    case Type::kStatus:
      return text;
    case Type::kInteger:
      return fmt::format("(integer) {}", integer);
    case Type::kError:
      return fmt::format("(error) {}", text);
    case Type::kArray: {
      std::string joined;
      for (const RedisReply& element : elements) {
        joined += joined.empty() ? element.Describe() : ", " + element.Describe();
      }
      return fmt::format("[{}]", joined);
    }
  }
  return "(unknown type)";
}

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisConnection::Connect(uint16_t port,
                                                                          absl::Duration timeout) {
  IgnoreBrokenPipes();
  const timeval bound = absl::ToTimeval(timeout);
  redisContext* const context = redisConnectWithTimeout("127.0.0.1", port, bound);
  if (context == nullptr || context->err != 0) {
    const std::string reason = context == nullptr ? "out of memory" : context->errstr;
    if (context != nullptr) redisFree(context);
    return absl::UnavailableError(
        fmt::format("connect to Redis on 127.0.0.1:{}: {}", port, reason));
  }
  redisSetTimeout(context, bound);
  return std::unique_ptr<RedisConnection>(new RedisConnection(context));
}

RedisConnection::~RedisConnection() { redisFree(context_); }

absl::StatusOr<RedisReply> RedisConnection::Command(const std::vector<std::string>& words) {
  RETURN_IF_ERROR(Send(words));
  absl::StatusOr<RedisReply> reply = Receive();
  if (reply.ok()) return reply;
  return absl::UnavailableError(fmt::format("Redis command {}: {}; the command may have run",
                                            words.front(), std::string(reply.status().message())));
}

absl::Status RedisConnection::Send(const std::vector<std::string>& words) {
  std::vector<const char*> texts;
  std::vector<size_t> lengths;
  for (const std::string& word : words) {
    texts.push_back(word.data());
    lengths.push_back(word.size());
  }
  int done = 0;
  bool ok = redisAppendCommandArgv(context_, static_cast<int>(words.size()), texts.data(),
                                   lengths.data()) == REDIS_OK;
  while (ok && done == 0) ok = redisBufferWrite(context_, &done) == REDIS_OK;
  if (ok) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("Redis command {}: {}", words.front(), context_->errstr));
}

absl::StatusOr<RedisReply> RedisConnection::Receive() {
  void* answer = nullptr;
  if (redisGetReply(context_, &answer) != REDIS_OK || answer == nullptr) {
    return absl::UnavailableError(context_->errstr);
  }
  const std::unique_ptr<redisReply, void (*)(void*)> reply(static_cast<redisReply*>(answer),
                                                           freeReplyObject);
  return Convert(*reply);
}

}  // namespace warmring::support
