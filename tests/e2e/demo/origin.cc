#include "tests/e2e/demo/origin.h"

#include <fmt/format.h>
#include <libpq-fe.h>

#include "absl/strings/numbers.h"
#include "core/base/ids.h"
#include "core/base/status_macros.h"

namespace warmring::demo {
namespace {

// A query waits as long as a random read of a busy disk takes.
constexpr const char* kFetch = "SELECT v FROM kv, (SELECT pg_sleep(0.005)) AS disk WHERE k = $1";
constexpr const char* kStore = "UPDATE kv SET v = $2 WHERE k = $1";

absl::Status Failure(PGconn* connection, const char* what) {
  return absl::UnavailableError(fmt::format("origin: {}: {}", what, PQerrorMessage(connection)));
}

absl::Status Run(PGconn* connection, const std::string& sql) {
  PGresult* result = PQexec(connection, sql.c_str());
  const ExecStatusType status = PQresultStatus(result);
  PQclear(result);
  if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return absl::OkStatus();
  return Failure(connection, sql.c_str());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Origin>> Origin::Create(const std::string& connection_string,
                                                       uint32_t keys, int connections,
                                                       Timeline* reads) {
  std::unique_ptr<Origin> origin(new Origin(reads));
  for (int i = 0; i < connections; ++i) {
    PGconn* connection = PQconnectdb(connection_string.c_str());
    origin->connections_.push_back(connection);
    PQsetNoticeProcessor(
        connection, [](void*, const char*) {}, nullptr);
    if (PQstatus(connection) != CONNECTION_OK) return Failure(connection, "connect");
  }
  PGconn* first = origin->connections_[0];
  RETURN_IF_ERROR(Run(first, "DROP TABLE IF EXISTS kv"));
  RETURN_IF_ERROR(Run(first, "CREATE TABLE kv (k text PRIMARY KEY, v text NOT NULL)"));
  RETURN_IF_ERROR(Run(first, fmt::format("INSERT INTO kv SELECT 'item:' || i, '0|' || "
                                         "repeat('x', 100) FROM generate_series(0, {}) AS i",
                                         keys - 1)));
  RETURN_IF_ERROR(Run(first, "ANALYZE kv"));
  return origin;
}

Origin::~Origin() {
  for (PGconn* connection : connections_) PQfinish(connection);
}

absl::StatusOr<std::string> Origin::Execute(const char* statement,
                                            const std::vector<std::string>& parameters) {
  PGconn* connection = nullptr;
  {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return !connections_.empty(); });
    connection = connections_.back();
    connections_.pop_back();
  }
  std::vector<const char*> values;
  for (const std::string& p : parameters) values.push_back(p.c_str());
  PGresult* result = PQexecParams(connection, statement, static_cast<int>(values.size()), nullptr,
                                  values.data(), nullptr, nullptr, 0);
  absl::StatusOr<std::string> answer = std::string();
  switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
      break;
    case PGRES_TUPLES_OK:
      if (PQntuples(result) == 1) {
        *answer = std::string(PQgetvalue(result, 0, 0));
      } else {
        answer = absl::NotFoundError("origin: no such key");
      }
      break;
    default:
      answer = Failure(connection, "query");
  }
  PQclear(result);
  {
    std::lock_guard lock(mutex_);
    connections_.push_back(connection);
  }
  idle_.notify_one();
  return answer;
}

absl::StatusOr<std::string> Origin::Fetch(const std::string& key) {
  reads_->Count();
  return Execute(kFetch, {key});
}

absl::Status Origin::Store(const std::string& key, const std::string& value) {
  return Execute(kStore, {key, value}).status();
}

std::string KeyName(uint32_t rank) { return fmt::format("item:{}", rank); }

std::string MakeValue(uint64_t sequence) {
  return fmt::format("{}|{}", sequence, std::string(100, 'x'));
}

absl::StatusOr<uint64_t> SequenceOf(const std::string& value) {
  uint64_t sequence = 0;
  if (!absl::SimpleAtoi(value.substr(0, value.find('|')), &sequence)) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is not a value of the demo", Printable(value)));
  }
  return sequence;
}

}  // namespace warmring::demo
