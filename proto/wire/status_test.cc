// Code, message and reason of an error survive the wire; hostile details do not hurt.

#include "proto/wire/status.h"

#include <string>

#include "core/base/reason.h"
#include "gtest/gtest.h"
#include "warmring/v1/error.pb.h"

namespace warmring::wire {
namespace {

TEST(WireStatusTest, ReasonSurvives) {
  const absl::Status status = WithReason(absl::AbortedError("base version 3 is not current"),
                                         "VERSION_MISMATCH", {{"currentVersion", "4"}});
  const grpc::Status on_wire = ToGrpcStatus(status);
  EXPECT_EQ(on_wire.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(on_wire.error_message(), "base version 3 is not current");
  EXPECT_EQ(FromGrpcStatus(on_wire), status);
}

TEST(WireStatusTest, CarriesTheStandardShape) {
  const grpc::Status on_wire = ToGrpcStatus(WithReason(absl::NotFoundError("gone"), "NOT_FOUND"));
  v1::Status proto;
  ASSERT_TRUE(proto.ParseFromString(on_wire.error_details()));
  EXPECT_EQ(proto.code(), 5);
  EXPECT_EQ(proto.message(), "gone");
  v1::ErrorInfo info;
  ASSERT_TRUE(info.ParseFromString(proto.details(0).value()));
  EXPECT_EQ(info.reason(), "NOT_FOUND");
  EXPECT_EQ(info.domain(), "warmring.io");
}

TEST(WireStatusTest, CodesImplyAReason) {
  EXPECT_EQ(ReasonNameOf(FromGrpcStatus(ToGrpcStatus(absl::InvalidArgumentError("x")))),
            "BAD_FIELD");
  EXPECT_EQ(ReasonNameOf(FromGrpcStatus(ToGrpcStatus(absl::InternalError("x")))), "");
}

TEST(WireStatusTest, EveryReasonHasAName) {
  const auto* reasons = v1::ErrorReason_descriptor();
  for (int i = 0; i < reasons->value_count(); ++i) {
    EXPECT_EQ(reasons->value(i)->name().rfind("ERROR_REASON_", 0), 0u);
  }
}

TEST(WireStatusTest, MalformedDetailsAreDropped) {
  const grpc::Status status(grpc::StatusCode::ABORTED, "x", std::string("\xff\xff\xff", 3));
  EXPECT_EQ(FromGrpcStatus(status), absl::AbortedError("x"));
  v1::Status foreign;
  foreign.add_details()->set_type_url("type.googleapis.com/google.rpc.Help");
  EXPECT_EQ(FromGrpcStatus({grpc::StatusCode::ABORTED, "x", foreign.SerializeAsString()}),
            absl::AbortedError("x"));
}

TEST(WireStatusTest, OkIsOk) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
}

}  // namespace
}  // namespace warmring::wire
