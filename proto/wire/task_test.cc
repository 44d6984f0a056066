// Tasks, reports and grants cross the session unchanged; malformed ones are refused.

#include "proto/wire/task.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace warmring::wire {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

HashRangeSet Ranges() { return HashRangeSet({HashRange{1, 5}, HashRange{UINT64_MAX - 3, 0}}); }

TransferSource Source() { return {"cache-1", "127.0.0.1:7421", Ranges()}; }

Task MakeTask(std::variant<WarmTask, VerifyTask, FenceTask, PrepareTask> body) {
  return {"mig-1", 2, Id128{3, 4}, std::move(body)};
}

TEST(WireTaskTest, TaskRoundTrip) {
  PrepareTask prepare;
  prepare.mode = PrepareTask::Mode::kDirty;
  prepare.kept = HashRangeSet({{5, 9}});
  prepare.epoch = Epoch(17);
  prepare.donors = {{Source(), "log-1", 99}};
  prepare.limits = {5, 6};
  for (const Task& task :
       {MakeTask(WarmTask{{Source(), {"cache-2", "", Ranges()}}, {1, 2}}),
        MakeTask(VerifyTask{2000}), MakeTask(FenceTask{Ranges(), Epoch(16)}), MakeTask(prepare)}) {
    ASSERT_OK_AND_ASSIGN(const Task back, TaskFromProto(ToProto(task)));
    EXPECT_EQ(back, task);
  }
}

TEST(WireTaskTest, ReportRoundTrip) {
  TaskReport report{"mig-1", 2, Id128{3, 4}, "cache-1", {}, {}};
  report.incarnation.low = 8;
  const std::vector<decltype(TaskReport::body)> bodies = {
      WarmReport{true, true, 1, 2, 3}, VerifyReport{4, 5, true}, FenceAck{Epoch(6), "log", 7, true},
      PreparedReport{Epoch(9), PrepareTask::Mode::kPurge, {"a", "b"}, {"x", "y"}, {1, 2}},
      TaskFailure{"engine refused a payload", false}};
  for (const auto& body : bodies) {
    report.body = body;
    ASSERT_OK_AND_ASSIGN(const TaskReport back, TaskReportFromProto("cache-1", ToProto(report)));
    EXPECT_EQ(back, report);
  }
}

TEST(WireTaskTest, GrantRoundTrip) {
  LeaseGrant grant;
  grant.seq = 3;
  grant.term = Term(4);
  grant.ttl = absl::Milliseconds(2500);
  grant.version = Version(5);
  grant.floors = {{Ranges(), Epoch(6)}};
  ASSERT_OK_AND_ASSIGN(const LeaseGrant back, LeaseGrantFromProto(ToProto(grant)));
  EXPECT_EQ(back.seq, 3u);
  EXPECT_EQ(back.term, Term(4));
  EXPECT_EQ(back.ttl, absl::Milliseconds(2500));
  EXPECT_EQ(back.version, Version(5));
  EXPECT_EQ(back.floors, grant.floors);
}

TEST(WireTaskTest, MalformedTaskIsRefused) {
  const v1::Task good = ToProto(MakeTask(WarmTask{{Source()}, {}}));
  v1::Task bad = good;
  bad.set_nonce("zz");
  EXPECT_THAT(TaskFromProto(bad), StatusIs(kInvalid, "nonce"));
  bad = good;
  bad.clear_body();
  EXPECT_THAT(TaskFromProto(bad), StatusIs(kInvalid, "unknown kind"));
  bad = good;
  bad.mutable_warm()->mutable_sources(0)->set_transfer_address("nowhere");
  EXPECT_THAT(TaskFromProto(bad), StatusIs(kInvalid, "warm.sources[0].transfer_address"));
  bad = ToProto(MakeTask(PrepareTask{}));
  bad.mutable_prepare()->set_mode(static_cast<v1::PrepareMode>(9));
  EXPECT_THAT(TaskFromProto(bad), StatusIs(kInvalid, "prepare.mode: 9"));
}

TEST(WireTaskTest, MalformedReportIsRefused) {
  v1::Report report;
  report.set_migration("mig-1");
  report.set_nonce(std::string(32, '1'));
  report.set_incarnation(std::string(32, '2'));
  EXPECT_THAT(TaskReportFromProto("a", report), StatusIs(kInvalid, "unknown kind"));
  report.mutable_fence()->set_log_id(std::string(300, 'x'));
  EXPECT_THAT(TaskReportFromProto("a", report), StatusIs(kInvalid, "fence.log_id"));
  report.mutable_prepared()->set_mode(v1::PREPARE_MODE_UNSPECIFIED);
  EXPECT_THAT(TaskReportFromProto("a", report), StatusIs(kInvalid, "prepared.mode: 0"));
  report.mutable_prepared()->set_mode(v1::PREPARE_MODE_PURGE);
  report.mutable_prepared()->add_donors("no\nid");
  EXPECT_THAT(TaskReportFromProto("a", report), StatusIs(kInvalid, "prepared.donors"));
  report.mutable_prepared()->clear_donors();
  for (int i = 0; i <= 100'000; ++i) report.mutable_prepared()->add_donors("b");
  EXPECT_THAT(TaskReportFromProto("a", report), StatusIs(kInvalid, "prepared.donors: 100001"));
  report.set_incarnation("ABC");
  EXPECT_THAT(TaskReportFromProto("a", report), StatusIs(kInvalid, "incarnation: 'ABC'"));
}

TEST(WireTaskTest, TheReasonOfAFailureIsMadeSafeForLogs) {
  v1::Report report;
  report.set_migration("mig-1");
  report.set_nonce(std::string(32, '1'));
  report.set_incarnation(std::string(32, '2'));
  report.mutable_failure()->set_reason("a\nb");
  ASSERT_OK_AND_ASSIGN(const TaskReport back, TaskReportFromProto("a", report));
  EXPECT_EQ(std::get<TaskFailure>(back.body).reason.find('\n'), std::string::npos);
}

TEST(WireTaskTest, AbsurdTtlIsRefused) {
  v1::Grant grant;
  grant.mutable_ttl()->set_seconds(-1);
  EXPECT_THAT(LeaseGrantFromProto(grant), StatusIs(kInvalid, "ttl: -1"));
  grant.mutable_ttl()->set_seconds(INT64_MAX);
  EXPECT_THAT(LeaseGrantFromProto(grant), StatusIs(kInvalid, "ttl"));
}

}  // namespace
}  // namespace warmring::wire
