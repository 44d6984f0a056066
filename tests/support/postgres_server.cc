#include "tests/support/postgres_server.h"

#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "core/base/status_macros.h"
#include "fmt/format.h"

namespace warmring::support {
namespace {

constexpr char kInstall[] = "install it: apt-get install postgresql";

bool HasServer(const std::string& dir) {
  return access((dir + "/postgres").c_str(), X_OK) == 0 &&
         access((dir + "/initdb").c_str(), X_OK) == 0;
}

// Debian keeps the server programs out of PATH, in a directory for each major version.
absl::StatusOr<std::string> FindBinDir(const std::string& wanted) {
  if (!wanted.empty()) {
    if (HasServer(wanted)) return wanted;
    return absl::NotFoundError(fmt::format("no postgres and initdb in {}; {}", wanted, kInstall));
  }
  std::string newest;
  int newest_version = -1;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/usr/lib/postgresql", error)) {
    const std::string name = entry.path().filename();
    int version = 0;
    std::from_chars(name.data(), name.data() + name.size(), version);
    const std::string dir = entry.path() / "bin";
    if (version > newest_version && HasServer(dir)) {
      newest_version = version;
      newest = dir;
    }
  }
  if (!newest.empty()) return newest;
  const absl::StatusOr<std::string> in_path = FindProgram("postgres");
  if (in_path.ok()) {
    const std::string dir = std::filesystem::path(*in_path).parent_path();
    if (HasServer(dir)) return dir;
  }
  return absl::NotFoundError(
      fmt::format("PostgreSQL's postgres and initdb are neither in /usr/lib/postgresql/*/bin nor "
                  "in PATH; {}",
                  kInstall));
}

// Whom to run as: nullopt unless this is root.
absl::StatusOr<std::optional<UserId>> ServerUser() {
  if (geteuid() != 0) return std::optional<UserId>();
  const passwd* const user = getpwnam("postgres");
  if (user == nullptr) {
    return absl::NotFoundError(fmt::format(
        "PostgreSQL does not run as root and there is no system user postgres; {}", kInstall));
  }
  return std::optional<UserId>(UserId{.uid = user->pw_uid, .gid = user->pw_gid});
}

absl::Status GiveTo(const std::string& path, const std::optional<UserId>& user) {
  if (!user.has_value() || chown(path.c_str(), user->uid, user->gid) == 0) return absl::OkStatus();
  return absl::InternalError(
      fmt::format("cannot give {} to the user postgres: {}", path, std::strerror(errno)));
}

absl::Status InitDb(const std::string& bin_dir, const TempDir& dir,
                    const std::optional<UserId>& user) {
  ProcessOptions options;
  options.argv = {bin_dir + "/initdb",   "--pgdata=" + dir.File("data"),
                  "--username=postgres", "--auth=trust",
                  "--encoding=UTF8",     "--no-locale",
                  "--no-sync",           "--no-instructions"};
  options.working_dir = dir.Path();
  options.log_path = dir.File("initdb.log");
  options.run_as = user;
  ASSIGN_OR_RETURN(const std::unique_ptr<Process> process, Process::Start(std::move(options)));
  const absl::StatusOr<ExitStatus> status = process->Wait(absl::Minutes(2));
  if (status.ok() && status->Succeeded()) return absl::OkStatus();
  return absl::InternalError(
      fmt::format("initdb: {}; its output ends with:\n{}",
                  status.ok() ? status->Describe() : std::string(status.status().message()),
                  process->LogTail()));
}

std::string QuotedSetting(const std::string& value) {
  std::string quoted = "'";
  for (const char c : value) {
    if (c == '\'' || c == '\\') quoted += c;
    quoted += c;
  }
  return quoted + "'";
}

absl::Status WriteConfig(const PostgresServerOptions& options, const TempDir& dir, uint16_t port) {
  std::vector<std::pair<std::string, std::string>> settings = {
      {"listen_addresses", "127.0.0.1"},
      {"port", std::to_string(port)},
      {"unix_socket_directories", dir.Path()},
      {"max_connections", std::to_string(options.max_connections)},
      {"shared_buffers", options.shared_buffers},
      {"fsync", options.fsync ? "on" : "off"},
      // Cheap without fsync. Off would keep acknowledged commits in the memory of a process that
      // tests kill.
      {"synchronous_commit", "on"},
      {"full_page_writes", options.fsync ? "on" : "off"},
      // Files of the data directory, so that a kill leaves nothing in /dev/shm.
      {"dynamic_shared_memory_type", "mmap"},
      {"logging_collector", "off"},
  };
  settings.insert(settings.end(), options.settings.begin(), options.settings.end());
  std::ofstream file(dir.File("data/postgresql.conf"), std::ios::app);
  for (const auto& [name, value] : settings) file << name << " = " << QuotedSetting(value) << '\n';
  file.close();
  if (file.good()) return absl::OkStatus();
  return absl::InternalError(fmt::format("cannot write {}", dir.File("data/postgresql.conf")));
}

absl::Status Ping(const std::string& connection) {
  switch (PQping(connection.c_str())) {
    case PQPING_OK:
      return absl::OkStatus();
    case PQPING_REJECT:
      return absl::UnavailableError("the server is starting up");
    case PQPING_NO_RESPONSE:
      return absl::UnavailableError("no answer");
    case PQPING_NO_ATTEMPT:
      break;
  }
  return absl::UnavailableError(fmt::format("bad connection string {}", connection));
}

std::string TcpConnection(uint16_t port) {
  return fmt::format("host=127.0.0.1 port={} user=postgres dbname=postgres sslmode=disable", port);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PostgresServer>> PostgresServer::Start(
    PostgresServerOptions options) {
  ASSIGN_OR_RETURN(const std::string bin_dir, FindBinDir(options.bin_dir));
  ASSIGN_OR_RETURN(const std::optional<UserId> user, ServerUser());
  ASSIGN_OR_RETURN(FreePort port, FreePort::Reserve());
  ASSIGN_OR_RETURN(std::unique_ptr<TempDir> dir, TempDir::Create("postgres"));
  RETURN_IF_ERROR(GiveTo(dir->Path(), user));
  RETURN_IF_ERROR(InitDb(bin_dir, *dir, user));
  RETURN_IF_ERROR(WriteConfig(options, *dir, port.Port()));

  ServerProcessOptions server;
  server.process.argv = {bin_dir + "/postgres", "-D", dir->File("data")};
  server.process.working_dir = dir->Path();
  server.process.log_path = dir->File("postgres.log");
  server.process.run_as = user;
  server.ready = [connection = TcpConnection(port.Port())] { return Ping(connection); };
  server.stop_signal = SIGINT;
  std::unique_ptr<PostgresServer> postgres(
      new PostgresServer(std::move(port), std::move(dir), std::move(server)));
  RETURN_IF_ERROR(postgres->server_.Start());
  return postgres;
}

PostgresServer::~PostgresServer() {
  // A status nobody can act on any more: Stop has killed what did not end by itself.
  static_cast<void>(Stop());
}

std::string PostgresServer::ConnectionString() const { return TcpConnection(Port()); }

std::string PostgresServer::UnixConnectionString() const {
  return fmt::format("host={} port={} user=postgres dbname=postgres", dir_->Path(), Port());
}

absl::StatusOr<std::vector<PostgresRow>> PostgresServer::Query(const std::string& sql) const {
  const std::unique_ptr<PGconn, void (*)(PGconn*)> connection(
      PQconnectdb(ConnectionString().c_str()), PQfinish);
  if (PQstatus(connection.get()) != CONNECTION_OK) {
    return absl::UnavailableError(PQerrorMessage(connection.get()));
  }
  const std::unique_ptr<PGresult, void (*)(PGresult*)> result(PQexec(connection.get(), sql.c_str()),
                                                              PQclear);
  const ExecStatusType status = PQresultStatus(result.get());
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
    return absl::InvalidArgumentError(PQerrorMessage(connection.get()));
  }
  std::vector<PostgresRow> rows(static_cast<size_t>(PQntuples(result.get())));
  for (size_t row = 0; row < rows.size(); ++row) {
    for (int column = 0; column < PQnfields(result.get()); ++column) {
      const int line = static_cast<int>(row);
      if (PQgetisnull(result.get(), line, column) != 0) {
        rows[row].push_back(std::nullopt);
      } else {
        rows[row].emplace_back(PQgetvalue(result.get(), line, column));
      }
    }
  }
  return rows;
}

absl::Status PostgresServer::Stop() { return server_.Stop(); }

absl::Status PostgresServer::Restart() {
  RETURN_IF_ERROR(Stop());
  return server_.Start();
}

}  // namespace warmring::support
