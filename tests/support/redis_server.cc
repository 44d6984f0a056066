#include "tests/support/redis_server.h"

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "core/base/status_macros.h"
#include "fmt/format.h"

namespace warmring::support {
namespace {

// One word of redis.conf. Quotes keep spaces and empty words; the escapes are those of Redis.
std::string Quoted(const std::string& word) {
  std::string quoted = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string Line(const std::vector<std::string>& words) {
  std::string line;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) line += ' ';
    line += i == 0 ? words[i] : Quoted(words[i]);
  }
  return line + '\n';
}

std::string Config(const RedisServerOptions& options, uint16_t port, const std::string& dir) {
  std::string text;
  text += Line({"bind", "127.0.0.1"});
  text += Line({"port", std::to_string(port)});
  text += Line({"dir", dir});
  text += Line({"daemonize", "no"});
  text += Line({"save", options.save});
  text += Line({"appendonly", options.appendonly ? "yes" : "no"});
  if (!options.appendfsync.empty()) text += Line({"appendfsync", options.appendfsync});
  if (!options.maxmemory.empty()) text += Line({"maxmemory", options.maxmemory});
  if (!options.maxmemory_policy.empty()) {
    text += Line({"maxmemory-policy", options.maxmemory_policy});
  }
  if (options.enable_debug_command) text += Line({"enable-debug-command", "local"});
  if (options.enable_module_command) text += Line({"enable-module-command", "local"});
  for (const std::vector<std::string>& directive : options.directives) text += Line(directive);
  for (const RedisModuleSpec& module : options.modules) {
    std::vector<std::string> words = {"loadmodule", module.path};
    words.insert(words.end(), module.args.begin(), module.args.end());
    text += Line(words);
  }
  return text;
}

absl::Status Ping(uint16_t port) {
  ASSIGN_OR_RETURN(const auto connection, RedisConnection::Connect(port, absl::Seconds(2)));
  ASSIGN_OR_RETURN(const RedisReply reply, connection->Command({"PING"}));
  if (reply == RedisReply::Status("PONG")) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("PING: {}", reply.Describe()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RedisServer>> RedisServer::Start(RedisServerOptions options) {
  const absl::StatusOr<std::string> binary = FindProgram(options.binary);
  if (!binary.ok()) {
    return absl::NotFoundError(fmt::format("{}; install it: apt-get install redis-server",
                                           std::string(binary.status().message())));
  }
  options.binary = *binary;
  ASSIGN_OR_RETURN(FreePort port, FreePort::Reserve());
  ASSIGN_OR_RETURN(std::unique_ptr<TempDir> dir, TempDir::Create("redis"));
  std::unique_ptr<RedisServer> redis(new RedisServer(std::move(port), std::move(dir), options));
  std::ofstream(redis->dir_->File("redis.conf"))
      << Config(options, redis->Port(), redis->dir_->Path());
  RETURN_IF_ERROR(redis->server_.Start());
  return redis;
}

RedisServer::RedisServer(FreePort port, std::unique_ptr<TempDir> dir,
                         const RedisServerOptions& options)
    : port_(std::move(port)),
      dir_(std::move(dir)),
      server_(ServerProcessOptions{
          .process = {.argv = {options.binary, dir_->File("redis.conf")},
                      .env = options.env,
                      .working_dir = dir_->Path(),
                      .log_path = dir_->File("redis.log"),
                      .stderr_path = {},
                      .stdin_path = {},
                      .run_as = {}},
          .ready = [port_number = port_.Port()] { return Ping(port_number); },
      }) {}

absl::Status RedisServer::Restart(Data data, const Environment& extra_env) {
  RETURN_IF_ERROR(Stop());
  if (data == Data::kWipe) {
    std::error_code ignored;  // a file that cannot be removed shows as data after the restart
    std::filesystem::remove(dir_->File("dump.rdb"), ignored);
    std::filesystem::remove_all(dir_->File("appendonlydir"), ignored);
  }
  return server_.Start(extra_env);
}

absl::Status RedisServer::Stop() {
  connection_.reset();
  return server_.Stop();
}

void RedisServer::Kill9() {
  connection_.reset();
  server_.Kill9();
}

absl::StatusOr<RedisReply> RedisServer::Command(const std::vector<std::string>& words) {
  if (connection_ == nullptr) {
    ASSIGN_OR_RETURN(connection_, Connect());
  }
  absl::StatusOr<RedisReply> reply = connection_->Command(words);
  if (!reply.ok()) connection_.reset();
  return reply;
}

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisServer::Connect() const {
  return RedisConnection::Connect(port_.Port());
}

}  // namespace warmring::support
