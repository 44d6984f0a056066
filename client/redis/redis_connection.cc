#include "client/redis/redis_connection.h"

#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "core/base/status_macros.h"
#include "core/membership/node.h"

namespace warmring {
namespace {

struct HostPort {
  std::string host;
  int port = 0;
};

absl::StatusOr<HostPort> SplitAddress(std::string_view address) {
  RETURN_IF_ERROR(ValidateAddress("address", address));
  const size_t colon = address.rfind(':');
  std::string_view host = address.substr(0, colon);
  const std::string_view port = address.substr(colon + 1);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  HostPort result{std::string(host), 0};
  std::from_chars(port.data(), port.data() + port.size(), result.port);
  return result;
}

timeval SocketTimeout(absl::Duration timeout) {
  // Zero would mean "for ever" to the socket.
  return absl::ToTimeval(std::max(timeout, absl::Microseconds(1)));
}

void AppendCommand(const std::vector<std::string_view>& argv, std::string& out) {
  fmt::format_to(std::back_inserter(out), "*{}\r\n", argv.size());
  for (const std::string_view word : argv) {
    fmt::format_to(std::back_inserter(out), "${}\r\n", word.size());
    out.append(word);
    out.append("\r\n");
  }
}

RedisReply ToReply(const redisReply& reply) {
  RedisReply result;
  switch (reply.type) {
    case REDIS_REPLY_STRING:
      result.type = RedisReply::Type::kString;
      result.text.assign(reply.str, static_cast<size_t>(reply.len));
      break;
    case REDIS_REPLY_STATUS:
      result.type = RedisReply::Type::kStatus;
      result.text.assign(reply.str, static_cast<size_t>(reply.len));
      break;
    case REDIS_REPLY_ERROR:
      result.type = RedisReply::Type::kError;
      result.text.assign(reply.str, static_cast<size_t>(reply.len));
      break;
    case REDIS_REPLY_INTEGER:
      result.type = RedisReply::Type::kInteger;
      result.integer = reply.integer;
      break;
    case REDIS_REPLY_ARRAY:
      result.type = RedisReply::Type::kArray;
      result.elements.reserve(reply.elements);
      for (size_t i = 0; i < reply.elements; ++i) {
        result.elements.push_back(ToReply(*reply.element[i]));
      }
      break;
    default:
      break;
  }
  return result;
}

std::string SystemReason(int error) {
  if (error == EAGAIN) return "timed out";
  return std::strerror(error);
}

std::string ContextReason(const redisContext& context, int error) {
  return context.err == REDIS_ERR_IO ? SystemReason(error) : std::string(context.errstr);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisConnection::Connect(std::string_view address,
                                                                          absl::Duration timeout) {
  ASSIGN_OR_RETURN(const HostPort target, SplitAddress(address));
  redisContext* context =
      redisConnectWithTimeout(target.host.c_str(), target.port, SocketTimeout(timeout));
  if (context == nullptr) return absl::UnavailableError("no memory for a connection");
  std::unique_ptr<RedisConnection> connection(
      new RedisConnection(std::string(address), context, timeout));
  if (context->err != 0) return connection->Broken("connect", context->errstr);
  if (redisSetTimeout(context, SocketTimeout(timeout)) != REDIS_OK) {
    return connection->Broken("set the timeout", SystemReason(errno));
  }
  return connection;
}

RedisConnection::RedisConnection(std::string address, redisContext* context, absl::Duration timeout)
    : address_(std::move(address)), context_(context), timeout_(timeout) {}

RedisConnection::~RedisConnection() { redisFree(context_); }

absl::Status RedisConnection::SetTimeout(absl::Duration timeout) {
  if (timeout == timeout_) return absl::OkStatus();
  if (redisSetTimeout(context_, SocketTimeout(timeout)) != REDIS_OK) {
    return Broken("set the timeout", SystemReason(errno));
  }
  timeout_ = timeout;
  return absl::OkStatus();
}

absl::StatusOr<RedisReply> RedisConnection::Command(const std::vector<std::string_view>& argv) {
  std::string bytes;
  AppendCommand(argv, bytes);
  RETURN_IF_ERROR(Send(bytes));
  return Receive();
}

absl::StatusOr<std::vector<RedisReply>> RedisConnection::Pipeline(
    const std::vector<std::vector<std::string_view>>& commands) {
  std::string bytes;
  for (const auto& argv : commands) AppendCommand(argv, bytes);
  RETURN_IF_ERROR(Send(bytes));
  std::vector<RedisReply> replies;
  replies.reserve(commands.size());
  for (size_t i = 0; i < commands.size(); ++i) {
    ASSIGN_OR_RETURN(RedisReply reply, Receive());
    replies.push_back(std::move(reply));
  }
  return replies;
}

bool RedisConnection::IsQuiet() const {
  char byte = 0;
  return !broken_ && recv(context_->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

// Not hiredis' own writing: that raises SIGPIPE, which would end an
// application, when the server has closed the connection.
absl::Status RedisConnection::Send(std::string_view bytes) {
  if (broken_) return Broken("send", "the connection broke before");
  while (!bytes.empty()) {
    const ssize_t sent = send(context_->fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return Broken("send", SystemReason(errno));
    }
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

absl::StatusOr<RedisReply> RedisConnection::Receive() {
  void* raw = nullptr;
  errno = 0;
  if (redisGetReply(context_, &raw) != REDIS_OK || raw == nullptr) {
    return Broken("receive", ContextReason(*context_, errno));
  }
  const std::unique_ptr<redisReply, void (*)(void*)> reply(static_cast<redisReply*>(raw),
                                                           freeReplyObject);
  return ToReply(*reply);
}

absl::Status RedisConnection::Broken(std::string_view what, std::string_view reason) {
  broken_ = true;
  return absl::UnavailableError(fmt::format("redis {}: {}: {}", address_, what, reason));
}

}  // namespace warmring
