// Without certificates there is one policy, for development on the machine itself; every change
// leaves a row.

#include "gtest/gtest.h"
#include "server/auth/authoriser.h"
#include "server/auth/mutation.h"
#include "server/store/schema/record.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

TEST(AuthoriserTest, DevelopmentIsForLoopbackOnly) {
  for (const char* address : {"127.0.0.1:7420", "127.9.9.9:1", "localhost:0", "[::1]:7420"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
    EXPECT_OK(MakeAuthoriser(true, address)) << address;
  }
  for (const char* address : {"0.0.0.0:7420", "10.0.0.1:7420", "[::]:7420", "127.0.0.1", ":7420",
                              "localhost.example:1", "127.evil.example:1", "128.0.0.1:1"}) {
    EXPECT_THAT(MakeAuthoriser(true, address),
                StatusIs(absl::StatusCode::kInvalidArgument, "--listen"))
        << address;
  }
  EXPECT_THAT(MakeAuthoriser(false, "127.0.0.1:7420"),
              StatusIs(absl::StatusCode::kInvalidArgument, "start with --dev"));
}

TEST(AuthoriserTest, WhatBreaksSafetyNeedsARoleOfItsOwn) {
  const Caller caller{"dev", "alice", ""};
  ASSERT_OK_AND_ASSIGN(const auto all, MakeAuthoriser(true, "localhost:1"));
  EXPECT_OK(all->Check(caller, "MigrationService/ForceFence", "sessions"));
  ASSERT_OK_AND_ASSIGN(const auto some,
                       MakeAuthoriser(true, "localhost:1", std::set<Role>{Role::kOperator}));
  EXPECT_OK(some->Check(caller, "MigrationService/AbortMigration", "sessions"));
  EXPECT_THAT(some->Check(caller, "MigrationService/ForceFence", "sessions"),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       "needs the role safety-override, which 'alice (dev)' does not have"));
  ASSERT_OK_AND_ASSIGN(const auto none, MakeAuthoriser(true, "localhost:1", std::set<Role>{}));
  EXPECT_THAT(none->Check(caller, "WatchService/WatchMembership", "sessions"),
              StatusIs(absl::StatusCode::kPermissionDenied, "the role operator"));
  for (const Role role : {Role::kOperator, Role::kSafetyOverride}) {
    EXPECT_EQ(ParseRole(RoleName(role)).value(), role);
  }
  for (const char* word : {"", "admin", "Operator", "operator ", "safety_override"}) {
    EXPECT_THAT(ParseRole(word), StatusIs(absl::StatusCode::kInvalidArgument, "role: '"));
  }
}

TEST(AuthoriserTest, NamesShowTheProvedIdentity) {
  EXPECT_EQ((Caller{"dev", "", ""}).Name(), "dev");
  EXPECT_EQ((Caller{"dev", "alice", ""}).Name(), "alice (dev)");
}

TEST(MutationTest, RequestIdsAreSafeAsKeys) {
  EXPECT_OK(ValidateRequestId(""));
  EXPECT_OK(ValidateRequestId("a-B_9:z"));
  for (const std::string& id : {std::string("a/b"), std::string("a b"), std::string("a\n"),
                                std::string("\xff"), std::string(129, 'x')}) {
    EXPECT_THAT(ValidateRequestId(id),
                StatusIs(absl::StatusCode::kInvalidArgument, "request_id: '"));
  }
}

TEST(MutationTest, RowsOfOneMutation) {
  AuditLog log(Term(4));
  Mutation mutation;
  mutation.caller = {"dev", "alice", "ipv4:127.0.0.1:9"};
  mutation.method = "MigrationService/AbortMigration";
  mutation.parameters = "x\ny";
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  const Batch without = log.Rows(mutation, "sessions", "mig-1", now);
  EXPECT_TRUE(without.guards().empty());
  ASSERT_EQ(without.changes().size(), 1u);
  ASSERT_OK_AND_ASSIGN(const schema::AuditRecord row,
                       schema::DecodeAudit(*without.changes()[0].value));
  EXPECT_EQ(row.term, Term(4));
  EXPECT_EQ(row.author, "alice");
  EXPECT_EQ(row.resource, "keyspaces/sessions/migrations/mig-1");
  EXPECT_EQ(row.parameters.find('\n'), std::string::npos);

  mutation.request_id = "r1";
  const Batch with = log.Rows(mutation, "sessions", "mig-1", now);
  ASSERT_EQ(with.guards().size(), 1u);
  EXPECT_EQ(with.guards()[0].key, "req/dev/r1");
  EXPECT_NE(with.changes()[0].key, without.changes()[0].key);
}

}  // namespace
}  // namespace warmring
