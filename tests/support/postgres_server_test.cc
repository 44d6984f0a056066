// A real PostgreSQL starts from nothing, also under root, answers over TCP and the unix socket, and
// keeps its data over a kill.

#include "tests/support/postgres_server.h"

#include <libpq-fe.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

namespace warmring::support {
namespace {

using Rows = std::vector<PostgresRow>;

TEST(PostgresServerTest, ServesAndSurvivesAKill) {
  PostgresServerOptions options;
  options.max_connections = 37;
  options.settings = {{"work_mem", "5MB"}};
  ASSERT_OK_AND_ASSIGN(const auto postgres, PostgresServer::Start(options));

  ASSERT_OK_AND_ASSIGN(Rows rows, postgres->Query("SHOW max_connections"));
  EXPECT_EQ(rows, (Rows{{"37"}}));
  ASSERT_OK_AND_ASSIGN(rows, postgres->Query("SHOW work_mem"));
  EXPECT_EQ(rows, (Rows{{"5MB"}}));
  ASSERT_OK(
      postgres->Query("CREATE TABLE item (key text PRIMARY KEY, value text);"
                      "INSERT INTO item VALUES ('a', '1'), ('b', NULL)"));
  ASSERT_OK_AND_ASSIGN(rows, postgres->Query("SELECT key, value FROM item ORDER BY key"));
  EXPECT_EQ(rows, (Rows{{"a", "1"}, {"b", std::nullopt}}));
  EXPECT_THAT(postgres->Query("SELECT * FROM nothing"),
              StatusIs(absl::StatusCode::kInvalidArgument, "\"nothing\" does not exist"));

  PGconn* const local = PQconnectdb(postgres->UnixConnectionString().c_str());
  EXPECT_EQ(PQstatus(local), CONNECTION_OK) << PQerrorMessage(local);
  PQfinish(local);

  // A backend that computes does not notice the death of its parent, and bars a restart.
  PGconn* const busy = PQconnectdb(postgres->ConnectionString().c_str());
  ASSERT_EQ(PQsendQuery(busy, "SELECT count(*) FROM generate_series(1, 1000000000)"), 1);
  ASSERT_OK(WaitFor("the busy backend", kDefaultWait, [&postgres] {
    const auto active = postgres->Query(
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%series(1,%'"
        " AND pid <> pg_backend_pid()");
    return active.ok() && *active == Rows{{"1"}};
  }));
  // The kill comes right behind a commit, before a background process could have written it.
  ASSERT_OK(postgres->Query("INSERT INTO item VALUES ('c', '3')"));
  postgres->Kill9();
  EXPECT_THAT(postgres->Query("SELECT 1"), StatusIs(absl::StatusCode::kUnavailable));
  PQfinish(busy);
  ASSERT_OK(postgres->Restart());
  ASSERT_OK_AND_ASSIGN(rows, postgres->Query("SELECT count(*) FROM item"));
  EXPECT_EQ(rows, (Rows{{"3"}}));
  EXPECT_OK(postgres->Stop());
  EXPECT_FALSE(postgres->Server().Running());
}

TEST(PostgresServerTest, SaysWhatIsMissing) {
  PostgresServerOptions options;
  options.bin_dir = "/no/such/directory";
  EXPECT_THAT(PostgresServer::Start(options),
              StatusIs(absl::StatusCode::kNotFound, "apt-get install postgresql"));
}

TEST(PostgresServerTest, ShowsTheServersReasonNotToStart) {
  PostgresServerOptions options;
  options.shared_buffers = "a lot";
  EXPECT_THAT(PostgresServer::Start(options),
              StatusIs(absl::StatusCode::kAborted, "shared_buffers"));
}

}  // namespace
}  // namespace warmring::support
